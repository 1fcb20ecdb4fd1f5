/** Choices among several servers: a random order, and the first one that answers. */

/** The items in random order. */
export function shuffled<T>(items: readonly T[]): T[] {
  const mixed = [...items];
  for (let at = mixed.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1));
    [mixed[at], mixed[other]] = [mixed[other] as T, mixed[at] as T];
  }
  return mixed;
}

/**
 * The outcome of the first attempt that works, of one for each item, in their order. The next one begins once one has
 * failed, or after `headStartMs`. The signal of the others aborts then; an outcome that comes all the same is passed to
 * `discard`. Throws what the last one throws if all fail.
 */
export function firstOf<T, R>(
  items: readonly T[],
  attempt: (item: T, unwanted: AbortSignal) => Promise<R>,
  discard: (late: R) => void,
  headStartMs: number,
): Promise<R> {
  const over = new AbortController();
  return new Promise((resolve, reject) => {
    const left = [...items];
    let running = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const worked = (result: R) => {
      if (over.signal.aborted) return discard(result);
      clearTimeout(timer);
      over.abort();
      resolve(result);
    };
    const failed = (error: unknown) => {
      running -= 1;
      if (over.signal.aborted) return;
      if (left.length) begin();
      else if (!running) reject(error);
    };
    const begin = () => {
      clearTimeout(timer);
      const [item] = left.splice(0, 1) as [T];
      running += 1;
      // What an attempt throws at once counts as its failure too.
      Promise.resolve()
        .then(() => attempt(item, over.signal))
        .then(worked, failed);
      if (left.length) timer = setTimeout(begin, headStartMs);
    };
    begin();
  });
}
