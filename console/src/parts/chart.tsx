/** Charts of figures over time: lines with a scale, and the values under the pointer. */
import { useEffect, useRef, useState } from "preact/hooks";
import { countOf } from "./figures";
import type { Tone } from "./state";

export interface Series {
  readonly name: string;
  readonly tone: Tone;
  /** A value for each time, oldest first. */
  readonly values: readonly number[];
}

export interface ChartProps {
  label: string;
  /** The times, in milliseconds since 1970, oldest first. */
  times: readonly number[];
  series: readonly Series[];
  /** The two ends of the scale of time, in milliseconds since 1970. */
  span: readonly [number, number];
  /** Beyond this time between two values the line is broken, in milliseconds. */
  gapMs: number;
  height?: number;
}

const EDGE = { left: 40, right: 8, top: 8, bottom: 20 };

export function Chart({ label, times, series, span, gapMs, height = 180 }: ChartProps) {
  const [box, width] = useWidth();
  const [at, setAt] = useState<number | undefined>();
  const top = roundUp(Math.max(1, ...series.flatMap(({ values }) => values)));
  const inner = Math.max(1, width - EDGE.left - EDGE.right);
  const x = (time: number) => EDGE.left + ((time - span[0]) / (span[1] - span[0])) * inner;
  const y = (value: number) => EDGE.top + (1 - value / top) * (height - EDGE.top - EDGE.bottom);
  const point = (event: PointerEvent) => {
    const left = event.clientX - (event.currentTarget as Element).getBoundingClientRect().left;
    setAt(nearest(times, span[0] + ((left - EDGE.left) / inner) * (span[1] - span[0])));
  };
  const shown = at !== undefined && at < times.length ? at : undefined;
  const last = times.length - 1;
  const summary = series.map(({ name, values }) => `${name} ${countOf(values[last] ?? 0)}`).join(", ");
  return (
    <figure class="chart" ref={box}>
      <figcaption class="legend">
        {series.map(({ name, tone, values }) => (
          <span key={name} class={`tone-${tone}`}>
            <span class="dot" />
            {name}
            <b>{times.length ? countOf(values[shown ?? last] ?? 0) : "–"}</b>
          </span>
        ))}
        <span class="when">{shown === undefined ? "" : clockOf(times[shown]!)}</span>
      </figcaption>
      <svg
        width={width}
        height={height}
        role="img"
        aria-label={`${label}: ${times.length ? `${summary} at ${clockOf(times[last]!)}` : "no figures yet"}`}
        onPointerMove={point}
        onPointerLeave={() => setAt(undefined)}
      >
        {[0, 0.5, 1].map((share) => (
          <g key={share} class="scale">
            <line x1={EDGE.left} x2={width - EDGE.right} y1={y(top * share)} y2={y(top * share)} />
            <text x={EDGE.left - 8} y={y(top * share) + 4} text-anchor="end">
              {countOf(top * share)}
            </text>
          </g>
        ))}
        {ticks(span, inner).map((time) => (
          <text key={time} class="scale" x={x(time)} y={height - 4} text-anchor="middle">
            {clockOf(time, false)}
          </text>
        ))}
        {series.map(({ name, tone, values }) => (
          <g key={name} class={`line tone-${tone}`}>
            {runs(times, gapMs).map(([from, to]) => {
              const line = pathOf(times, values, from, to, x, y);
              return (
                <g key={from}>
                  <path class="area" d={`${line}L${x(times[to]!)} ${y(0)}L${x(times[from]!)} ${y(0)}Z`} />
                  <path class="stroke" d={line} />
                </g>
              );
            })}
          </g>
        ))}
        {shown !== undefined && (
          <g class="cross">
            <line x1={x(times[shown]!)} x2={x(times[shown]!)} y1={EDGE.top} y2={height - EDGE.bottom} />
            {series.map(({ name, tone, values }) => (
              <circle key={name} class={`tone-${tone}`} cx={x(times[shown]!)} cy={y(values[shown] ?? 0)} r="3" />
            ))}
          </g>
        )}
      </svg>
    </figure>
  );
}

/** The width of an element in pixels, as it changes. */
function useWidth() {
  const element = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(320);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  return [element, width] as const;
}

function pathOf(
  times: readonly number[],
  values: readonly number[],
  from: number,
  to: number,
  x: (time: number) => number,
  y: (value: number) => number,
): string {
  let path = "";
  for (let at = from; at <= to; at += 1) {
    path += `${at === from ? "M" : "L"}${x(times[at]!).toFixed(1)} ${y(values[at] ?? 0).toFixed(1)}`;
  }
  return path;
}

/** The unbroken runs of times, as places of the first and the last of each. */
function runs(times: readonly number[], gapMs: number): [number, number][] {
  const found: [number, number][] = [];
  times.forEach((time, at) => {
    const isBroken = at === 0 || time - times[at - 1]! > gapMs;
    if (isBroken) found.push([at, at]);
    else found[found.length - 1]![1] = at;
  });
  return found;
}

function nearest(times: readonly number[], wanted: number): number | undefined {
  let best: number | undefined;
  times.forEach((time, at) => {
    if (best === undefined || Math.abs(time - wanted) < Math.abs(times[best]! - wanted)) best = at;
  });
  return best;
}

/** The next of 1, 2, 4, 5, 10, 20, ... */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 10].map((step) => step * power).find((step) => step >= value) ?? value;
}

/** Round times, of which the width has room for. */
function ticks([from, to]: readonly [number, number], width: number): number[] {
  const most = Math.max(2, Math.floor(width / 64));
  const step = [1, 2, 5, 10, 15, 20, 30, 60].map((mins) => mins * 60_000).find((ms) => (to - from) / ms <= most)!;
  const first = Math.ceil((from + step / 6) / step) * step;
  return Array.from({ length: Math.max(0, Math.ceil((to - step / 6 - first) / step)) }, (_, at) => first + at * step);
}

function clockOf(time: number, withSeconds = true): string {
  const parts = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
  return new Date(time).toLocaleTimeString(undefined, withSeconds ? { ...parts, second: "2-digit" } : parts);
}
