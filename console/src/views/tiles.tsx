/** The few figures that matter most, large, above a list. */
import type { ComponentChildren } from "preact";
import { countOf } from "../parts/figures";
import type { Tone } from "../parts/state";

export function Tiles({ children }: { children: ComponentChildren }) {
  return <div class="stats">{children}</div>;
}

export interface TileProps {
  label: string;
  value: number | string;
  /** What the value is a part of. */
  of?: number | undefined;
  tone?: Tone | undefined;
}

export function Tile({ label, value, of, tone }: TileProps) {
  return (
    <div class="stat">
      <span class="stat-label">{label}</span>
      <span class={`stat-value ${tone ? `tone-${tone}` : ""}`}>
        {typeof value === "number" ? countOf(value) : value}
        {of !== undefined && <span class="dim"> / {countOf(of)}</span>}
      </span>
    </div>
  );
}
