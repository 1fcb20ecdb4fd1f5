/** Tasks as callers submit and see them: the messages of `task.proto` in plain TypeScript. */
import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { Artifact as ArtifactMessage } from "./gen/taskyard/v1/artifact_pb.js";
import {
  type Attempt as AttemptMessage,
  type Progress as ProgressMessage,
  type RetryPolicy as RetryPolicyMessage,
  SubmitTaskRequestSchema,
  type Task as TaskMessage,
  Task_State,
  type SubmitTaskRequest,
  type SubmitTaskResponse,
} from "./gen/taskyard/v1/task_pb.js";
import {
  type AfterPolicy,
  type OnParentEnd,
  type OnTargetFailure,
  type UniqueWhile,
  type Words,
  wordsFrom,
  wordsOf,
} from "./queueing.js";
import { inputFields, type Payload, payloadFrom } from "./payloads.js";
import { parkFrom, type TaskPark } from "./questions.js";
import { dateOf, jsonOf, plainObject, randomKey, timestampFrom } from "./values.js";

const STATES = [
  "pending",
  "queued",
  "assigned",
  "running",
  "paused",
  "parked",
  "done",
  "failed",
  "cancelled",
  "rejected",
] as const;

/** The state of a task. `done`, `failed`, `cancelled` and `rejected` are final, see `hasEnded`. */
export type TaskState = (typeof STATES)[number];

const STATE_OF_NUMBER = new Map<number, TaskState>(STATES.map((state) => [Task_State[state], state]));

/** The name of a state. A state that only a later server knows has its number as name. */
export function stateOf(state: Task_State | undefined): TaskState {
  return STATE_OF_NUMBER.get(state ?? 0) ?? (String(state) as TaskState);
}

/**
 * Whether a state is final.
 *
 * @param state The state of a task.
 * @returns True for `done`, `failed`, `cancelled` and `rejected`. A failed task can still be resumed or resolved.
 */
export function hasEnded(state: TaskState): boolean {
  return state === "done" || state === "failed" || state === "cancelled" || state === "rejected";
}

/** A message without the fields that only protobuf needs. The comments on the rest are those of the proto. */
type Plain<M> = Omit<M, "$typeName" | "$unknown">;

/** How often, and with which delays in milliseconds, a task is tried again after a failure. */
export interface RetryPolicy extends Partial<Plain<RetryPolicyMessage>> {}

type OwnShape =
  | "action"
  | "params"
  | "input"
  | "deadline"
  | "notBefore"
  | "retryPolicy"
  | keyof Words
  | "onTargetFailure";

/** A task to submit. Only `action` is required. Without an `idempotencyKey` the client generates one. */
export interface NewTask extends Partial<Omit<Plain<SubmitTaskRequest>, OwnShape | "agentId" | "callbackUrl">>, Words {
  /** The kind of action to run. */
  action: string;
  /**
   * The parameters of the action, any JSON object. Default none. A `bigint` beyond 2^53 is refused, since not every reader
   * of the API could tell it from others: see `input`.
   */
  params?: object;
  /**
   * The input in the place of `params`: any JSON value, in which each `bigint` arrives with all of its digits. It is sent
   * as `params` where these hold it, else beside them, for `task.input` of handlers and for the typed actions of other
   * languages. A `Payload` is sent as it is. Default none.
   */
  input?: unknown;
  /**
   * When the task fails unless it has ended: a point in time, or milliseconds from the call on. Default: the server's
   * `defaultDeadlineSec` from when the task is due.
   */
  deadline?: Date | number;
  /** When the task is due: a point in time, or milliseconds from the call on. Default: at once. */
  notBefore?: Date | number;
  /** How a failed attempt is repeated. Default: one attempt. */
  retryPolicy?: RetryPolicy;
  /**
   * What becomes of the target if the task fails after its start. Default: what the settings say of the target, else
   * `block`.
   */
  onTargetFailure?: OnTargetFailure;
  /**
   * In a batch: tasks of the same batch that must have ended before, by their place in it from 0. Each must stand before
   * this one. Default none.
   */
  afterIndexes?: number[];
  /**
   * In a batch: tasks of the same batch whose results are handed on to this one, by a name for each, by their place in it
   * from 0. Each must stand before this one. Default none.
   */
  inputIndexes?: Record<string, number>;
}

/** A single task to submit, with an agent and a callback of its own. */
export interface NewSingleTask extends NewTask {
  /** The submitting agent. Default: the client's. */
  agentId?: string;
  /** @deprecated Use `agentId`. */
  agent?: string;
  /** The URL that the task is posted to when it ends, http or https. Default none. */
  callbackUrl?: string;
}

/** The acceptance of a task. */
export interface Submitted {
  /** The id of the task. */
  id: string;
  /** @deprecated Use `id`. */
  taskId: string;
  /** The state of the task just after its submission. */
  state: TaskState;
  /** The number of queued tasks of the namespace just after this one was admitted. */
  position: number;
  /** When the task was submitted, by the server's clock. */
  createdAt: Date;
  /** Whether it is a task that had the unique key already, so that nothing was submitted. */
  existing: boolean;
}

