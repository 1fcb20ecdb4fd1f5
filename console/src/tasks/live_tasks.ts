/**
 * The live list of tasks: a watch of the namespace in a map, from which the rows are made at most four times a second.
 *
 * The watch ends while the page is hidden and goes on at its cursor: a browser has few connections for all its tabs.
 */
import { signal } from "@preact/signals";
import { errorFrom } from "@client/errors";
import type { Task, TaskState } from "@client/tasks";
import type { TaskEvent } from "@client/watching";
import { watchTasks } from "../api";
import { matcherOf, type Query, statesOf, watchOf } from "./filter";

/** The most tasks that the page holds; beyond them the oldest that have ended go. */
const MOST = 20_000;
const ORDER_EVERY_MS = 250;
/** A page that is hidden for so long lets go of its watch. */
const HIDDEN_MS = 5_000;

interface Known {
  task: Task;
  /** Its place among the tasks in the order of their submission as the page learned of them. */
  readonly number: number;
}

export interface LiveRows {
  /** The tasks, youngest first. */
  readonly tasks: readonly Task[];
  /** How many tasks that match there are in each state, whatever states are chosen. */
  readonly counts: Readonly<Partial<Record<TaskState, number>>>;
  /** Tasks that came since the list was held, and match. */
  readonly fresh: number;
  /** Whether all tasks have been listed once. */
  readonly isListed: boolean;
  /** Why the server refuses the list. */
  readonly error?: string;
}

const NONE: LiveRows = { tasks: [], counts: {}, fresh: 0, isListed: false };

export class LiveTasks {
  /** The rows as they are to be drawn. */
  readonly rows = signal<LiveRows>(NONE);
  #known = new Map<string, Known>();
  #query: Query = {};
  #matches: (task: Task) => boolean = () => true;
  #states = new Set<TaskState>();
  #watch: AbortController | undefined;
  #cursor: string | undefined;
  #isListed = false;
  /** What is wrong with the query, and why the server ended the watch. */
  #error: string | undefined;
  #refusal: string | undefined;
  #number = 0;
  /** While the list is held, the number of the last task that it shows. */
  #heldAt: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #hidden: ReturnType<typeof setTimeout> | undefined;
  #drawnAt = 0;

  /** Begins to watch. Call `close` in the end. */
  constructor(query: Query) {
    this.#use(query);
    this.#open();
    document.addEventListener("visibilitychange", this.#onVisibility);
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.#onVisibility);
    clearTimeout(this.#timer);
    clearTimeout(this.#hidden);
    this.#watch?.abort();
  }

  /** Shows the tasks of another query. The watch begins anew only if it has to. */
  filter(query: Query): void {
    const before = JSON.stringify(watchOf(this.#query));
    this.#use(query);
    if (JSON.stringify(watchOf(query)) !== before) this.#begin();
    else this.#draw();
  }

  /** Holds the list: tasks that come are counted, not shown. Or lets it go on. */
  hold(isHeld: boolean): void {
    if (isHeld === (this.#heldAt !== undefined)) return;
    this.#heldAt = isHeld ? this.#number : undefined;
    this.#draw();
  }

  /** Opens the watch again where it was, as after an outage. */
  reopen(): void {
    this.#open();
  }

  #use(query: Query): void {
    this.#query = query;
    this.#states = new Set(statesOf(query));
    try {
      this.#matches = matcherOf(query);
      this.#error = undefined;
    } catch (thrown) {
      this.#matches = () => false;
      this.#error = (thrown as SyntaxError).message;
    }
  }

  /** Forgets all and lists anew. */
  #begin(): void {
    this.#forget();
    this.rows.value = NONE;
    this.#open();
  }

  #forget(): void {
    this.#known.clear();
    this.#cursor = undefined;
    this.#isListed = false;
    if (this.#heldAt !== undefined) this.#heldAt = Number.POSITIVE_INFINITY;
  }

  #open(): void {
    this.#watch?.abort();
    this.#refusal = undefined;
    const watch = new AbortController();
    this.#watch = watch;
    void this.#follow(watch);
  }

  async #follow(watch: AbortController): Promise<void> {
    const start = this.#cursor ? { cursor: this.#cursor } : { includeCurrent: true };
    const options = { ...watchOf(this.#query), ...start, signal: watch.signal, onGap: () => this.#forget() };
    const events = watchTasks(options, ({ cursor, bookmark }) => {
      if (watch.signal.aborted) return;
      if (cursor) this.#cursor = cursor;
      if ((cursor || bookmark) && !this.#isListed) {
        this.#isListed = true;
        this.#drawSoon();
      }
    });
    try {
      for await (const event of events) if (!watch.signal.aborted) this.#take(event);
    } catch (thrown) {
      if (watch.signal.aborted) return;
      this.#refusal = errorFrom(thrown).reason;
      this.#draw();
    }
  }

  #take({ kind, task }: TaskEvent): void {
    const known = this.#known.get(task.id);
    if (kind === "evicted") this.#known.delete(task.id);
    else if (known) known.task = task;
    else {
      this.#number += 1;
      this.#known.set(task.id, { task, number: this.#number });
    }
    this.#drawSoon();
  }

  #drawSoon(): void {
    if (this.#timer !== undefined) return;
    const wait = Math.max(0, this.#drawnAt + ORDER_EVERY_MS - performance.now());
    this.#timer = setTimeout(() => this.#draw(), wait);
  }

  #draw(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#drawnAt = performance.now();
    const tasks: Task[] = [];
    const counts: Partial<Record<TaskState, number>> = {};
    let fresh = 0;
    for (const { task, number } of this.#known.values()) {
      if (!this.#matches(task)) continue;
      counts[task.state] = (counts[task.state] ?? 0) + 1;
      if (this.#states.size && !this.#states.has(task.state)) continue;
      if (this.#heldAt !== undefined && number > this.#heldAt) fresh += 1;
      else tasks.push(task);
    }
    tasks.sort(youngestFirst);
    if (this.#known.size > MOST) this.#forgetOldest();
    const error = this.#error ?? this.#refusal;
    this.rows.value = { tasks, counts, fresh, isListed: this.#isListed, ...(error && { error }) };
  }

  #forgetOldest(): void {
    const ended = [...this.#known.values()].filter(({ task }) => task.completedAt).map(({ task }) => task);
    ended.sort(youngestFirst);
    for (const task of ended.slice(Math.max(0, ended.length - (this.#known.size - MOST)))) this.#known.delete(task.id);
  }

  readonly #onVisibility = () => {
    clearTimeout(this.#hidden);
    if (document.hidden) this.#hidden = setTimeout(() => this.#watch?.abort(), HIDDEN_MS);
    else if (this.#watch?.signal.aborted) this.#open();
  };
}

function youngestFirst(a: Task, b: Task): number {
  return b.createdAt.getTime() - a.createdAt.getTime() || (a.id < b.id ? 1 : -1);
}
