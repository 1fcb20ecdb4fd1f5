/** A task as the handler that runs it sees it, and the error by which a handler fails a task with its own text. */
import type { JsonObject } from "@bufbuild/protobuf";
import type { Report } from "./gen/taskyard/v1/runtime_host_pb.js";
import { type LeaseName, reportOn } from "./reports.js";
import type { Task } from "./tasks.js";
import { checkCount, plainObject } from "./values.js";

/** The environment variables of a trace. Those of the host's own process are not the task's. */
const TRACE_VARIABLES = new Set(["TRACEPARENT", "TRACESTATE", "TASKYARD_TRACE_ID"]);

/**
 * Runs a task. The value that it returns, or that its promise resolves with, is the task's result and must be JSON as
 * `JSON.stringify` takes it; `undefined` is no result. An error that it throws fails the task.
 */
export type Handler = (task: RunningTask) => unknown;

/** Throw it in a handler to fail the task with exactly this text. Any other error adds its name to the text. */
export class ActionFailed extends Error {
  override readonly name = "ActionFailed";
  /** The kind of failure, which `RetryPolicy.nonRetryableCodes` may name. Undefined if there is none. */
  readonly code: string | undefined;
  /** Whether the retry policy of the task may try again. False makes this failure final. */
  readonly retryable: boolean;

  /**
   * @param error The text of the failure.
   * @param options `code`: the kind of failure, default none. `retryable`: default true.
   */
  constructor(error: string, options: { code?: string; retryable?: boolean } = {}) {
    super(error);
    this.code = options.code;
    this.retryable = options.retryable ?? true;
  }
}

/** Where a running task sends what its handler reports. */
export interface TaskReporter {
  progressed(report: Report): void;
  usedTokens(count: number | undefined): void;
}

/** The task that a handler runs, as it was handed out, and the means to report on it. Hosts create it. */
export class RunningTask {
  /** The task as it stood when it was handed out. */
  readonly task: Task;
  /**
   * Increases with each hand-out of any task of the namespace; a whole number. Send it along with side effects, so that
   * their receiver can refuse those of an earlier attempt, or of an earlier task.
   */
  readonly fencingToken: number;
  /**
   * Aborts when the work is no longer wanted: the task was cancelled, paused or is past its deadline, or the lease is
   * lost. Pass it to `fetch`, timers and child processes. What the handler returns or throws after that is discarded.
   */
  readonly signal: AbortSignal;
  #tokensUsed: number | undefined;
  readonly #lease: LeaseName;
  readonly #reporter: TaskReporter;

  /** @internal */
  constructor(task: Task, lease: LeaseName, signal: AbortSignal, reporter: TaskReporter) {
    this.task = task;
    this.fencingToken = lease.fencingToken;
    this.signal = signal;
    this.#lease = lease;
    this.#reporter = reporter;
  }

  /**
   * The tokens (of a language model) that this attempt has used so far. Set it as they are used, without a call of
   * `progress`: the next heartbeat carries the number, and so does every later report. Undefined, the default, reports
   * nothing.
   *
   * When the server receives a number that takes the task over its token limit, the task fails and `signal` aborts.
   *
   * @throws RangeError when set to anything but a whole number from 0 to 4,294,967,295.
   */
  get tokensUsed(): number | undefined {
    return this.#tokensUsed;
  }

  set tokensUsed(count: number | undefined) {
    if (count !== undefined) checkCount("tokensUsed", count);
    this.#tokensUsed = count;
    this.#reporter.usedTokens(count);
  }

  /** The id of the task. */
  get id(): string {
    return this.task.id;
  }

  /** The action to run. */
  get action(): string {
    return this.task.action;
  }

  /** The parameters of the action. Empty if the submitter gave none. */
  get params(): JsonObject {
    return this.task.params;
  }

  /** The number of this attempt within the task's run, from 1. */
  get attempt(): number {
    const last = this.task.attempts.at(-1);
    if (!last) return 1;
    return last.endedAt ? last.number + 1 : last.number;
  }

  /**
   * Reports how far the work is. The call returns at once; the report is sent soon, unless a later one replaces it first.
   *
   * @param progress `fraction`: the part that is done, from 0 to 1; numbers outside that range count as the nearer bound.
   *   `message`: a text for people. `details`: any JSON object. All are optional.
   * @throws TypeError if `details` is not a JSON object.
   */
  progress(progress: { fraction?: number; message?: string; details?: object } = {}): void {
    const { fraction, message, details } = progress;
    this.#reporter.progressed(
      this.reportOf({
        case: "progress",
        value: {
          fraction: fraction === undefined ? undefined : Math.min(1, Math.max(0, fraction)),
          message: message?.toWellFormed(),
          details: details && plainObject(details),
        },
      }),
    );
  }

  /**
   * The environment for a child process that does the work:
   * `spawn(command, { env: task.environment(), signal: task.signal })`.
   *
   * @returns The environment of this process with `TASKYARD_TASK_ID`, `TASKYARD_ATTEMPT` and `TASKYARD_FENCING_TOKEN`.
   *   For a task with a trace context it also has `TRACEPARENT`, which tracing tools read, and `TASKYARD_TRACE_ID`.
   */
  environment(): NodeJS.ProcessEnv {
    const own = Object.entries(process.env).filter(([name]) => !TRACE_VARIABLES.has(name));
    const { traceparent } = this.task;
    return {
      ...Object.fromEntries(own),
      TASKYARD_TASK_ID: this.id,
      TASKYARD_ATTEMPT: String(this.attempt),
      TASKYARD_FENCING_TOKEN: String(this.fencingToken),
      ...(traceparent && { TRACEPARENT: traceparent, TASKYARD_TRACE_ID: traceparent.split("-")[1] }),
    };
  }

  /** @internal A report on this task with one event. Throws if it cannot be encoded. */
  reportOf(event: Parameters<typeof reportOn>[1]): Report {
    return reportOn(this.#lease, event, this.tokensUsed);
  }
}
