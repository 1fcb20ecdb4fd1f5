/** A task as the handler that runs it sees it, and how a handler fails one with its own words. */
import type { JsonObject } from "@bufbuild/protobuf";
import type { Report } from "./gen/taskyard/v1/runtime_host_pb.js";
import { type LeaseName, report } from "./session.js";
import type { Task } from "./tasks.js";
import { plainObject } from "./values.js";

/** What tells a process of its trace. That of the host's own process is not the task's. */
const TRACE_VARIABLES = new Set(["TRACEPARENT", "TRACESTATE", "TASKYARD_TRACE_ID"]);

/** The most that a report holds. */
const MAX_COUNT = 0xffffffff;

/** Runs a task: what it answers is the task's result, what it throws fails the task. */
export type Handler = (task: RunningTask) => unknown;

/** Throw it in a handler to fail the task with just this text; any other error adds its name. */
export class ActionFailed extends Error {
  override readonly name = "ActionFailed";
  /** A word for the kind of failure, which a retry policy may name as final. */
  readonly code: string | undefined;
  /** False makes this failure final, whatever the policy says. */
  readonly retryable: boolean;

  constructor(error: string, options: { code?: string; retryable?: boolean } = {}) {
    super(error);
    this.code = options.code;
    this.retryable = options.retryable ?? true;
  }
}

/** What a handler is given: the task as it was handed out, and a way to report on it. */
export class RunningTask {
  /** The task as it stood when it was handed out. */
  readonly task: Task;
  /** Grows with each hand-out of the task; give it along with side effects, to tell a later run from an earlier one. */
  readonly fencingToken: number;
  /**
   * Aborts when the work is no longer wanted: the task was cancelled, paused or is past its deadline, or its lease is
   * lost. Pass it to `fetch`, timers and child processes; what the handler throws then is not told to anybody.
   */
  readonly signal: AbortSignal;
  #tokensUsed: number | undefined;
  readonly #lease: LeaseName;
  readonly #report: (report: Report) => void;

  constructor(task: Task, lease: LeaseName, signal: AbortSignal, report: (report: Report) => void) {
    this.task = task;
    this.fencingToken = lease.fencingToken;
    this.signal = signal;
    this.#lease = lease;
    this.#report = report;
  }

  /**
   * Yours to set: the tokens (of a language model) that this attempt has used so far, which every later report carries.
   * Once one of them is over the task's budget, the task fails and is stopped. Throws RangeError for what is no count.
   */
  get tokensUsed(): number | undefined {
    return this.#tokensUsed;
  }

  set tokensUsed(count: number | undefined) {
    if (count !== undefined && !(Number.isInteger(count) && count >= 0 && count <= MAX_COUNT)) {
      throw new RangeError(`tokensUsed: must be a whole number from 0 to ${MAX_COUNT}, is ${count}`);
    }
    this.#tokensUsed = count;
  }

  get id(): string {
    return this.task.id;
  }

  get action(): string {
    return this.task.action;
  }

  /** Fields for the action, empty if the submitter gave none. */
  get params(): JsonObject {
    return this.task.params;
  }

  /** The number of this execution within the task's run, from 1. */
  get attempt(): number {
    const last = this.task.attempts.at(-1);
    if (!last) return 1;
    return last.endedAt ? last.number + 1 : last.number;
  }

  /**
   * Tell how far the work is; `fraction` is 0 to 1, and what lies outside counts as the nearer of both.
   *
   * It waits for nobody: the report goes out soon, unless a later one takes its place first. Throws TypeError for details
   * that are not JSON.
   */
  progress(progress: { fraction?: number; message?: string; details?: object } = {}): void {
    const { fraction, message, details } = progress;
    this.#report(
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
   * The environment for a process that does the work: `spawn(command, { env: task.environment(), signal: task.signal })`.
   *
   * It is this process's own, with `TASKYARD_TASK_ID`, `TASKYARD_ATTEMPT` and `TASKYARD_FENCING_TOKEN`; for a task with a
   * trace context also `TRACEPARENT`, which tracing tools look for, and its trace id as `TASKYARD_TRACE_ID`.
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

  /** @internal A report on this task, of one event. Throws where it cannot be encoded. */
  reportOf(event: Parameters<typeof report>[1]): Report {
    return report(this.#lease, event, this.tokensUsed);
  }
}
