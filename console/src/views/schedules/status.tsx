/** Whether a schedule fires, and what became of its triggers, as pills. */
import { type Schedule, Schedule_Status, Trigger_State } from "@v1/schedule_pb";
import { State, type Tone } from "../../parts/state";

export function Status({ schedule }: { schedule: Schedule }) {
  return <State of={statusOf(schedule)} />;
}

/** `over` is one that has no due time left. */
export function statusOf(schedule: Schedule): string {
  if (schedule.status === Schedule_Status.paused) return "paused";
  return schedule.nextDueAt ? "active" : "over";
}

/** The states of triggers, by their numbers. */
export const TRIGGER_STATES: readonly { name: string; state: Trigger_State; tone: Tone }[] = [
  { name: "pending", state: Trigger_State.pending, tone: "calm" },
  { name: "executing", state: Trigger_State.executing, tone: "busy" },
  { name: "completed", state: Trigger_State.completed, tone: "good" },
  { name: "failed", state: Trigger_State.failed, tone: "bad" },
  { name: "skipped", state: Trigger_State.skipped, tone: "off" },
];

export function TriggerState({ of }: { of: Trigger_State }) {
  const known = TRIGGER_STATES.find((each) => each.state === of);
  return <State of={known?.name ?? "unknown"} tone={known?.tone ?? "calm"} />;
}
