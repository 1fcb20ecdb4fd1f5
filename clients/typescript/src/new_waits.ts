/** Waits as a host sends them: questions, times, the ends of tasks and events. */
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { ListValueSchema, type Value } from "@bufbuild/protobuf/wkt";
import { NotRetryable } from "./failures.js";
import { type NewWait, NewWaitSchema } from "./gen/taskyard/v1/wait_pb.js";
import { plainObject, valueFrom } from "./values.js";

const MAX_MS = 31_622_400_000;
const MAX_JOINED = 10_000;
const MAX_NAME = 256;
const QUESTION_ID = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/;
const EVENT_NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,255}$/;

/** The optional parts of a question. */
export interface AskOptions {
  /** The answers that there are, JSON values, at most 100. Default any. */
  choices?: readonly unknown[];
  /** The JSON Schema of the answer (draft 2020-12), which the server checks. Default none: any JSON value. */
  schema?: object;
  /** The answer that counts if nobody gives one in time. Default none: then the task fails, with the code `question_expired`. */
  default?: unknown;
  /** How long it can be answered, in milliseconds, at most 366 days. Default a week. */
  timeoutMs?: number;
  /** An address to visit for the answer, such as one to sign in at. Default none. */
  url?: string;
}

/** The optional parts of a wait for the end of tasks. */
export interface JoinOptions {
  /** The name, which no join of other tasks, of another `timeoutMs`, or that has timed out has. Default `join`. */
  name?: string;
  /** How long to wait at most, in milliseconds, at most 366 days. Default as long as it takes. */
  timeoutMs?: number;
}

/** The optional parts of a wait for an event. */
export interface EventOptions {
  /** The name of the wait, which no other wait of the task for an event has. Default that of the event. */
  name?: string;
  /** How long to wait at most, in milliseconds, at most 366 days. Default as long as it takes. */
  timeoutMs?: number;
}

/** Makes a question. Throws `NotRetryable` if a part of it is malformed. */
export function newQuestion(id: string, text: string, options: AskOptions): NewWait {
  const what = `ask '${id}'`;
  const { choices, schema, default: byDefault, timeoutMs, url = "" } = options;
  if (!QUESTION_ID.test(id)) {
    throw refused(what, "an id has 1 to 128 letters, digits, `.`, `_` or `-`, and no `.` first");
  }
  if (!text && !url) throw refused(what, "it needs a text or a url");
  return made(what, () => ({
    name: id,
    awaited: {
      case: "question",
      value: {
        text: text.toWellFormed(),
        url,
        ...(schema && { schema: plainObject(schema, "schema") }),
        ...(choices && { choices: create(ListValueSchema, { values: choices.map(choice) }) }),
        ...(byDefault !== undefined && { default: valueFrom(byDefault, "default") }),
      },
    },
    timeoutSecs: secsOf(what, "timeoutMs", timeoutMs),
  }));
}

/** Makes the wait for a time. Throws `NotRetryable` for a time or name that cannot be. */
export function newSleep(name: string, ms: number): NewWait {
  const what = `sleep '${name}'`;
  checkName(what, name);
  return made(what, () => ({ name, awaited: { case: "sleepSecs", value: secsOf(what, "ms", ms) ?? 0 } }));
}

/** Makes the wait for the end of tasks. Throws `NotRetryable` for a time or name that cannot be, and for too many tasks. */
export function newJoin(name: string, ids: readonly string[], timeoutMs: number | undefined): NewWait {
  const what = `join '${name}'`;
  const taskIds = [...new Set(ids)];
  checkName(what, name);
  if (taskIds.length > MAX_JOINED) throw refused(what, `at most ${MAX_JOINED} tasks, not ${taskIds.length}`);
  const timeoutSecs = secsOf(what, "timeoutMs", timeoutMs);
  return made(what, () => ({ name, awaited: { case: "ends", value: { taskIds } }, timeoutSecs }));
}

/** Makes the wait for an event. Throws `NotRetryable` for a time or name that cannot be. */
export function newEvent(event: string, name: string, timeoutMs: number | undefined): NewWait {
  const what = `event '${name}'`;
  if (!EVENT_NAME.test(event)) {
    throw refused(what, "a name has 1 to 256 letters, digits, `.`, `_` or `-`, and no `.` first");
  }
  checkName(what, name);
  const timeoutSecs = secsOf(what, "timeoutMs", timeoutMs);
  return made(what, () => ({ name, awaited: { case: "event", value: { name: event } }, timeoutSecs }));
}

/** Throws `NotRetryable` for what cannot be the name of a step or of a wait. */
export function checkName(what: string, name: string): void {
  if (name.trim() && [...name].length <= MAX_NAME && name.isWellFormed()) return;
  throw refused(what, "its name must have 1 to 256 characters, and not be blank");
}

/** The failure of a task whose handler asks for what cannot be. Another attempt would do the same. */
export function refused(what: string, reason: string, code?: string, cause?: unknown): NotRetryable {
  return new NotRetryable(`${what}: ${reason}`, { ...(code && { code }), cause });
}

function choice(value: unknown): Value {
  return valueFrom(value, "choices");
}

function secsOf(what: string, field: string, ms: number | undefined): number | undefined {
  if (ms === undefined || (ms >= 0 && ms <= MAX_MS)) return ms === undefined ? undefined : ms / 1000;
  throw refused(what, `${field}: must be 0 to ${MAX_MS}, is ${ms}`);
}

/** A wait that can be sent: one that cannot be encoded would break the stream. */
function made(what: string, fields: () => MessageInitShape<typeof NewWaitSchema>): NewWait {
  try {
    const wait = create(NewWaitSchema, fields());
    toBinary(NewWaitSchema, wait);
    return wait;
  } catch (error) {
    if (error instanceof NotRetryable) throw error;
    throw refused(what, (error as Error).message, undefined, error);
  }
}
