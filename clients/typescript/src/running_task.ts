/** A task as the handler that runs it sees it. */
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { NotRetryable } from "./failures.js";
import type { Child, NewChild } from "./children.js";
import { chunksOf } from "./chunking.js";
import { TaskyardError } from "./errors.js";
import type { HeldArtifacts } from "./held_artifacts.js";
import type { HeldChildren } from "./held_children.js";
import type { HeldSteps } from "./held_steps.js";
import type { HeldWaits } from "./held_waits.js";
import type { NewChunk } from "./gen/taskyard/v1/output_pb.js";
import type { Report } from "./gen/taskyard/v1/runtime_host_pb.js";
import type { NewWait } from "./gen/taskyard/v1/wait_pb.js";
import type { TaskInput } from "./inputs.js";
import {
  type AskOptions,
  type EventOptions,
  type JoinOptions,
  newEvent,
  newJoin,
  newQuestion,
  newSleep,
} from "./new_waits.js";
import { inputOf } from "./payloads.js";
import { type LeaseName, reportOn } from "./reports.js";
import type { TaskStep } from "./steps.js";
import type { Artifact, Task } from "./tasks.js";
import type { ArtifactContent, ArtifactOptions } from "./uploading.js";
import { checkCount, plainObject } from "./values.js";

/** The environment variables of a trace. Those of the host's own process are not the task's. */
const TRACE_VARIABLES = new Set(["TRACEPARENT", "TRACESTATE", "TASKYARD_TRACE_ID"]);

/**
 * Runs a task. The value that it returns, or that its promise resolves with, is the task's result and must be JSON as
 * `JSON.stringify` takes it; `undefined` is no result. An `Output` or a `Payload` travels exactly. An error that it throws
 * fails the task.
 */
export type Handler<I = JsonValue> = (task: RunningTask<I>) => unknown;

/** The reason of a `task.signal` that has aborted. Its `name` is `AbortError`. */
export class TaskStopped extends DOMException {
  /**
   * Why the work is no longer wanted: `cancelled`, `paused`, `deadline_exceeded`, `timed_out` (the run timeout) and so on
   * as the server says, `lease_lost` if the lease has ended, `draining` if the host leaves.
   */
  readonly reason: string;

  /** @internal */
  constructor(message: string, reason: string) {
    super(message, "AbortError");
    this.reason = reason;
  }
}

/** Where a running task sends what its handler reports. */
export interface TaskReporter {
  progressed(report: Report): void;
  said(chunks: NewChunk[]): Promise<void>;
  usedTokens(count: number | undefined): void;
}

/** What the task has under its lease. */
export interface Held {
  artifacts: HeldArtifacts;
  steps: HeldSteps;
  waits: HeldWaits;
  children: HeldChildren;
}

/**
 * The task that a handler runs, as it was handed out, and the means to report on it. Hosts create it. `I` is the type of
 * its input, which is not checked.
 */
