/** When a host that has lost its stream tries the next one. */
import { isTooMany, type TaskyardError } from "./errors.js";
import { spread } from "./retrying.js";

/** How long the host tries to come back in short steps. After that the delays grow with the outage. */
const PROMPT_MS = 3_000;
const PROMPT_DELAY_MS = [50, 100] as const;

/**
 * How long a host waits before its next stream, when it has been out for `outMs`. Leases outlive a break for a few seconds
 * only, so it is short at first, and grows up to a limit, with full jitter.
 */
export function reconnectDelay(error: TaskyardError, isAsked: boolean, outMs: number, maxMs: number): number {
  if (isTooMany(error) && error.retryAfterMs) return spread(error.retryAfterMs, Math.random());
  if (isAsked) return 0;
  const [shortest, longest] = PROMPT_DELAY_MS;
  if (outMs < PROMPT_MS) return shortest + (longest - shortest) * Math.random();
  return Math.random() * Math.min(maxMs, outMs / 2);
}
