/**
 * Tasks that are submitted at the same time share the messages of one stream (DESIGN, Submitting fast).
 *
 * What is submitted in one turn, or while others are on their way, goes into one message; a task that is alone has a call
 * of its own and waits for nothing. A stream lives for as long as it owes answers, so that an idle client holds none.
 * Every task carries an idempotency key: after a break only what has no answer is submitted again, and nothing is made
 * twice.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import { type Client as Stub, createClient } from "@connectrpc/connect";
import type { Calls } from "./calls.js";
import { errorFrom, errorFromOutcome, TaskyardError } from "./errors.js";
import {
  type SubmitTaskRequest,
  SubmitTaskRequestSchema,
  type SubmitTaskResponse,
  type SubmitTasksRequest,
  SubmitTasksRequestSchema,
  type SubmitTasksResponse,
  TaskService,
} from "./gen/taskyard/v1/task_pb.js";
import { givenUp, MAX_TIMER_MS } from "./retrying.js";

/** The most that shares a message; a server takes 8 MiB. */
const MAX_TASKS = 50;
const MAX_BYTES = 1_000_000;
/** Messages on their way. They hide the time of a round trip; the bound keeps memory small here and there. */
const MAX_UNANSWERED = 20;

/** One task on its way. It is settled once; its submitter may have given up on it. */
interface Submission {
  request: SubmitTaskRequest;
  size: number;
  isSettled: boolean;
  accept(answer: SubmitTaskResponse): void;
  refuse(error: TaskyardError): void;
  /** Nothing is known of it: it is submitted by a call of its own. */
  sendAlone(): void;
}

/** Submits single tasks, together where the transport has streams of the client (gRPC-Web has none). */
export class Submitter {
  readonly #calls: Calls;
  readonly #stub: Stub<typeof TaskService>;
  readonly #isSharing: boolean;
  readonly #pending = new Set<Promise<SubmitTaskResponse>>();
  #waiting: Submission[] = [];
  /** Whether what waits is looked at when this turn ends. */
  #isTurnOpen = false;
  #alone = 0;
  #stream: SubmitStream | undefined;

  constructor(calls: Calls, isSharing: boolean) {
    this.#calls = calls;
    this.#stub = createClient(TaskService, calls);
    this.#isSharing = isSharing;
  }

  /** The server's acceptance of one task, which must have an idempotency key. It throws what SubmitTask throws. */
  async submit(request: SubmitTaskRequest, signal?: AbortSignal): Promise<SubmitTaskResponse> {
    const size = this.#isSharing ? sizeOf(request) : undefined;
    const answering = this.#calls.repeated(
      // One that is too large for a message, or that cannot be encoded, must not be the others' harm.
      (_, linked) =>
        size === undefined || size > MAX_BYTES ? this.#call(request, linked) : this.#share(request, size, linked),
      signal,
    );
    this.#pending.add(answering);
    return answering.finally(() => this.#pending.delete(answering));
  }

  /** Resolves once all that was submitted so far is answered or given up. */
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
      const giveUp = () => submission.refuse(givenUp(signal));
      const settle = <V extends unknown[]>(act: (...value: V) => void) => {
        return (...value: V) => {
          if (submission.isSettled) return;
          submission.isSettled = true;
          signal.removeEventListener("abort", giveUp);
          act(...value);
        };
      };
      const submission: Submission = {
        request,
        size,
        isSettled: false,
        accept: settle(resolve),
        refuse: settle(reject),
        sendAlone: settle(() => resolve(this.#call(request, signal))),
      };
      signal.addEventListener("abort", giveUp);
      if (signal.aborted) return giveUp();
      this.#waiting.push(submission);
      if (this.#stream) this.#stream.awaken();
      else if (!this.#isTurnOpen) {
        this.#isTurnOpen = true;
        queueMicrotask(() => {
          this.#isTurnOpen = false;
          this.#send();
        });
      }
    });
  }

