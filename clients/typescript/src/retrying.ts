/**
 * When a call is tried again, and for how long.
 *
 * The caller does not notice an outage of the server that is shorter than the client's patience. A longer one ends with
 * the error that it caused.
 */
import { errorFrom, TaskyardError } from "./errors.js";

const FIRST_DELAY_MS = 100;
/** Short, so that calls go on soon after an upgrade of a few seconds. */
const MAX_DELAY_MS = 1_000;
/** The longest delay of a timer, 24 days. Timers fire at once for longer ones. */
export const MAX_TIMER_MS = 0x7fffffff;

/** Time and chance, so that tests can pass in their own. Times are in milliseconds of a clock that never jumps. */
export interface Clock {
  now(): number;
  /** Resolves after `ms`, or at once when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** A number from 0 up to, not including, 1. */
  random(): number;
}

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => performance.now(),
  random: () => Math.random(),
  sleep(ms, signal) {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      signal?.addEventListener("abort", end, { once: true });
      if (signal?.aborted) end();
    });
  },
};

/**
 * One outage after the other: how long the present one lasts, and how long to wait before the next try.
 *
 * Each delay is twice the one before, shortened at random by up to a half: clients that lost the same server do not come
 * back all at once.
 */
export class Outage {
  readonly #patienceMs: number;
  readonly #clock: Clock;
  #since: number | undefined;
  #delay: number;

  constructor(patienceMs: number, clock: Clock = systemClock) {
    this.#patienceMs = patienceMs;
    this.#clock = clock;
    this.#delay = this.#firstDelay();
  }

  /** A call has worked: the outage is over. */
  reset(): void {
    this.#since = undefined;
    this.#delay = this.#firstDelay();
  }

  /** Waits before the next try. Throws the error once the patience is used up, and `cancelled` when the signal aborts. */
  async backOff(error: TaskyardError, signal?: AbortSignal): Promise<void> {
    const now = this.#clock.now();
    this.#since ??= now;
    const left = this.#since + this.#patienceMs - now;
    if (left <= 0) throw error;
    const delay = this.#delay * (0.5 + this.#clock.random() / 2);
    this.#delay = Math.min(this.#delay * 2, MAX_DELAY_MS, this.#patienceMs / 4);
    await this.#clock.sleep(Math.min(delay, left), signal);
    if (signal?.aborted) throw abortError(signal);
  }

  #firstDelay(): number {
    // A short patience must leave time for several tries.
    return Math.min(FIRST_DELAY_MS, this.#patienceMs / 4);
  }
}

/**
 * Makes a call, again and again while the server is unavailable.
 *
 * The call is given the number of the try, from 1. Throws what the call throws, but `unavailable`, and a `cancelled` that
 * is not the caller's, only after `patienceMs`.
 */
export async function retryWhileUnavailable<T>(
  call: (attempt: number) => Promise<T>,
  patienceMs: number,
  clock?: Clock,
  signal?: AbortSignal,
): Promise<T> {
  const outage = new Outage(patienceMs, clock);
  for (let attempt = 1; ; attempt++) {
    try {
      return await call(attempt);
    } catch (thrown) {
      const error = errorFrom(thrown);
      // A server that stops ends some calls as cancelled.
      const isCancelled = error.code === "cancelled" && !signal?.aborted;
      if (error.code !== "unavailable" && !isCancelled) throw error;
      await outage.backOff(error, signal);
    }
  }
}

/** The error of a call whose signal has aborted: the reason of the signal, or `cancelled`. */
export function abortError(signal: AbortSignal): TaskyardError {
  const reason: unknown = signal.reason;
  if (reason instanceof TaskyardError) return reason;
  return new TaskyardError("cancelled", "the call was given up", { status: "CANCELLED", cause: reason });
}
