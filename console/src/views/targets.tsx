/** Targets: which serial queues are busy, blocked or waiting, and what each waits for. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Target, Target_Status, TargetService } from "@v1/target_pb";
import { TaskService } from "@v1/task_pb";
import { api } from "../api";
import { Button } from "../parts/button";
import { Id } from "../parts/copy";
import { Card, Empty, Loaded, Page } from "../parts/page";
import { State, type Tone } from "../parts/state";
import { type Column, Table } from "../parts/table";
import { Lasting } from "../parts/time";
import { useRead } from "../reading";
import { href, route, setQuery } from "../route";
import { may } from "../session";
import { FilterBar } from "./filter_bar";
import { allPages } from "./paging";
import { openResolve, openResume } from "./targets/dialogs";
import { Tile, Tiles } from "./tiles";

const LOOK_MS = 2_000;

/** The statuses in the order in which somebody should look at them. */
const STATUSES: readonly { name: string; status: Target_Status; tone: Tone }[] = [
  { name: "blocked", status: Target_Status.blocked, tone: "bad" },
  { name: "stopping", status: Target_Status.stopping, tone: "warn" },
  { name: "running", status: Target_Status.running, tone: "busy" },
  { name: "waiting", status: Target_Status.waiting, tone: "calm" },
  { name: "ready", status: Target_Status.ready, tone: "good" },
];

export function Targets() {
  const targets = useRead((signal) => readTargets(signal), [], LOOK_MS);
  return (
    <Page title="Targets">
      <Loaded from={targets}>{(all) => <Overview targets={all} onDone={targets.refresh} />}</Loaded>
    </Page>
  );
}

function Overview({ targets, onDone }: { targets: Target[]; onDone: () => void }) {
  if (!targets.length)
    return (
      <Empty icon="target" title="No target is in use">
        Tasks that name a <code>target</code> run one at a time, in order of submission. None is there now.
      </Empty>
    );
  const { q = "", status = "" } = route.value.query;
  const count = (name: string) => targets.filter((target) => nameOf(target) === name).length;
  const shown = targets
    .filter((target) => target.target.toLowerCase().includes(q.toLowerCase()) && (!status || nameOf(target) === status))
    .sort((a, b) => rankOf(a) - rankOf(b) || a.target.localeCompare(b.target));
  return (
    <>
      <Tiles>
        <Tile label="Blocked" value={count("blocked")} tone={count("blocked") ? "bad" : undefined} />
        <Tile label="Running" value={count("running")} />
        <Tile label="Tasks that wait" value={targets.reduce((sum, target) => sum + target.queued, 0)} />
        <Tile label="Targets" value={targets.length} />
      </Tiles>
      <FilterBar
        search={q}
        onSearch={(text) => setQuery({ q: text })}
        placeholder="Name of a target"
        label="Status"
        choice={status}
        onChoice={(name) => setQuery({ status: name })}
        choices={STATUSES.map(({ name }) => ({ name, count: count(name) })).filter(
          (each) => each.count || each.name === status,
        )}
      />
      <Card flush>
        <Table
          label="Targets"
          columns={columnsFor(onDone)}
          rows={shown}
          rowKey={(target) => target.target}
          empty={<Empty icon="search" title="No target matches" />}
        />
      </Card>
    </>
  );
}

function columnsFor(onDone: () => void): Column<Target>[] {
  const columns: Column<Target>[] = [
    {
      title: "Target",
      wrap: true,
      sortBy: (target) => target.target,
      cell: (target) => <a href={href(["tasks"], { target: target.target })}>{target.target}</a>,
    },
    {
      title: "Status",
      sortBy: rankOf,
      cell: (target) => <State of={nameOf(target)} tone={STATUSES[rankOf(target)]?.tone ?? "calm"} />,
    },
    {
      title: "Wait",
      right: true,
      sortBy: (target) => target.queued,
      cell: (target) => <span class="figure">{target.queued}</span>,
    },
    {
      title: "Task",
      wideOnly: true,
      cell: (target) => target.taskId && <Id of={target.taskId} href={href(["tasks", target.taskId])} />,
    },
    { title: "Waits for", wideOnly: true, wrap: true, cell: (target) => <WaitsFor target={target} /> },
    {
      title: "For",
      right: true,
      wideOnly: true,
      sortBy: (target) => (target.since ? timestampMs(target.since) : 0),
      cell: (target) => <Lasting from={target.since} />,
    },
  ];
  const mayResume = may(TargetService.method.resumeTargetTask);
  const mayResolve = may(TaskService.method.resolveTask);
  if (!mayResume && !mayResolve) return columns;
  const actions: Column<Target> = {
    title: "Actions",
    right: true,
    cell: (target) =>
      target.status === Target_Status.blocked && (
        <span class="row-actions">
          {mayResume && (
            <Button icon="play" onPress={() => openResume(target, onDone)}>
              Resume
            </Button>
          )}
          {mayResolve && (
            <Button icon="check" onPress={() => openResolve(target, onDone)}>
              Resolve
            </Button>
          )}
        </span>
      ),
  };
  return [...columns, actions];
}

/** What a target waits for, without the id that stands beside it. */
function WaitsFor({ target }: { target: Target }) {
  const { taskId = "", waitsFor = "" } = target;
  return (
    <span class="dim">{taskId && waitsFor.startsWith(taskId) ? waitsFor.slice(taskId.length + 1) : waitsFor}</span>
  );
}

function rankOf(target: Target): number {
  return STATUSES.findIndex(({ status }) => status === target.status);
}

function nameOf(target: Target): string {
  return STATUSES[rankOf(target)]?.name ?? "unknown";
}

function readTargets(signal: AbortSignal): Promise<Target[]> {
  return allPages(async (pageToken) => {
    const { targets, nextPageToken } = await api().targets.listTargets({ pageToken }, { signal });
    return { items: targets, next: nextPageToken };
  });
}
