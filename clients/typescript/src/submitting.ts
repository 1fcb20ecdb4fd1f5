/**
 * Tasks that are submitted at the same time share the messages of one stream.
 *
 * Tasks that are submitted in one turn of the event loop, or while others are being sent, go into one message. A single
 * task has a call of its own and waits for nothing. A stream lives while answers are due, so an idle client has none.
 * Every task has an idempotency key: after a break only the tasks without an answer are submitted again, and no task is
 * made twice.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import { type Client as Stub, createClient } from "@connectrpc/connect";
import type { Calls } from "./calls.js";
import { errorFrom, errorFromOutcome, isTooMany, TaskyardError } from "./errors.js";
import {
  type SubmitTaskRequest,
  SubmitTaskRequestSchema,
  type SubmitTaskResponse,
  type SubmitTasksRequest,
  SubmitTasksRequestSchema,
  type SubmitTasksResponse,
  TaskService,
} from "./gen/taskyard/v1/task_pb.js";
import { abortError, MAX_TIMER_MS } from "./retrying.js";

/** The limits of a message, well below the largest one that a server reads. */
const MAX_TASKS = 50;
const MAX_BYTES = 1_000_000;
/** How many messages are sent before an answer. They hide the round trip; the limit bounds the memory on both sides. */
const MAX_UNANSWERED = 20;

/** One task to submit. It is settled once; after that nobody waits for its answer. */
interface Submission {
  request: SubmitTaskRequest;
  size: number;
  isSettled: boolean;
  resolve(answer: SubmitTaskResponse): void;
  reject(error: TaskyardError): void;
  /** Submits the task by a call of its own, because its stream gave no answer. */
  sendAlone(): void;
}

/** Submits tasks, together if the transport has client streams (gRPC-Web has none). */
export class Submitter {
  readonly #calls: Calls;
  readonly #stub: Stub<typeof TaskService>;
  readonly #isSharing: boolean;
  readonly #pending = new Set<Promise<SubmitTaskResponse>>();
  #waiting: Submission[] = [];
  /** Whether the waiting tasks are sent at the end of this turn of the event loop. */
  #isScheduled = false;
  /** The number of tasks that are being submitted by calls of their own. */
  #alone = 0;
  #stream: SubmitStream | undefined;

  constructor(calls: Calls, isSharing: boolean) {
    this.#calls = calls;
    this.#stub = createClient(TaskService, calls);
    this.#isSharing = isSharing;
  }

  /** Submits one task, which must have an idempotency key. Throws what SubmitTask throws. */
  async submit(request: SubmitTaskRequest, signal?: AbortSignal, size = sizeOf(request)): Promise<SubmitTaskResponse> {
    const answering = this.#calls.repeated(
      // A task that is too large for a message, or cannot be encoded, must not affect the others.
      (_, linked) =>
        !this.#isSharing || size === undefined || size > MAX_BYTES
          ? this.#call(request, linked)
          : this.#share(request, size, linked),
      signal,
    );
    this.#pending.add(answering);
    return answering.finally(() => this.#pending.delete(answering));
  }

  /** Resolves once all tasks that were submitted so far are answered or given up. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#pending);
  }

  #call(request: SubmitTaskRequest, signal: AbortSignal): Promise<SubmitTaskResponse> {
    this.#alone += 1;
    return this.#stub.submitTask(request, { signal }).finally(() => {
      this.#alone -= 1;
    });
  }

  #share(request: SubmitTaskRequest, size: number, signal: AbortSignal): Promise<SubmitTaskResponse> {
    return new Promise((resolve, reject) => {
      const giveUp = () => submission.reject(abortError(signal));
      const once = <V extends unknown[]>(settle: (...value: V) => void) => {
        return (...value: V) => {
          if (submission.isSettled) return;
          submission.isSettled = true;
          signal.removeEventListener("abort", giveUp);
          settle(...value);
        };
      };
      const submission: Submission = {
        request,
        size,
        isSettled: false,
        resolve: once(resolve),
        reject: once(reject),
        sendAlone: once(() => resolve(this.#call(request, signal))),
      };
      signal.addEventListener("abort", giveUp);
      if (signal.aborted) return giveUp();
      this.#waiting.push(submission);
      if (this.#stream) this.#stream.wake();
      else if (!this.#isScheduled) {
        this.#isScheduled = true;
        queueMicrotask(() => {
          this.#isScheduled = false;
          this.#send();
        });
      }
    });
  }

  /** Sends the waiting tasks: one by a call of its own, more by a stream. */
  #send(): void {
    const first = this.#nextMessage();
    if (!first.length) return;
    if (first.length === 1 && !this.#waiting.length && !this.#alone) {
      first[0]?.sendAlone();
      return;
    }
    const stream = new SubmitStream(first, {
      open: (messages, signal) => this.#stub.submitTasks(messages, { signal }),
      next: () => this.#nextMessage(),
      left: (error) => {
        if (this.#stream === stream) this.#stream = undefined;
        // While the server is unavailable another stream would fail too. Each task is retried by its own patience.
        if (error && isRefusedForNow(error)) for (const each of this.#waiting.splice(0)) each.reject(error);
        if (!this.#stream) this.#send();
      },
      timeoutMs: this.#calls.timeoutMs,
    });
    this.#stream = stream;
    void stream.run();
  }

  /** The waiting tasks that fit one message, without those that were given up. */
  #nextMessage(): Submission[] {
    const message: Submission[] = [];
    let [taken, size] = [0, 0];
    for (const each of this.#waiting) {
      if (message.length === MAX_TASKS || (message.length && size + each.size > MAX_BYTES)) break;
      taken += 1;
      if (each.isSettled) continue;
      message.push(each);
      size += each.size;
    }
    this.#waiting.splice(0, taken);
    return message;
  }
}

/** Where a stream gets its tasks from. */
interface Source {
  open(messages: AsyncIterable<SubmitTasksRequest>, signal: AbortSignal): AsyncIterable<SubmitTasksResponse>;
  next(): Submission[];
  /** The stream takes no more tasks: it has sent all, or it failed with the error. May be called twice. */
  left(error?: TaskyardError): void;
  /** How long the server may take to answer a message. */
  timeoutMs: number;
}

/** One stream, from its first message to the answer to its last. */
class SubmitStream {
  readonly #source: Source;
  readonly #stop = new AbortController();
  /** The messages without an answer, oldest first. */
  readonly #unanswered: { tasks: Submission[]; sentAt: number }[] = [];
  readonly #first: Submission[];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wakeWriter = () => {};
  #isOver = false;

