/** Tasks as callers see them: what is submitted, and how it then stands (the proto's Task, in plain TypeScript). */
import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import {
  type Attempt as AttemptMessage,
  type Progress as ProgressMessage,
  type RetryPolicy as RetryPolicyMessage,
  SubmitTaskRequestSchema,
  type Task as TaskMessage,
  Task_State,
  type SubmitTaskRequest,
} from "./gen/taskyard/v1/task_pb.js";
import { dateOf, jsonOf, plainObject, randomKey, timestampFrom } from "./values.js";

const STATES = [
  "pending",
  "queued",
  "assigned",
  "running",
  "paused",
  "done",
  "failed",
  "cancelled",
  "rejected",
] as const;

/** Where a task stands. `done`, `failed`, `cancelled` and `rejected` have ended. */
export type TaskState = (typeof STATES)[number];

const STATE_OF_NUMBER = new Map<number, TaskState>(STATES.map((state) => [Task_State[state], state]));

/** The word for a state. A state that only a later server knows shows as its number. */
export function stateOf(state: Task_State | undefined): TaskState {
  return STATE_OF_NUMBER.get(state ?? 0) ?? (String(state) as TaskState);
}

/** Whether a task in this state has ended. A failed one can still be resumed or resolved. */
export function hasEnded(state: TaskState): boolean {
  return state === "done" || state === "failed" || state === "cancelled" || state === "rejected";
}

/** A message without what only protobuf needs. The comments on its fields are those of the proto. */
type Plain<M> = Omit<M, "$typeName" | "$unknown">;

/** How a failed attempt is repeated. */
export interface RetryPolicy extends Partial<Plain<RetryPolicyMessage>> {}

type OwnShape = "action" | "params" | "deadline" | "notBefore" | "retryPolicy";

/** A task as its submitter writes it. Only `action` must be given; without an `idempotencyKey` it gets a new one. */
export interface NewTask extends Partial<Omit<Plain<SubmitTaskRequest>, OwnShape | "agentId" | "callbackUrl">> {
  /** The kind of action to run. */
  action: string;
  /** Fields for the action. */
  params?: object;
  /** When the task fails unless it has ended: a point in time, or milliseconds from the call on. */
  deadline?: Date | number;
  /** The task is not due before: a point in time, or milliseconds from the call on. */
  notBefore?: Date | number;
  /** How a failed attempt is repeated. Default: one attempt. */
  retryPolicy?: RetryPolicy;
}

/** A single task, which may name an agent and a callback of its own. */
export interface NewSingleTask extends NewTask {
  /** The submitting agent. Default: the client's. */
  agent?: string;
  /** Where the task is posted when it ends, http or https. */
  callbackUrl?: string;
}

/** The acceptance of a task. */
export interface Submitted {
  taskId: string;
  state: TaskState;
  /** The number of queued tasks of the namespace just after this one was admitted. */
  position: number;
  createdAt: Date;
}

/** One execution of a task within a run. */
export interface Attempt extends Omit<Plain<AttemptMessage>, "number" | "startedAt" | "endedAt"> {
  /** Its number within the run, from 1. */
  number: number;
  startedAt?: Date;
  endedAt?: Date;
}

/** A host's last word on how far a task is. */
export interface Progress extends Omit<Plain<ProgressMessage>, "reportedAt"> {
  reportedAt?: Date;
}

type Times = "createdAt" | "deadline" | "startedAt" | "completedAt" | "notBefore";
type OtherShape = "taskId" | "agentId" | "action" | "state" | "priority" | "params" | "result" | "hold" | "run";
type Parts = "retryPolicy" | "attempts" | "progress";

/** A task as it stood when the server answered. */
export interface Task extends Omit<Plain<TaskMessage>, Times | OtherShape | Parts> {
  id: string;
  /** The submitting agent. */
  agent: string;
  action: string;
  state: TaskState;
  createdAt: Date;
  priority: number;
  /** Empty if the submitter gave none, and in the events of a watch: they leave it out, since it never changes. */
  params: JsonObject;
  /** What the handler answered; absent unless the task is `done` with a result. */
  result?: JsonValue;
  /** When it fails unless it has ended; absent while that does not count. */
  deadline?: Date;
  startedAt?: Date;
  completedAt?: Date;
  /** When a `pending` task is due. */
  notBefore?: Date;
  /** Whether it is held back until it is resumed. */
  hold: boolean;
  retryPolicy?: RetryPolicy;
  /** Oldest first; empty before the first execution, and where there is only one and no retry policy. */
  attempts: Attempt[];
  /** Counts from 1 and grows with each resume. */
  run: number;
  progress?: Progress;
}

/** The task as the server tells it. */
export function taskFrom(message: TaskMessage): Task {
  const { taskId, agentId, retryPolicy, progress, result, ...same } = plain(message);
  const { createdAt, deadline, startedAt, completedAt, notBefore, ...rest } = same;
  return {
    ...rest,
    id: taskId ?? "",
    agent: agentId ?? "",
    action: message.action ?? "",
    state: stateOf(message.state),
    createdAt: dateOf(createdAt) ?? new Date(0),
    priority: message.priority ?? 0,
    params: message.params ?? {},
    ...(result && { result: jsonOf(result) }),
    ...dates({ deadline, startedAt, completedAt, notBefore }),
    hold: message.hold ?? false,
    ...(retryPolicy && { retryPolicy: plain(retryPolicy) }),
    attempts: message.attempts.map((each) => {
      const { startedAt, endedAt, ...rest } = plain(each);
      return { ...rest, number: each.number ?? 0, ...dates({ startedAt, endedAt }) };
    }),
    run: message.run ?? 1,
    ...(progress && { progress: progressFrom(progress) }),
  };
}

function progressFrom(message: ProgressMessage): Progress {
  const { reportedAt, ...rest } = plain(message);
  return { ...rest, ...dates({ reportedAt }) };
}

/** The request that submits a task, under a new key unless it has its own. Throws TypeError for params beyond JSON. */
export function submitRequest(task: NewSingleTask, agent: string): SubmitTaskRequest {
  const { agent: agentId = agent, callbackUrl, ...fields } = task;
  return create(SubmitTaskRequestSchema, { ...fieldsOf(fields), agentId, callbackUrl });
}

/** The same as a part of a batch, which gives the agent and the callback to all its tasks. */
export function fieldsOf({ params, deadline, notBefore, ...same }: NewTask) {
  return {
    ...same,
    params: params && plainObject(params),
    deadline: timestampFrom(deadline),
    notBefore: timestampFrom(notBefore),
    hold: same.hold || undefined,
    idempotencyKey: same.idempotencyKey || randomKey(),
  };
}

function plain<M extends { $typeName: string; $unknown?: unknown }>(message: M): Plain<M> {
  const { $typeName, $unknown, ...rest } = message;
  return rest;
}

/** Those of the times that there are, as dates. */
function dates<K extends string>(times: Record<K, Timestamp | undefined>): Partial<Record<K, Date>> {
  const found = Object.entries<Timestamp | undefined>(times).filter(([, time]) => time);
  return Object.fromEntries(found.map(([name, time]) => [name, dateOf(time)])) as Partial<Record<K, Date>>;
}
