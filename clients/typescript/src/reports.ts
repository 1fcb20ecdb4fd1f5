/**
 * The reports of a host on their way to the server: those that wait to be written, and those that wait for an answer.
 *
 * Each lease has at most one waiting report per stage. A later report replaces one of the same stage that was not written
 * yet. This file knows leases by their keys only; what a report means for its lease is decided in `session.ts`.
 */
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type Report, ReportSchema } from "./gen/taskyard/v1/runtime_host_pb.js";

/** The size limit of a message where the server names none. */
const DEFAULT_MESSAGE_BYTES = 4 * 1024 * 1024;
/** Upper bound for what a message adds to its reports, and a report to its own fields. */
const ENVELOPE_BYTES = 32;
/** The reports of a lease, in the order in which they are written. */
const STAGES = ["started", "progress", "final"] as const;

export type Stage = (typeof STAGES)[number];

/** Identifies a lease: the id of its task and its fencing token. */
export type Key = string;

/** How the wire identifies a lease. */
export interface LeaseName {
  taskId: string;
  fencingToken: number;
}

export class ReportQueue {
  readonly #warn: (text: string) => void;
  /** The reports to write. A lease takes its place in the order with its first report. */
  #pending = new Map<Key, Map<Stage, Report>>();
  /** The reports that the server has not answered, oldest first: it answers in this order. */
  #unanswered: Report[] = [];
  #maxBytes = DEFAULT_MESSAGE_BYTES;

  constructor(warn: (text: string) => void) {
    this.#warn = warn;
  }

  /** The largest message that the server reads, in bytes; 0 stands for the default. */
  limit(messageBytes: number): void {
    this.#maxBytes = (messageBytes || DEFAULT_MESSAGE_BYTES) - ENVELOPE_BYTES;
  }

  /** About the most that a message carries. */
  get maxBytes(): number {
    return this.#maxBytes;
  }

  /** Whether a message of so many bytes is one that the server reads. */
  fits(messageBytes: number): boolean {
    return messageBytes <= this.#maxBytes;
  }

  /** Whether there are reports to write. */
  get hasPending(): boolean {
    return this.#pending.size > 0;
  }

  add(report: Report): void {
    const key = keyOf(report);
    const reports = this.#pending.get(key) ?? new Map<Stage, Report>();
    reports.set(stageOf(report), report);
    // A task that is given back does not count as started.
    if (report.event.case === "released") reports.delete("started");
    this.#pending.set(key, reports);
  }

  /** The final report of a lease that waits to be written. */
  pendingFinal(key: Key): Report | undefined {
    return this.#pending.get(key)?.get("final");
  }

  /** Drops the reports of a lease that wait to be written. */
  drop(key: Key): void {
    this.#pending.delete(key);
  }

  /**
   * The reports of the next message, as many as fit, in order. They then wait for an answer. The final report of a lease
   * is left out while `mustWait` says so.
   */
  nextBatch(mustWait: (key: Key) => boolean = () => false): Report[] {
    const batch: Report[] = [];
    let size = 0;
    for (const [key, reports] of this.#pending) {
      for (const stage of STAGES) {
        if (stage === "final" && reports.has(stage) && mustWait(key)) continue;
        const pending = reports.get(stage);
        const [report, bytes] = pending ? this.#fitted(pending) : [undefined, 0];
        size += bytes;
        if (batch.length && size > this.#maxBytes) {
          this.#unanswered.push(...batch);
          return batch;
        }
        if (report) batch.push(report);
        reports.delete(stage);
      }
      if (!reports.size) this.#pending.delete(key);
    }
    this.#unanswered.push(...batch);
    return batch;
  }

  /** Removes and returns the reports that the server has just answered: so many of the oldest. */
  answered(count: number): Report[] {
    return this.#unanswered.splice(0, count);
  }

  /** After a break: the unanswered reports that `isWanted` selects wait again, before those that were added since. */
  restore(isWanted: (report: Report) => boolean): void {
    const newer = [...this.#pending.values()].flatMap((reports) => [...reports.values()]);
    const unanswered = this.#unanswered.filter(isWanted);
    this.#pending = new Map();
    this.#unanswered = [];
    for (const report of [...unanswered, ...newer]) this.add(report);
  }

  /** The report and its size in bytes. One that fits no message becomes a failure if it is an outcome, else nothing. */
  #fitted(report: Report): [Report | undefined, number] {
    const bytes = sizeOf(report);
    if (bytes <= this.#maxBytes) return [report, bytes];
    if (stageOf(report) !== "final") {
      this.#warn(`task ${report.taskId}: its progress is too large to be reported`);
      return [undefined, 0];
    }
    const failure = failureInstead(
      report,
      `result of ${bytes} bytes does not fit a message to the server`,
      "too_large",
    );
    return [failure, sizeOf(failure)];
  }
}

export function keyOf(lease: { taskId?: string; fencingToken?: number }): Key {
  return `${lease.taskId ?? ""} ${lease.fencingToken ?? 0}`;
}

export function stageOf({ event }: Report): Stage {
  return event.case === "started" || event.case === "progress" ? event.case : "final";
}

/** A report on a lease. `tokensUsed` counts the tokens of this attempt so far. */
export function reportOn(
  lease: LeaseName,
  event: MessageInitShape<typeof ReportSchema>["event"],
  tokensUsed?: number,
): Report {
  return create(ReportSchema, { taskId: lease.taskId, fencingToken: lease.fencingToken, event, tokensUsed });
}

/** Upper bound in bytes for what a report adds to a message. Throws if the report cannot be encoded. */
export function sizeOf(report: Report): number {
  return toBinary(ReportSchema, report).length + ENVELOPE_BYTES;
}

/** A final failure instead of an outcome that the server does not take: another attempt would have the same outcome. */
export function failureInstead({ taskId, fencingToken, tokensUsed }: Report, error: string, code: string): Report {
  const failed = { error, code, retryable: false };
  return reportOn({ taskId, fencingToken }, { case: "failed", value: failed }, tokensUsed);
}
