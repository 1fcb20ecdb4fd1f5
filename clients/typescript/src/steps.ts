/** The steps of tasks, what they have done once and for all and what came, as callers read them (docs/rules.md, Steps). */
import type { JsonValue } from "@bufbuild/protobuf";
import { type Step, Step_Kind } from "./gen/taskyard/v1/step_pb.js";
import { type Payload, payloadFrom } from "./payloads.js";
import { type Question, questionFrom } from "./questions.js";
import { dateOf, jsonOf } from "./values.js";

/** Work that a task has recorded, or what came while it was parked. `outputOf(step)` is its value. */
export interface TaskStep {
  /**
   * `work` that a host has recorded, the `answer` to a question, a `time` that came, the `ends` of tasks, or an `event`. A kind
   * that only a later server knows has its number as name.
   */
  kind: (typeof KINDS)[number];
  /** The name, which no other step of its kind has in the task. */
  name: string;
  /** The value, absent without one. One that is too large is an artifact of the task: `{$artifact: {name, ...}}`. */
  result?: JsonValue;
  /** The value where `result` does not hold it exactly. */
  output?: Payload;
  /** The run of the task in which it was recorded, from 1. */
  run: number;
  /** The attempt of that run, from 1. */
  attempt: number;
  /** How long its work took, in milliseconds. Absent if the host did not tell. */
  durationMs?: number;
  /** When the server took it. */
  recordedAt: Date;
  /** What was asked. Absent unless the kind is `answer`. */
  question?: Question;
  /** Who answered, or sent the event. Absent unless somebody did. */
  by?: string;
  /** True if nothing came in time; of a question its default is then the result. Absent otherwise. */
  expired?: boolean;
}

const KINDS = ["work", "answer", "time", "ends", "event"] as const;
const KIND_OF_NUMBER = new Map<number, TaskStep["kind"]>(KINDS.map((kind) => [Step_Kind[kind], kind]));

/** The step of a message. */
export function stepFrom(message: Step): TaskStep {
  const number = message.kind || Step_Kind.work;
  const step: TaskStep = {
    kind: KIND_OF_NUMBER.get(number) ?? (String(number) as TaskStep["kind"]),
    name: message.name ?? "",
    run: message.run ?? 1,
    attempt: message.attempt ?? 1,
    recordedAt: dateOf(message.recordedAt) ?? new Date(0),
  };
  if (message.result) step.result = jsonOf(message.result) as JsonValue;
  if (message.output) step.output = payloadFrom(message.output) as Payload;
  if (message.durationMs !== undefined) step.durationMs = message.durationMs;
  if (message.question) step.question = questionFrom(message.question);
  if (message.by !== undefined) step.by = message.by;
  if (message.expired) step.expired = true;
  return step;
}
