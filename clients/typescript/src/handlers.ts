/**
 * The handlers of a host: which one runs which task, and what the end of a handler means for its task.
 *
 * The value of a handler is the task's result, as JSON. `ActionFailed` fails the task with its text, any other error with
 * its name and text; the stack is the traceback of the task.
 */
import type { Assignment } from "./gen/taskyard/v1/lease_pb.js";
import type { Report, TaskCompleted } from "./gen/taskyard/v1/runtime_host_pb.js";
import type { NewWait } from "./gen/taskyard/v1/wait_pb.js";
import { runFor } from "./current_task.js";
import { ActionFailed, tracebackOf } from "./failures.js";
import { Emitter } from "./emitting.js";
import type { HeldArtifacts, HostArtifacts } from "./held_artifacts.js";
import { HeldWaits } from "./held_waits.js";
import type { Logger } from "./logger.js";
import { isUnwinding } from "./parked.js";
import { bytesOf, Output, outputFields, Payload } from "./payloads.js";
import { RESULT } from "./references.js";
import { type Key, keyOf, type LeaseName, reportOn, sizeOf } from "./reports.js";
import { type Handler, RunningTask, type TaskReporter, TaskStopped } from "./running_task.js";
import type { Session } from "./session.js";
import { taskFrom } from "./tasks.js";
import { valueFrom } from "./values.js";

