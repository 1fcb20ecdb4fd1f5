/** The client: submit tasks, follow them and end them. */
import { create, type JsonValue } from "@bufbuild/protobuf";
import { type Client as Stub, createClient, type Transport } from "@connectrpc/connect";
import { type CallOptions, Calls } from "./calls.js";
import { errorFrom, errorFromMessage, TaskyardError } from "./errors.js";
import { AdminService } from "./gen/taskyard/v1/admin_pb.js";
import { BatchService, SubmitBatchRequestSchema } from "./gen/taskyard/v1/batch_pb.js";
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
import { dateOf, valueFrom } from "./values.js";
import { type TaskEvent, watchEvents, type WatchOptions } from "./watching.js";

/** How long one WaitTask waits: proxies end calls that are quiet for a minute. */
const WAIT_PIECE_MS = 20_000;

/** How much later than the caller's time the server's last answer may come. */
const WAIT_GRACE_MS = 2_000;

/** What every client can be told, whatever its transport. */
export interface ClientOptions extends CallOptions {
  /** The agent that submits the tasks which name no other. */
  agent?: string;
}

/** A call that its caller can give up; it then throws `cancelled`, and the server may have done what was asked. */
export interface GiveUp {
  signal?: AbortSignal;
}

/** What a client has to know of its transport. */
export interface Wire {
  /** Called when the client is closed. */
  disconnect?: () => void;
  /** Whether submits that are made at the same time share a stream: not over gRPC-Web. Default false. */
  sharesSubmits?: boolean;
}

/** Which tasks to list. An absent filter selects all. */
export interface ListOptions extends GiveUp {
  agent?: string;
  states?: TaskState[];
  batchId?: string;
  target?: string;
  /** At most 1,000, the default. */
  pageSize?: number;
}

/** How one task of a batch fared. */
export interface BatchOutcome {
  state: TaskState;
  /** Undefined if the task was refused and is not kept. */
  taskId: string | undefined;
  position: number | undefined;
  /** Why it was refused; undefined if it was accepted. */
  error: TaskyardError | undefined;
}

/** A batch just after its submission: one outcome for each task, in their order. */
export interface SubmittedBatch {
  id: string;
  outcomes: BatchOutcome[];
  /** The tasks that were accepted, in their order. */
  taskIds: string[];
}

/** A batch as it stood when the server answered. */
export interface Batch {
  id: string;
  agent: string;
  createdAt: Date;
  /** Counts its retained tasks. */
  states: Partial<Record<TaskState, number>>;
  ended: boolean;
  /** Its retained tasks, in the order of the request. */
  tasks: Task[];
}

/** A task did not end as done; `task` tells how it ended. */
export class TaskFailed extends Error {
  override readonly name = "TaskFailed";
  readonly task: Task;

  constructor(task: Task) {
    super(`${task.id} is ${task.state}: ${task.error ?? "no reason given"}`);
    this.task = task;
  }
}

/**
 * Calls a Taskyard server. Make it with `connect`, and close it when done.
 *
 * A call that has no answer in time throws `deadline_exceeded`. Where a repeat is safe, a call is repeated while the
 * server is unavailable, for as long as the client's patience; then it throws `unavailable`.
 *
 * Every method throws a `TaskyardError` for what the server refuses; its comment names the codes beside `bad_request`,
 * `unauthenticated`, `permission_denied`, `unavailable`, `deadline_exceeded`, `internal`, and `cancelled` once the client
 * is closed.
 */
export class Client {
  /** The raw stubs, for what has no method here. They have the client's namespace, token, times, retries and errors. */
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

