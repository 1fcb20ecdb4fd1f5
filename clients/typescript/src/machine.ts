/** The load of this machine, which a host reports with its heartbeats. */
import { cpus, freemem, totalmem } from "node:os";
import { create } from "@bufbuild/protobuf";
import { type Machine, MachineSchema } from "./gen/taskyard/v1/runtime_host_pb.js";

const MIB = 1024 * 1024;

/** Measures the whole machine, not this process. */
export class MachineFigures {
  #before = processorTimes();

  /** The figures now. The use of the processors is the average since the last call, or since this object was made. */
  measure(activeWorkers: number): Machine {
    const now = processorTimes();
    const total = now.total - this.#before.total;
    const busy = now.busy - this.#before.busy;
    this.#before = now;
    return create(MachineSchema, {
      activeWorkers,
      cpuPercent: total > 0 ? Math.round((1000 * busy) / total) / 10 : undefined,
      memoryMb: Math.round((totalmem() - freemem()) / MIB),
    });
  }
}

function processorTimes(): { busy: number; total: number } {
  const times = cpus().map((each) => each.times);
  const total = times.reduce((sum, { user, nice, sys, idle, irq }) => sum + user + nice + sys + idle + irq, 0);
  return { busy: total - times.reduce((sum, { idle }) => sum + idle, 0), total };
}
