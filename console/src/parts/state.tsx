/** States as pills: a dot in the state's colour and its word, so that nobody needs to see colours. */
export function State({ of, tone = toneOf(of) }: { of: string; tone?: Tone }) {
  return (
    <span class={`pill tone-${tone}`}>
      <span class="dot" />
      {of.replaceAll("_", " ")}
    </span>
  );
}

export type Tone = "calm" | "wait" | "busy" | "good" | "warn" | "bad" | "off";

const TONES: Record<string, Tone> = {
  pending: "calm",
  queued: "wait",
  assigned: "busy",
  running: "busy",
  paused: "warn",
  parked: "wait",
  done: "good",
  failed: "bad",
  cancelled: "off",
  rejected: "bad",
  idle: "good",
  alive: "good",
  busy: "busy",
  online: "good",
  offline: "off",
  dead: "bad",
  draining: "warn",
  stale: "warn",
  active: "good",
  free: "good",
  blocked: "bad",
  held: "warn",
  serving: "good",
  lost: "bad",
};

/** The word of a value of an enum, such as `alive`. The generated enums have each value under two names. */
export function wordOf(names: Readonly<Record<string, string | number>>, value: number | undefined): string {
  return Object.keys(names).find((name) => names[name] === value) ?? "";
}

export function toneOf(state: string): Tone {
  return TONES[state] ?? "calm";
}
