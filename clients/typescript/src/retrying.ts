/**
 * When to try again, and for how long: what all calls share.
 *
 * An outage shorter than the client's patience passes unnoticed; one that is longer ends in the error that it caused.
 */
import { errorFrom, TaskyardError } from "./errors.js";

const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 3_000;
/** The longest that a timer takes, 24 days. */
export const MAX_TIMER_MS = 0x7fffffff;

/** Where time and chance come from, so that tests can pass their own. Times are milliseconds that never jump. */
export interface Clock {
  now(): number;
  /** Resolves after so many milliseconds, or at once when the signal aborts. */
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
 * How long something has not worked, and whether that is longer than the caller has patience for.
 *
 * Each delay is twice the one before, shortened at random by up to a half: that keeps clients which lost the same server
 * from coming back all at once.
 */
export class Outage {
  readonly #patienceMs: number;
  readonly #clock: Clock;
  #since: number | undefined;
  #delay: number;

  constructor(patienceMs: number, clock: Clock = systemClock) {
    this.#patienceMs = patienceMs;
    this.#clock = clock;
    this.#delay = this.#first();
  }

  /** It works. */
  over(): void {
    this.#since = undefined;
    this.#delay = this.#first();
  }

  /** Wait before the next try; throws the error once patience is at its end, or `cancelled` when the signal aborts. */
  async bear(error: TaskyardError, signal?: AbortSignal): Promise<void> {
    const now = this.#clock.now();
    this.#since ??= now;
    const left = this.#since + this.#patienceMs - now;
    if (left <= 0) throw error;
    const delay = this.#delay * (0.5 + this.#clock.random() / 2);
    this.#delay = Math.min(this.#delay * 2, MAX_DELAY_MS, this.#patienceMs / 4);
    await this.#clock.sleep(Math.min(delay, left), signal);
    if (signal?.aborted) throw givenUp(signal);
  }

  #first(): number {
    // A short patience still has room for several tries.
    return Math.min(FIRST_DELAY_MS, this.#patienceMs / 4);
  }
}

/**
 * The call's answer. It is repeated while the server is unavailable.
 *
 * The call is told the number of the try, from 1. Throws what the call throws; `unavailable` only after `patienceMs`.
 */
export async function persistent<T>(
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
      if (error.code !== "unavailable") throw error;
      await outage.bear(error, signal);
    }
  }
}

/** The error of a call whose caller, or client, wants no answer any more. */
export function givenUp(signal: AbortSignal): TaskyardError {
  const reason: unknown = signal.reason;
  if (reason instanceof TaskyardError) return reason;
  return new TaskyardError("cancelled", "the call was given up", { status: "CANCELLED", cause: reason });
}
