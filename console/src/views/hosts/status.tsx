/** The status of a host as pills. */
import { RuntimeHost_Status, type RuntimeHost } from "@v1/runtime_host_pb";
import { State, type Tone } from "../../parts/state";

const NAMES: Record<number, string> = {
  [RuntimeHost_Status.alive]: "alive",
  [RuntimeHost_Status.idle]: "idle",
  [RuntimeHost_Status.busy]: "busy",
  [RuntimeHost_Status.dead]: "dead",
};

const TONES: Record<string, Tone> = {
  alive: "good",
  idle: "calm",
  busy: "busy",
  dead: "bad",
  offline: "warn",
  lost: "warn",
};

/** The word for what a host is; `lost` for one whose stream broke, `offline` for one that is silent, until it is dead. */
export function statusOf(host: RuntimeHost): string {
  const name = NAMES[host.status] ?? "unknown";
  if (name === "dead" || host.online) return name;
  return host.lostAt ? "lost" : "offline";
}

export function StatusPills({ host }: { host: RuntimeHost }) {
  const status = statusOf(host);
  return (
    <span class="pills">
      <State of={status} tone={TONES[status] ?? "calm"} />
      {host.draining && <State of="draining" />}
    </span>
  );
}
