/** Tables, which draw some hundred rows at first. The list of tasks has its own, which draws only what is seen. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Icon } from "./icon";

/** How many rows are drawn at first, and with each step. */
const FIRST = 200;

export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => ComponentChildren;
  /** What the column sorts by. Default: it does not sort. */
  readonly sortBy?: (row: T) => number | string;
  /** Figures stand at the right. */
  readonly right?: boolean;
  /** Long text may take several lines. */
  readonly wrap?: boolean;
  /** Left out where the page is narrow. */
  readonly wideOnly?: boolean;
}

export interface TableProps<T> {
  /** What the rows are, for people who do not see them. */
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  /** What a click on a row does. The first cell should hold the same as a link or button, for keyboards. */
  onOpen?: (row: T) => void;
  /** What stands in the place of no rows. */
  empty?: ComponentChildren;
}

export function Table<T>({ label, columns, rows, rowKey, onOpen, empty }: TableProps<T>) {
  const [order, setOrder] = useState<{ column: number; isDown: boolean } | undefined>();
  const [most, setMost] = useState(FIRST);
  if (!rows.length && empty) return <>{empty}</>;
  const by = order && columns[order.column]?.sortBy;
  const sorted = by ? [...rows].sort((a, b) => compare(by(a), by(b)) * (order.isDown ? -1 : 1)) : rows;
  const sortOn = (column: number) =>
    setOrder((now) => ({ column, isDown: now?.column === column ? !now.isDown : false }));
  const classOf = (column: Column<T>) =>
    `${column.right ? "right" : ""} ${column.wideOnly ? "wide-only" : ""} ${column.wrap ? "wrap" : ""}`;
  return (
    <div class="table-box">
      <table class="table" aria-label={label}>
        <thead>
          <tr>
            {columns.map((column, at) => {
              const isSorted = order?.column === at;
              const direction = order?.isDown ? "descending" : "ascending";
              return (
                <th key={column.title} scope="col" class={classOf(column)} aria-sort={isSorted ? direction : undefined}>
                  {column.sortBy ? (
                    <button type="button" class={`sort ${isSorted ? direction : ""}`} onClick={() => sortOn(at)}>
                      {column.title}
                      <Icon name="up" size={12} />
                    </button>
                  ) : (
                    column.title
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, most).map((row) => (
            <tr
              key={rowKey(row)}
              class={onOpen && "opens"}
              onClick={onOpen && ((event) => opensRow(event) && onOpen(row))}
            >
              {columns.map((column) => (
                <td key={column.title} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > most && (
        <p class="table-more">
          <span class="dim">
            {most} of {sorted.length} are shown.
          </span>{" "}
          <button type="button" class="link" onClick={() => setMost(most + FIRST)}>
            Show {Math.min(FIRST, sorted.length - most)} more
          </button>
        </p>
      )}
    </div>
  );
}

/** Whether a click is meant for the row: not for what stands in it, and not the end of a selection of text. */
export function opensRow(event: MouseEvent): boolean {
  return !(event.target as Element).closest("a,button,input,label,select") && !getSelection()?.toString();
}

function compare(a: number | string, b: number | string): number {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}
