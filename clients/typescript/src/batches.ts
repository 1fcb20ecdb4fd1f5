/** Batches as callers see them. */
import { errorFromMessage, type TaskyardError } from "./errors.js";
import type { GetBatchResponse, SubmitBatchResponse } from "./gen/taskyard/v1/batch_pb.js";
import { stateOf, type Task, taskFrom, type TaskState } from "./tasks.js";
import { dateOf } from "./values.js";

/** The outcome of one task of a submitted batch. */
export interface BatchOutcome {
  /** The state of the task just after its submission. */
  state: TaskState;
  /** The id of the task. Undefined if it was refused and is not kept. */
  taskId: string | undefined;
  /** The number of queued tasks of the namespace just after this one was admitted. Undefined if it was refused. */
  position: number | undefined;
  /** Why it was refused. Undefined if it was accepted. */
  error: TaskyardError | undefined;
  /** Whether it is a task that had the unique key already, so that nothing was submitted. */
  existing: boolean;
}

/** A batch just after its submission. */
export interface SubmittedBatch {
  /** The id of the batch. */
  id: string;
  /** One outcome for each submitted task, in their order. */
  outcomes: BatchOutcome[];
  /** The ids of the accepted tasks, in their order. */
  taskIds: string[];
}

/** A batch as it stood when the server answered. */
export interface Batch {
  /** The id of the batch. */
  id: string;
  /** The submitting agent. */
  agentId: string;
  /** @deprecated Use `agentId`. */
  agent: string;
  /** When it was submitted, by the server's clock. */
  createdAt: Date;
  /** The number of its retained tasks in each state. States without tasks are absent. */
  states: Partial<Record<TaskState, number>>;
  /** Whether all of its retained tasks have ended. */
  ended: boolean;
  /** Its retained tasks, in the order of the submission. */
  tasks: Task[];
}

/** The batch of an answer. */
export function submittedBatchFrom(answer: SubmitBatchResponse): SubmittedBatch {
  const outcomes = answer.tasks.map((each) => ({
    state: stateOf(each.state),
    taskId: each.taskId,
    position: each.position,
    error: each.error && errorFromMessage(each.error, each.taskId),
    existing: each.existing ?? false,
  }));
  const taskIds = outcomes.flatMap(({ taskId, error }) => (taskId !== undefined && !error ? [taskId] : []));
  return { id: answer.batchId ?? "", outcomes, taskIds };
}

/** The batch of the pages of an answer; all pages describe the same batch. */
export function batchFrom(id: string, pages: GetBatchResponse[]): Batch {
  const last = pages.at(-1);
  return {
    id: last?.batchId ?? id,
    agentId: last?.agentId ?? "",
    agent: last?.agentId ?? "",
    createdAt: dateOf(last?.createdAt) ?? new Date(0),
    states: { ...last?.states },
    ended: last?.ended ?? false,
    tasks: pages.flatMap((page) => page.tasks.map(taskFrom)),
  };
}
