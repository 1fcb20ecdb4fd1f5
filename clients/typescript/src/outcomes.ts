/** How tasks end that a caller waits for, where they do not end as `done`. */
import { TaskyardError } from "./errors.js";
import type { Attempt, Task } from "./tasks.js";

/** The errors of a task that met its deadline, as servers spell them. */
const PAST_DEADLINE = ["deadline exceeded", "deadline exceeded while queued"];

/** A task did not end as `done`. */
export class TaskFailed extends Error {
  override readonly name: string = "TaskFailed";
  /** The task as it ended. */
  readonly task: Task;
  /** The code of the failure, as the host reported it, or `timed_out`. Undefined if there is none. */
  readonly code: string | undefined;
  /** The executions of the run, oldest first. A single one is left out if there is no retry policy. */
  readonly attempts: Attempt[];
  /** Where in the host's code the work failed. Undefined if the host did not say. */
  readonly traceback: string | undefined;

  /**
   * @param task The task as it ended.
   * @param hasDefaultDeadline Whether its submitter set no deadline. Default false: nothing is known of it.
   */
  constructor(task: Task, hasDefaultDeadline = false) {
    const hint = hasDefaultDeadline && PAST_DEADLINE.includes(task.error ?? "") ? deadlineHint(task) : "";
    const times = task.attempts.length > 1 ? ` after ${task.attempts.length} attempts` : "";
    super(`${task.id} is ${task.state}${times}: ${task.error ?? task.reason ?? "no reason given"}${hint}`);
    this.task = task;
    this.code = task.code;
    this.attempts = task.attempts;
    this.traceback = task.traceback;
  }
}

/** A task was cancelled. */
export class TaskCancelled extends TaskFailed {
  override readonly name: string = "TaskCancelled";
}

/**
 * A task that the server knew is not there any more: the server was started anew without a store, or has forgotten the
 * task since. Its `code` is `not_found`.
 */
export class TaskLost extends TaskyardError {
  override readonly name: string = "TaskLost";

  /**
   * @param taskId The task.
   * @param cause The error of the call.
   */
  constructor(taskId: string, cause: TaskyardError) {
    const reason = `${taskId} is lost: the server was started anew without a store, or has forgotten the task since`;
    super(cause.code, reason, { details: cause.details, ...(cause.status && { status: cause.status }), cause });
  }
}

/** The error of a task that did not end as `done`. */
export function failureOf(task: Task, hasDefaultDeadline: boolean): TaskFailed {
  const Failure = task.state === "cancelled" ? TaskCancelled : TaskFailed;
  return new Failure(task, hasDefaultDeadline);
}

/** What the default deadline was, where it counted from the submission on. */
function deadlineHint({ deadline, createdAt, target, notBefore, hold, run, after, inputs }: Task): string {
  const waited = target || notBefore || hold || after.length || Object.keys(inputs).length;
  const isKnown = deadline && !waited && run === 1;
  const length = isKnown ? ` of ${Math.round((deadline.getTime() - createdAt.getTime()) / 1000)} s` : "";
  return ` (the default deadline${length}; see deadline)`;
}
