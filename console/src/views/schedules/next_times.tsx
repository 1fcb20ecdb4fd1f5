/** The next times at which a schedule is due, as the server counts them. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useState } from "preact/hooks";
import { type Schedule, Schedule_Status } from "@v1/schedule_pb";
import { api } from "../../api";
import { Empty, Loaded } from "../../parts/page";
import { Ago } from "../../parts/time";
import { useRead } from "../../reading";

const FIRST = 5;
const MORE = 20;

export function NextTimes({ schedule }: { schedule: Schedule }) {
  const [count, setCount] = useState(FIRST);
  const { scheduleId } = schedule;
  // What it is counted from: each of these changes the times.
  const inputs = [scheduleId, count, schedule.nextDueAt?.seconds, schedule.updatedAt?.seconds];
  const times = useRead((signal) => api().schedules.previewSchedule({ scheduleId, count }, { signal }), inputs);
  return (
    <Loaded from={times}>
      {({ dueAt }) =>
        dueAt.length ? (
          <>
            {schedule.status === Schedule_Status.paused && (
              <p class="warn-text">It is paused: these would be its times.</p>
            )}
            <ol class="times">
              {dueAt.map((each) => (
                <li key={String(timestampMs(each))}>
                  <span class="figure">{timeIn(schedule, new Date(timestampMs(each)))}</span>
                  <span class="dim">
                    <Ago at={each} />
                  </span>
                </li>
              ))}
            </ol>
            {dueAt.length === count && count < 1_000 && (
              <button type="button" class="link" onClick={() => setCount(count + MORE)}>
                {MORE} more
              </button>
            )}
          </>
        ) : (
          <Empty icon="clock" title="No time is left" />
        )
      }
    </Loaded>
  );
}

/** A time in the zone in which the schedule is read. */
function timeIn({ cadence, timeZone }: Schedule, time: Date): string {
  const zone = cadence.case === "cron" ? { timeZone, timeZoneName: "short" as const } : {};
  const form = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" } as const;
  const seconds = cadence.case === "interval" ? { second: "2-digit" as const } : {};
  try {
    return time.toLocaleString(undefined, { ...form, ...seconds, ...zone });
  } catch {
    // The browser may know fewer zones than the server.
    return time.toLocaleString(undefined, { ...form, ...seconds });
  }
}
