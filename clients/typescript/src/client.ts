/** The client: submit tasks, follow them, interrupt and end them. */
import { create, type JsonValue } from "@bufbuild/protobuf";
import type { Client as Stub, Transport } from "@connectrpc/connect";
import { Artifacts } from "./artifacts.js";
import { type Batch, batchFrom, type SubmittedBatch, submittedBatchFrom } from "./batches.js";
import { Calls } from "./calls.js";
import type { ClientOptions, EndOptions, GiveUp, ListOptions } from "./client_options.js";
import type { RunOptions, SubmitOptions, Wire } from "./client_options.js";
import { type GetBatchResponse, SubmitBatchRequestSchema } from "./gen/taskyard/v1/batch_pb.js";
import type { OutputService } from "./gen/taskyard/v1/output_pb.js";
import type { GetStatsResponse } from "./gen/taskyard/v1/stats_pb.js";
import type { TaskService } from "./gen/taskyard/v1/task_pb.js";
import { LargeParams, refusedBatch } from "./large_params.js";
import { listTasks, pagesOf } from "./listing.js";
import { failureOf } from "./outcomes.js";
import { OutageLog } from "./outage_log.js";
import { outputOf } from "./payloads.js";
import type { Stopping } from "./queueing.js";
import { type OutputChunk, type OutputOptions, readChunks } from "./reading.js";
import { RunCalls } from "./run_calls.js";
import { portableHash } from "./sha256.js";
import { stubsOver } from "./stubs.js";
import {
  fieldsOf,
  type NewSingleTask,
  type NewTask,
  stateOf,
  type Submitted,
  submittedFrom,
  submitRequest,
  type Task,
  taskFrom,
  type TaskState,
} from "./tasks.js";
import { untilRoom } from "./retrying.js";
import { Submitter } from "./submitting.js";
import { stop, transition } from "./transitions.js";
import { checkCount, valueFrom } from "./values.js";
import { waitUntilEnded } from "./waiting.js";
import { type TaskEvent, watchEvents, type WatchOptions } from "./watching.js";

