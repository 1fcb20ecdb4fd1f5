/** The triggers of a schedule: those that wait or execute, and the newest that have ended. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Schedule, Trigger } from "@v1/schedule_pb";
import { api } from "../../api";
import { Id } from "../../parts/copy";
import { Empty, Loaded } from "../../parts/page";
import { type Column, Table } from "../../parts/table";
import { Ago, At, Lasting } from "../../parts/time";
import { useRead } from "../../reading";
import { href, route, setQuery } from "../../route";
import { FilterBar } from "../filter_bar";
import { TRIGGER_STATES, TriggerState } from "./status";

const LOOK_MS = 3_000;
const MOST = 200;

export function Triggers({ schedule }: { schedule: Schedule }) {
  const { scheduleId } = schedule;
  const { state = "" } = route.value.query;
  const read = useRead(
    (signal) => api().schedules.listTriggers({ scheduleId, state: state || undefined, pageSize: MOST }, { signal }),
    [scheduleId, state],
    LOOK_MS,
  );
  return (
    <>
      <div class="card-bar">
        <FilterBar
          label="State of the triggers"
          choice={state}
          onChoice={(name) => setQuery({ state: name })}
          choices={TRIGGER_STATES.map(({ name }) => ({ name }))}
        />
      </div>
      <Loaded from={read}>
        {({ triggers, nextPageToken }) => (
          <>
            <Table
              label="Triggers"
              columns={COLUMNS}
              rows={triggers}
              rowKey={(trigger) => trigger.triggerId}
              empty={<Empty icon="clock" title={state ? `No trigger is ${state}` : "It has not been due yet"} />}
            />
            {nextPageToken && <p class="table-note dim">The latest {MOST} are shown.</p>}
          </>
        )}
      </Loaded>
    </>
  );
}

const COLUMNS: Column<Trigger>[] = [
  {
    title: "Due",
    sortBy: (trigger) => (trigger.dueAt ? timestampMs(trigger.dueAt) : 0),
    cell: (trigger) => (
      <span class="two-lines">
        <At at={trigger.dueAt} />
        <small class="dim">
          <Ago at={trigger.dueAt} />
        </small>
      </span>
    ),
  },
  { title: "State", sortBy: (trigger) => trigger.state, cell: (trigger) => <TriggerState of={trigger.state} /> },
  {
    title: "Task",
    cell: ({ taskId }) => (taskId ? <Id of={taskId} href={href(["tasks", taskId])} /> : <span class="dim">–</span>),
  },
  {
    title: "Duration",
    right: true,
    wideOnly: true,
    cell: (trigger) =>
      trigger.firedAt ? <Lasting from={trigger.firedAt} to={trigger.endedAt} /> : <span class="dim">–</span>,
  },
  { title: "Why", wideOnly: true, wrap: true, cell: (trigger) => <Reason trigger={trigger} /> },
];

function Reason({ trigger: { reason, deferredUntil } }: { trigger: Trigger }) {
  return (
    <span class="dim">
      {reason}
      {deferredUntil && (
        <>
          {reason ? ", " : ""}not before <At at={deferredUntil} />
        </>
      )}
    </span>
  );
}
