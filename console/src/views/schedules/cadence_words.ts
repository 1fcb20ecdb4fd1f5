/** When a schedule is due, in words where it is simple enough. Otherwise the expression says it best. */
import type { Schedule } from "@v1/schedule_pb";

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const NAMES = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const UNITS: Record<string, string> = { s: "second", m: "minute", h: "hour", d: "day" };

/** The cadence as people write it: the expression itself. */
export function cadenceText(cadence: Schedule["cadence"]): string {
  if (cadence.case === "cron") return cadence.value;
  if (cadence.case === "interval") return `every ${cadence.value}`;
  return cadence.case === "at" ? "once" : "";
}

/** The cadence in words, undefined where there are none. */
export function cadenceWords(cadence: Schedule["cadence"]): string | undefined {
  if (cadence.case === "cron") return cronWords(cadence.value);
  if (cadence.case === "interval") return intervalWords(cadence.value);
  return undefined;
}

/** `30s` as `every 30 seconds`. */
export function intervalWords(interval: string): string | undefined {
  const [, number, unit] = /^([\d.]+)([smhd])$/.exec(interval.trim()) ?? [];
  if (!number || !unit) return undefined;
  return Number(number) === 1 ? `every ${UNITS[unit]}` : `every ${number} ${UNITS[unit]}s`;
}

/** `30 2 * * *` as `every day at 02:30`. */
export function cronWords(expression: string): string | undefined {
  const fields = expression.trim().split(/\s+/);
  if (fields.length !== 5) return undefined;
  const [minute, hour, day, month, weekday] = fields as [string, string, string, string, string];
  if (month !== "*") return undefined;
  const days = dayWords(day, weekday);
  if (days === undefined) return undefined;
  const daily = days === "every day";
  const minuteStep = stepOf(minute, 60);
  if (hour === "*" && minuteStep)
    return daily ? every(minuteStep, "minute") : `${every(minuteStep, "minute")}, ${days}`;
  if (!/^[0-5]?\d$/.test(minute)) return undefined;
  const past = minute === "0" ? "" : ` at minute ${minute}`;
  const hourStep = stepOf(hour, 24);
  if (hourStep) return `${every(hourStep, "hour")}${past}${daily ? "" : `, ${days}`}`;
  if (!hour.split(",").every((each) => /^([01]?\d|2[0-3])$/.test(each))) return undefined;
  const times = hour.split(",").map((each) => `${each.padStart(2, "0")}:${minute.padStart(2, "0")}`);
  return `${days} at ${times.join(", ")}`;
}

/** The step of a field that begins anew evenly, so that it can be said as one. */
function stepOf(field: string, of: number): number | undefined {
  if (field === "*") return 1;
  const step = Number(/^\*\/(\d+)$/.exec(field)?.[1]);
  return step > 0 && of % step === 0 ? step : undefined;
}

function every(step: number, unit: string): string {
  return step === 1 ? `every ${unit}` : `every ${step} ${unit}s`;
}

function dayWords(day: string, weekday: string): string | undefined {
  if (day === "*" && weekday === "*") return "every day";
  if (weekday === "*") return /^([1-9]|[12]\d|3[01])$/.test(day) ? `on day ${day} of each month` : undefined;
  if (day !== "*") return undefined;
  const words: string[] = [];
  for (const part of weekday.toUpperCase().split(",")) {
    const ends = part.split("-").map(dayName);
    if (ends.length > 2 || ends.some((each) => each === undefined)) return undefined;
    words.push(ends.length === 2 ? `${ends[0]} to ${ends[1]}` : `${ends[0]}s`);
  }
  return words.join(", ");
}

function dayName(text: string): string | undefined {
  const index = NAMES.includes(text) ? NAMES.indexOf(text) : /^[0-7]$/.test(text) ? Number(text) % 7 : -1;
  return DAYS[index];
}
