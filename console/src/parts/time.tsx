/** Times and lengths of time, for people. One clock ticks for the whole page, once a second while it is seen. */
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { signal } from "@preact/signals";
import { dateOf } from "@client/values";

/** The time now, in milliseconds since 1970. Reading it draws anew every second. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1_000);

type Moment = Date | Timestamp | undefined;

function toDate(moment: Moment): Date | undefined {
  return moment instanceof Date ? moment : dateOf(moment);
}

/** A moment as `4 min ago` or `in 2 h`; its full date and time stands in the title. */
export function Ago({ at }: { at: Moment }) {
  const date = toDate(at);
  if (!date) return <span class="dim">–</span>;
  const ms = now.value - date.getTime();
  const length = roughly(Math.abs(ms));
  const text = Math.abs(ms) < 1_000 ? "now" : ms > 0 ? `${length} ago` : `in ${length}`;
  return (
    <time dateTime={date.toISOString()} title={fullTime(date)}>
      {text}
    </time>
  );
}

/** A length of time in its largest unit alone. */
function roughly(ms: number): string {
  const secs = Math.floor(ms / 1_000);
  if (secs < 60) return `${secs} s`;
  if (secs < 3_600) return `${Math.floor(secs / 60)} min`;
  return secs < 86_400 ? `${Math.floor(secs / 3_600)} h` : `${Math.floor(secs / 86_400)} d`;
}

/** A moment as a date and time. */
export function At({ at }: { at: Moment }) {
  const date = toDate(at);
  if (!date) return <span class="dim">–</span>;
  return (
    <time dateTime={date.toISOString()} title={date.toISOString()}>
      {fullTime(date)}
    </time>
  );
}

/** How long it is from one moment to another, or until now. */
export function Lasting({ from, to }: { from: Moment; to?: Moment }) {
  const start = toDate(from);
  if (!start) return <span class="dim">–</span>;
  const end = toDate(to)?.getTime();
  const ms = Math.max(0, (end ?? now.value) - start.getTime());
  // What goes on is drawn once a second, and would show a digit that means nothing.
  return <span class="figure">{lengthOf(end === undefined && ms > 10_000 ? ms - (ms % 1_000) : ms)}</span>;
}

/** A length of time in its largest unit or two: `320 ms`, `13.5 s`, `3 min 20 s`, `5 h 2 min`, `3 d 4 h`. */
export function lengthOf(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const secs = ms / 1_000;
  if (secs < 60) return `${(Math.floor(secs * 10) / 10).toString()} s`;
  const pair = (value: number, inner: number, outer: string, unit: string) => {
    const rest = Math.floor(value % inner);
    return `${Math.floor(value / inner)} ${outer}${rest ? ` ${rest} ${unit}` : ""}`;
  };
  if (secs < 3_600) return pair(secs, 60, "min", "s");
  if (secs < 86_400) return pair(secs / 60, 60, "h", "min");
  return pair(secs / 3_600, 24, "d", "h");
}

/** Made once: to make one takes a hundred times as long as to use it. */
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function fullTime(date: Date): string {
  return FULL.format(date);
}
