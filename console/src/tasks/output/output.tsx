/** What a task says, as it says it. The end stays in sight, unless the reader has scrolled up. */
import "./output.css";
import { hasEnded, type Task } from "@client/tasks";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { act } from "../../acting";
import { Button } from "../../parts/button";
import { bytesOf, countOf } from "../../parts/figures";
import { Card } from "../../parts/page";
import { route, setQuery } from "../../route";
import { FilterBar } from "../../views/filter_bar";
import { download } from "./download";
import { type Followed, useOutput } from "./follow";
import { type Line, linesOf, textOf } from "./lines";
import { useDrawing } from "./rows";

/** How many lines are drawn at first, and with each step. */
const FIRST = 500;
/** How near to the end the reader is still at it: less than the first step up. */
const NEAR_PX = 4;

/** Nothing where a task has ended and said nothing. */
export function Output({ task }: { task: Task }) {
  const followed = useOutput(task.id, hasEnded(task.state));
  const { output, isKnown, error, droppedChunks } = followed;
  const { channel = "", q = "" } = route.value.query;
  const isRunning = task.state === "running";
  if (!output.lines.length && !droppedChunks && !(isKnown && (isRunning || error))) return null;
  const all = linesOf(output.lines, channel);
  const wanted = q.toLowerCase();
  const lines = wanted ? all.filter((line) => textOf(line).toLowerCase().includes(wanted)) : all;
  const channels = [...output.channels].sort();
  return (
    <Card
      title="Output"
      flush
      actions={
        output.last > 0 && (
          <Button icon="download" onPress={() => act("The output is downloaded", () => download(task.id, channel))}>
            Download
          </Button>
        )
      }
    >
      {output.lines.length > 0 && (
        <div class="card-bar row">
          <FilterBar
            search={q}
            onSearch={(text) => setQuery({ q: text })}
            placeholder="Text in these lines"
            label="Channel"
            choices={channels.length > 1 || channel ? channels.map((name) => ({ name })) : []}
            choice={channel}
            onChoice={(name) => setQuery({ channel: name })}
          />
          <span class="dim figure" role={q ? "status" : undefined}>
            {q && `${countOf(lines.length)} of `}
            {counted(all.length, "line")}
          </span>
        </div>
      )}
      <Missing followed={followed} />
      {error ? (
        <p class="said-note dim">{error.reason}</p>
      ) : (
        !output.lines.length && isRunning && <p class="said-note dim">It has said nothing so far.</p>
      )}
      {lines.length > 0 && (
        <Lines key={`${channel} ${q}`} lines={lines} search={q} isMixed={channels.length > 1 && !channel} />
      )}
    </Card>
  );
}

/** What came before the lines and is not among them. */
function Missing({ followed: { output, droppedChunks, droppedBytes } }: { followed: Followed }) {
  if (!output.left && !droppedChunks) return null;
  return (
    <p class="said-note dim">
      {droppedChunks > 0 &&
        `Dropped to make room: the first ${counted(droppedChunks, "chunk")}, ${bytesOf(droppedBytes)}. `}
      {output.left > 0 && `${counted(output.left, "line")} before these are not in this page; a download has them.`}
    </p>
  );
}

/** The last lines. Those before them are drawn on request, and those that have been seen stay where they are. */
function Lines({ lines, search, isMixed }: { lines: readonly Line[]; search: string; isMixed: boolean }) {
  const [isAtEnd, setAtEnd] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  /** The first line that is drawn, for as long as the reader is not at the end. */
  const first = useRef(0);
  /** How far from the end the reader was when earlier lines were asked for. */
  const kept = useRef<number | undefined>(undefined);
  const draw = useDrawing(search);
  const held = isAtEnd ? -1 : lines.findIndex(({ key }) => key >= first.current);
  const start = held >= 0 ? held : Math.max(0, lines.length - FIRST);
  first.current = lines[start]!.key;
  useLayoutEffect(() => {
    const { current } = box;
    if (!current) return;
    if (kept.current !== undefined) current.scrollTop = current.scrollHeight - kept.current;
    else if (isAtEnd) current.scrollTop = current.scrollHeight;
    kept.current = undefined;
  });
  const watchEnd = () => {
    const { scrollHeight, scrollTop, clientHeight } = box.current!;
    setAtEnd(scrollHeight - scrollTop - clientHeight < NEAR_PX);
  };
  const showEarlier = () => {
    kept.current = box.current!.scrollHeight - box.current!.scrollTop;
    first.current = lines[Math.max(0, start - FIRST)]!.key;
    setAtEnd(false);
  };
  return (
    <div class="said-box">
      {/* Read out only on request: a task may say more in a second than anybody can hear in a minute. */}
      <div
        class={`said ${isMixed ? "mixed" : ""}`}
        role="log"
        aria-live="off"
        aria-label="Output"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
        tabIndex={0}
        ref={box}
        onScroll={watchEnd}
      >
        {start > 0 && (
          <p class="said-note">
            <button type="button" class="link" onClick={showEarlier}>
              Show {countOf(Math.min(FIRST, start))} of {counted(start, "line")} before these
            </button>
          </p>
        )}
        {lines.slice(start).map((line, at) => draw(line, lines[start + at - 1]?.attempt ?? 1))}
      </div>
      {!isAtEnd && <Button onPress={() => setAtEnd(true)}>To the end</Button>}
    </div>
  );
}

function counted(count: number, word: string): string {
  return `${countOf(count)} ${word}${count === 1 ? "" : "s"}`;
}