/** The server truncates longer texts. */
const MAX_ERROR_CHARS = 10_000;
const UNKNOWN_ACTION = { code: "unknown_action" };
const BAD_INPUT = { code: "bad_input" };
const BAD_RESULT = { code: "bad_result", retryable: false };

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
  readonly #artifacts: HostArtifacts;
  readonly #changed: () => void;
  readonly #logger: Logger;
  readonly #running = new Map<Key, AbortController>();
  /** What the handlers say. */
  readonly emitter: Emitter;

  constructor(actions: Actions, session: Session, artifacts: HostArtifacts, changed: () => void, logger: Logger) {
    this.#actions = actions;
    this.#session = session;
    this.#artifacts = artifacts;
    this.#changed = changed;
    this.#logger = logger;
    this.emitter = new Emitter(session);
  }

  /** Runs the handlers of these tasks. */
  begin(assignments: Assignment[]): void {
    for (const assignment of assignments) {
      const { lease, task } = assignment;
      if (lease && task) void this.#run(keyOf(lease), assignment);
    }
  }

  /** Aborts the signals of the handlers of these leases. */
  stop(keys: Key[], message = "the lease has ended", reason = "lease_lost"): void {
    for (const key of keys) this.#running.get(key)?.abort(new TaskStopped(message, reason));
  }

  /** Aborts the signals of all handlers. */
  stopAll(message: string): void {
    this.stop([...this.#running.keys()], message, "draining");
  }

  async #run(key: Key, { lease, task, inputs }: Assignment): Promise<void> {
    const stop = new AbortController();
    const name = { taskId: lease?.taskId ?? "", fencingToken: lease?.fencingToken ?? 0 };
    let outcome: Report | undefined;
    this.#running.set(key, stop);
    try {
      if (task) {
        const plain = taskFrom(task);
        const artifacts = this.#artifacts.of(name, plain, stop.signal);
        const reporter = this.#reporter(name, stop.signal);
        const flush = () => running.emitted.then(() => this.emitter.kept(name, stop.signal));
        const steps = artifacts.steps(plain, () => this.#session.maxPayloadBytes, flush);
        const waits = new HeldWaits(steps, stop.signal, (text, error) => {
          this.#logger.error(`task ${plain.id} (${plain.action}): ${text}`, error);
        });
        const held = { artifacts, steps, waits, children: artifacts.children(steps, waits) };
        const running: RunningTask = new RunningTask(plain, name, stop.signal, reporter, held);
        outcome = await this.#outcome(running, artifacts, waits, inputs);
      }
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

  #reporter(name: LeaseName, signal: AbortSignal): TaskReporter {
    return {
      said: async (chunks) => {
        const said = chunks.map((chunk) => this.emitter.say(name, chunk, signal));
        this.#changed();
        await Promise.all(said);
      },
      progressed: (report) => {
        this.#session.progressed(report);
        this.#changed();
      },
      usedTokens: (count) => this.#session.usedTokens(keyOf(name), count),
    };
  }

  /** Runs the handler. Returns the report of its outcome, undefined if it was stopped before it had one. */
  async #outcome(
    task: RunningTask,
    artifacts: HeldArtifacts,
    waits: HeldWaits,
    inputs: Assignment["inputs"],
  ): Promise<Report | undefined> {
    const handler = this.#actions.handler(task.action);
    if (!handler) return failed(task, new ActionFailed(`this host has no action '${task.action}'`, UNKNOWN_ACTION));
    let fetched = "params";
    try {
      await artifacts.fill(task.task);
      for (const [name, input] of Object.entries(inputs)) {
        fetched = `input '${name}'`;
        task.inputs[name] = await artifacts.input(name, input);
      }
    } catch (error) {
      if (task.signal.aborted) return undefined;
      return failed(task, new ActionFailed(`the ${fetched} cannot be fetched: ${textOf(error)}`, BAD_INPUT));
    }
    let result: unknown;
    try {
      try {
        result = await runFor(task, () => handler(task));
      } finally {
        waits.close();
      }
      await task.emitted;
    } catch (error) {
      await task.emitted;
      if (task.signal.aborted) return undefined;
      if (waits.parked) {
        if (!isUnwinding(error)) waits.complain("what it has thrown is not reported", error);
        return parked(task, waits.parked);
      }
      if (error instanceof ActionFailed) {
        this.#logger.info(`task ${task.id} (${task.action}) failed: ${error.message}`);
        return failed(task, error, tracebackOf(error));
      }
      this.#logger.warn(`task ${task.id} (${task.action}) failed`, error);
      return failed(task, new ActionFailed(textOf(error)), tracebackOf(error));
    }
    if (waits.parked) {
      waits.complain("what it has returned is not reported");
      return parked(task, waits.parked);
    }
    let completed: Report;
    try {
      completed = task.reportOf({ case: "completed", value: resultFields(result) });
      // A report that cannot be encoded, for instance a result with invalid Unicode, would break the stream.
      const [bytes, most] = [sizeOf(completed), this.#session.maxPayloadBytes];
      if (!most || bytes <= most || bytesOf(fieldsOf(completed)) <= most) return completed;
    } catch (error) {
      this.#logger.warn(`task ${task.id} (${task.action}): its result is not JSON`, error);
      // The work is done. Another attempt would do it twice and fail in the same way.
      return failed(task, new ActionFailed(`result is not JSON: ${textOf(error)}`, BAD_RESULT));
    }
    try {
      return task.reportOf({ case: "completed", value: await artifacts.shrunk(RESULT, fieldsOf(completed)) });
    } catch (error) {
      if (task.signal.aborted) return undefined;
      const text = `the result is too large, and cannot be an artifact: ${textOf(error)}`;
      return failed(task, new ActionFailed(text, BAD_RESULT));
    }
  }
}

/** What a report of completion has of the result. */
function fieldsOf({ event }: Report): Pick<TaskCompleted, "result" | "output"> {
  return event.case === "completed" ? event.value : {};
}

function resultFields(result: unknown) {
  if (result instanceof Output) return outputFields(result.value);
  if (result instanceof Payload) return outputFields(result);
  return result === undefined ? {} : { result: valueFrom(result) };
}

function failed(task: RunningTask, failure: ActionFailed, traceback?: string): Report {
  const { message, code, retryable, retryAfterMs } = failure;
  // The text of an error may hold invalid Unicode, such as half of a surrogate pair.
  const error = message.slice(0, MAX_ERROR_CHARS).toWellFormed() || "failed without a word";
  const value = { error, code, retryable: retryable ? undefined : false, retryAfterMs, traceback };
  return task.reportOf({ case: "failed", value });
}

function parked(task: RunningTask, waits: NewWait[]): Report {
  return task.reportOf({ case: "parked", value: { waits, releaseTarget: task.releasesTarget } });
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
