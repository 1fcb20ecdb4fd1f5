/**
 * The rows of the list of tasks. Only those that are seen are drawn, so that ten thousand scroll as ten do.
 *
 * Up, Down, Home and End move from row to row, Enter opens, Space selects.
 */
import type { Task } from "@client/tasks";
import { Component, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { State } from "../parts/state";
import { opensRow } from "../parts/table";
import { shortId, TaskText, whyText } from "../parts/task_text";
import { Ago, Lasting } from "../parts/time";
import { go, href, route } from "../route";
import { enter, scrolledTo } from "./place";
import { targetWaits } from "./target_waits";

const ROW = 40;
/** Rows that are drawn beyond the edges. */
const BEYOND = 8;

export interface TaskRowsProps {
  tasks: readonly Task[];
  selected: ReadonlySet<string>;
  /** Undefined where nothing can be done with tasks: then there are no boxes. */
  onSelect: ((selected: ReadonlySet<string>) => void) | undefined;
  /** Told whether the list is scrolled away from its top. */
  onScrolled?: (isAway: boolean) => void;
  /** Told when its end is near. */
  onEnd?: () => void;
  /** What stands in the place of no rows. */
  empty: ComponentChildren;
}

export function TaskRows({ tasks, selected, onSelect, onScrolled, onEnd, empty }: TaskRowsProps) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  /** Where the list is to begin once it has so many rows. Undefined when it has begun. */
  const wanted = useRef<number | undefined>(enter(route.value));
  const lastPicked = useRef<string | undefined>(undefined);
  useEffect(() => {
    const element = box.current!;
    const look = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (wanted.current === undefined || (tasks.length + 1) * ROW < wanted.current + box.current!.clientHeight) return;
    box.current!.scrollTop = wanted.current;
    wanted.current = undefined;
  }, [tasks.length]);
  const filters = JSON.stringify(route.value.query);
  const lastFilters = useRef(filters);
  useEffect(() => {
    if (lastFilters.current === filters) return;
    lastFilters.current = filters;
    enter(route.value);
    box.current!.scrollTop = 0;
  }, [filters]);
  const onScroll = () => {
    wanted.current = undefined;
    const { scrollTop: top, clientHeight: height } = box.current!;
    scrolledTo(top);
    setView({ top, height });
    onScrolled?.(top > ROW / 2);
    if (top + 2 * height > tasks.length * ROW) onEnd?.();
  };
  const first = Math.max(0, Math.floor(view.top / ROW) - BEYOND);
  const shown = tasks.slice(first, Math.ceil((view.top + view.height) / ROW) + BEYOND);
  const pick = (id: string, isPicked: boolean, isRange: boolean) => {
    const ids = tasks.map((task) => task.id);
    const [from, to] = [ids.indexOf(lastPicked.current ?? ""), ids.indexOf(id)].sort((a, b) => a - b) as [
      number,
      number,
    ];
    const range = isRange && from >= 0 ? ids.slice(from, to + 1) : [id];
    const next = new Set(selected);
    for (const each of range) isPicked ? next.add(each) : next.delete(each);
    lastPicked.current = id;
    onSelect?.(next);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = (event.target as Element).closest<HTMLElement>("[data-at]");
    const at = row ? Number(row.dataset.at) : first - 1;
    const step: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: tasks.length - 1 };
    const to = step[event.key];
    if (to === undefined || !tasks.length) return;
    event.preventDefault();
    focusRow(box.current!, Math.min(tasks.length - 1, Math.max(0, to)));
  };
  const isAll = tasks.length > 0 && selected.size >= tasks.length;
  return (
    <div class={`tasks-box ${onSelect ? "" : "no-boxes"}`}>
      <div
        class="tasks-scroll"
        ref={box}
        onScroll={onScroll}
        onKeyDown={onKeyDown}
        role="region"
        aria-label="List of tasks"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
        tabIndex={0}
      >
        <div role="table" aria-label="Tasks" aria-rowcount={tasks.length + 1}>
          <div class="tasks-head" role="rowgroup">
            <div class="task-row" role="row" aria-rowindex={1}>
              {onSelect && (
                <span role="columnheader">
                  <input
                    type="checkbox"
                    aria-label="Select all that are listed"
                    checked={isAll}
                    onChange={() => onSelect(new Set(isAll ? [] : tasks.map((task) => task.id)))}
                  />
                </span>
              )}
              {HEADS.map(([name, more]) => (
                <span key={name} role="columnheader" class={more}>
                  {name}
                </span>
              ))}
            </div>
          </div>
          {tasks.length > 0 && (
            <div class="tasks-rows" role="rowgroup" style={{ height: `${tasks.length * ROW}px` }}>
              {shown.map((task, at) => (
                <TaskRow
                  key={task.id}
                  at={first + at}
                  task={task}
                  isSelected={selected.has(task.id)}
                  onPick={onSelect && pick}
                />
              ))}
            </div>
          )}
        </div>
        {!tasks.length && empty}
      </div>
    </div>
  );
}