export class RunningTask<I = JsonValue> {
  /** The task as it stood when it was handed out. */
  readonly task: Task;
  /**
   * Increases with each hand-out of any task of the namespace; a whole number. Send it along with side effects, so that
   * their receiver can refuse those of an earlier attempt, or of an earlier task.
   */
  readonly fencingToken: number;
  /**
   * Aborts when the work is no longer wanted: the task was cancelled, paused, is past its deadline or its run timeout, or
   * the lease is lost. Its reason is a `TaskStopped`. Pass it to `fetch`, timers and child processes. What the handler returns or throws after that is discarded.
   */
  readonly signal: AbortSignal;
  /**
   * What the last attempt reported as the details of its progress, for this one to go on from. Empty if there is nothing.
   * They stay those of the task until this attempt reports others.
   */
  readonly checkpoint: JsonObject;
  /** The tasks whose results are handed on to this one, by their names. Empty if there are none. */
  readonly inputs: Record<string, TaskInput> = {};
  /**
   * Whether its target is free for other tasks while it waits without a slot. Set it before it asks, sleeps, joins or waits
   * for an event. Default false.
   */
  releasesTarget = false;
  #details: JsonObject | undefined;
  #tokensUsed: number | undefined;
  readonly #lease: LeaseName;
  readonly #reporter: TaskReporter;
  readonly #held: Held;
  /** @internal Resolves once all that was said is on its way, or never will be. */
  emitted: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(task: Task, lease: LeaseName, signal: AbortSignal, reporter: TaskReporter, held: Held) {
    this.task = task;
    this.fencingToken = lease.fencingToken;
    this.signal = signal;
    this.#details = task.progress?.details;
    this.checkpoint = this.#details ?? {};
    this.#lease = lease;
    this.#reporter = reporter;
    this.#held = held;
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

  /**
   * The input of the action: its params, or the value that the submitter gave as `input`. Integers that no `number` holds
   * are `bigint`.
   *
   * @throws NotRetryable with the code `bad_input` for bytes of a codec, which stand in `task.task.input`, and for those
   *   that are not JSON.
   */
  get input(): I {
    try {
      return inputOf<I>(this.task);
    } catch (error) {
      throw new NotRetryable(`input: ${(error as Error).message}`, { code: "bad_input", cause: error });
    }
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
   *   `message`: a text for people. `details`: any JSON object, which the next attempt finds as its `checkpoint` if this one
   *   fails; default those that were reported last. All are optional.
   * @throws TypeError if `details` is not a JSON object.
   */
  progress(progress: { fraction?: number; message?: string; details?: object } = {}): void {
    const { fraction, message, details } = progress;
    if (details) this.#details = plainObject(details, "details");
    this.#reporter.progressed(
      this.reportOf({
        case: "progress",
        value: {
          fraction: fraction === undefined ? undefined : Math.min(1, Math.max(0, fraction)),
          message: message?.toWellFormed(),
          details: this.#details,
        },
      }),
    );
  }

  /**
   * Says something: adds to the output of the task, which anybody that may read its result can follow. What one handler
   * says stays in order, whether it waits for the promise or not.
   *
   * @param said A string is said as text, a `Uint8Array` as bytes, anything else as JSON. Text and bytes of more than
   *   64 KiB become several chunks.
   * @param options `channel`: "stdout", "stderr", "log", or a name of your own; default "output".
   * @returns A promise that resolves once it is on its way. It waits while the server keeps too little of what this host
   *   has said; what was said is kept before the end of the task is. It rejects with a `TaskStopped` once `signal` has
   *   aborted or the handler has returned, and with a `TaskyardError` `unimplemented` where the server takes no output.
   * @throws TypeError for a malformed channel, for what is not JSON, and for JSON of more than 64 KiB.
   */
  emit(said: unknown, options: { channel?: string } = {}): Promise<void> {
    const done = this.#reporter.said(chunksOf(said, options.channel));
    // A handler that does not wait for it must not end the process by its rejection.
    const settled = done.catch(() => {});
    this.emitted = this.emitted.then(() => settled);
    return done;
  }

  /**
   * Puts an artifact of the task: a file, an image, or any other bytes under a name. The task has it once it is whole, in
   * the place of an earlier one of this name.
   *
   * @param name The name: letters, digits, `-`, `_` and `.`, at most 128 characters, not a `.` first.
   * @param content Its bytes, or what has them: a `Blob`, or for a file `() => createReadStream(path)`.
   * @param options Its `mediaType`.
   * @returns The artifact.
   * @throws TaskyardError `lease_lost`, `too_large` for more bytes than a task may have, `conflict` if the server keeps no
   *   artifacts, `cancelled` once `signal` has aborted.
   */
  putArtifact(name: string, content: ArtifactContent, options: ArtifactOptions = {}): Promise<Artifact> {
    return this.#held.artifacts.put(name, content, options);
  }

  /**
   * Reads an artifact of the task, such as one that its submitter has attached, or that an earlier attempt put.
   *
   * @param name The name of the artifact.
   * @returns Its bytes.
   * @throws TaskyardError `not_found`, `lease_lost`, `cancelled` once `signal` has aborted.
   */
  readArtifact(name: string): Promise<Uint8Array> {
    return this.#held.artifacts.read(name);
  }

  /**
   * Does a part of the work once and for all: if an earlier attempt or run of the task has recorded a step of this name, its
   * value is what comes back. Otherwise `work` is called, and its value comes back once the server keeps it, and before that
   * all that was emitted. An error of `work` is not recorded; it is thrown as it is, and the same step may be tried again.
   *
   * Names decide, not order: each step of a run needs a name of its own. Steps with different names may go on at the same
   * time. `T` is not checked.
   *
   * @param name The name, at most 256 characters.
   * @param work Does the step. Its value must be JSON, `undefined`, or a `Payload`, and travels exactly, as an `Output` does.
   * @returns The value that is kept, which is the same in all runs: integers that no `number` holds are `bigint`. One that is
   *   too large for a message becomes an artifact by itself, and comes back as it was.
   * @throws TaskStopped once `signal` has aborted.
   * @throws Parked once the task is parked, if its handler goes on all the same.
   * @throws TaskyardError `lease_lost`, `too_large` for one step too many, `cancelled` if `signal` aborts meanwhile.
   * @throws NotRetryable for a name that cannot be, or is used twice, and with the code `bad_result` for a value that cannot
   *   be kept.
   */
  step<T>(name: string, work: () => T | Promise<T>): Promise<T> {
    const { steps, waits } = this.#held;
    return (waits.parked ? waits.refuse() : steps.do(name, work)) as Promise<T>;
  }

  /**
   * Asks a person, or an agent. Until somebody answers, the task is parked: without a lease and without a slot.
   *
   * The handler is unwound by `Parked`, which it lets through. Once there is an answer it begins from its start again, on any
   * host, with its steps, and then this returns at once. What is no step is done again. What is awaited together, by
   * `Promise.all`, is asked and waited for together, once no step is under way any more; the first thing that comes lets the
   * task go on. `T` is not checked.
   *
   * @param id The id of the question, which no other of the task has: 1 to 128 letters, digits, `.`, `_` or `-`.
   * @param text The question, for people, at most 10,000 characters. Required, unless there is a `url`.
   * @param options `choices`: the answers that there are, default any. `schema`: the JSON Schema of the answer, default any
   *   JSON. `default`: the answer that counts if nobody gives one in time, default none: then the task fails, with the code
   *   `question_expired`. `timeoutMs`: how long it can be answered, default a week. `url`: an address to visit, default none.
   * @returns The answer.
   * @throws Parked if there is no answer yet.
   * @throws NotRetryable for a question that cannot be asked, that this run has asked already, or that is asked within a step.
   * @throws TaskStopped once `signal` has aborted, TaskyardError `lease_lost`.
   */
  ask<T = JsonValue>(id: string, text = "", options: AskOptions = {}): Promise<T> {
    return this.#wait(
      () => newQuestion(id, text, options),
      ({ result }) => (result ?? null) as T,
    );
  }

