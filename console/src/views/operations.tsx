/** Operations: what is being done to many tasks at once, and what was within the hour. */
import { type Operation, Operation_Kind, Operation_Status_Value, OperationService } from "@v1/operation_pb";
import type { TaskFilter } from "@v1/task_pb";
import { act } from "../acting";
import { api } from "../api";
import { Button } from "../parts/button";
import { Id } from "../parts/copy";
import { ask } from "../parts/dialog";
import { countOf, Meter } from "../parts/figures";
import { Card, Empty, Loaded, Page } from "../parts/page";
import { State, type Tone } from "../parts/state";
import { type Column, Table } from "../parts/table";
import { Ago, Lasting } from "../parts/time";
import { useRead } from "../reading";
import { href, route, setQuery } from "../route";
import { may } from "../session";
import { Chips } from "./chips";
import { FilterBar } from "./filter_bar";
import { allPages } from "./paging";

const LOOK_MS = 1_500;

const KINDS: Record<number, string> = {
  [Operation_Kind.cancel]: "cancel",
  [Operation_Kind.pause]: "pause",
  [Operation_Kind.resume]: "resume",
  [Operation_Kind.resolve]: "resolve",
  [Operation_Kind.reprioritize]: "reprioritize",
};

const STATUSES: readonly { name: string; status: Operation_Status_Value; tone: Tone }[] = [
  { name: "running", status: Operation_Status_Value.running, tone: "busy" },
  { name: "waiting", status: Operation_Status_Value.waiting, tone: "warn" },
  { name: "done", status: Operation_Status_Value.done, tone: "good" },
  { name: "cancelled", status: Operation_Status_Value.cancelled, tone: "off" },
];

export function Operations() {
  const operations = useRead((signal) => readOperations(signal), [], LOOK_MS);
  return (
    <Page title="Operations">
      <Loaded from={operations}>{(all) => <Overview operations={all} onDone={operations.refresh} />}</Loaded>
    </Page>
  );
}

function Overview({ operations, onDone }: { operations: Operation[]; onDone: () => void }) {
  if (!operations.length)
    return (
      <Empty icon="list" title="Nothing was done to many tasks within the hour">
        An operation cancels, pauses, resumes, resolves or reprioritizes all tasks that match a filter.{" "}
        <a href={href(["tasks"])}>The list of tasks</a> begins them.
      </Empty>
    );
  const { status = "" } = route.value.query;
  const count = (name: string) => operations.filter((operation) => statusOf(operation)?.name === name).length;
  return (
    <>
      <FilterBar
        label="Status"
        choice={status}
        onChoice={(name) => setQuery({ status: name })}
        choices={STATUSES.map(({ name }) => ({ name, count: count(name) })).filter(
          (each) => each.count || each.name === status,
        )}
      />
      <Card flush>
        <Table
          label="Operations"
          columns={columnsFor(onDone)}
          rows={operations.filter((operation) => !status || statusOf(operation)?.name === status)}
          rowKey={(operation) => operation.operationId}
          empty={<Empty icon="search" title={`No operation is ${status}`} />}
        />
      </Card>
    </>
  );
}

function columnsFor(onDone: () => void): Column<Operation>[] {
  const columns: Column<Operation>[] = [
    {
      title: "Operation",
      sortBy: (operation) => KINDS[operation.kind] ?? "",
      cell: (operation) => (
        <span class="two-lines">
          <span>{KINDS[operation.kind]}</span>
          <small class="dim">
            <Id of={operation.operationId} short={20} />
          </small>
        </span>
      ),
    },
    {
      title: "Status",
      sortBy: (operation) => STATUSES.findIndex(({ status }) => status === operation.status),
      cell: (operation) => {
        const status = statusOf(operation);
        return <State of={status?.name ?? "unknown"} tone={status?.tone ?? "calm"} />;
      },
    },
    { title: "Tasks", sortBy: (operation) => operation.matched, cell: (operation) => <Progress of={operation} /> },
    {
      title: "Which",
      wrap: true,
      wideOnly: true,
      cell: (operation) => <Chips of={filterTexts(operation.filter)} most={4} none="all tasks" />,
    },
    {
      title: "Refused",
      wrap: true,
      wideOnly: true,
      sortBy: (operation) => operation.failed,
      cell: (operation) => <Refused of={operation} />,
    },
    { title: "Began", right: true, cell: (operation) => <Ago at={operation.createdAt} /> },
    {
      title: "Duration",
      right: true,
      wideOnly: true,
      cell: (operation) => <Lasting from={operation.createdAt} to={operation.endedAt} />,
    },
  ];
  if (!may(OperationService.method.cancelOperation)) return columns;
  const actions: Column<Operation> = {
    title: "Actions",
    right: true,
    cell: (operation) =>
      !operation.endedAt && (
        <span class="row-actions">
          <Button onPress={() => cancel(operation, onDone)}>Stop</Button>
        </span>
      ),
  };
  return [...columns, actions];
}

function Progress({ of }: { of: Operation }) {
  const treated = of.done + of.skipped + of.failed;
  return (
    <span
      class="measured is-progress"
      title={`${of.done} treated, ${of.skipped} skipped, ${of.failed} refused, of ${of.matched} that matched`}
    >
      <Meter label={`Progress of ${of.operationId}`} value={Math.min(treated, of.matched)} max={of.matched} />
      <span class="figure">
        {countOf(of.done)}
        <span class="dim"> / {countOf(of.matched)}</span>
      </span>
    </span>
  );
}

function Refused({ of: { failed, firstError } }: { of: Operation }) {
  if (!failed) return <span class="dim">–</span>;
  return (
    <span class="two-lines">
      <span class="figure bad-text">{countOf(failed)}</span>
      {firstError && <small class="dim">{firstError}</small>}
    </span>
  );
}

function cancel({ operationId, kind }: Operation, onDone: () => void): void {
  ask({
    title: "Stop this operation?",
    text: `It ends where it stands. What it has done stays: tasks that it has treated (${KINDS[kind]}) are not changed back.`,
    submit: "Stop it",
    onSubmit: async () => {
      await api().operations.cancelOperation({ operationId });
      await act("The operation is stopped", async () => onDone());
    },
  });
}

function statusOf(operation: Operation) {
  return STATUSES.find(({ status }) => status === operation.status);
}

const FILTERS = [
  ["agentId", "agent"],
  ["state", "state"],
  ["batchId", "batch"],
  ["target", "target"],
  ["parentId", "parent"],
  ["labels", "labels"],
  ["action", "action"],
  ["hostId", "host"],
  ["concurrencyKey", "key"],
  ["error", "error"],
  ["idPrefix", "id"],
] as const;

const TIMES = ["createdFrom", "createdUntil", "endedFrom", "endedUntil"] as const;

/** What a filter asks for, such as `state failed`. */
function filterTexts(filter: TaskFilter | undefined): string[] {
  if (!filter) return [];
  const texts = FILTERS.flatMap(([field, word]) => (filter[field] ? [`${word} ${filter[field]}`] : []));
  return TIMES.some((field) => filter[field]) ? [...texts, "a time"] : texts;
}

function readOperations(signal: AbortSignal): Promise<Operation[]> {
  return allPages(async (pageToken) => {
    const { operations, nextPageToken } = await api().operations.listOperations({ pageToken }, { signal });
    return { items: operations, next: nextPageToken };
  });
}