/** One execution of a task within a run. */
export interface Attempt extends Omit<Plain<AttemptMessage>, "number" | "startedAt" | "endedAt"> {
  /** Its number within the run, from 1. */
  number: number;
  /** When it started. Absent if its lease was lost before the host reported the start. */
  startedAt?: Date;
  /** When it ended. Absent while it runs. */
  endedAt?: Date;
}

/** A value of any size that a task has under a name: a file, an image, a result that is too large. */
export interface Artifact {
  /** The name, which no other artifact of the task has. */
  name: string;
  /** The media type, such as `image/png`. */
  mediaType: string;
  /** The size in bytes. */
  sizeBytes: number;
  /** The SHA-256 of the bytes, in hex. */
  sha256: string;
  /** The attempt of the run in which it was put, from 1. Absent if the submitter put it. */
  attempt?: number;
  /** When it was complete. */
  createdAt: Date;
}

/** The last progress that the host of a task reported. */
export interface Progress extends Omit<Plain<ProgressMessage>, "reportedAt"> {
  /** When the server received the report. */
  reportedAt?: Date;
}

type Times = "createdAt" | "deadline" | "startedAt" | "completedAt" | "notBefore";
type OtherShape = "taskId" | "agentId" | "action" | "state" | "priority" | "params" | "result" | "hold" | "run";
type Parts =
  | "retryPolicy"
  | "attempts"
  | "artifacts"
  | "progress"
  | "park"
  | "input"
  | "output"
  | keyof Words
  | "onTargetFailure";

/** A task as it stood when the server answered. Fields that do not apply are absent. */
export interface Task extends Omit<Plain<TaskMessage>, Times | OtherShape | Parts> {
  /** The id that the server gave it. */
  id: string;
  /** The submitting agent. */
  agentId: string;
  /** @deprecated Use `agentId`. */
  agent: string;
  /** The kind of action to run. */
  action: string;
  /** Where the task stands. */
  state: TaskState;
  /** When it was submitted. */
  createdAt: Date;
  /** The lower number is claimed first among the agent's tasks. */
  priority: number;
  /** Empty if the submitter gave none, and in the events of a watch. */
  params: JsonObject;
  /** The input where `params` do not hold it exactly. `inputOf(task)` is either. Absent otherwise. */
  input?: Payload;
  /** The value that the handler returned. Absent unless the task is `done` with a result. */
  result?: JsonValue;
  /** The value that the handler returned where `result` does not hold it exactly. `outputOf(task)` is either. */
  output?: Payload;
  /** When it fails unless it has ended. Absent while no deadline applies. */
  deadline?: Date;
  /** When it was first executed, in whichever attempt or run. Absent until then. */
  startedAt?: Date;
  /** When it ended. */
  completedAt?: Date;
  /** When a `pending` task is due. */
  notBefore?: Date;
  /** Whether it is held back until it is resumed. */
  hold: boolean;
  /** How a failed attempt is repeated. */
  retryPolicy?: RetryPolicy;
  /** Oldest first. Empty before the first execution, and if there is only one and no retry policy. */
  attempts: Attempt[];
  /** The artifacts of all runs, in the order in which they were put. */
  artifacts: Artifact[];
  /** The number of the run, from 1. Each resume begins a new one. */
  run: number;
  /** The last reported progress. */
  progress?: Progress;
  /** What it waits for while it is `parked`. Absent otherwise. */
  park?: TaskPark;
  /** What it asks of the tasks in `after`. Absent unless it was set. */
  afterPolicy?: AfterPolicy;
  /** For how long its unique key is taken. Absent unless it was set. */
  uniqueWhile?: UniqueWhile;
  /** What becomes of it when its parent ends. Absent unless it was set. */
  onParentEnd?: OnParentEnd;
  /** What becomes of its target if it fails after its start. Absent unless it was set. */
  onTargetFailure?: OnTargetFailure;
}

/** What a task has in another shape than its message, or not at all. */
const SHAPED = new Set<string>(
  "$typeName $unknown taskId agentId action state createdAt priority params hold run attempts artifacts retryPolicy progress park result"
    .concat(
      " input output afterPolicy uniqueWhile onParentEnd onTargetFailure deadline startedAt completedAt notBefore",
    )
    .split(" "),
);

/**
 * The task of a message.
 *
 * Lists and watches convert thousands at once, and a page draws meanwhile: patterns with a rest, spreads and lists of
 * entries cost ten times as much here as plain assignments.
 */
