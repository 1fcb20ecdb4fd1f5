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
  done: "good",
  failed: "bad",
  cancelled: "off",
  rejected: "bad",
  idle: "good",
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

export function toneOf(state: string): Tone {
  return TONES[state] ?? "calm";
}
