/** Figures of machines over the last hour, by host. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { MachineSnapshot } from "@v1/stats_pb";

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

/** MiB as people read it. */
export function memoryText(mebibytes: number): string {
  return mebibytes >= 1024 ? `${(mebibytes / 1024).toFixed(1)} GiB` : `${Math.round(mebibytes)} MiB`;
}
