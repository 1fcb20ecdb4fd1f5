/**
 * Listeners to the abort of a signal that many calls share.
 *
 * Node warns of a leak when a signal has more than ten listeners, which a caller that gives one `AbortSignal.timeout` to
 * many calls cannot avoid. So all calls with the same signal share one listener.
 */
const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `listener` once when the signal aborts. Returns the function that removes it. The signal must not be aborted. */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  const shared = listeners.get(signal) ?? share(signal);
  shared.add(listener);
  return () => {
    if (!shared.delete(listener) || shared.size || listeners.get(signal) !== shared) return;
    listeners.delete(signal);
    signal.removeEventListener("abort", onSharedAbort);
  };
}

function share(signal: AbortSignal): Set<() => void> {
  const shared = new Set<() => void>();
  listeners.set(signal, shared);
  signal.addEventListener("abort", onSharedAbort, { once: true });
  return shared;
}

function onSharedAbort(this: AbortSignal): void {
  const shared = listeners.get(this);
  listeners.delete(this);
  for (const listener of shared ?? []) listener();
}
