/** What targets wait for, as the list of tasks tells it. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../api";
import { useRead } from "../reading";

const LOOK_MS = 5_000;

/** By target, of those that hold tasks back. It stands while `useTargetWaits` is in use. */
export const targetWaits = signal<Readonly<Record<string, string>>>({});

export function useTargetWaits(): void {
  const { value } = useRead((signal) => api().stats.getStats({}, { signal }), [], LOOK_MS);
  useEffect(() => {
    targetWaits.value = value?.queue?.targets?.waitsFor ?? {};
  }, [value]);
}
