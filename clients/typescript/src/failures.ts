/** The errors by which a handler says how its task fails, and where in its code an error was thrown. */

/** The server keeps no more of a traceback. */
const MAX_TRACEBACK_CHARS = 8_000;
/** The most causes of an error that a traceback shows. */
const MAX_CAUSES = 10;
/** The longest delay that the server takes, a day. */
const MAX_RETRY_AFTER_MS = 86_400_000;

/** The optional parts of an `ActionFailed`. */
export interface FailureOptions {
  /** The kind of failure, which `RetryPolicy.nonRetryableCodes` may name. Default none. */
  code?: string | undefined;
  /** Whether the task may be tried again. Default true: its retry policy decides. */
  retryable?: boolean | undefined;
  /**
   * The time until the next attempt in the place of the delay of the retry policy, in milliseconds, at most 86,400,000 (24
   * hours). A task without a policy then has as many attempts as the server hands it out, `maxDeliveries`. Default: the
   * retry policy decides.
   */
  retryAfterMs?: number | undefined;
  /** What caused the failure, for the traceback. Default none. */
  cause?: unknown;
}

/** Throw it in a handler to fail the task with exactly this text. Any other error adds its name to the text. */
export class ActionFailed extends Error {
  override readonly name: string = "ActionFailed";
  /** The kind of failure, which `RetryPolicy.nonRetryableCodes` may name. Undefined if there is none. */
  readonly code: string | undefined;
  /** Whether the retry policy of the task may try again. False makes this failure final. */
  readonly retryable: boolean;
  /** When the next attempt is due, in milliseconds from the failure. Undefined: the retry policy decides. */
  readonly retryAfterMs: number | undefined;

  /**
   * @param error The text of the failure.
   * @param options `code`: the kind of failure, default none. `retryable`: default true. `retryAfterMs`: when the next
   *   attempt is due, default by the retry policy. `cause`: for the traceback, default none.
   * @throws RangeError if `retryAfterMs` is not 0 to 86,400,000.
   */
  constructor(error: string, options: FailureOptions = {}) {
    super(error, options.cause === undefined ? undefined : { cause: options.cause });
    const { retryAfterMs } = options;
    if (retryAfterMs !== undefined && !(retryAfterMs >= 0 && retryAfterMs <= MAX_RETRY_AFTER_MS)) {
      throw new RangeError(`retryAfterMs: must be 0 to ${MAX_RETRY_AFTER_MS}, is ${retryAfterMs}`);
    }
    this.code = options.code;
    this.retryable = options.retryable ?? true;
    this.retryAfterMs = retryAfterMs === undefined ? undefined : Math.ceil(retryAfterMs);
  }
}

/** Throw it in a handler to have the task tried again, after a time of its own. */
export class Retry extends ActionFailed {
  override readonly name: string = "Retry";

  /**
   * @param reason Why, for people.
   * @param options `afterMs`: when the next attempt is due, in milliseconds, at most 86,400,000; default by the retry
   *   policy. `code`: the kind of failure, default none. `cause`: for the traceback, default none.
   * @throws RangeError if `afterMs` is not 0 to 86,400,000.
   */
  constructor(reason = "to be tried again", options: { afterMs?: number; code?: string; cause?: unknown } = {}) {
    const { afterMs, code, cause } = options;
    super(reason, { code, cause, retryAfterMs: afterMs });
  }
}

/** Throw it in a handler to fail the task for good, whatever its retry policy allows. */
export class NotRetryable extends ActionFailed {
  override readonly name: string = "NotRetryable";

  /**
   * @param reason The text of the failure.
   * @param options `code`: the kind of failure, default none. `cause`: for the traceback, default none.
   */
  constructor(reason: string, options: { code?: string; cause?: unknown } = {}) {
    super(reason, { ...options, retryable: false });
  }
}

/** The stack of an error and those of its causes, the end of it if it is long; undefined for what is no error. */
export function tracebackOf(error: unknown): string | undefined {
  const parts: string[] = [];
  try {
    let each: unknown = error;
    while (each instanceof Error && parts.length <= MAX_CAUSES) {
      parts.push(each.stack ?? String(each));
      each = each.cause;
    }
  } catch {
    // An error may have properties that throw.
  }
  if (!parts.length) return undefined;
  return parts.join("\nCaused by: ").slice(-MAX_TRACEBACK_CHARS).toWellFormed();
}
