/**
 * The handlers of a host: which one runs which task, and what a handler's end means for its task.
 *
 * What a handler answers is the task's result, as JSON. `ActionFailed` fails the task with its text, any other error with
 * its name and text, and with its stack in the log only.
 */
import type { Assignment } from "./gen/taskyard/v1/lease_pb.js";
import type { Report } from "./gen/taskyard/v1/runtime_host_pb.js";
import type { Logger } from "./host.js";
import { ActionFailed, type Handler, RunningTask } from "./running_task.js";
import { type Key, keyOf, report, type Session, sizeOf } from "./session.js";
import { taskFrom } from "./tasks.js";
import { valueFrom } from "./values.js";

/** The server keeps no more. */
const MAX_ERROR_CHARS = 10_000;

/** The handlers by the actions that they run, and one for all other actions, if there is one. */
export class Actions {
  readonly #handlers = new Map<string, Handler>();
  #any: Handler | undefined;

  /** Have a handler run an action; without a name, all that no other one runs. Throws if another one does already. */
  add(name: string | undefined, handler: Handler): void {
    if (name === undefined ? this.#any : this.#handlers.has(name)) {
      throw new Error(`${name === undefined ? "any action" : `action '${name}'`} has a handler already`);
    }
    if (name === undefined) this.#any = handler;
    else this.#handlers.set(name, handler);
  }

  get isEmpty(): boolean {
    return this.#handlers.size === 0 && !this.#any;
  }

  /** The only actions that can be run; none if any can. */
  get names(): string[] {
    return this.#any ? [] : [...this.#handlers.keys()];
  }

  /** Who runs an action. */
  handler(action: string): Handler | undefined {
    return this.#handlers.get(action) ?? this.#any;
  }
}

/** The handlers that run now. What becomes of them goes to the session, and then `changed` is called. */
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

  /** Run these tasks. */
  begin(assignments: Assignment[]): void {
    for (const assignment of assignments) {
      const { lease, task } = assignment;
      if (lease && task) void this.#run(keyOf(lease), assignment);
    }
  }

  /** Abort the signals of these leases' handlers. */
  stop(keys: Key[], why = "the lease has ended"): void {
    for (const key of keys) this.#running.get(key)?.abort(new DOMException(why, "AbortError"));
  }

  /** The same for all handlers. */
  stopAll(why: string): void {
    this.stop([...this.#running.keys()], why);
  }

  async #run(key: Key, { lease, task }: Assignment): Promise<void> {
    const stop = new AbortController();
    const tell = (progress: Report) => {
      this.#session.progressed(progress);
      this.#changed();
    };
    const name = { taskId: lease?.taskId ?? "", fencingToken: lease?.fencingToken ?? 0 };
    let outcome: Report | undefined;
    this.#running.set(key, stop);
    try {
      if (task) outcome = await this.#outcome(new RunningTask(taskFrom(task), name, stop.signal, tell));
    } catch (error) {
      // Whatever is in a task, it must not end the host, nor the next one that it is handed to.
      this.#logger.error(`task ${name.taskId} cannot be read`, error);
      const failure = { error: `the host cannot read the task: ${described(error)}`, code: "unreadable" };
      outcome = report(name, { case: "failed", value: failure });
    } finally {
      this.#running.delete(key);
      this.#session.ended(key, outcome);
      this.#changed();
    }
  }

  /** Run the handler; answers the report on its outcome, undefined if it was stopped before it had one. */
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
      return failed(task, described(error));
    }
    try {
      const value = result === undefined ? {} : { result: valueFrom(result) };
      const completed = task.reportOf({ case: "completed", value });
      // Text that is none cannot be encoded, and would break the stream.
      sizeOf(completed);
      return completed;
    } catch (error) {
      this.#logger.warn(`task ${task.id} (${task.action}): its result is not JSON`, error);
      // The work is done; another attempt would do it twice, to the same end.
      return failed(task, `result is not JSON: ${described(error)}`, "bad_result", false);
    }
  }
}

function failed(task: RunningTask, error: string, code?: string, retryable = true): Report {
  // An error's text may hold what is no text for others, such as half of a surrogate pair.
  const text = error.slice(0, MAX_ERROR_CHARS).toWellFormed() || "failed without a word";
  return task.reportOf({ case: "failed", value: { error: text, code, retryable: retryable ? undefined : false } });
}

function described(error: unknown): string {
  try {
    return String(error);
  } catch {
    return "an error that cannot be shown";
  }
}
