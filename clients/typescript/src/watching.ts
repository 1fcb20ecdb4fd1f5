/**
 * Watching tasks across broken connections.
 *
 * Each message of a watch carries the cursor to resume from, so a new stream goes on just where the last one broke. Only
 * while the current tasks are being told there is no such place: they are then told anew, less those already told.
 */
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { errorFrom, isBreak, TaskyardError } from "./errors.js";
import {
  type Task as TaskMessage,
  TaskEvent_Kind,
  TaskSchema,
  WatchEnd_Reason,
  WatchTasksRequestSchema,
  type WatchTasksResponse,
} from "./gen/taskyard/v1/task_pb.js";
import { type Clock, Outage } from "./retrying.js";
import { stateOf, type Task, taskFrom, type TaskState } from "./tasks.js";
import { dateOf } from "./values.js";

/** A stream that says nothing for so long is dead: a bookmark comes every 15 s. */
const QUIET_MS = 45_000;

const KINDS = ["current", "submitted", "changed", "progressed", "evicted"] as const;

/** What happened to a task. `current` is how it stood when the watch began, or began anew. */
export type EventKind = (typeof KINDS)[number];

const KIND_OF_NUMBER = new Map<number, EventKind>(KINDS.map((kind) => [TaskEvent_Kind[kind], kind]));

/** One thing that happened, and the task just after it, without `params`. */
export interface TaskEvent {
  kind: EventKind;
  at: Date;
  task: Task;
  /** The state before; only for `changed`. */
  previousState: TaskState | undefined;
  /**
   * A watch that is given this goes on after this event; events that the server sent together with it may come again.
   * Undefined where there is no such place yet: begin anew with the current tasks.
   */
  cursor: string | undefined;
}

/** What to watch. An absent filter selects all. */
export interface WatchOptions {
  taskIds?: string[];
  batchId?: string;
  agent?: string;
  target?: string;
  /** Only events that leave a task in one of these states. */
  states?: TaskState[];
  /** Tell the tasks first as they stand. */
  includeCurrent?: boolean;
  /** End once all tasks of `taskIds` or `batchId` have ended. */
  untilEnded?: boolean;
  /** Go on after this cursor of an earlier event. */
  cursor?: string | undefined;
  /** Aborting it ends the watch as `cancelled`. */
  signal?: AbortSignal;
}

type Request = MessageInitShape<typeof WatchTasksRequestSchema>;

/** How a watch opens one stream. */
export type OpenWatch = (request: Request, signal: AbortSignal) => AsyncIterable<WatchTasksResponse>;

/**
 * The events, until all watched tasks have ended if that was asked for, else without end.
 *
 * Throws what the server refuses the watch with, and `unavailable` after an outage longer than `patienceMs`.
 */
export async function* watchEvents(
  open: OpenWatch,
  options: WatchOptions,
  patienceMs: number,
  clock?: Clock,
  quietMs = QUIET_MS,
): AsyncGenerator<TaskEvent, void, undefined> {
  const place = new WatchPlace(options);
  const outage = new Outage(patienceMs, clock);
  const { signal } = options;
  for (;;) {
    const stream = new AbortController();
    const stop = () => stream.abort(signal?.reason);
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    try {
      for await (const message of untilQuiet(open(place.request(), stream.signal), stream, quietMs)) {
        yield* place.news(message);
        if (message.end) {
          if (message.end.reason === WatchEnd_Reason.tasks_ended) return;
          const code = message.end.reason === WatchEnd_Reason.cursor_expired ? "cursor_expired" : "unavailable";
          throw new TaskyardError(code, message.end.message ?? "the server ended the watch");
        }
        outage.over();
      }
      throw new TaskyardError("unavailable", "the server ended the stream");
    } catch (thrown) {
      const error = errorFrom(thrown);
      if (signal?.aborted) throw error;
      if (error.code === "cursor_expired") place.beginAnew();
      else if (!isBreak(error)) throw error;
      await outage.bear(error, signal);
    } finally {
      signal?.removeEventListener("abort", stop);
      stream.abort();
    }
  }
}

/** How far a watch has come: what to ask the next stream for, and what of its messages is new. */
export class WatchPlace {
  readonly #asked: Request;
  #cursor: string | undefined;
  #isTelling: boolean;
  readonly #told = new Map<string, string>();

  constructor(options: WatchOptions) {
    this.#asked = {
      taskIds: options.taskIds,
      batchId: options.batchId,
      agentId: options.agent,
      target: options.target,
      state: options.states?.join(","),
      untilEnded: options.untilEnded || undefined,
    };
    this.#cursor = options.cursor || undefined;
    this.#isTelling = options.includeCurrent ?? false;
  }

  /** The request of the next stream. */
  request(): Request {
    const place = this.#isTelling ? { includeCurrent: true } : { cursor: this.#cursor };
    return create(WatchTasksRequestSchema, { ...this.#asked, ...place });
  }

  /** The server's log no longer reaches back so far: all tasks are to be told as they stand. */
  beginAnew(): void {
    this.#cursor = undefined;
    this.#isTelling = true;
  }

  /** The events of a message that were not told yet; then the cursor moves on. */
  *news(message: WatchTasksResponse): Generator<TaskEvent> {
    let left = message.events.length;
    for (const event of message.events) {
      left -= 1;
      const kind = KIND_OF_NUMBER.get(event.kind ?? 0);
      // A kind that only a later server knows has nothing for this client.
      if (!kind || !event.task) continue;
      let cursor: string | undefined;
      if (kind === "current") {
        if (this.#isTold(event.task)) continue;
      } else {
        this.#allTold();
        cursor = left ? this.#cursor : message.cursor;
      }
      const previousState = event.previousState === undefined ? undefined : stateOf(event.previousState);
      yield { kind, at: dateOf(event.occurredAt) ?? new Date(0), task: taskFrom(event.task), previousState, cursor };
    }
    if (message.bookmark) this.#allTold();
    if (message.cursor) this.#cursor = message.cursor;
  }

  /** Whether a current task was told already as it stands, before the stream broke. */
  #isTold(task: TaskMessage): boolean {
    const id = task.taskId ?? "";
    const print = toBinary(TaskSchema, task).join();
    const isTold = this.#told.get(id) === print;
    this.#told.set(id, print);
    return isTold;
  }

  /** The current tasks are through: from here on the cursor is a place to resume from. */
  #allTold(): void {
    this.#isTelling = false;
    this.#told.clear();
  }
}

/** The messages of a stream, which is broken off as `unavailable` when it says nothing for too long. */
async function* untilQuiet<T>(messages: AsyncIterable<T>, stream: AbortController, quietMs: number): AsyncGenerator<T> {
  const silence = new TaskyardError("unavailable", `nothing was heard of the server for ${quietMs / 1000} s`);
  const reader = messages[Symbol.asyncIterator]();
  for (;;) {
    const timer = setTimeout(() => stream.abort(silence), quietMs);
    const next = await reader.next().finally(() => clearTimeout(timer));
    if (next.done) return;
    yield next.value;
  }
}
