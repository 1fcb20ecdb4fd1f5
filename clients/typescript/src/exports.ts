/** The exports that both entries, `index.ts` and `web.ts`, have. */
export type { Batch, BatchOutcome, SubmittedBatch } from "./batches.js";
export type { CallOptions } from "./calls.js";
export { Client, type ClientOptions, type GiveUp, type ListOptions, TaskFailed, type Wire } from "./client.js";
export type { Credentials } from "./credentials.js";
export { type ErrorCode, type ErrorExtras, TaskyardError } from "./errors.js";
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