export function taskFrom(message: TaskMessage): Task {
  const agentId = message.agentId ?? "";
  const task: Task = {
    id: message.taskId ?? "",
    agentId,
    agent: agentId,
    action: message.action ?? "",
    state: stateOf(message.state),
    createdAt: dateOf(message.createdAt) ?? new Date(0),
    priority: message.priority ?? 0,
    params: message.params ?? {},
    hold: message.hold ?? false,
    attempts: message.attempts.map(attemptFrom),
    artifacts: message.artifacts.map(artifactFrom),
    run: message.run ?? 1,
    requires: message.requires,
    labels: message.labels,
    concurrencyKeys: message.concurrencyKeys,
    after: message.after,
    inputs: message.inputs,
  };
  const same = task as unknown as Record<string, unknown>;
  for (const name of Object.keys(message)) {
    if (!SHAPED.has(name)) same[name] = message[name as keyof TaskMessage];
  }
  if (message.result) task.result = jsonOf(message.result) as JsonValue;
  if (message.input) task.input = payloadFrom(message.input) as Payload;
  if (message.output) task.output = payloadFrom(message.output) as Payload;
  setDates(task, message, ["deadline", "startedAt", "completedAt", "notBefore"]);
  if (message.retryPolicy) task.retryPolicy = plain(message.retryPolicy);
  if (message.progress) task.progress = progressFrom(message.progress);
  if (message.park) task.park = parkFrom(message.park);
  if (message.afterPolicy || message.uniqueWhile || message.onParentEnd) Object.assign(task, wordsOf(message));
  if (message.onTargetFailure) task.onTargetFailure = message.onTargetFailure as OnTargetFailure;
  return task;
}

/** The artifact of a message. */
export function artifactFrom(message: ArtifactMessage): Artifact {
  const artifact: Artifact = {
    name: message.name ?? "",
    mediaType: message.mediaType ?? "",
    sizeBytes: message.sizeBytes ?? 0,
    sha256: message.sha256 ?? "",
    createdAt: dateOf(message.createdAt) ?? new Date(0),
  };
  if (message.attempt) artifact.attempt = message.attempt;
  return artifact;
}

function attemptFrom(message: AttemptMessage): Attempt {
  const { startedAt, endedAt, ...rest } = plain(message);
  const attempt: Attempt = { ...rest, number: message.number ?? 0 };
  setDates(attempt, { startedAt, endedAt }, ["startedAt", "endedAt"]);
  return attempt;
}

function progressFrom(message: ProgressMessage): Progress {
  const { reportedAt, ...rest } = plain(message);
  const progress: Progress = rest;
  setDates(progress, { reportedAt }, ["reportedAt"]);
  return progress;
}

/** The request that submits a task, with a new key unless it has one. Throws TypeError for params that are not JSON. */
export function submitRequest(task: NewSingleTask, agentId: string, parentId?: string): SubmitTaskRequest {
  const { agent = agentId, agentId: own = agent, callbackUrl, afterIndexes, inputIndexes, ...fields } = task;
  if (afterIndexes?.length) throw new TypeError("afterIndexes: is for the tasks of a batch");
  if (inputIndexes) throw new TypeError("inputIndexes: is for the tasks of a batch");
  return create(SubmitTaskRequestSchema, { ...fieldsOf(fields, parentId), agentId: own, callbackUrl });
}

/** The acceptance of a message. */
export function submittedFrom(message: SubmitTaskResponse): Submitted {
  const id = message.taskId ?? "";
  return {
    id,
    taskId: id,
    state: stateOf(message.state),
    position: message.position ?? 0,
    createdAt: dateOf(message.createdAt) ?? new Date(0),
    existing: message.existing ?? false,
  };
}

/** The fields of a task in a batch, whose agent and callback are those of the batch. */
export function fieldsOf({ params, input, deadline, notBefore, ...same }: NewTask, parentId?: string) {
  if (params && input !== undefined) throw new TypeError("input: params are given too");
  return {
    ...same,
    ...(params && { params: plainObject(params, "params") }),
    ...inputFields(input),
    ...wordsFrom(same),
    parentId: same.parentId ?? parentId,
    deadline: timestampFrom(deadline),
    notBefore: timestampFrom(notBefore),
    hold: same.hold || undefined,
    idempotencyKey: same.idempotencyKey || randomKey(),
  };
}

/** Labels as a selector of tasks that have all of them. */
export function selectorOf(labels: string | Record<string, string> | undefined): string | undefined {
  if (typeof labels !== "object") return labels;
  const quoted = (text: string) => `"${text.replace(/[\\"]/g, "\\$&")}"`;
  return Object.entries(labels)
    .map(([key, value]) => `${quoted(key)}=${quoted(value)}`)
    .join(",");
}

function plain<M extends { $typeName: string; $unknown?: unknown }>(message: M): Plain<M> {
  const { $typeName, $unknown, ...rest } = message;
  return rest;
}

/** Sets the times that there are, as dates. */
function setDates<K extends string>(
  target: Partial<Record<K, Date>>,
  times: Partial<Record<K, Timestamp>>,
  names: readonly K[],
): void {
  for (const name of names) {
    const date = dateOf(times[name]);
    if (date) target[name] = date;
  }
}
