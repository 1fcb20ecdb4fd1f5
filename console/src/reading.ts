/** How views read: once or every so often, anew after an outage, never while the page is hidden. */
import { useEffect, useRef, useState } from "preact/hooks";
import { errorFrom, type TaskyardError } from "@client/errors";
import { signal } from "@preact/signals";
import { generation } from "./connection";
import { namespace } from "./route";

/** Whether the page is seen. What holds a connection lets go of it while it is not. */
export const isShown = signal(!document.hidden);
document.addEventListener("visibilitychange", () => {
  isShown.value = !document.hidden;
});

export interface Read<T> {
  /** The last answer; it stays while the next one is awaited, and over outages. */
  readonly value: T | undefined;
  /** Why the last read failed. Undefined after one that succeeded. */
  readonly error: TaskyardError | undefined;
  /** Reads now. */
  readonly refresh: () => void;
}

/**
 * Reads when the view appears, when one of `inputs` or the namespace changes, and every `everyMs` if given.
 * The call takes the signal: `useRead((signal) => api().hosts.listHosts({}, { signal }), [], 5_000)`.
 */
export function useRead<T>(
  read: (signal: AbortSignal) => Promise<T>,
  inputs: readonly unknown[] = [],
  everyMs?: number,
): Read<T> {
  const [state, setState] = useState<{ value?: T; error?: TaskyardError }>({});
  const latest = useRef(read);
  latest.current = read;
  const again = useRef(() => {});
  useEffect(() => {
    const end = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isReading = false;
    const readNow = async () => {
      clearTimeout(timer);
      if (isReading) return;
      isReading = true;
      try {
        const value = await latest.current(end.signal);
        if (!end.signal.aborted) setState({ value });
      } catch (thrown) {
        const error = errorFrom(thrown);
        if (!end.signal.aborted) setState((before) => ({ ...before, error }));
      }
      isReading = false;
      if (everyMs && !end.signal.aborted) timer = setTimeout(readIfShown, everyMs);
    };
    const readIfShown = () => {
      if (!document.hidden) void readNow();
    };
    const onShown = () => {
      if (everyMs) readIfShown();
    };
    again.current = () => void readNow();
    document.addEventListener("visibilitychange", onShown);
    void readNow();
    return () => {
      end.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onShown);
    };
  }, [...inputs, everyMs, namespace.value, generation.value]);
  return { value: state.value, error: state.error, refresh: () => again.current() };
}
