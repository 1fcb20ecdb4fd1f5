/**
 * What one run of a task waits for without its lease and its slot: the run ends, and the next one finds what came (docs/rules.md,
 * Parked tasks).
 *
 * What is awaited side by side becomes one park, once no step is under way: work that is done is to be recorded first.
 */
import { equals } from "@bufbuild/protobuf";
import { onAbort } from "./abort_listeners.js";
import { type NewWait, NewWaitSchema } from "./gen/taskyard/v1/wait_pb.js";
import type { HeldSteps } from "./held_steps.js";
import { refused } from "./new_waits.js";
import { Parked } from "./parked.js";
import type { TaskStep } from "./steps.js";

/** The method of a task that makes each kind of wait, and the kind of step that it becomes. */
const CALLS = {
  question: ["ask", "answer"],
  sleepSecs: ["sleep", "time"],
  ends: ["join", "ends"],
  event: ["event", "event"],
} as const;

const REFUSED = "what it does is refused. Let Parked through, or throw it again";

/** The waits of a run of a task that a host has under a lease. */
export class HeldWaits {
  readonly #steps: HeldSteps;
  readonly #signal: AbortSignal;
  readonly #complain: (text: string, error?: unknown) => void;
  /** The waits of this run by kind and name, in their order, and the steps that others may wait for, too. */
  readonly #used = new Map<string, { wait: NewWait; step: Promise<TaskStep> | undefined }>();
  /** The waits whose step has not come, and how each is unwound. */
  readonly #open = new Map<string, { wait: NewWait; unwind: (error: unknown) => void }>();
  #parked: NewWait[] | undefined;
  #isLooking = false;
  #isOver = false;
  #hasComplained = false;

  /** `complain` is told, for the log, of a handler that goes on after its task was parked. */
  constructor(steps: HeldSteps, signal: AbortSignal, complain: (text: string, error?: unknown) => void) {
    this.#steps = steps;
    this.#signal = signal;
    this.#complain = complain;
    steps.whenQuiet = () => this.#lookSoon();
  }

  /** What the task waits for once it is parked; undefined before. */
  get parked(): NewWait[] | undefined {
    return this.#parked;
  }

  /** The step that a wait has become. Rejects with `Parked` if nothing has come: then the handler is to end. */
  async until(wait: NewWait): Promise<TaskStep> {
    if (this.#parked) return this.refuse();
    const [call, kind] = CALLS[wait.awaited.case ?? "question"];
    const [key, what] = [`${kind} ${wait.name}`, `${call} '${wait.name}'`];
    if (this.#steps.here !== undefined) {
      throw refused(what, `it is called within the step '${this.#steps.here}', whose work would be lost`);
    }
    this.#signal.throwIfAborted();
    const used = this.#used.get(key);
    // Several parts of a handler may join the same tasks.
    if (used?.step && equals(NewWaitSchema, used.wait, wait)) return used.step;
    if (used) throw refused(what, "this run has used the name already, and names must differ");
    const step = this.#steps.find(kind, wait.name).then((found) => found ?? this.#untilParked(key, wait));
    this.#used.set(key, { wait, step: kind === "ends" ? step : undefined });
    try {
      const found = await step;
      // To wait on is another wait.
      if (found.expired) this.#used.set(key, { wait, step: undefined });
      return found;
    } catch (error) {
      if (!this.#parked) this.#used.delete(key);
      throw error;
    }
  }

  /** Rejects with `Parked`, and tells, once, of a handler that goes on. */
  async refuse(): Promise<never> {
    if (!this.#hasComplained) this.complain(REFUSED);
    this.#hasComplained = true;
    // A handler that tries again and again must leave the event loop to others.
    await new Promise(setImmediate);
    throw new Parked(`the task is parked, and its handler goes on: ${REFUSED}`);
  }

  /** Tells of a handler that went on after its task was parked. */
  complain(text: string, error?: unknown): void {
    this.#complain(`the handler went on after its task was parked: ${text}`, error);
  }

  /** The handler has ended: nothing that it has left behind parks the task any more. */
  close(): void {
    this.#isOver = true;
    this.#open.clear();
  }

  async #untilParked(key: string, wait: NewWait): Promise<never> {
    this.#signal.throwIfAborted();
    return new Promise((_, reject) => {
      const forget = onAbort(this.#signal, () => {
        this.#open.delete(key);
        reject(this.#signal.reason);
      });
      const unwind = (error: unknown) => {
        forget();
        reject(error);
      };
      this.#open.set(key, { wait, unwind });
      this.#lookSoon();
    });
  }

  /** Looks once all that follows from what has just settled has happened: the handler may begin another step. */
  #lookSoon(): void {
    if (this.#isLooking || !this.#open.size) return;
    this.#isLooking = true;
    setImmediate(() => {
      this.#isLooking = false;
      if (!this.#isOver && !this.#parked && this.#open.size && !this.#steps.areUnderWay) this.#park();
    });
  }

  #park(): void {
    this.#parked = [...this.#used.keys()].flatMap((key) => this.#open.get(key)?.wait ?? []);
    for (const { unwind } of this.#open.values()) unwind(new Parked());
    this.#open.clear();
  }
}
