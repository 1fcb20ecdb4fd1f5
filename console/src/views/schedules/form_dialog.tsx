/** The form of a schedule, new or changed. */
import { useState } from "preact/hooks";
import type { Schedule } from "@v1/schedule_pb";
import { act } from "../../acting";
import { api } from "../../api";
import { FormDialog, openDialog } from "../../parts/dialog";
import { CheckField, SelectField, TextField } from "../../parts/fields";
import { change, creation, type Draft, draftOf, type Faults, faultsOf } from "./draft";
import { cronWords, intervalWords } from "./cadence_words";
import { PolicyFields, TaskFields } from "./form_parts";

/** Asks for a new schedule. `onMade` is told its id. */
export function openNewSchedule(onMade: (scheduleId: string) => void): void {
  openDialog((close) => <ScheduleDialog close={close} onDone={onMade} />);
}

/** Asks for changes of a schedule. */
export function openEditSchedule(schedule: Schedule, onDone: () => void): void {
  openDialog((close) => <ScheduleDialog before={schedule} close={close} onDone={onDone} />);
}

/** What the parts of the form are given: a draft, how to change it, and what is wrong with it. */
export interface FormProps {
  draft: Draft;
  set: <Name extends keyof Draft>(name: Name) => (value: Draft[Name]) => void;
  faults: Faults;
}

interface Props {
  before?: Schedule;
  close: () => void;
  onDone: (scheduleId: string) => void;
}

function ScheduleDialog({ before, close, onDone }: Props) {
  const [draft, setDraft] = useState(() => draftOf(before));
  const [wasSent, setSent] = useState(false);
  const faults = wasSent ? faultsOf(draft) : {};
  const set = (name: keyof Draft) => (value: string | boolean) => setDraft((now) => ({ ...now, [name]: value }));
  const send = async () => {
    setSent(true);
    if (Object.keys(faultsOf(draft)).length) throw new TypeError("Some fields need another look.");
    if (before) {
      const update = change(draft, before);
      if (update) await api().schedules.updateSchedule(update);
      await act(update ? "The schedule is changed" : "Nothing was changed", async () => onDone(before.scheduleId));
    } else {
      const { schedule } = await api().schedules.createSchedule(creation(draft));
      await act("The schedule is made", async () => onDone(schedule?.scheduleId ?? ""));
    }
  };
  const form = { draft, set, faults } as FormProps;
  return (
    <FormDialog
      wide
      title={before ? `Edit ${before.displayName ?? before.scheduleId}` : "New schedule"}
      submit={before ? "Save" : "Create"}
      close={close}
      onSubmit={send}
    >
      <div class="pair">
        <TextField label="Name" value={draft.displayName} onChange={set("displayName")} placeholder="none" autofocus />
        <TextField
          label="Id"
          value={draft.scheduleId}
          onChange={set("scheduleId")}
          placeholder="chosen by the server"
          disabled={Boolean(before)}
        />
      </div>
      <CadenceFields {...form} />
      <TaskFields {...form} />
      <PolicyFields {...form} />
      {!before && <CheckField label="Begin paused" value={draft.paused} onChange={set("paused")} />}
    </FormDialog>
  );
}

const CADENCES = [
  ["cron", "By cron"],
  ["interval", "Every so often"],
  ["at", "Once"],
] as const;

function CadenceFields({ draft, set, faults }: FormProps) {
  const setCadence = (value: string) => set("cadence")(value as Draft["cadence"]);
  return (
    <div class="pair">
      <SelectField label="Due" value={draft.cadence} onChange={setCadence} options={CADENCES} />
      {draft.cadence === "cron" && (
        <>
          <TextField
            label="Cron expression"
            value={draft.cron}
            onChange={set("cron")}
            placeholder="30 2 * * *"
            hint={cronWords(draft.cron) ?? "Minute, hour, day of the month, month, day of the week"}
            error={faults.cron}
            required
          />
          <TextField
            label="Time zone"
            value={draft.timeZone}
            onChange={set("timeZone")}
            suggestions={zones()}
            placeholder="UTC"
          />
        </>
      )}
      {draft.cadence === "interval" && (
        <TextField
          label="Interval"
          value={draft.interval}
          onChange={set("interval")}
          placeholder="10m"
          hint={intervalWords(draft.interval) ?? "A number and s, m, h or d"}
          error={faults.interval}
          required
        />
      )}
      {draft.cadence === "at" && (
        <TextField
          label="Time"
          type="datetime-local"
          value={draft.at}
          onChange={set("at")}
          hint="In the time zone of this browser"
          error={faults.at}
          required
        />
      )}
    </div>
  );
}

function zones(): string[] {
  return ["UTC", ...Intl.supportedValuesOf("timeZone")];
}
