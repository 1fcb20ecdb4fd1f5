/** The exports that both entries, `index.ts` and `web.ts`, have. */
export type { Artifacts } from "./artifacts.js";
export type { Batch, BatchOutcome, SubmittedBatch } from "./batches.js";
export type { CallOptions } from "./calls.js";
export { Client } from "./client.js";
export type {
  ClientOptions,
  EndOptions,
  GiveUp,
  ListOptions,
  QuestionsOptions,
  RunOptions,
  SendEventOptions,
  SubmitOptions,
  Wire,
} from "./client_options.js";
export type { Credentials } from "./credentials.js";
export { type ErrorCode, type ErrorExtras, TaskyardError } from "./errors.js";
export type { Logger } from "./logger.js";
export { TaskCancelled, TaskFailed, TaskLost } from "./outcomes.js";
export { inputOf, outputOf, Payload } from "./payloads.js";
export type {
  AfterPolicy,
  OnConflict,
  OnParentEnd,
  OnTargetFailure,
  Stopping,
  UniqueWhile,
  Words,
} from "./queueing.js";
export type { OpenQuestion, Question, TaskPark, TaskWait } from "./questions.js";
export type { OutputChunk, OutputOptions } from "./reading.js";
export type { TaskStep } from "./steps.js";
export type { Stubs } from "./stubs.js";
export {
  type Artifact,
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
export type { ArtifactContent, ArtifactOptions } from "./uploading.js";
export type { ExactJson } from "./values.js";
export type { EventKind, TaskEvent, WatchOptions } from "./watching.js";
