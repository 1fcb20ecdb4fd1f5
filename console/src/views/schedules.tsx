/** Schedules: when each is due next, what it submits, and how it did. One of them, where the address names it. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Schedule, ScheduleService } from "@v1/schedule_pb";
import { api } from "../api";
import { Button } from "../parts/button";
import { Card, Empty, Loaded, Page } from "../parts/page";
import { type Column, Table } from "../parts/table";
import { Ago } from "../parts/time";
import { useRead } from "../reading";
import { go, href, route, setQuery } from "../route";
import { may } from "../session";
import { FilterBar } from "./filter_bar";
import { allPages } from "./paging";
import { Cadence } from "./schedules/cadence";
import { cadenceText, cadenceWords } from "./schedules/cadence_words";
import { openNewSchedule } from "./schedules/form_dialog";
import { Status, statusOf } from "./schedules/status";
import { SchedulePage } from "./schedules/schedule_page";

const LOOK_MS = 4_000;
const STATUSES = ["active", "paused", "over"] as const;

export function Schedules() {
  const [id] = route.value.rest;
  return id ? <SchedulePage key={id} id={id} /> : <ScheduleList />;
}

function ScheduleList() {
  const schedules = useRead((signal) => readSchedules(signal), [], LOOK_MS);
  const newSchedule = may(ScheduleService.method.createSchedule) && (
    <Button icon="plus" kind="primary" onPress={() => openNewSchedule((id) => go(href(["schedules", id])))}>
      New schedule
    </Button>
  );
  return (
    <Page title="Schedules" actions={newSchedule}>
      <Loaded from={schedules}>{(all) => <Overview schedules={all} />}</Loaded>
    </Page>
  );
}

function Overview({ schedules }: { schedules: Schedule[] }) {
  if (!schedules.length)
    return (
      <Empty icon="clock" title="No schedule is set">
        A schedule submits a task each time it is due: by cron, every so often, or once.
      </Empty>
    );
  const { q = "", status = "" } = route.value.query;
  const count = (name: string) => schedules.filter((schedule) => statusOf(schedule) === name).length;
  const shown = schedules.filter((schedule) => isMeant(schedule, q) && (!status || statusOf(schedule) === status));
  return (
    <>
      <FilterBar
        search={q}
        onSearch={(text) => setQuery({ q: text })}
        placeholder="Name, agent, action, cadence"
        label="Status"
        choice={status}
        onChoice={(name) => setQuery({ status: name })}
        choices={STATUSES.map((name) => ({ name, count: count(name) })).filter(
          (each) => each.count || each.name === status,
        )}
      />
      <Card flush>
        <Table
          label="Schedules"
          columns={COLUMNS}
          rows={shown}
          rowKey={(schedule) => schedule.scheduleId}
          onOpen={(schedule) => go(href(["schedules", schedule.scheduleId]))}
          empty={<Empty icon="search" title="No schedule matches" />}
        />
      </Card>
    </>
  );
}

const COLUMNS: Column<Schedule>[] = [
  {
    title: "Schedule",
    sortBy: (schedule) => schedule.displayName ?? schedule.scheduleId,
    cell: ({ scheduleId, displayName }) => (
      <span class="two-lines">
        <a href={href(["schedules", scheduleId])}>{displayName ?? scheduleId}</a>
        {displayName && <small class="dim">{scheduleId}</small>}
      </span>
    ),
  },
  { title: "Status", sortBy: statusOf, cell: (schedule) => <Status schedule={schedule} /> },
  { title: "Due", wideOnly: true, cell: (schedule) => <Cadence of={schedule} /> },
  {
    title: "Submits",
    wideOnly: true,
    sortBy: (schedule) => schedule.task?.action ?? "",
    cell: (schedule) => (
      <span class="two-lines">
        <span>{schedule.task?.action}</span>
        <small class="dim">as {schedule.task?.agentId}</small>
      </span>
    ),
  },
  {
    title: "Next",
    right: true,
    sortBy: (schedule) => (schedule.nextDueAt ? timestampMs(schedule.nextDueAt) : Number.POSITIVE_INFINITY),
    cell: (schedule) => <Ago at={schedule.nextDueAt} />,
  },
  {
    title: "Last fired",
    right: true,
    wideOnly: true,
    sortBy: (schedule) => (schedule.lastFiredAt ? timestampMs(schedule.lastFiredAt) : 0),
    cell: (schedule) => <Ago at={schedule.lastFiredAt} />,
  },
];

function isMeant(schedule: Schedule, search: string): boolean {
  const { scheduleId, displayName, task, cadence } = schedule;
  const parts = [scheduleId, displayName, task?.agentId, task?.action, cadenceText(cadence), cadenceWords(cadence)];
  const text = parts.join(" ").toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function readSchedules(signal: AbortSignal): Promise<Schedule[]> {
  return allPages(async (pageToken) => {
    const { schedules, nextPageToken } = await api().schedules.listSchedules({ pageToken }, { signal });
    return { items: schedules, next: nextPageToken };
  });
}