  constructor(first: Submission[], source: Source) {
    this.#first = first;
    this.#source = source;
  }

  /** There may be another message to send. */
  wake(): void {
    this.#wakeWriter();
  }

  /** Sends tasks and settles them until all are answered. Never throws: after a failure the tasks are settled as well. */
  async run(): Promise<void> {
    this.#expectAnswer(this.#first);
    let broken: TaskyardError | undefined;
    try {
      for await (const answer of this.#source.open(this.#messages(), this.#stop.signal)) this.#settle(answer);
      if (this.#unanswered.length) throw new TaskyardError("unavailable", "the server ended the stream");
    } catch (thrown) {
      broken = errorFrom(thrown);
    }
    clearTimeout(this.#timer);
    this.#isOver = true;
    this.wake();
    for (const { tasks } of this.#unanswered.splice(0)) {
      for (const each of tasks) {
        // Any other error, such as a refusal of the whole stream, says nothing about a single task.
        if (broken && (isRefusedForNow(broken) || broken.code === "deadline_exceeded")) each.reject(broken);
        else each.sendAlone();
      }
    }
    this.#source.left(broken);
  }

  /** The messages to write. The transport asks for the next one when it has written the last; tasks gather meanwhile. */
  async *#messages(): AsyncGenerator<SubmitTasksRequest> {
    let tasks = this.#first;
    while (!this.#isOver) {
      if (tasks.length) yield create(SubmitTasksRequestSchema, { tasks: tasks.map(({ request }) => request) });
      tasks = this.#unanswered.length < MAX_UNANSWERED ? this.#source.next() : [];
      if (tasks.length) this.#expectAnswer(tasks);
      else if (!this.#unanswered.length) break;
      else {
        await new Promise<void>((resolve) => {
          this.#wakeWriter = resolve;
        });
      }
    }
    this.#source.left();
  }

  #settle({ outcomes }: SubmitTasksResponse): void {
    const tasks = this.#unanswered[0]?.tasks ?? [];
    if (tasks.length !== outcomes.length) {
      throw new TaskyardError("internal", "the server answered for other tasks than were sent");
    }
    this.#unanswered.shift();
    for (const [index, { outcome, rejectedTaskId }] of outcomes.entries()) {
      if (outcome.case === "accepted") tasks[index]?.resolve(outcome.value);
      else tasks[index]?.reject(errorFromOutcome(outcome.value, rejectedTaskId));
    }
    this.#restartTimer();
    this.wake();
  }

  #expectAnswer(tasks: Submission[]): void {
    this.#unanswered.push({ tasks, sentAt: performance.now() });
    if (this.#unanswered.length === 1) this.#restartTimer();
  }

  /** The server may take as long to answer the oldest message as it may take to answer a call. */
  #restartTimer(): void {
    clearTimeout(this.#timer);
    const [oldest] = this.#unanswered;
    if (!oldest) return;
    const abort = () => this.#stop.abort(new TaskyardError("deadline_exceeded", "the operation timed out"));
    const left = oldest.sentAt + this.#source.timeoutMs - performance.now();
    if (left < MAX_TIMER_MS) this.#timer = setTimeout(abort, left);
  }
}

/** Whether another stream would fail too. */
function isRefusedForNow(error: TaskyardError): boolean {
  return error.code === "unavailable" || isTooMany(error);
}

/** The size of a task in bytes; undefined if it cannot be encoded. */
export function sizeOf(request: SubmitTaskRequest): number | undefined {
  try {
    return toBinary(SubmitTaskRequestSchema, request).length;
  } catch {
    return undefined;
  }
}