const HEADS: readonly (readonly [string, string])[] = [
  ["State", ""],
  ["Action", ""],
  ["Agent", "wide-only"],
  ["Host", "wide-only"],
  ["Details", "wide-only"],
  ["Duration", "right wide-only"],
  ["Submitted", "right"],
];

function focusRow(box: HTMLElement, at: number): void {
  const headHeight = box.querySelector<HTMLElement>(".tasks-head")?.offsetHeight ?? 0;
  if (at * ROW < box.scrollTop) box.scrollTop = at * ROW;
  else if ((at + 1) * ROW + headHeight > box.scrollTop + box.clientHeight) {
    box.scrollTop = (at + 1) * ROW + headHeight - box.clientHeight;
  }
  // The row may have to be drawn first.
  requestAnimationFrame(() =>
    requestAnimationFrame(() => box.querySelector<HTMLElement>(`[data-at="${at}"] a`)?.focus()),
  );
}

interface RowProps {
  at: number;
  task: Task;
  isSelected: boolean;
  onPick: ((id: string, isPicked: boolean, isRange: boolean) => void) | undefined;
}

class TaskRow extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const { at, task, isSelected } = this.props;
    return at !== next.at || task !== next.task || isSelected !== next.isSelected;
  }

  override render() {
    const { at, task, isSelected } = this.props;
    const address = href(["tasks", task.id]);
    const toggle = (isPicked: boolean, isRange: boolean) => this.props.onPick?.(task.id, isPicked, isRange);
    return (
      // biome-ignore lint/a11y/useKeyWithClickEvents: the link in the row is for keyboards
      <div
        class={`task-row ${isSelected ? "selected" : ""}`}
        role="row"
        aria-rowindex={at + 2}
        data-at={at}
        style={{ transform: `translateY(${at * ROW}px)` }}
        onClick={(event) => opensRow(event) && go(address)}
      >
        {this.props.onPick && (
          <span role="cell">
            <input
              type="checkbox"
              aria-label={`Select ${task.id}`}
              checked={isSelected}
              onClick={(event) => toggle(event.currentTarget.checked, event.shiftKey)}
            />
          </span>
        )}
        <span role="cell">
          <State of={task.state} />
        </span>
        <span role="cell" class="cut">
          <a
            href={address}
            title={task.id}
            onKeyDown={(event) => {
              if (event.key !== " ") return;
              event.preventDefault();
              toggle(!isSelected, event.shiftKey);
            }}
          >
            {task.action}
          </a>
          <code class="dim short-id">{shortId(task.id)}</code>
        </span>
        <span role="cell" class="cut wide-only">
          {task.agentId}
        </span>
        <span role="cell" class="cut dim wide-only">
          {task.hostId}
        </span>
        <span role="cell" class="cut wide-only">
          <Detail task={task} />
        </span>
        <span role="cell" class="right dim wide-only">
          {task.startedAt && <Lasting from={task.startedAt} to={task.completedAt} />}
        </span>
        <span role="cell" class="right dim">
          <Ago at={task.createdAt} />
        </span>
      </div>
    );
  }
}

/** What there is to say of a task in a few words: why it failed or waits, how far it is, what it belongs to. */
function Detail({ task }: { task: Task }) {
  const waitsFor = (task.target && targetWaits.value[task.target]) || "";
  const why = whyText(task);
  if (why) {
    return (
      <span class={`told ${task.state === "failed" ? "bad-text" : "dim"}`} title={why}>
        {waitsFor.includes(task.id) && <span class="tag">blocks {task.target}</span>} <TaskText text={why} />
      </span>
    );
  }
  if (task.notice) {
    return (
      <span class="told warn-text" title={task.notice}>
        {task.notice}
      </span>
    );
  }
  if (waitsFor && task.state === "queued" && !waitsFor.includes(task.id)) {
    return (
      <span class="told dim" title={waitsFor}>
        <span class="tag">{task.target}</span> waits for <TaskText text={waitsFor} />
      </span>
    );
  }
  if (task.hold) return <span class="dim">held</span>;
  const { fraction, message } = task.progress ?? {};
  if (!task.completedAt && (fraction !== undefined || message)) {
    return (
      <span class="progress">
        {fraction !== undefined && <progress aria-label="Progress" max={1} value={fraction} />}
        <span class="dim">{message}</span>
      </span>
    );
  }
  return (
    <span class="tags">
      {task.target && <span class="tag">{task.target}</span>}
      {Object.entries(task.labels ?? {}).map(([key, value]) => (
        <span key={key} class="tag dim">
          {value ? `${key}=${value}` : key}
        </span>
      ))}
    </span>
  );
}
