/** What is read from the server over one stream after the other. */
import { errorFrom, isBreak, TaskyardError } from "./errors.js";
import { type Clock, Outage } from "./retrying.js";

/** A stream without a message for so long is dead: the server sends a sign of life every 15 s. */
const SILENCE_LIMIT_MS = 45_000;

/** From so many items on, what else waits has its turn before the next message: a page draws, a host renews leases. */
export const LONG_MESSAGE = 50;

/** How reading goes on after a stream that broke. */
export interface Resuming {
  /** How long it tries to. */
  patienceMs: number;
  /** Ends the reading as `cancelled` when it aborts. */
  signal?: AbortSignal | undefined;
  clock?: Clock | undefined;
  silenceLimitMs?: number | undefined;
  /** Reads another token; false if there is none. A stream whose token has expired is followed by one more then. */
  renew?: (() => boolean) | undefined;
  /** Prepares for an error after which the reading begins anew; false for all others. */
  restarts?: (error: TaskyardError) => boolean;
}

/**
 * The messages of streams, of which the next is opened where one breaks. It ends with the message of which `isLast` is
 * true, after that was read; `isLast` may throw how the stream has ended. With `endsWithStream` it ends with a stream that
 * ends in order.
 *
 * Throws what the server refuses a stream with, and `unavailable` after an outage of more than `patienceMs`.
 */
export async function* overStreams<T>(
  open: (signal: AbortSignal) => AsyncIterable<T>,
  isLast: (message: T) => boolean,
  { signal, ...resuming }: Resuming,
  endsWithStream = false,
): AsyncGenerator<T, void, undefined> {
  const { patienceMs, clock, silenceLimitMs = SILENCE_LIMIT_MS } = resuming;
  const outage = new Outage(patienceMs, clock, true);
  let isRenewed = false;
  for (;;) {
    const stream = new AbortController();
    const stop = () => stream.abort(signal?.reason);
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    try {
      for await (const message of withSilenceLimit(open(stream.signal), stream, silenceLimitMs)) {
        yield message;
        if (isLast(message)) return;
        outage.reset();
        isRenewed = false;
      }
      if (endsWithStream) return;
      throw new TaskyardError("unavailable", "the server ended the stream");
    } catch (thrown) {
      const error = errorFrom(thrown);
      if (signal?.aborted) throw error;
      if (error.code === "unauthenticated" && !isRenewed && resuming.renew?.()) isRenewed = true;
      else if (!resuming.restarts?.(error) && !isBreak(error)) throw error;
      await outage.backOff(error, signal);
    } finally {
      signal?.removeEventListener("abort", stop);
      stream.abort();
    }
  }
}

/** Where a turn ends soonest: Node, and browsers that have it. Timers of a page in the background come once a second. */
const turns = globalThis as { setImmediate?: (done: () => void) => void; scheduler?: { yield?: () => Promise<void> } };

/** Lets the event loop run. Messages that are there already would otherwise all be read in one turn of it. */
export function nextTurn(): Promise<void> {
  if (turns.setImmediate) return new Promise(turns.setImmediate);
  return turns.scheduler?.yield?.() ?? new Promise((resolve) => setTimeout(resolve));
}

/** The messages of a stream. It is aborted as `unavailable` when no message comes for `limitMs`. */
async function* withSilenceLimit<T>(
  messages: AsyncIterable<T>,
  stream: AbortController,
  limitMs: number,
): AsyncGenerator<T> {
  const silence = new TaskyardError("unavailable", `nothing was heard of the server for ${limitMs / 1000} s`);
  const reader = messages[Symbol.asyncIterator]();
  for (;;) {
    const timer = setTimeout(() => stream.abort(silence), limitMs);
    const next = await reader.next().finally(() => clearTimeout(timer));
    if (next.done) return;
    yield next.value;
  }
}
