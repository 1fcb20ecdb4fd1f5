/** The steps of a task, in their order: what its runs have done, and what came of what it waited for. */
import { hasEnded, type Task } from "@client/tasks";
import { jsonOf } from "@client/values";
import { type Step, Step_Kind, StepService } from "@v1/step_pb";
import { api } from "../api";
import { countOf } from "../parts/figures";
import { Card } from "../parts/page";
import { type Column, Table } from "../parts/table";
import { Ago, lengthOf } from "../parts/time";
import { Tree } from "../parts/tree";
import { useRead } from "../reading";
import { may } from "../session";

const LOOK_MS = 5_000;
const KINDS: Record<number, string> = {
  [Step_Kind.answer]: "answer",
  [Step_Kind.ends]: "ends",
  [Step_Kind.time]: "time",
  [Step_Kind.event]: "event",
};

const COLUMNS: readonly Column<Step>[] = [
  { title: "Name", wrap: true, cell: ({ name }) => name },
  { title: "Kind", cell: ({ kind }) => (kind && KINDS[kind]) || "work" },
  { title: "Result", wrap: true, cell: (step) => <Result of={step} /> },
  { title: "Took", right: true, cell: ({ durationMs }) => durationMs !== undefined && lengthOf(durationMs) },
  { title: "Recorded", right: true, cell: ({ recordedAt }) => <Ago at={recordedAt} /> },
];

/** Nothing where there are none. */
export function Steps({ task }: { task: Task }) {
  const mayRead = may(StepService.method.listSteps, task.agentId);
  const read = useRead(
    async (signal) => (mayRead ? (await api().steps.listSteps({ taskId: task.id }, { signal })).steps : []),
    [task.id, task.state],
    hasEnded(task.state) ? undefined : LOOK_MS,
  );
  if (!read.value?.length) return null;
  return (
    <Card title="Steps" flush>
      <Table label="Steps" columns={COLUMNS} rows={read.value} rowKey={({ kind, name }) => `${kind} ${name}`} />
    </Card>
  );
}

function Result({ of: { result, output, by, expired } }: { of: Step }) {
  return (
    <>
      {result && <Tree value={jsonOf(result) ?? null} depth={1} />}
      {output && <span class="dim">{countOf(output.data.length)} bytes</span>}
      {by && <small class="dim"> by {by}</small>}
      {expired && <small class="dim"> its time was over</small>}
    </>
  );
}
