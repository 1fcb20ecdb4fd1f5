/** The client: submit tasks, follow them, interrupt and end them. */
import { create, type JsonValue } from "@bufbuild/protobuf";
import { type Client as Stub, createClient, type Transport } from "@connectrpc/connect";
import { type Batch, batchFrom, type SubmittedBatch, submittedBatchFrom } from "./batches.js";
import { type CallOptions, Calls } from "./calls.js";
import type { Credentials } from "./credentials.js";
import { errorFrom, TaskyardError } from "./errors.js";
import { AdminService } from "./gen/taskyard/v1/admin_pb.js";
import { BatchService, type GetBatchResponse, SubmitBatchRequestSchema } from "./gen/taskyard/v1/batch_pb.js";
import { LeaseService } from "./gen/taskyard/v1/lease_pb.js";
import { RuntimeHostService } from "./gen/taskyard/v1/runtime_host_pb.js";
import { ScheduleService } from "./gen/taskyard/v1/schedule_pb.js";
import { type GetStatsResponse, StatsService } from "./gen/taskyard/v1/stats_pb.js";
import { TargetService } from "./gen/taskyard/v1/target_pb.js";
import { type Task_State, TaskService } from "./gen/taskyard/v1/task_pb.js";
import {
  fieldsOf,
  type NewSingleTask,
  type NewTask,
  stateOf,
  type Submitted,
  submitRequest,
  type Task,
  taskFrom,
  type TaskState,
} from "./tasks.js";
import { MAX_TIMER_MS } from "./retrying.js";
import { Submitter } from "./submitting.js";
import { checkCount, dateOf, timestampFrom, valueFrom } from "./values.js";
import { type TaskEvent, watchEvents, type WatchOptions } from "./watching.js";

/** The longest wait of one WaitTask call. Proxies end calls that are idle for a minute. */
const MAX_WAIT_MS = 20_000;

/** How much later than the caller's timeout the server's last answer may come. */
const WAIT_GRACE_MS = 2_000;

/** The options of every client, whatever its transport. */
export interface ClientOptions extends CallOptions {
  /** The agent of tasks that name no other. Default none: then each task must name one. */
  agent?: string;
}

/** The options of every call. */
export interface GiveUp {
  /**
   * Ends the call as `cancelled` when it aborts. The server may have done what was requested. One signal may be given to
   * any number of calls. Default none.
   */
  signal?: AbortSignal;
}

/** The properties of a transport. */
export interface Wire {
  /** Called when the client is closed. Default none. */
  disconnect?: () => void;
  /** What calls show of their caller. Default: the token of the options. */
  credentials?: Credentials;
  /** Whether tasks that are submitted at the same time share a stream, which gRPC-Web cannot do. Default false. */
  sharesSubmits?: boolean;
}

/** Which tasks to list: those that match all given filters. An absent filter matches all. */
export interface ListOptions extends GiveUp {
  /** Tasks of this agent. */
  agent?: string;
  /** Tasks in one of these states. */
  states?: TaskState[];
  /** Tasks of this batch. */
  batchId?: string;
  /** Tasks of this target. */
  target?: string;
  /** Whether to list all tasks that the server keeps, for days, except rejected ones. Default false. */
  history?: boolean;
  /** Whether the youngest task comes first. Default false. */
  newestFirst?: boolean;
  /** Tasks submitted at this time or later. */
  createdFrom?: Date;
  /** Tasks submitted before this time. */
  createdUntil?: Date;
  /** The number of tasks in one answer of the server, at most 1,000. Default 1,000. */
  pageSize?: number;
}

/** A task did not end as `done`. */
export class TaskFailed extends Error {
  override readonly name = "TaskFailed";
  /** The task as it ended. */
  readonly task: Task;

  /** @param task The task as it ended. */
  constructor(task: Task) {
    super(`${task.id} is ${task.state}: ${task.error ?? "no reason given"}`);
    this.task = task;
  }
}

/**
 * Calls a Taskyard server. Create it with `connect`, and close it when done.
 *
 * A call that has no answer within `timeoutMs` throws `deadline_exceeded`. A call that is safe to repeat is repeated while
 * the server is unavailable, for up to `patienceMs`; then it throws `unavailable`.
 *
 * Every method throws a `TaskyardError` if the server refuses the call. Each lists its codes beside those that any call
 * may have: `bad_request`, `unauthenticated`, `permission_denied`, `unavailable`, `deadline_exceeded`, `internal`, and
 * `cancelled` when the signal of the call aborts or the client is closed.
 */
