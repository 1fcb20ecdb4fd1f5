/**
 * Watches of tasks, which continue after a broken connection.
 *
 * Each message of a watch carries a cursor, from which a new stream resumes. There is no cursor while the current tasks
 * are listed: a new stream then lists them again, and those that were reported before are left out.
 */
import { create, equals, type MessageInitShape } from "@bufbuild/protobuf";
import { TaskyardError } from "./errors.js";
import {
  type Task as TaskMessage,
  TaskEvent_Kind,
  TaskSchema,
  WatchEnd_Reason,
  WatchTasksRequestSchema,
  type WatchTasksResponse,
} from "./gen/taskyard/v1/task_pb.js";
import type { Clock } from "./retrying.js";
import { LONG_MESSAGE, nextTurn, overStreams } from "./streaming.js";
import { hasEnded, stateOf, type Task, taskFrom, type TaskState } from "./tasks.js";
import { dateOf } from "./values.js";

const KINDS = ["current", "submitted", "changed", "progressed", "evicted", "reprioritized"] as const;

/** What happened to a task. `current` is not a change: it is the task as it stood when the watch began or began anew. */
export type EventKind = (typeof KINDS)[number];

const KIND_OF_NUMBER = new Map<number, EventKind>(KINDS.map((kind) => [TaskEvent_Kind[kind], kind]));

/** An event of a watch. */
export interface TaskEvent {
  /** What happened. */
  kind: EventKind;
  /** When it happened, by the server's clock. */
  at: Date;
  /** The task just after the event, without `params`. */
  task: Task;
  /** The state before the event. Undefined unless `kind` is `changed`. */
  previousState: TaskState | undefined;
  /**
   * The position after this event, at which another watch can continue. Events that the server sent in the same message
   * may then come again. Undefined while the current tasks are listed: begin a new watch with `includeCurrent` instead.
   */
  cursor: string | undefined;
}

/** What to watch. Only tasks that match all given filters; an absent filter matches all. */
export interface WatchOptions {
  /** Tasks with one of these ids. */
  taskIds?: string[];
  /** Tasks of this batch. */
  batchId?: string;
  /** Tasks of this agent. */
  agentId?: string;
  /** @deprecated Use `agentId`. */
  agent?: string;
  /** Tasks of this target. */
  target?: string;
  /** Events after which the task is in one of these states. */
  states?: TaskState[];
  /** Whether the current tasks come first, as events of the kind `current`. Default false. */
  includeCurrent?: boolean;
  /**
   * Whether the watch ends once all tasks of `taskIds` or `batchId` have ended. Each task is then shown as ended once, and
   * not again: a failed task may still be resumed, resolved or, where it holds up its target, cancelled. Default false: the
   * watch never ends, and shows that too.
   */
  untilEnded?: boolean;
  /**
   * Called with the reason when the watch begins anew because the server's log no longer reaches back: what happened in
   * between is not shown, or the server was started anew and no longer has the tasks. Default none.
   */
  onGap?: (reason: string) => void;
  /** The cursor of an earlier event, after which to continue. Default: from now on. */
  cursor?: string | undefined;
  /** Ends the watch as `cancelled` when it aborts. Default none. */
  signal?: AbortSignal;
}

type Request = MessageInitShape<typeof WatchTasksRequestSchema>;

/** Opens one stream of a watch. */
export type OpenWatch = (request: Request, signal: AbortSignal) => AsyncIterable<WatchTasksResponse>;

/**
 * The events of a watch. It ends once all watched tasks have ended if `untilEnded` is set, else never.
 *
 * Throws what the server refuses the watch with, and `unavailable` after an outage of more than `patienceMs`. A watch
 * whose token has expired goes on once if `renew` has read another one.
 */
