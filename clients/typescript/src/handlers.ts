/**
 * The handlers of a host: which one runs which task, and what the end of a handler means for its task.
 *
 * The value of a handler is the task's result, as JSON. `ActionFailed` fails the task with its text, any other error with
 * its name and text; the stack goes to the log only.
 */
import type { Assignment } from "./gen/taskyard/v1/lease_pb.js";
import type { Report } from "./gen/taskyard/v1/runtime_host_pb.js";
import type { Logger } from "./host.js";
import { type Key, keyOf, type LeaseName, reportOn, sizeOf } from "./reports.js";
import { ActionFailed, type Handler, RunningTask, type TaskReporter } from "./running_task.js";
import type { Session } from "./session.js";
import { taskFrom } from "./tasks.js";
import { valueFrom } from "./values.js";

/** The server truncates longer texts. */
const MAX_ERROR_CHARS = 10_000;

/** The handlers by action, and one for all other actions, if there is one. */
export class Actions {
  readonly #handlers = new Map<string, Handler>();
  #fallback: Handler | undefined;

  /** Registers the handler of an action; without a name, of all actions that have none. Throws if there is one already. */
  add(name: string | undefined, handler: Handler): void {
    if (name === undefined ? this.#fallback : this.#handlers.has(name)) {
      throw new Error(`${name === undefined ? "any action" : `action '${name}'`} has a handler already`);
    }
    if (name === undefined) this.#fallback = handler;
    else this.#handlers.set(name, handler);
  }

  get isEmpty(): boolean {
    return this.#handlers.size === 0 && !this.#fallback;
  }

  /** The only actions that the host takes; empty if it takes any. */
  get names(): string[] {
    return this.#fallback ? [] : [...this.#handlers.keys()];
  }

  handler(action: string): Handler | undefined {
    return this.#handlers.get(action) ?? this.#fallback;
  }
}

/** The running handlers. They report to the session; `changed` is called after each report. */
export class Handlers {
  readonly #actions: Actions;
  readonly #session: Session;
  readonly #changed: () => void;
  readonly #logger: Logger;
  readonly #running = new Map<Key, AbortController>();

  constructor(actions: Actions, session: Session, changed: () => void, logger: Logger) {
    this.#actions = actions;
    this.#session = session;
    this.#changed = changed;
    this.#logger = logger;
  }

  /** Runs the handlers of these tasks. */
  begin(assignments: Assignment[]): void {
    for (const assignment of assignments) {
      const { lease, task } = assignment;
      if (lease && task) void this.#run(keyOf(lease), assignment);
    }
  }

  /** Aborts the signals of the handlers of these leases. */
  stop(keys: Key[], reason = "the lease has ended"): void {
    for (const key of keys) this.#running.get(key)?.abort(new DOMException(reason, "AbortError"));
  }

  /** Aborts the signals of all handlers. */
  stopAll(reason: string): void {
    this.stop([...this.#running.keys()], reason);
  }

  async #run(key: Key, { lease, task }: Assignment): Promise<void> {
    const stop = new AbortController();
    const name = { taskId: lease?.taskId ?? "", fencingToken: lease?.fencingToken ?? 0 };
    let outcome: Report | undefined;
    this.#running.set(key, stop);
    try {
      if (task) outcome = await this.#outcome(new RunningTask(taskFrom(task), name, stop.signal, this.#reporter(key)));
    } catch (error) {
      // Whatever a task holds, it must not end this host, nor the next one that it is handed to.
      this.#logger.error(`task ${name.taskId} cannot be read`, error);
      outcome = unreadable(name, error);
    } finally {
      this.#running.delete(key);
      this.#session.ended(key, outcome);
      this.#changed();
    }
  }

  #reporter(key: Key): TaskReporter {
    return {
      progressed: (report) => {
        this.#session.progressed(report);
        this.#changed();
      },
      usedTokens: (count) => this.#session.usedTokens(key, count),
    };
  }

  /** Runs the handler. Returns the report of its outcome, undefined if it was stopped before it had one. */
  async #outcome(task: RunningTask): Promise<Report | undefined> {
    const handler = this.#actions.handler(task.action);
    if (!handler) return failed(task, `this host has no action '${task.action}'`, "unknown_action");
    let result: unknown;
    try {
      result = await handler(task);
    } catch (error) {
      if (task.signal.aborted) return undefined;
      if (error instanceof ActionFailed) {
        this.#logger.info(`task ${task.id} (${task.action}) failed: ${error.message}`);
        return failed(task, error.message, error.code, error.retryable);
      }
      this.#logger.warn(`task ${task.id} (${task.action}) failed`, error);
      return failed(task, textOf(error));
    }
    try {
      const value = result === undefined ? {} : { result: valueFrom(result) };
      const completed = task.reportOf({ case: "completed", value });
      // A report that cannot be encoded, for instance a result with invalid Unicode, would break the stream.
      sizeOf(completed);
      return completed;
    } catch (error) {
      this.#logger.warn(`task ${task.id} (${task.action}): its result is not JSON`, error);
      // The work is done. Another attempt would do it twice and fail in the same way.
      return failed(task, `result is not JSON: ${textOf(error)}`, "bad_result", false);
    }
  }
}

function failed(task: RunningTask, error: string, code?: string, retryable = true): Report {
  // The text of an error may hold invalid Unicode, such as half of a surrogate pair.
  const text = error.slice(0, MAX_ERROR_CHARS).toWellFormed() || "failed without a word";
  return task.reportOf({ case: "failed", value: { error: text, code, retryable: retryable ? undefined : false } });
}

function unreadable(lease: LeaseName, error: unknown): Report {
  const failure = { error: `the host cannot read the task: ${textOf(error)}`, code: "unreadable" };
  return reportOn(lease, { case: "failed", value: failure });
}

function textOf(error: unknown): string {
  try {
    return String(error);
  } catch {
    return "an error that cannot be shown";
  }
}