  /**
   * Waits for a time without a lease and without a slot, as `ask` waits for an answer.
   *
   * @param ms How long, in milliseconds, at most 366 days. It counts from the first time.
   * @param name The name, which no other sleep of the task has. Default `sleep`.
   * @throws Parked if it is not over yet.
   * @throws NotRetryable, TaskStopped and TaskyardError as `ask`.
   */
  sleep(ms: number, name = "sleep"): Promise<void> {
    return this.#wait(
      () => newSleep(name, ms),
      () => {},
    );
  }

  /**
   * Waits for the end of tasks, in whatever way they end, without a lease and without a slot, as `ask` waits for an answer.
   *
   * @param tasks The children, tasks, or their ids, at most 10,000. They are children of this task, or of its agent.
   * @param options `name`: which no join of other tasks, of another `timeoutMs`, or that has timed out has; default
   *   `join`. `timeoutMs`: how long at most, in milliseconds, default as long as it takes.
   * @throws Parked if some have not ended yet.
   * @throws TaskyardError `deadline_exceeded` if they have not ended in time, `lease_lost`.
   * @throws NotRetryable and TaskStopped as `ask`.
   */
  async join(tasks: Iterable<string | { id: string }>, options: JoinOptions = {}): Promise<void> {
    const { name = "join", timeoutMs } = options;
    const ids = Array.from(tasks, (each) => (typeof each === "string" ? each : each.id));
    if (!ids.length) return;
    await this.#wait(
      () => newJoin(name, ids, timeoutMs),
      ({ expired }) => {
        if (expired) throw new TaskyardError("deadline_exceeded", `join '${name}': the tasks have not ended in time`);
      },
    );
  }

  /**
   * Waits for an event without a lease and without a slot, as `ask` waits for an answer. It is the oldest one of its name that
   * the task has not had yet, of those that live, else the next one that is sent, see `Client.sendEvent`. `T` is not checked.
   *
   * @param event The name of the event: 1 to 256 letters, digits, `.`, `_` or `-`.
   * @param options `name`: of the wait, which no other wait of the task for an event has, default that of the event.
   *   `timeoutMs`: how long at most, in milliseconds, default as long as it takes.
   * @returns The payload of the event.
   * @throws Parked if none has come yet.
   * @throws TaskyardError `deadline_exceeded` if none has come in time, `lease_lost`.
   * @throws NotRetryable and TaskStopped as `ask`.
   */
  event<T = JsonValue>(event: string, options: EventOptions = {}): Promise<T> {
    const { name = event, timeoutMs } = options;
    return this.#wait(
      () => newEvent(event, name, timeoutMs),
      ({ expired, result }) => {
        if (expired) throw new TaskyardError("deadline_exceeded", `event '${name}': none has come in time`);
        return (result ?? null) as T;
      },
    );
  }

  /**
   * Submits a child of the task, once and for all: a later attempt or run gets the same one by its name. It is a task of the
   * same agent, and is cancelled when this one ends, unless its `onParentEnd` is `keep`. `child.result()` and `task.join` wait
   * for its end without a slot. `O` is the type of its result, which is not checked.
   *
   * @param name The name, which no other child of the task has: 1 to 128 letters, digits, `.`, `_` or `-`, not a `.` first.
   * @param child The child, without keys, since its name is one. Its params or input may have any size.
   * @returns The child, the same for every run.
   * @throws TaskyardError `bad_request`, `lease_lost`, `queue_full`, `too_large` for one child too many or more than an
   *   artifact may have, `unimplemented` if the server is of an older version, and so on, as the server says.
   * @throws NotRetryable for a child that cannot be sent.
   * @throws Parked once the task is parked, if its handler goes on all the same.
   * @throws TaskStopped once `signal` has aborted.
   */
  child<O = JsonValue>(name: string, child: NewChild): Promise<Child<O>> {
    return this.#held.children.submit(name, child, (ids, options) => this.join(ids, options));
  }

  /** Waits for what `make` makes, and reads the step that it has become. */
  #wait<T>(make: () => NewWait, read: (step: TaskStep) => T): Promise<T> {
    const done = (async () => read(await this.#held.waits.until(make())))();
    // One that is left behind must not end the process by its rejection.
    done.catch(() => {});
    return done;
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