export async function* watchEvents(
  open: OpenWatch,
  options: WatchOptions,
  patienceMs: number,
  clock?: Clock,
  silenceLimitMs?: number,
  renew?: () => boolean,
): AsyncGenerator<TaskEvent, void, undefined> {
  const position = new WatchPosition(options);
  const resume = {
    patienceMs,
    signal: options.signal,
    clock,
    silenceLimitMs,
    renew,
    restarts: (error: TaskyardError) => {
      if (error.code !== "cursor_expired") return false;
      position.restart();
      options.onGap?.(error.reason);
      return true;
    },
  };
  for await (const message of overStreams((signal) => open(position.request(), signal), hasBeenLast, resume)) {
    yield* position.newEvents(message);
    if (message.events.length >= LONG_MESSAGE) await nextTurn();
  }
}

/** Whether a watch is over with a message. Throws where it goes on over another stream. */
function hasBeenLast({ end }: WatchTasksResponse): boolean {
  if (!end || end.reason === WatchEnd_Reason.tasks_ended) return end !== undefined;
  const code = end.reason === WatchEnd_Reason.cursor_expired ? "cursor_expired" : "unavailable";
  throw new TaskyardError(code, end.message ?? "the server ended the watch");
}

/** The position of a watch: what to request from the next stream, and which of its events are new. */
export class WatchPosition {
  readonly #filter: Request;
  #cursor: string | undefined;
  /** Whether the current tasks are being listed, so that there is no cursor to resume from. */
  #isListing: boolean;
  /** The current tasks that were reported, as they stood. They are compared only where the list came a second time. */
  readonly #reported = new Map<string, TaskMessage>();
  /** The tasks that were reported as ended, of a watch that ends with them; undefined for others. */
  readonly #ended: Set<string> | undefined;

  constructor(options: WatchOptions) {
    this.#filter = {
      taskIds: options.taskIds,
      batchId: options.batchId,
      agentId: options.agentId ?? options.agent,
      target: options.target,
      state: options.states?.join(","),
      untilEnded: options.untilEnded || undefined,
    };
    this.#cursor = options.cursor || undefined;
    this.#isListing = options.includeCurrent ?? false;
    this.#ended = options.untilEnded ? new Set() : undefined;
  }

  /** The request of the next stream. */
  request(): Request {
    const start = this.#isListing ? { includeCurrent: true } : { cursor: this.#cursor };
    return create(WatchTasksRequestSchema, { ...this.#filter, ...start });
  }

  /** The server's log does not reach back to the cursor: the current tasks are listed again. */
  restart(): void {
    this.#cursor = undefined;
    this.#isListing = true;
  }

  /** The events of a message that were not reported before. Then the cursor is that of the message. */
  *newEvents(message: WatchTasksResponse): Generator<TaskEvent> {
    let left = message.events.length;
    for (const event of message.events) {
      left -= 1;
      const kind = KIND_OF_NUMBER.get(event.kind ?? 0);
      // A later server may send kinds that this client does not know.
      if (!kind || !event.task) continue;
      let cursor: string | undefined;
      if (kind === "current") {
        if (this.#wasReported(event.task)) continue;
      } else {
        this.#endListing();
        cursor = left ? this.#cursor : message.cursor;
      }
      if (this.#hadEnded(event.task)) continue;
      const previousState = event.previousState === undefined ? undefined : stateOf(event.previousState);
      yield { kind, at: dateOf(event.occurredAt) ?? new Date(0), task: taskFrom(event.task), previousState, cursor };
    }
    if (message.bookmark) this.#endListing();
    if (message.cursor) this.#cursor = message.cursor;
  }

  /** Whether a task was reported as ended before, in a watch that ends with its tasks. Notes whether it is now. */
  #hadEnded({ taskId = "", state }: TaskMessage): boolean {
    const had = this.#ended?.has(taskId) ?? false;
    if (hasEnded(stateOf(state))) this.#ended?.add(taskId);
    return had;
  }

  /** Whether a current task was reported before the stream broke, and has not changed since. */
  #wasReported(task: TaskMessage): boolean {
    const id = task.taskId ?? "";
    const before = this.#reported.get(id);
    this.#reported.set(id, task);
    return before !== undefined && equals(TaskSchema, before, task);
  }

  /** All current tasks were listed: from here on the cursor is valid. */
  #endListing(): void {
    this.#isListing = false;
    this.#reported.clear();
  }
}