  /** Have all that waits sent. */
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
        // Without a server no other stream does better; each task has its own patience.
        if (error?.code === "unavailable") for (const each of this.#waiting.splice(0)) each.refuse(error);
        if (!this.#stream) this.#send();
      },
      timeoutMs: this.#calls.timeoutMs,
    });
    this.#stream = stream;
    void stream.run();
  }

  /** As much of what waits as may share a message, without what nobody waits for any more. */
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

/** Where a stream gets its messages from, and whom it tells that it takes no more. */
interface Source {
  open(messages: AsyncIterable<SubmitTasksRequest>, signal: AbortSignal): AsyncIterable<SubmitTasksResponse>;
  next(): Submission[];
  /** Without an error when it has sent all there was. It may be told twice. */
  left(error?: TaskyardError): void;
  /** How long the server may owe an answer. */
  timeoutMs: number;
}

/** One stream, from its first message until the server has answered its last. */
class SubmitStream {
  readonly #source: Source;
  readonly #stop = new AbortController();
  /** The messages that the server owes an answer for, the oldest first. */
  readonly #unanswered: { tasks: Submission[]; sentAt: number }[] = [];
  readonly #first: Submission[];
  #late: ReturnType<typeof setTimeout> | undefined;
  #wake = () => {};
  #isOver = false;

  constructor(first: Submission[], source: Source) {
    this.#first = first;
    this.#source = source;
  }

  /** There is something to send, or room for it. */
  awaken(): void {
    this.#wake();
  }

  /** Send and settle until all is answered. What a stream that breaks leaves behind is settled too; it never throws. */
  async run(): Promise<void> {
    this.#owe(this.#first);
    let broken: TaskyardError | undefined;
    try {
      for await (const answer of this.#source.open(this.#messages(), this.#stop.signal)) this.#settle(answer);
      if (this.#unanswered.length) throw new TaskyardError("unavailable", "the server ended the stream");
    } catch (thrown) {
      broken = errorFrom(thrown);
    }
    clearTimeout(this.#late);
    this.#isOver = true;
    this.awaken();
    for (const { tasks } of this.#unanswered.splice(0)) {
      for (const each of tasks) {
        // Any other end, a refusal of the whole stream for one, says nothing of a single task.
        if (broken?.code === "unavailable" || broken?.code === "deadline_exceeded") each.refuse(broken);
        else each.sendAlone();
      }
    }
    this.#source.left(broken);
  }

  /** The transport asks for the next message when it has written the last; meanwhile more tasks come together. */
  async *#messages(): AsyncGenerator<SubmitTasksRequest> {
    let tasks = this.#first;
    while (!this.#isOver) {
      if (tasks.length) yield create(SubmitTasksRequestSchema, { tasks: tasks.map(({ request }) => request) });
      tasks = this.#unanswered.length < MAX_UNANSWERED ? this.#source.next() : [];
      if (tasks.length) this.#owe(tasks);
      else if (!this.#unanswered.length) break;
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
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
      if (outcome.case === "accepted") tasks[index]?.accept(outcome.value);
      else tasks[index]?.refuse(errorFromOutcome(outcome.value, rejectedTaskId));
    }
    this.#watchTime();
    this.awaken();
  }

  #owe(tasks: Submission[]): void {
    this.#unanswered.push({ tasks, sentAt: performance.now() });
    if (this.#unanswered.length === 1) this.#watchTime();
  }

  /** The oldest message has as much time as a call. */
  #watchTime(): void {
    clearTimeout(this.#late);
    const [oldest] = this.#unanswered;
    if (!oldest) return;
    const late = () => this.#stop.abort(new TaskyardError("deadline_exceeded", "the operation timed out"));
    const left = oldest.sentAt + this.#source.timeoutMs - performance.now();
    if (left < MAX_TIMER_MS) this.#late = setTimeout(late, left);
  }
}

/** The size of a task in a message; undefined if it cannot be encoded. */
function sizeOf(request: SubmitTaskRequest): number | undefined {
  try {
    return toBinary(SubmitTaskRequestSchema, request).length;
  } catch {
    return undefined;
  }
}
