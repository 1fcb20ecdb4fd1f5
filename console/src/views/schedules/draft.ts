/** A schedule as its form holds it, all text, and the requests that are made of it. */
import { clone, create, equals, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  CatchUp_Policy,
  type CreateScheduleRequestSchema,
  Overlap_Policy,
  type Schedule,
  TaskTemplateSchema,
  type UpdateScheduleRequestSchema,
} from "@v1/schedule_pb";
import { type RetryPolicy, RetryPolicySchema } from "@v1/task_pb";

/** The fields of the form. */
export interface Draft {
  scheduleId: string;
  displayName: string;
  cadence: "cron" | "interval" | "at";
  cron: string;
  interval: string;
  at: string;
  timeZone: string;
  overlap: string;
  catchUp: string;
  catchUpWindow: string;
  paused: boolean;
  agentId: string;
  action: string;
  params: string;
  target: string;
  project: string;
  requires: string;
  labels: string;
  keys: string;
  priority: string;
  deadline: string;
  attempts: string;
  callbackUrl: string;
}

/** What is wrong with a draft, by field. What only the server knows, it says itself. */
export type Faults = Partial<Record<keyof Draft, string>>;

export const OVERLAPS = [
  { value: "skip", policy: Overlap_Policy.skip, words: "skip it" },
  { value: "wait", policy: Overlap_Policy.wait, words: "let one wait" },
  { value: "allow", policy: Overlap_Policy.allow, words: "run both" },
  { value: "replace", policy: Overlap_Policy.replace, words: "cancel the earlier" },
];
export const CATCH_UPS = [
  { value: "last", policy: CatchUp_Policy.last, words: "only the last" },
  { value: "all", policy: CatchUp_Policy.all, words: "all" },
  { value: "none", policy: CatchUp_Policy.none, words: "none" },
];

/** The draft of a new schedule, or of one that is there. */
export function draftOf(schedule?: Schedule): Draft {
  const task = schedule?.task ?? create(TaskTemplateSchema);
  const cadence = schedule?.cadence;
  return {
    scheduleId: schedule?.scheduleId ?? "",
    displayName: schedule?.displayName ?? "",
    cadence: cadence?.case ?? "cron",
    cron: cadence?.case === "cron" ? cadence.value : "",
    interval: cadence?.case === "interval" ? cadence.value : "",
    at: cadence?.case === "at" ? localText(timestampDate(cadence.value)) : "",
    timeZone: schedule?.timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    overlap: OVERLAPS.find((each) => each.policy === schedule?.overlap)?.value ?? "skip",
    catchUp: CATCH_UPS.find((each) => each.policy === schedule?.catchUp)?.value ?? "last",
    catchUpWindow: String(schedule?.catchUpWindowSecs || 86_400),
    paused: false,
    agentId: task.agentId,
    action: task.action,
    params: task.params ? JSON.stringify(task.params, null, 2) : "",
    target: task.target ?? "",
    project: task.project ?? "",
    requires: task.requires.join(", "),
    labels: Object.entries(task.labels)
      .map(([name, value]) => `${name}=${value}`)
      .join(", "),
    keys: task.concurrencyKeys.join(", "),
    priority: task.priority?.toString() ?? "",
    deadline: task.deadlineSecs?.toString() ?? "",
    attempts: task.retryPolicy?.maxAttempts?.toString() ?? "",
    callbackUrl: task.callbackUrl ?? "",
  };
}

/** What is wrong with a draft that the server would not even be asked about. */
export function faultsOf(draft: Draft): Faults {
  const faults: Faults = {};
  if (!draft[draft.cadence].trim()) faults[draft.cadence] = "When is it due?";
  if (draft.cadence === "at" && draft.at && Number.isNaN(Date.parse(draft.at))) faults.at = "Not a time.";
  if (!draft.agentId.trim()) faults.agentId = "Which agent submits the task?";
  if (!draft.action.trim()) faults.action = "Which action is to be run?";
  if (draft.params.trim() && !parsedObject(draft.params)) faults.params = "Must be a JSON object.";
  for (const [name, least] of NUMBERS)
    if (draft[name].trim() && !(Number.isInteger(Number(draft[name])) && Number(draft[name]) >= least))
      faults[name] = least === 1 ? "A whole number from 1." : "A whole number.";
  if (list(draft.labels).some((each) => !/^[^=]+=/.test(each))) faults.labels = "Pairs such as site=shop, env=dev.";
  return faults;
}

