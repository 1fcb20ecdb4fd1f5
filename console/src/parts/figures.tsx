/** Figures: numbers, meters and small lines over time. */
const WHOLE = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A number as people read it: `12,400`, from a million `1.2M`. Rates below 10 keep one decimal. */
export function countOf(value: number): string {
  if (value >= 1e6) return SHORT.format(value);
  return WHOLE.format(value < 10 ? Math.round(value * 10) / 10 : Math.round(value));
}

export function bytesOf(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, bytes > 0 ? Math.floor(Math.log2(bytes) / 10) : 0);
  const value = bytes / 1024 ** power;
  return `${value < 10 && power ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}

/** How much of a limit is in use. */
export function Meter({ label, value, max }: { label: string; value: number; max: number }) {
  const share = max > 0 ? Math.min(1, value / max) : 0;
  return (
    <span class="meter" role="meter" aria-label={label} aria-valuenow={value} aria-valuemin={0} aria-valuemax={max}>
      <span class={share >= 1 ? "full" : ""} style={{ width: `${share * 100}%` }} />
    </span>
  );
}

/** A small line of figures over time, oldest first. `max` is the top; default the largest value. */
export function Sparkline({
  label,
  values,
  max,
  width = 96,
  height = 24,
}: {
  label: string;
  values: readonly number[];
  max?: number;
  width?: number;
  height?: number;
}) {
  const top = max ?? Math.max(1, ...values);
  const x = (at: number) => (values.length > 1 ? (at / (values.length - 1)) * width : width);
  const y = (value: number) => height - 1.5 - (Math.min(value, top) / top) * (height - 3);
  const line = values.map((value, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${width} ${height}`}
      width={width}
      height={height}
      role="img"
      aria-label={label}
    >
      {values.length > 1 && <path class="area" d={`${line}L${width} ${height}L0 ${height}Z`} />}
      <path class="line" d={line} />
    </svg>
  );
}
