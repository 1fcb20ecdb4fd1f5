/** The figures of the view Now: samples over the last hour, and the rates of the present moment. */
import { useEffect, useRef, useState } from "preact/hooks";
import { dateOf } from "@client/values";
import type { Sample } from "@v1/sample_pb";
import { type GetStatsResponse, StatsService } from "@v1/stats_pb";
import { api } from "../api";
import { type Read, useRead } from "../reading";
import { may } from "../session";

export const SPAN_MS = 3_600_000;
const KEPT = 360;

/** The samples of the last hour, oldest first, with a new one every ten seconds. Empty for those who may not see them. */
export function useSamples(): readonly Sample[] {
  const kept = useRef<Sample[]>([]);
  const read = useRead(
    async (signal) => {
      if (!may(StatsService.method.listSamples)) return [];
      const after = kept.current.at(-1)?.at;
      const { samples } = await api().stats.listSamples(after ? { after } : {}, { signal });
      kept.current = [...kept.current, ...samples].slice(-KEPT);
      return kept.current;
    },
    [],
    10_000,
  );
  return read.value ?? [];
}

export function timeOf(sample: Sample): number {
  return dateOf(sample.at)?.getTime() ?? 0;
}

/** A number of each sample as a number a second, over the time since the sample before. */
export function ratesOf(samples: readonly Sample[], count: (sample: Sample) => number): number[] {
  return samples.map((sample) => count(sample) / 10);
}

export interface Rates {
  readonly submitted: number;
  readonly completed: number;
  readonly failed: number;
  readonly dispatched: number;
}

export interface Present {
  readonly stats: Read<GetStatsResponse>;
  /** What happened a second, over the last 10 s. Undefined before there are two answers. */
  readonly rates: Rates | undefined;
}

/** The figures now, every two seconds. */
export function usePresent(): Present {
  const stats = useRead((signal) => api().stats.getStats({}, { signal }), [], 2_000);
  const [rates, setRates] = useState<Rates | undefined>();
  const before = useRef<{ at: number; value: GetStatsResponse }[]>([]);
  useEffect(() => {
    const value = stats.value;
    if (!value?.metrics) return;
    const seen = { at: performance.now(), value };
    // A server that was started anew counts from 0.
    const isNew = (before.current.at(-1)?.value.metrics?.tasksSubmitted ?? 0) > value.metrics.tasksSubmitted;
    before.current = isNew ? [seen] : [...before.current.filter(({ at }) => seen.at - at < 11_000), seen];
    setRates(between(before.current[0]!, seen));
  }, [stats.value]);
  return { stats, rates };
}

type Seen = { at: number; value: GetStatsResponse };

function between(first: Seen, last: Seen): Rates | undefined {
  const [from, to] = [first.value.metrics, last.value.metrics];
  const secs = (last.at - first.at) / 1_000;
  if (!from || !to || secs < 1) return undefined;
  const rate = (before: number, after: number) => Math.max(0, after - before) / secs;
  return {
    submitted: rate(from.tasksSubmitted, to.tasksSubmitted),
    completed: rate(from.tasksCompleted, to.tasksCompleted),
    failed: rate(from.tasksFailed, to.tasksFailed),
    dispatched: rate(from.dispatchCount, to.dispatchCount),
  };
}