export class Client {
  /** The stubs of all services, with the client's namespace, token, timeouts, retries and errors. */
  readonly stubs: {
    readonly tasks: Stub<typeof TaskService>;
    readonly batches: Stub<typeof BatchService>;
    readonly stats: Stub<typeof StatsService>;
    readonly targets: Stub<typeof TargetService>;
    readonly schedules: Stub<typeof ScheduleService>;
    readonly hosts: Stub<typeof RuntimeHostService>;
    readonly leases: Stub<typeof LeaseService>;
    readonly admin: Stub<typeof AdminService>;
  };
  readonly #calls: Calls;
  readonly #submitter: Submitter;
  readonly #agent: string;
  readonly #disconnect: () => void;

  /**
   * A client over a transport of your own.
   *
   * @param transport Any transport of Connect for gRPC or gRPC-Web.
   * @param options What every call carries.
   * @param wire The properties of the transport.
   * @throws TypeError or RangeError for options that no call can be made with.
   */
  constructor(transport: Transport, options: ClientOptions = {}, wire: Wire = {}) {
    const { disconnect, sharesSubmits, credentials } = wire;
    this.#calls = new Calls(transport, options, undefined, credentials);
    // Calls of its own: closing the client does not end them.
    this.#submitter = new Submitter(new Calls(transport, options, undefined, credentials), sharesSubmits ?? false);
    this.#agent = options.agent ?? "";
    this.#disconnect = disconnect ?? (() => {});
    this.stubs = {
      tasks: createClient(TaskService, this.#calls),
      batches: createClient(BatchService, this.#calls),
      stats: createClient(StatsService, this.#calls),
      targets: createClient(TargetService, this.#calls),
      schedules: createClient(ScheduleService, this.#calls),
      hosts: createClient(RuntimeHostService, this.#calls),
      leases: createClient(LeaseService, this.#calls),
      admin: createClient(AdminService, this.#calls),
    };
  }

  /**
   * Ends all calls and watches as `cancelled`, waits for the answers to submitted tasks, then closes the connection. The
   * process can then exit.
   */
  async close(): Promise<void> {
    this.#calls.close();
    await this.#submitter.settled();
    this.#disconnect();
  }

  // Submitting

  /**
   * Submits one task. Without an `idempotencyKey` the client generates one, so that the task is made once however often
   * the connection breaks. In Node, tasks that are submitted at the same time share a stream: a thousand of them cost
   * little more than a batch.
   *
   * @throws TaskyardError `queue_full` (with the id of the task, if it is kept as rejected), `too_large` for the params,
   *   `already_exists` if another task has the key. With `retryAfterMs` where the server says when to try again.
   * @throws TypeError if the params are not JSON.
   */
  async submit(task: NewSingleTask, options: GiveUp = {}): Promise<Submitted> {
    this.#calls.checkOpen();
    const answer = await this.#submitter.submit(submitRequest(task, this.#agent), options.signal);
    return {
      taskId: answer.taskId ?? "",
      state: stateOf(answer.state),
      position: answer.position ?? 0,
      createdAt: dateOf(answer.createdAt) ?? new Date(0),
    };
  }

  /**
   * Submits several tasks of one agent as a batch. Each is admitted or refused by itself, see the outcomes.
   *
   * @param tasks The tasks, at most the server's `maxBatchSize` (50).
   * @param options `agent`: default the client's. `callbackUrl`: the URL that each task is posted to when it ends,
   *   default none. `signal`: gives the call up.
   * @throws TaskyardError `batch_too_large`, `too_large` for the params of a task, `bad_request` if any task is malformed.
   *   Then no task was submitted.
   * @throws TypeError if the params of a task are not JSON.
   */
  async submitBatch(
    tasks: NewTask[],
    options: GiveUp & { agent?: string; callbackUrl?: string } = {},
  ): Promise<SubmittedBatch> {
    const request = create(SubmitBatchRequestSchema, {
      agentId: options.agent ?? this.#agent,
      callbackUrl: options.callbackUrl,
      tasks: tasks.map(fieldsOf),
    });
    let mayBeSecond = false;
    const answer = await this.#calls.repeated((isInDoubt, signal) => {
      mayBeSecond = isInDoubt;
      return this.stubs.batches.submitBatch(request, { signal });
    }, options.signal);
    const batch = submittedBatchFrom(answer);
    if (mayBeSecond && batch.taskIds[0] !== undefined) {
      // The first try may have succeeded. The tasks then belong to its batch, not to the one of this answer.
      batch.id = (await this.get(batch.taskIds[0], options)).batchId ?? batch.id;
    }
    return batch;
  }

  /**
   * Submits one task and waits until it has ended.
   *
   * @returns The result of the task, undefined if it has none.
   * @throws TaskFailed if the task does not end as `done`; otherwise as `submit` and `wait`.
   */
  async run(task: NewSingleTask, options: GiveUp = {}): Promise<JsonValue | undefined> {
    const { taskId } = await this.submit(task, options);
    const ended = await this.wait(taskId, options);
    if (ended.state !== "done") throw new TaskFailed(ended);
    return ended.result;
  }

  // Reading

  /**
   * One task as it stands.
   *
   * @throws TaskyardError `not_found`.
   */
  async get(taskId: string, options: GiveUp = {}): Promise<Task> {
    return taskFrom(await this.stubs.tasks.getTask({ taskId }, { signal: options.signal }));
  }

  /**
   * Waits until a task has ended.
   *
   * @param taskId The task.
   * @param options `timeoutMs`: how long to wait at most, in milliseconds, default without limit. `signal`: gives the
   *   call up.
   * @returns The task as it ended.
   * @throws TaskyardError `not_found`, and `deadline_exceeded` if the task has not ended within `timeoutMs`.
   * @throws RangeError if `timeoutMs` is not a number.
   */
  async wait(taskId: string, options: GiveUp & { timeoutMs?: number } = {}): Promise<Task> {
    const timeoutMs = options.timeoutMs ?? Number.POSITIVE_INFINITY;
    if (Number.isNaN(timeoutMs)) throw new RangeError("timeoutMs: must be a number");
    const until = performance.now() + timeoutMs;
    const late = (state: string) =>
      new TaskyardError("deadline_exceeded", `${taskId} ${state}, it has not ended in time`);
    const [call, end] = this.#calls.begin(options.signal);
    const timer =
      timeoutMs + WAIT_GRACE_MS > MAX_TIMER_MS
        ? undefined
        : setTimeout(() => call.abort(late("was not reached")), timeoutMs + WAIT_GRACE_MS);
    try {
      for (;;) {
        const waitMs = Math.round(Math.min(Math.max(until - performance.now(), 0), MAX_WAIT_MS));
        const callOptions = { signal: call.signal, timeoutMs: this.#calls.timeoutMs + waitMs };
        const { task, ended } = await this.stubs.tasks.waitTask({ taskId, timeoutMs: waitMs }, callOptions);
        if (ended && task) return taskFrom(task);
        if (performance.now() >= until) throw late(`is ${stateOf(task?.state)}`);
      }
    } finally {
      clearTimeout(timer);
      end();
    }
  }

  /**
   * Lists the retained tasks that match all given filters, in order of submission unless the options say otherwise.
   * Reads page after page as needed.
   */
  async *list(options: ListOptions = {}): AsyncGenerator<Task, void, undefined> {
    const { agent: agentId, states, createdFrom, createdUntil, signal, ...others } = options;
    const filters = {
      ...others,
      agentId,
      state: states?.join(","),
      createdFrom: timestampFrom(createdFrom),
      createdUntil: timestampFrom(createdUntil),
    };
    let pageToken: string | undefined;
    do {
      const request = { ...filters, pageToken };
      const page = await this.stubs.tasks.listTasks(request, { signal });
      yield* page.tasks.map(taskFrom);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /**
   * One batch as it stands, with all of its retained tasks.
   *
   * @throws TaskyardError `not_found`.
   */
  async getBatch(batchId: string, options: GiveUp = {}): Promise<Batch> {
    const pages: GetBatchResponse[] = [];
    let pageToken: string | undefined;
    do {
      const page = await this.stubs.batches.getBatch({ batchId, pageToken }, { signal: options.signal });
      pages.push(page);
      pageToken = page.nextPageToken;
    } while (pageToken);
    return batchFrom(batchId, pages);
  }

  /** The figures of the client's namespace. */
  stats(options: GiveUp = {}): Promise<GetStatsResponse> {
    return this.stubs.stats.getStats({}, { signal: options.signal });
  }

  /**
   * Watches the tasks that match all given filters, from the first read on or after `cursor`. `break` ends the watch.
   *
   * After a broken connection the watch continues without a gap or a repeat. If the server's log no longer reaches back
   * to the cursor, all tasks are listed again, as events of the kind `current`.
   *
   * @throws TaskyardError `unavailable` after an outage of more than `patienceMs`; another watch can continue at the
   *   cursor of the last event.
   */
  async *watch(options: WatchOptions = {}): AsyncGenerator<TaskEvent, void, undefined> {
    const [call, end] = this.#calls.begin(options.signal);
    const open = (request: Parameters<Stub<typeof TaskService>["watchTasks"]>[0], signal: AbortSignal) =>
      this.stubs.tasks.watchTasks(request, { signal });
    try {
      const renew = () => this.#calls.renew();
      const linked = { ...options, signal: call.signal };
      yield* watchEvents(open, linked, this.#calls.patienceMs, undefined, undefined, renew);
    } finally {
      end();
    }
  }

  // Interrupting and ending

  /**
   * Cancels a task at once.
   *
   * @returns The state of the task.
   * @throws TaskyardError `not_found`, `conflict` if the task has ended.
   */
  cancel(taskId: string, options: GiveUp = {}): Promise<TaskState> {
    const call = (signal?: AbortSignal) => this.stubs.tasks.cancelTask({ taskId }, { signal });
    return this.#transition(call, taskId, "cancelled", options);
  }

  /**
   * Cancels every task of a batch that has not ended.
   *
   * @returns The number of tasks that were cancelled.
   * @throws TaskyardError `not_found`.
   */
  async cancelBatch(batchId: string, options: GiveUp = {}): Promise<number> {
    return (await this.stubs.batches.cancelBatch({ batchId }, { signal: options.signal })).cancelled ?? 0;
  }

  /**
   * Interrupts a task that is assigned or running. It becomes paused, or failed if it is over its token limit.
   *
   * @returns The state of the task.
   * @throws TaskyardError `not_found`, `conflict` if the task does not run.
   */
  pause(taskId: string, options: GiveUp = {}): Promise<TaskState> {
    const call = (signal?: AbortSignal) => this.stubs.tasks.pauseTask({ taskId }, { signal });
    return this.#transition(call, taskId, "paused", options);
  }

  /**
   * Queues a paused or failed task again, or releases a held one. The call is not repeated while the server is
   * unavailable: a repeat could resume a new failure.
   *
   * @param taskId The task.
   * @param options `tokenLimit`: the tokens that the task may use from now on, over all its attempts and runs, 0 to
   *   4,294,967,295; default the limit that it has. A task that failed over its limit needs one above its `tokensUsed`.
   *   `signal`: gives the call up.
   * @returns The state of the task: queued or pending.
   * @throws TaskyardError `not_found`, `conflict` if the task is neither paused, failed nor held.
   * @throws RangeError if `tokenLimit` is not a whole number in that range.
   */
  async resume(taskId: string, options: GiveUp & { tokenLimit?: number } = {}): Promise<TaskState> {
    const { tokenLimit, signal } = options;
    if (tokenLimit !== undefined) checkCount("tokenLimit", tokenLimit);
    return stateOf((await this.stubs.tasks.resumeTask({ taskId, tokenLimit }, { signal })).status);
  }

  /**
   * Resumes a task as `resume` does, provided that it belongs to a target.
   *
   * @param target The target.
   * @param taskId The task.
   * @param options Those of `resume`.
   * @returns The state of the task: queued or pending.
   * @throws TaskyardError `not_found`, also for a task of another target; `conflict` if the task is neither paused,
   *   failed nor held.
   * @throws RangeError if `tokenLimit` is not a whole number of 0 to 4,294,967,295.
   */
  async resumeTargetTask(
    target: string,
    taskId: string,
    options: GiveUp & { tokenLimit?: number } = {},
  ): Promise<TaskState> {
    const { tokenLimit, signal } = options;
    if (tokenLimit !== undefined) checkCount("tokenLimit", tokenLimit);
    return stateOf((await this.stubs.targets.resumeTargetTask({ target, taskId, tokenLimit }, { signal })).status);
  }

  /**
   * Ends a paused or failed task as `done`.
   *
   * @param taskId The task.
   * @param result The result of the task, any JSON value. Default none.
   * @param options `signal`: gives the call up.
   * @returns The state of the task.
   * @throws TaskyardError `not_found`, `conflict` if the task is neither paused nor failed, `too_large` for the result.
   * @throws TypeError if the result is not JSON.
   */
  async resolve(taskId: string, result?: unknown, options: GiveUp = {}): Promise<TaskState> {
    const request = { taskId, result: result === undefined ? undefined : valueFrom(result) };
    const call = (signal?: AbortSignal) => this.stubs.tasks.resolveTask(request, { signal });
    return this.#transition(call, taskId, "done", options);
  }

  /** Makes a call that brings a task to a state, in which the same call is a conflict. */
  #transition(
    call: (signal: AbortSignal | undefined) => Promise<{ status?: Task_State }>,
    taskId: string,
    state: TaskState,
    { signal }: GiveUp,
  ): Promise<TaskState> {
    return this.#calls.repeated(async (isInDoubt, linked) => {
      try {
        return stateOf((await call(linked)).status);
      } catch (thrown) {
        const error = errorFrom(thrown);
        // A try before this one may have succeeded, and its answer was lost.
        const isOwnDoing = error.code === "conflict" && isInDoubt;
        if (isOwnDoing && (await this.get(taskId, { signal })).state === state) return state;
        throw error;
      }
    }, signal);
  }
}
