/**
 * When a call is tried again, and for how long.
 *
 * The caller does not notice an outage of the server that is shorter than the client's patience. A longer one ends with
 * the error that it caused.
 */
import { errorFrom, isElsewhere, isTooMany, TaskyardError } from "./errors.js";

const FIRST_DELAY_MS = 100;
/** Short, so that calls go on soon after an upgrade of a few seconds. */
const MAX_DELAY_MS = 1_000;
/** A namespace that moves to another server is served there within a moment. */
const ELSEWHERE_MS = [20, 50] as const;
/** The first wait for room in a full queue where the server names no time, and the longest one. */
const FULL_DELAY_MS = 1_000;
const MAX_FULL_DELAY_MS = 10_000;
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
  readonly #isStream: boolean;
  #since: number | undefined;
  #delay: number;

  /** A stream goes on at once, for a first time, if another server serves the namespace. */
  constructor(patienceMs: number, clock: Clock = systemClock, isStream = false) {
    this.#patienceMs = patienceMs;
    this.#clock = clock;
    this.#isStream = isStream;
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
    const isFirst = this.#since === undefined;
    this.#since ??= now;
    const left = this.#since + this.#patienceMs - now;
    if (left <= 0) throw this.#patienceMs ? afterTries(error, now - this.#since) : error;
    await this.#clock.sleep(Math.min(this.#delayAfter(error, isFirst), left), signal);
    if (signal?.aborted) throw abortError(signal);
  }

  #delayAfter(error: TaskyardError, isFirst: boolean): number {
    const random = this.#clock.random();
    if (isElsewhere(error)) {
      const [shortest, longest] = ELSEWHERE_MS;
      return isFirst && this.#isStream ? 0 : shortest + (longest - shortest) * random;
    }
    const delay = this.#delay * (0.5 + random / 2);
    this.#delay = Math.min(this.#delay * 2, MAX_DELAY_MS, this.#patienceMs / 4);
    return isTooMany(error) ? Math.max(delay, spread(error.retryAfterMs ?? 0, random)) : delay;
  }

  #firstDelay(): number {
    // A short patience must leave time for several tries.
    return Math.min(FIRST_DELAY_MS, this.#patienceMs / 4);
  }
}

/**
 * Submits until the queue has room, or until another error. Each wait is as long as the server names, and doubles with
 * each try up to 10 s. Throws the `queue_full` of the last try when the signal aborts.
 */
export async function untilRoom<T>(submit: () => Promise<T>, signal?: AbortSignal, clock = systemClock): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await submit();
    } catch (thrown) {
      const error = errorFrom(thrown);
      if (error.code !== "queue_full") throw error;
      const namedMs = error.retryAfterMs || FULL_DELAY_MS;
      const delayMs = Math.max(namedMs, Math.min(namedMs * 2 ** Math.min(attempt, 4), MAX_FULL_DELAY_MS));
      await clock.sleep(spread(delayMs, clock.random()), signal);
      if (signal?.aborted) throw error;
    }
  }
}

/** Prolongs the time that a server named by up to a quarter, so that not all who were told so come back at once. */
export function spread(namedMs: number, random: number): number {
  return namedMs * (1 + random / 4);
}

/** The error of the last try, with how long it was tried. */
function afterTries(error: TaskyardError, ms: number): TaskyardError {
  const { code, reason, details, retryable, retryAfterMs, status, taskId, cause } = error;
  const tried = `${reason}; tried for ${(ms / 1000).toFixed(1)} s`;
  return new TaskyardError(code, tried, {
    details,
    retryable,
    retryAfterMs,
    ...(status && { status }),
    ...(taskId && { taskId }),
    cause,
  });
}

/** Whether a call that is safe to repeat is repeated after the error. */
function mayPass(error: TaskyardError): boolean {
  return ["unavailable", "cancelled", "too_many_requests"].includes(error.code);
}

/**
 * Makes a call, again and again while the server is unavailable, or takes no more calls of this caller.
 *
 * The call is told the number of the try, from 1, and whether one before it may have been carried out. Throws what the
 * call throws, but an error of which `mayRepeat` is true, and a `cancelled` that is not the caller's, only after
 * `patienceMs`.
 */
export async function retryWhileUnavailable<T>(
  call: (attempt: number, isInDoubt: boolean) => Promise<T>,
  patienceMs: number,
  clock?: Clock,
  signal?: AbortSignal,
  mayRepeat: (error: TaskyardError) => boolean = mayPass,
): Promise<T> {
  const outage = new Outage(patienceMs, clock);
  let isInDoubt = false;
  for (let attempt = 1; ; attempt++) {
    try {
      return await call(attempt, isInDoubt);
    } catch (thrown) {
      const error = errorFrom(thrown);
      // A server that stops ends some calls as cancelled.
      if (!mayRepeat(error) || (error.code === "cancelled" && signal?.aborted)) throw error;
      await outage.backOff(error, signal);
      isInDoubt ||= !isElsewhere(error) && !isTooMany(error);
    }
  }
}

/** The error of a call whose signal has aborted: the reason of the signal, or `cancelled`. */
export function abortError(signal: AbortSignal): TaskyardError {
  const reason: unknown = signal.reason;
  if (reason instanceof TaskyardError) return reason;
  return new TaskyardError("cancelled", "the call was given up", { status: "CANCELLED", cause: reason });
}
