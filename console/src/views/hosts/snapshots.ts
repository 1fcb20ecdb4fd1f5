/** Figures of machines over the last hour, by host. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { MachineSnapshot } from "@v1/stats_pb";
import { api } from "../../api";

/** What a machine measured, oldest first. Times in milliseconds since 1970. */
export interface Course {
  times: number[];
  cpuPercent: (number | undefined)[];
  memoryMb: (number | undefined)[];
}

/** The courses of hosts, by their ids, of snapshots in any order. */
export function coursesOf(snapshots: readonly MachineSnapshot[]): Map<string, Course> {
  const courses = new Map<string, Course>();
  const inOrder = snapshots
    .map((snapshot) => ({ snapshot, at: snapshot.createdAt ? timestampMs(snapshot.createdAt) : 0 }))
    .sort((a, b) => a.at - b.at);
  for (const { snapshot, at } of inOrder) {
    if (snapshot.hostId === undefined) continue;
    let course = courses.get(snapshot.hostId);
    if (!course) {
      course = { times: [], cpuPercent: [], memoryMb: [] };
      courses.set(snapshot.hostId, course);
    }
    course.times.push(at);
    course.cpuPercent.push(snapshot.cpuPercent);
    course.memoryMb.push(snapshot.memoryMb);
  }
  return courses;
}

const HOUR_MS = 3_600_000;
/** How many snapshots are asked for at once: at first, and to add what is new. */
const FIRST_PAGE = 1_000;
const NEXT_PAGE = 200;
/** The most snapshots that are kept: those of 100 hosts over the last hour, or the newest of more. */
const MOST = 6_000;

/** Reads snapshots of hosts, and later only those that are new. Each reader begins with all of the last hour. */
export function snapshotReader(): (signal: AbortSignal) => Promise<MachineSnapshot[]> {
  let known: MachineSnapshot[] = [];
  return async (signal) => {
    const ids = new Set(known.map(nameOf));
    const fresh: MachineSnapshot[] = [];
    const pageSize = known.length ? NEXT_PAGE : FIRST_PAGE;
    let pageToken: string | undefined;
    do {
      const page = await api().stats.listSnapshots({ server: false, pageSize, pageToken }, { signal });
      const added = page.snapshots.filter((each) => !ids.has(nameOf(each)));
      fresh.push(...added);
      // They come newest first: behind one that is known all are.
      pageToken = added.length === page.snapshots.length ? page.nextPageToken : undefined;
    } while (pageToken && fresh.length < MOST);
    const since = Date.now() - HOUR_MS;
    known = [...fresh, ...known].slice(0, MOST).filter(({ createdAt }) => createdAt && timestampMs(createdAt) >= since);
    return known;
  };
}

/** Ids begin anew with the server. */
function nameOf({ id, createdAt }: MachineSnapshot): string {
  return `${id} ${createdAt?.seconds}`;
}

/** MiB as people read it. */
export function memoryText(mebibytes: number): string {
  return mebibytes >= 1024 ? `${(mebibytes / 1024).toFixed(1)} GiB` : `${Math.round(mebibytes)} MiB`;
}
