/** What both entries export. */
export type { CallOptions } from "./calls.js";
export {
  type Batch,
  type BatchOutcome,
  Client,
  type ClientOptions,
  type GiveUp,
  type ListOptions,
  type SubmittedBatch,
  TaskFailed,
  type Wire,
} from "./client.js";
export { type ErrorCode, TaskyardError } from "./errors.js";
export {
  type Attempt,
  hasEnded,
  type NewSingleTask,
  type NewTask,
  type Progress,
  type RetryPolicy,
  type Submitted,
  type Task,
  type TaskState,
} from "./tasks.js";
export type { EventKind, TaskEvent, WatchOptions } from "./watching.js";