/** How long the cancel of a task may take for which nobody waits any more. */
const CANCEL_MS = 5_000;

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
export class Client extends RunCalls {
  /** The artifacts of tasks: values of any size under a name. */
  readonly artifacts: Artifacts;
  readonly #calls: Calls;
  readonly #submissions: LargeParams;
  readonly #agentId: string;
  readonly #parentId: () => string | undefined;
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
    const { disconnect, sharesSubmits, credentials, server, parentId, newHash = portableHash } = wire;
    const outages = new OutageLog(options.logger, server);
    const calls = new Calls(transport, options, undefined, credentials, outages);
    super(calls);
    this.#calls = calls;
    // Calls of its own: closing the client does not end them.
    const submits = new Calls(transport, options, undefined, credentials, outages);
    const [submitter, stubs] = [new Submitter(submits, sharesSubmits ?? false), stubsOver(submits)];
    const params = new Artifacts(submits, stubs, newHash);
    this.#submissions = new LargeParams(submitter, submits, stubs, params, newHash);
    this.#agentId = options.agentId ?? options.agent ?? "";
    this.#parentId = parentId ?? (() => undefined);
    this.#disconnect = disconnect ?? (() => {});
    this.artifacts = new Artifacts(calls, this.stubs, newHash);
  }

  /**
   * Ends all calls and watches as `cancelled`, waits for the answers to submitted tasks, then closes the connection. The
   * process can then exit.
   */
  async close(): Promise<void> {
    this.#calls.close();
    await this.#submissions.settled();
    this.#disconnect();
  }

  // Submitting

  /**
   * Submits one task. Without an `idempotencyKey` the client generates one, so that the task is made once however often
   * the connection breaks. In Node, tasks that are submitted at the same time share a stream: a thousand of them cost
   * little more than a batch. Within a handler, in Node, the task of the handler is the parent. Params of more than 256 KiB
   * become an artifact of the task, and its handler sees the value.
   *
   * @throws TaskyardError `queue_full` (with the id of the task, if it is kept as rejected), `too_large` for params that are
   *   too large for an artifact too, or where the server keeps none, `already_exists` if another task has the key, `not_found` for a task in `after` or `inputs`. With `retryAfterMs` where the server says when to try again.
   * @throws TypeError if the params are not JSON, or hold a `bigint` beyond 2^53; it names the field.
   */
  async submit(task: NewSingleTask, options: SubmitOptions = {}): Promise<Submitted> {
    this.#calls.checkOpen();
    const { signal, whenFull } = options;
    const request = submitRequest(task, this.#agentId, this.#parentId());
    const submitOnce = () => this.#submissions.submit(request, Boolean(task.idempotencyKey), signal);
    return submittedFrom(await (whenFull === "wait" ? untilRoom(submitOnce, signal) : submitOnce()));
  }

  /**
   * Submits several tasks of one agent as a batch. Each is admitted or refused by itself, see the outcomes.
   *
   * @param tasks The tasks, at most the server's `maxBatchSize` (50).
   * @param options `agentId`: default the client's. `callbackUrl`: the URL that each task is posted to when it ends,
   *   default none. `signal`: gives the call up.
   * @throws TaskyardError `batch_too_large`, `too_large` for the params of a task, which `submit` takes, `bad_request` if any task is malformed.
   *   Then no task was submitted.
   * @throws TypeError if the params of a task are not JSON.
   */
  async submitBatch(
    tasks: NewTask[],
    options: GiveUp & { agentId?: string /** @deprecated Use `agentId`. */; agent?: string; callbackUrl?: string } = {},
  ): Promise<SubmittedBatch> {
    const parentId = this.#parentId();
    const request = create(SubmitBatchRequestSchema, {
      agentId: options.agentId ?? options.agent ?? this.#agentId,
      callbackUrl: options.callbackUrl,
      tasks: tasks.map((task) => fieldsOf(task, parentId)),
    });
    let mayBeSecond = false;
    const answer = await this.#calls.repeated((isInDoubt, signal) => {
      mayBeSecond = isInDoubt;
      return this.stubs.batches.submitBatch(request, { signal }).catch(refusedBatch);
    }, options.signal);
    const batch = submittedBatchFrom(answer);
    if (mayBeSecond && batch.taskIds[0] !== undefined) {
      // The first try may have succeeded. The tasks then belong to its batch, not to the one of this answer.
      batch.id = (await this.get(batch.taskIds[0], options)).batchId ?? batch.id;
    }
    return batch;
  }

  /**
   * Submits one task and waits until it has ended. When the signal aborts meanwhile, the task is cancelled, unless
   * `cancelOnExit` is false, or it had the unique key before (`existing`). When it aborts before the submission was answered, the task may exist and go on.
   *
   * @returns The output of the task, undefined if it has none. Integers that no `number` holds are `bigint`, which only
   *   tasks of handlers with an `Output` have.
   * @throws TaskFailed if the task does not end as `done`, TaskCancelled if it was cancelled, TaskLost if the server was
   *   started anew without a store; otherwise as `submit` and `wait`.
   */
  async run<O = JsonValue>(task: NewSingleTask, options: RunOptions = {}): Promise<O | undefined> {
    const { signal, cancelOnExit = true } = options;
    const { id, existing } = await this.submit(task, options);
    let ended: Task;
    try {
      ended = await this.#wait(id, { ...(signal && { signal }) }, true);
    } catch (error) {
      if (signal?.aborted && cancelOnExit && !existing) {
        // It may have ended meanwhile, and a client that is closed cannot cancel it.
        await this.cancel(id, { signal: AbortSignal.timeout(CANCEL_MS) }).catch(() => {});
      }
      throw error;
    }
    if (ended.state !== "done") throw failureOf(ended, task.deadline === undefined);
    return outputOf<O>(ended);
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
   * @returns The task as it ended. A result that is an artifact, since it is too large for a message, is fetched: it is the
   *   `output`.
   * @throws TaskyardError `not_found`, and `deadline_exceeded` if the task has not ended within `timeoutMs`.
   * @throws TaskLost if the server knew the task when the wait began, and does not any more.
   * @throws RangeError if `timeoutMs` is not a number.
   */
  wait(taskId: string, options: GiveUp & { timeoutMs?: number } = {}): Promise<Task> {
    return this.#wait(taskId, options, false);
  }

  #wait(taskId: string, options: GiveUp & { timeoutMs?: number }, isKnown: boolean): Promise<Task> {
    const whole = (task: Task, signal: AbortSignal) => this.artifacts.whole(task, signal);
    return waitUntilEnded(this.#calls, this.stubs.tasks, taskId, options, isKnown, whole);
  }

  /**
   * Lists the retained tasks that match all given filters, in order of submission unless the options say otherwise.
   * Reads page after page as needed.
   */
  list(options: ListOptions = {}): AsyncGenerator<Task, void, undefined> {
    return listTasks(this.stubs.tasks, options);
  }

  /**
   * One batch as it stands, with all of its retained tasks.
   *
   * @throws TaskyardError `not_found`.
   */
  async getBatch(batchId: string, options: GiveUp = {}): Promise<Batch> {
    const pages: GetBatchResponse[] = [];
    const read = (pageToken?: string) =>
      this.stubs.batches.getBatch({ batchId, pageToken }, { signal: options.signal });
    for await (const page of pagesOf(read)) pages.push(page);
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

  /**
   * What a task says while it runs, in order: live or later, the same. `break` ends the reading. It goes on after a broken
   * connection without a gap or a repeat.
   *
   * @throws TaskyardError `not_found`; `unavailable` after an outage of more than `patienceMs`.
   * @throws RangeError if `after` is not a whole number of 0 to 4,294,967,295.
   */
  async *output(taskId: string, options: OutputOptions = {}): AsyncGenerator<OutputChunk, void, undefined> {
    const [call, end] = this.#calls.begin(options.signal);
    const open = (request: Parameters<Stub<typeof OutputService>["readOutput"]>[0], signal: AbortSignal) =>
      this.stubs.outputs.readOutput(request, { signal });
    try {
      const renew = () => this.#calls.renew();
      yield* readChunks(open, taskId, options, { patienceMs: this.#calls.patienceMs, signal: call.signal, renew });
    } finally {
      end();
    }
  }

  // Interrupting and ending

  /**
   * Cancels a task at once; with `cancelChildren` also what its work has submitted, see `cancelWithChildren`.
   *
   * @returns The state of the task.
   * @throws TaskyardError `not_found`, `conflict` if the task has ended.
   */
  cancel(taskId: string, options: EndOptions & { cancelChildren?: boolean } = {}): Promise<TaskState> {
    const request = { taskId, cancelChildren: options.cancelChildren, reason: options.reason };
    const call = (signal?: AbortSignal) => this.stubs.tasks.cancelTask(request, { signal });
    return transition(this.#calls, this.stubs.tasks, call, taskId, "cancelled", options);
  }

  /**
   * Cancels a task as `cancel` does, and with it what its work has submitted and has not ended, what the work of those has
   * submitted, and so on.
   *
   * @returns How many tasks were cancelled beside the task itself; 0 if the answer was lost and the call was repeated.
   * @throws TaskyardError `not_found`, `conflict` if the task has ended.
   */
  async cancelWithChildren(taskId: string, options: EndOptions = {}): Promise<number> {
    let children = 0;
    const request = { taskId, cancelChildren: true, reason: options.reason };
    const call = async (signal?: AbortSignal) => {
      const answer = await this.stubs.tasks.cancelTask(request, { signal });
      children = answer.childrenCancelled ?? 0;
      return answer;
    };
    await transition(this.#calls, this.stubs.tasks, call, taskId, "cancelled", options);
    return children;
  }

  /**
   * Cancels a task as `cancel` does, and waits for its host to say that nothing of it runs any more.
   *
   * @param taskId The task.
   * @param waitMs How long to wait, in milliseconds, at most 60,000.
   * @param options `reason`: why, see `EndOptions`. `signal`: gives the call up; the task is cancelled all the same.
   * @returns Whether anything may still run; `waiting` too if the answer was lost and the call was repeated.
   * @throws TaskyardError `not_found`, `conflict` if the task has ended.
   * @throws RangeError if `waitMs` is not a whole number of 0 to 4,294,967,295.
   */
  cancelAndWait(taskId: string, waitMs: number, options: EndOptions = {}): Promise<Stopping> {
    const { tasks } = this.stubs;
    return stop(this.#calls, tasks, tasks.cancelTask, { taskId, waitMs, reason: options.reason }, "cancelled", options);
  }

  /**
   * Cancels every task of a batch that has not ended.
   *
   * @returns The number of tasks that were cancelled.
   * @throws TaskyardError `not_found`.
   */
  async cancelBatch(batchId: string, options: EndOptions = {}): Promise<number> {
    const { reason, signal } = options;
    return (await this.stubs.batches.cancelBatch({ batchId, reason }, { signal })).cancelled ?? 0;
  }

  /**
   * Interrupts a task that is assigned or running. It becomes paused, or failed if it is over its token limit.
   *
   * @returns The state of the task.
   * @throws TaskyardError `not_found`, `conflict` if the task does not run.
   */
  pause(taskId: string, options: EndOptions = {}): Promise<TaskState> {
    const call = (signal?: AbortSignal) => this.stubs.tasks.pauseTask({ taskId, reason: options.reason }, { signal });
    return transition(this.#calls, this.stubs.tasks, call, taskId, "paused", options);
  }

  /**
   * Interrupts a task as `pause` does, and waits as `cancelAndWait` does.
   *
   * @throws TaskyardError `not_found`, `conflict` if the task does not run.
   * @throws RangeError if `waitMs` is not a whole number of 0 to 4,294,967,295.
   */
  pauseAndWait(taskId: string, waitMs: number, options: EndOptions = {}): Promise<Stopping> {
    const { tasks } = this.stubs;
    return stop(this.#calls, tasks, tasks.pauseTask, { taskId, waitMs, reason: options.reason }, "paused", options);
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
   * @param options `reason`: why, see `EndOptions`. `signal`: gives the call up.
   * @returns The state of the task.
   * @throws TaskyardError `not_found`, `conflict` if the task is neither paused nor failed, `too_large` for the result.
   * @throws TypeError if the result is not JSON.
   */
  async resolve(taskId: string, result?: unknown, options: EndOptions = {}): Promise<TaskState> {
    const request = { taskId, result: result === undefined ? undefined : valueFrom(result), reason: options.reason };
    const call = (signal?: AbortSignal) => this.stubs.tasks.resolveTask(request, { signal });
    return transition(this.#calls, this.stubs.tasks, call, taskId, "done", options);
  }
}
