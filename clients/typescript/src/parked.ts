/** How a handler is unwound whose task waits without a slot. */

/** The most causes of an error that are looked at. */
const MAX_CAUSES = 10;

/**
 * Unwinds a handler whose task is parked: `task.ask`, `task.sleep` or `task.join` has thrown it, since nothing has come yet.
 * Let it through, or throw it again: the handler begins again, from its start, once something came. `finally` blocks run, and
 * what they report is kept.
 */
export class Parked extends Error {
  override readonly name: string = "Parked";

  /** @internal */
  constructor(text = "the task is parked: its handler begins again once something came") {
    super(text);
  }
}

/** Whether this is how a handler ends that lets `Parked` through: it may be the cause of another error. */
export function isUnwinding(error: unknown): boolean {
  let each = error;
  for (let n = 0; n <= MAX_CAUSES && each instanceof Error; n++) {
    if (each instanceof Parked || (each instanceof AggregateError && each.errors.some(isUnwinding))) return true;
    each = each.cause;
  }
  return false;
}