const NUMBERS = [
  ["priority", Number.NEGATIVE_INFINITY],
  ["deadline", 1],
  ["attempts", 1],
  ["catchUpWindow", 1],
] as const;

/** The request that creates the schedule of a draft without faults. */
export function creation(draft: Draft): MessageInitShape<typeof CreateScheduleRequestSchema> {
  return {
    ...(draft.scheduleId.trim() && { scheduleId: draft.scheduleId.trim() }),
    ...(draft.displayName.trim() && { displayName: draft.displayName.trim() }),
    cadence: cadenceOf(draft),
    timeZone: draft.timeZone.trim() || "UTC",
    task: templateOf(draft),
    ...policiesOf(draft),
    paused: draft.paused,
  };
}

/**
 * The request that makes a schedule what a draft without faults says, undefined where nothing differs. Only what differs
 * is sent, since a cadence that is given counts from now.
 */
export function change(
  draft: Draft,
  before: Schedule,
): MessageInitShape<typeof UpdateScheduleRequestSchema> | undefined {
  const old = draftOf(before);
  const differs = (...names: (keyof Draft)[]) => names.some((name) => draft[name] !== old[name]);
  const task = templateOf(draft, before);
  const parts = {
    ...(differs("displayName") && { displayName: draft.displayName.trim() }),
    ...(differs("cadence", draft.cadence) && { cadence: cadenceOf(draft) }),
    ...(differs("timeZone") && { timeZone: draft.timeZone.trim() || "UTC" }),
    ...(differs("overlap", "catchUp", "catchUpWindow") && policiesOf(draft)),
    ...((!before.task || !equals(TaskTemplateSchema, task, before.task)) && { task }),
  };
  return Object.keys(parts).length ? { scheduleId: before.scheduleId, ...parts } : undefined;
}

function cadenceOf(draft: Draft) {
  if (draft.cadence === "at") return { case: "at" as const, value: timestampFromDate(new Date(draft.at)) };
  if (draft.cadence === "interval") return { case: "interval" as const, value: draft.interval.trim() };
  return { case: "cron" as const, value: draft.cron.trim() };
}

function policiesOf(draft: Draft) {
  const catchUp = CATCH_UPS.find((each) => each.value === draft.catchUp)?.policy;
  return {
    overlap: OVERLAPS.find((each) => each.value === draft.overlap)?.policy ?? Overlap_Policy.skip,
    catchUp: catchUp ?? CatchUp_Policy.last,
    catchUpWindowSecs: Number(draft.catchUpWindow),
  };
}

/** The template of a draft. What the form does not show stays as it was. */
function templateOf(draft: Draft, before?: Schedule) {
  const old = before?.task;
  const { $typeName: _type, $unknown: _rest, ...kept } = old ?? create(TaskTemplateSchema);
  const text = (value: string) => value.trim() || undefined;
  const number = (value: string) => (value.trim() ? Number(value) : undefined);
  const attempts = number(draft.attempts);
  return create(TaskTemplateSchema, {
    ...kept,
    agentId: draft.agentId.trim(),
    action: draft.action.trim(),
    params: draft.params.trim() ? parsedObject(draft.params) : undefined,
    target: text(draft.target),
    project: text(draft.project),
    requires: list(draft.requires),
    labels: Object.fromEntries(list(draft.labels).map((each) => split(each))),
    concurrencyKeys: list(draft.keys),
    priority: number(draft.priority),
    deadlineSecs: number(draft.deadline),
    callbackUrl: text(draft.callbackUrl),
    retryPolicy: attempts === undefined ? undefined : retryOf(attempts, old?.retryPolicy),
  });
}

function retryOf(maxAttempts: number, old: RetryPolicy | undefined): RetryPolicy {
  const policy = old ? clone(RetryPolicySchema, old) : create(RetryPolicySchema);
  policy.maxAttempts = maxAttempts;
  return policy;
}

function split(pair: string): [string, string] {
  const at = pair.indexOf("=");
  return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
}

function list(text: string): string[] {
  return text
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);
}

function parsedObject(text: string): { [key: string]: never } | undefined {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A time as fields of the kind `datetime-local` write it. */
function localText(time: Date): string {
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
