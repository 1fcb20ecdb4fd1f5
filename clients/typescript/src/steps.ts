/** The steps of tasks, what they have done once and for all, as callers read them (docs/rules.md, Steps). */
import type { JsonValue } from "@bufbuild/protobuf";
import type { Step } from "./gen/taskyard/v1/step_pb.js";
import { type Payload, payloadFrom } from "./payloads.js";
import { dateOf, jsonOf } from "./values.js";

/** A step that a task has recorded. `outputOf(step)` is its value. */
export interface TaskStep {
  /** The name, which no other step of the task has. */
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
}

/** The step of a message. */
export function stepFrom(message: Step): TaskStep {
  const step: TaskStep = {
    name: message.name ?? "",
    run: message.run ?? 1,
    attempt: message.attempt ?? 1,
    recordedAt: dateOf(message.recordedAt) ?? new Date(0),
  };
  if (message.result) step.result = jsonOf(message.result) as JsonValue;
  if (message.output) step.output = payloadFrom(message.output) as Payload;
  if (message.durationMs !== undefined) step.durationMs = message.durationMs;
  return step;
}
