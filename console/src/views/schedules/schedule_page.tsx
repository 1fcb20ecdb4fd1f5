/** One schedule: its next times, what it submits, its past triggers, and all that can be done with it. */
import { type Schedule, Schedule_Status, ScheduleService } from "@v1/schedule_pb";
import { act } from "../../acting";
import { api } from "../../api";
import { Button } from "../../parts/button";
import { Id } from "../../parts/copy";
import { ask } from "../../parts/dialog";
import { Card, Facts, Loaded, Page } from "../../parts/page";
import { Ago, At } from "../../parts/time";
import { useRead } from "../../reading";
import { go, href } from "../../route";
import { may } from "../../session";
import { Cadence } from "./cadence";
import { CATCH_UPS, OVERLAPS } from "./draft";
import { openEditSchedule } from "./form_dialog";
import { NextTimes } from "./next_times";
import { openResume } from "./resume_dialog";
import { Status } from "./status";
import { Template } from "./template";
import { Triggers } from "./triggers";

const LOOK_MS = 3_000;

export function SchedulePage({ id }: { id: string }) {
  const schedule = useRead(
    async (signal) => (await api().schedules.getSchedule({ scheduleId: id }, { signal })).schedule!,
    [id],
    LOOK_MS,
  );
  const known = schedule.value;
  return (
    <Page
      above={<a href={href(["schedules"])}>Schedules</a>}
      title={known?.displayName ?? id}
      actions={known && <Actions schedule={known} onDone={schedule.refresh} />}
    >
      <Loaded from={schedule}>
        {(found) => (
          <div class="columns">
            <div class="stack">
              <Card title="Schedule">
                <Description schedule={found} />
              </Card>
              <Card title="Submits">{found.task && <Template task={found.task} />}</Card>
            </div>
            <Card title="Next times">
              <NextTimes schedule={found} />
            </Card>
            <Card title="Triggers" flush class="full">
              <Triggers schedule={found} />
            </Card>
          </div>
        )}
      </Loaded>
    </Page>
  );
}

function Actions({ schedule, onDone }: { schedule: Schedule; onDone: () => void }) {
  const { method } = ScheduleService;
  const { scheduleId } = schedule;
  const name = schedule.displayName ?? scheduleId;
  const isPaused = schedule.status === Schedule_Status.paused;
  const trigger = async () => {
    const done = await act(`${name} is triggered`, () =>
      api().schedules.triggerSchedule({ scheduleId, idempotencyKey: crypto.randomUUID?.() }),
    );
    if (done) onDone();
  };
  const pause = async () => {
    if (await act(`${name} is paused`, () => api().schedules.pauseSchedule({ scheduleId }))) onDone();
  };
  return (
    <>
      {may(method.triggerSchedule) && (
        <Button icon="play" kind="primary" onPress={trigger}>
          Trigger now
        </Button>
      )}
      {!isPaused && may(method.pauseSchedule) && (
        <Button icon="pause" onPress={pause}>
          Pause
        </Button>
      )}
      {isPaused && may(method.resumeSchedule) && (
        <Button icon="play" onPress={() => openResume(schedule, onDone)}>
          Resume
        </Button>
      )}
      {may(method.updateSchedule) && <Button onPress={() => openEditSchedule(schedule, onDone)}>Edit</Button>}
      {may(method.deleteSchedule) && (
        <Button icon="trash" kind="danger" onPress={() => deleteSchedule(schedule)}>
          Delete
        </Button>
      )}
    </>
  );
}

function deleteSchedule({ scheduleId, displayName }: Schedule): void {
  const name = displayName ?? scheduleId;
  ask({
    title: `Delete ${name}?`,
    text: "Its pending triggers are dropped. Tasks that it has submitted go on.",
    submit: "Delete",
    danger: true,
    onSubmit: async () => {
      await api().schedules.deleteSchedule({ scheduleId });
      await act(`${name} is deleted`, async () => go(href(["schedules"])));
    },
  });
}

function Description({ schedule }: { schedule: Schedule }) {
  const overlap = OVERLAPS.find((each) => each.policy === schedule.overlap);
  const catchUp = CATCH_UPS.find((each) => each.policy === schedule.catchUp);
  const { lastTaskId } = schedule;
  return (
    <Facts
      rows={[
        ["Status", <Status key="status" schedule={schedule} />],
        ["Id", schedule.displayName !== undefined && <Id key="id" of={schedule.scheduleId} />],
        ["Due", <Cadence key="due" of={schedule} />],
        ["Time zone", schedule.cadence.case === "cron" && schedule.timeZone],
        ["While an earlier one has not ended", overlap?.words],
        ["Missed times that fire", catchUp?.words],
        ["Last fired", <Ago key="fired" at={schedule.lastFiredAt} />],
        ["Last task", lastTaskId && <Id key="task" of={lastTaskId} href={href(["tasks", lastTaskId])} />],
        ["Created", <At key="created" at={schedule.createdAt} />],
        ["Changed", <Ago key="changed" at={schedule.updatedAt} />],
      ]}
    />
  );
}
