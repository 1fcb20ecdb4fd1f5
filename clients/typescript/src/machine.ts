/** The figures of this machine: a host reports them, the server keeps its own. */
import { cpus, freemem, totalmem } from "node:os";
import { create } from "@bufbuild/protobuf";
import { type Machine, MachineSchema } from "./gen/taskyard/v1/runtime_host_pb.js";

const MIB = 1024 * 1024;

/** Measures the whole machine. The use of the processors is over a time, which begins when this is made. */
export class MachineFigures {
  #before = processorTimes();

  /** The figures now; the use of the processors is that since the last look. */
  look(activeWorkers: number): Machine {
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