  /** A client over a transport of your own. Throws TypeError or RangeError for options that no call can be made with. */
  constructor(transport: Transport, options: ClientOptions = {}, { disconnect, sharesSubmits }: Wire = {}) {
    this.#calls = new Calls(transport, options);
    // Calls of their own, since they are not ended when the client is closed.
    this.#submitter = new Submitter(new Calls(transport, options), sharesSubmits ?? false);
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
   * End all calls and watches as `cancelled`, but wait until what was submitted is answered; then end the connection. The
   * process can then exit.
   */
  async close(): Promise<void> {
    this.#calls.close();
    await this.#submitter.settled();
    this.#disconnect();
  }

  // Submitting

  /**
   * Submit one task. Without an `idempotencyKey` it is given one, and is made once, however often the connection breaks.
   * In Node, tasks that are submitted at the same time travel together: a thousand at once cost little more than a batch.
   *
   * Throws `queue_full` (with the id of the task, which is kept as rejected), `too_large` for the params,
   * `already_exists` for a key of another task, and TypeError for params that are not JSON.
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
   * Submit several tasks of one agent as a batch, each admitted by itself; the answer says how each fared.
   *
   * Throws `batch_too_large`, `too_large` for the params of a task, and `bad_request` where any task is malformed; then
   * nothing was submitted.
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
    let isRepeat = false;
    const answer = await this.#calls.repeated((attempt) => {
      isRepeat = attempt > 1;
      return this.stubs.batches.submitBatch(request, { signal: options.signal });
    }, options.signal);
    const outcomes = answer.tasks.map((each) => ({
      state: stateOf(each.state),
      taskId: each.taskId,
      position: each.position,
      error: each.error && errorFromMessage(each.error, each.taskId),
    }));
    const taskIds = outcomes.flatMap(({ taskId, error }) => (taskId !== undefined && !error ? [taskId] : []));
    let id = answer.batchId ?? "";
    if (isRepeat && taskIds[0] !== undefined) {
      // The try before may have worked: its batch then holds the tasks, not the one that was answered.
      id = (await this.get(taskIds[0], options)).batchId ?? id;
    }
    return { id, outcomes, taskIds };
  }

  /**
   * Submit one task, wait until it has ended, and answer its result.
   *
   * Throws `TaskFailed` if it did not end as done, and what `submit` and `wait` throw.
   */
  async run(task: NewSingleTask, options: GiveUp = {}): Promise<JsonValue | undefined> {
    const { taskId } = await this.submit(task, options);
    const ended = await this.wait(taskId, options);
    if (ended.state !== "done") throw new TaskFailed(ended);
    return ended.result;
  }

  // Looking

  /** One task as it stands. Throws `not_found`. */
  async get(taskId: string, options: GiveUp = {}): Promise<Task> {
    return taskFrom(await this.stubs.tasks.getTask({ taskId }, { signal: options.signal }));
  }

  /**
   * The task once it has ended, however long that takes unless `timeoutMs` is given.
   *
   * Throws `not_found`, and `deadline_exceeded` when the task has not ended in time.
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
        const piece = Math.round(Math.min(Math.max(until - performance.now(), 0), WAIT_PIECE_MS));
        const callOptions = { signal: call.signal, timeoutMs: this.#calls.timeoutMs + piece };
        const { task, ended } = await this.stubs.tasks.waitTask({ taskId, timeoutMs: piece }, callOptions);
        if (ended && task) return taskFrom(task);
        if (performance.now() >= until) throw late(`is ${stateOf(task?.state)}`);
      }
    } finally {
      clearTimeout(timer);
      end();
    }
  }

  /** The retained tasks that match all given filters, in order of submission, page after page. */
  async *list(options: ListOptions = {}): AsyncGenerator<Task, void, undefined> {
    const { agent: agentId, states, batchId, target, pageSize, signal } = options;
    let pageToken: string | undefined;
    do {
      const request = { agentId, state: states?.join(","), batchId, target, pageSize, pageToken };
      const page = await this.stubs.tasks.listTasks(request, { signal });
      yield* page.tasks.map(taskFrom);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** How a batch stands, with all of its retained tasks. Throws `not_found`. */
  async getBatch(batchId: string, options: GiveUp = {}): Promise<Batch> {
    const tasks: Task[] = [];
    let pageToken: string | undefined;
    for (;;) {
      const page = await this.stubs.batches.getBatch({ batchId, pageToken }, { signal: options.signal });
      tasks.push(...page.tasks.map(taskFrom));
      pageToken = page.nextPageToken;
      if (pageToken) continue;
      return {
        id: page.batchId ?? batchId,
        agent: page.agentId ?? "",
        createdAt: dateOf(page.createdAt) ?? new Date(0),
        states: { ...page.states },
        ended: page.ended ?? false,
        tasks,
      };
    }
  }

  /** The figures of the client's namespace. */
  stats(options: GiveUp = {}): Promise<GetStatsResponse> {
    return this.stubs.stats.getStats({}, { signal: options.signal });
  }

  /**
   * What happens to the tasks that match all given filters, from the first read on, or after `cursor` of an earlier
   * event. With `untilEnded` it ends once all tasks of `taskIds` or `batchId` have ended, else never; `break` closes it.
   *
   * Broken connections are resumed without gap or repeat; where the server's log no longer reaches back so far, all
   * tasks are told anew, by events of the kind `current`.
   *
   * Throws `unavailable` after an outage longer than the client's patience; the last event's cursor is where to go on.
   */
  async *watch(options: WatchOptions = {}): AsyncGenerator<TaskEvent, void, undefined> {
    const [call, end] = this.#calls.begin(options.signal);
    const open = (request: Parameters<Stub<typeof TaskService>["watchTasks"]>[0], signal: AbortSignal) =>
      this.stubs.tasks.watchTasks(request, { signal });
    try {
      yield* watchEvents(open, { ...options, signal: call.signal }, this.#calls.patienceMs);
    } finally {
      end();
    }
  }

  // Ending and interrupting

  /** Cancel a task at once. Throws `not_found`, and `conflict` if it has ended. */
  cancel(taskId: string, options: GiveUp = {}): Promise<TaskState> {
    return this.#move((signal) => this.stubs.tasks.cancelTask({ taskId }, { signal }), taskId, "cancelled", options);
  }

  /** Cancel every task of a batch that has not ended; how many that were. Throws `not_found`. */
  async cancelBatch(batchId: string, options: GiveUp = {}): Promise<number> {
    return (await this.stubs.batches.cancelBatch({ batchId }, { signal: options.signal })).cancelled ?? 0;
  }

  /**
   * Interrupt a task that is assigned or running; it becomes paused, or failed if over its token budget.
   *
   * Throws `not_found`, and `conflict` if it does not run.
   */
  pause(taskId: string, options: GiveUp = {}): Promise<TaskState> {
    return this.#move((signal) => this.stubs.tasks.pauseTask({ taskId }, { signal }), taskId, "paused", options);
  }

  /**
   * Queue a paused or failed task again, or release a held one; it becomes queued or pending.
   *
   * It is not repeated by itself: that could resume a new failure. Throws `not_found`, and `conflict` if the task is
   * neither paused, failed nor held.
   */
  async resume(taskId: string, options: GiveUp = {}): Promise<TaskState> {
    return stateOf((await this.stubs.tasks.resumeTask({ taskId }, { signal: options.signal })).status);
  }

  /**
   * End a paused or failed task as done, with a result unless that is undefined.
   *
   * Throws `not_found`, `conflict` if it is neither paused nor failed, `too_large` for the result, and TypeError for one
   * that is not JSON.
   */
  async resolve(taskId: string, result?: unknown, options: GiveUp = {}): Promise<TaskState> {
    const request = { taskId, result: result === undefined ? undefined : valueFrom(result) };
    return this.#move((signal) => this.stubs.tasks.resolveTask(request, { signal }), taskId, "done", options);
  }

  /** A call that leads a task to a state, after which the same call would be a conflict. */
  #move(
    call: (signal: AbortSignal | undefined) => Promise<{ status?: Task_State }>,
    taskId: string,
    aim: TaskState,
    { signal }: GiveUp,
  ): Promise<TaskState> {
    return this.#calls.repeated(async (attempt) => {
      try {
        return stateOf((await call(signal)).status);
      } catch (thrown) {
        const error = errorFrom(thrown);
        // After a lost answer it may be the call's own doing.
        if (error.code === "conflict" && attempt > 1 && (await this.get(taskId, { signal })).state === aim) return aim;
        throw error;
      }
    }, signal);
  }
}
