/** Where a task stands among others: the path of its ancestors, and what descends from it as a tree. */
import type { TaskWait } from "@client/questions";
import type { Task } from "@client/tasks";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { countOf } from "../../parts/figures";
import { Card } from "../../parts/page";
import { State } from "../../parts/state";
import { type Column, Table } from "../../parts/table";
import { shortId } from "../../parts/task_text";
import { Ago, Lasting } from "../../parts/time";
import { useRead } from "../../reading";
import { href } from "../../route";
import { type Found, MOST, Relatives, type Row } from "./relatives";

const LOOK_MS = 5_000;
/** Deeper levels stand as far to the right as this one. */
const DEEPEST = 12;
const LEVEL_PX = 18;
/** So many tasks that one waits for are named. */
const NAMED = 3;
const TITLE = "Tree of tasks";

const TASK: Column<Row> = {
  title: "Task",
  wrap: true,
  cell: ({ task, depth, leftOut }) => (
    <div style={{ paddingLeft: `${Math.min(depth, DEEPEST) * LEVEL_PX}px` }}>
      <a href={href(["tasks", task.id])} aria-current={depth ? undefined : "page"}>
        {task.childName ?? task.action} <span class="dim">{task.childName ? task.action : shortId(task.id)}</span>
      </a>
      {leftOut > 0 && <small class="dim"> and {countOf(leftOut)} more below it</small>}
    </div>
  ),
};
const REST: readonly Column<Row>[] = [
  { title: "State", cell: ({ task }) => <State of={task.state} /> },
  {
    title: "Duration",
    right: true,
    cell: ({ task }) => task.startedAt && <Lasting from={task.startedAt} to={task.completedAt} />,
  },
  { title: "Steps", right: true, wideOnly: true, cell: ({ task }) => task.steps && countOf(task.steps) },
];
const WAITS: Column<Row> = { title: "Waits for", wrap: true, cell: ({ task }) => <Awaited by={task} /> };

/** Nothing where there is neither a parent nor a child. To be used with the task's id as its key. */
export function TaskTree({ task }: { task: Task }) {
  const [relatives] = useState(() => new Relatives());
  const read = useRead(
    (signal) => relatives.read(task, signal),
    [task.id, task.state],
    relatives.isOver ? undefined : LOOK_MS,
  );
  const found = read.value;
  if (!found || !(found.rows.length > 1 || task.parentId)) return null;
  // The page follows the task itself, and so it is newer there.
  const rows = found.rows.map((row) => (row.depth ? row : { ...row, task }));
  const columns = [TASK, ...REST, ...(rows.some((row) => row.task.park) ? [WAITS] : [])];
  const all = href(["tasks"], { parentId: task.id, history: found.isFromHistory ? "1" : "" });
  return (
    <Card title={TITLE} flush actions={rows.length > 1 && <a href={all}>All its children</a>}>
      {task.parentId && <Path to={task} of={found} />}
      {rows.length > 1 && <Table label={TITLE} columns={columns} rows={rows} rowKey={({ task: { id } }) => id} />}
      {(found.leftOut > 0 || found.mayBeMore) && <p class="table-more dim">{leftOutText(found)}</p>}
    </Card>
  );
}

function Path({ to, of: { ancestors, unknown } }: { to: Task; of: Found }) {
  return (
    <nav class="task-path" aria-label="Ancestors">
      {unknown && (
        <>
          <code class="dim">{shortId(unknown)}</code> /{" "}
        </>
      )}
      {ancestors.map(({ id, childName, action }) => (
        <span key={id}>
          <a href={href(["tasks", id])}>
            {childName ?? action} <span class="dim">{childName ? action : shortId(id)}</span>
          </a>{" "}
          /{" "}
        </span>
      ))}
      <b>{to.childName ?? to.action}</b>
    </nav>
  );
}

function leftOutText({ leftOut, mayBeMore }: Found): string {
  const first = `The first ${MOST} tasks are shown;`;
  if (!leftOut) return `${first} there may be more.`;
  return `${first} ${mayBeMore ? "at least " : ""}${countOf(leftOut)} more ${leftOut > 1 ? "are" : "is"} left out.`;
}

function Awaited({ by: { park } }: { by: Task }) {
  return (
    <>
      {park?.waits.map((wait, at) => (
        <span key={`${wait.kind} ${wait.name}`}>
          {at > 0 && " or "}
          {awaitedOf(wait)}
        </span>
      ))}
    </>
  );
}

function awaitedOf({ kind, name, taskIds, until, question }: TaskWait): ComponentChildren {
  if (kind === "answer") return <span title={question?.text}>an answer to {name}</span>;
  if (kind === "time") return <Ago at={until} />;
  if (kind !== "ends") return name;
  if (taskIds.length > NAMED) return `the end of ${countOf(taskIds.length)} tasks`;
  return (
    <>
      the end of{" "}
      {taskIds.map((id, at) => (
        <span key={id}>
          {at > 0 && ", "}
          <a class="mono" title={id} href={href(["tasks", id])}>
            {shortId(id)}
          </a>
        </span>
      ))}
    </>
  );
}
