/** Short words side by side, such as capabilities and labels. */

export interface ChipsProps {
  of: readonly string[];
  /** How many are shown; the others stand in the title of a last one. Default all. */
  most?: number;
  /** What stands in the place of none. Default a dash. */
  none?: string;
}

export function Chips({ of, most = Number.POSITIVE_INFINITY, none = "–" }: ChipsProps) {
  if (!of.length) return <span class="dim">{none}</span>;
  const rest = of.slice(most);
  return (
    <span class="tag-list">
      {of.slice(0, most).map((each) => (
        <span key={each} class="tag">
          {each}
        </span>
      ))}
      {rest.length > 0 && (
        <span class="tag" title={rest.join(", ")}>
          {rest.length} more
        </span>
      )}
    </span>
  );
}

/** Labels as chips: `site=shop`. */
export function labelTexts(labels: { [name: string]: string }): string[] {
  return Object.entries(labels)
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([name, value]) => (value ? `${name}=${value}` : name));
}
