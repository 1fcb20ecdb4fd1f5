/**
 * A session whose server and handlers a test plays, with leases in short form. Leases last 60 s, the reconnect grace is
 * 5 s, the clock stands at 0 ms.
 */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { AssignmentSchema } from "../src/gen/taskyard/v1/lease_pb.js";
import { type NewChunk, NewChunkSchema, OutputAcksSchema } from "../src/gen/taskyard/v1/output_pb.js";
import {
  CancellationSchema,
  type ConnectRequest,
  type Heartbeat,
  HeartbeatAckSchema,
  type Machine,
  type Report,
  ReportResultsSchema,
  WelcomeSchema,
} from "../src/gen/taskyard/v1/runtime_host_pb.js";
import { keyOf, reportOn } from "../src/reports.js";
import { Session } from "../src/session.js";

/** The name of a lease in short form: `a1` is the first lease of the task `a`. */
export function lease(key: string): { taskId: string; fencingToken: number } {
  return { taskId: key.slice(0, 1), fencingToken: Number(key.slice(1)) };
}

export function reportFor(key: string, event: Parameters<typeof reportOn>[1]): Report {
  return reportOn(lease(key), event);
}

export class ScriptedSession {
  readonly session: Session;
  readonly warnings: string[] = [];
  /** The tasks whose handlers began by the last `writeAll` or answer. */
  begun: string[] = [];
  /** The sequence of the last heartbeat. */
  sequence = 0;

  constructor(slots = 10, welcome: MessageInitShape<typeof WelcomeSchema> = {}) {
    this.session = new Session(slots, (text) => this.warnings.push(text));
    this.welcome([], 0, welcome);
  }

  welcome(kept: string[], sentAt = 0, fields: MessageInitShape<typeof WelcomeSchema> = {}): string[] {
    const leases = kept.map((key) => ({ ...lease(key), leaseSecs: 60 }));
    const welcome = { leaseSecs: 60, reconnectGraceMs: 5_000, kept: leases, ...fields };
    return this.session.welcomed(create(WelcomeSchema, welcome as never), sentAt).map(short);
  }

  /** Hands out tasks without a target. */
  assign(...keys: string[]): void {
    for (const key of keys) this.#assign(key, undefined);
  }

  /** Hands out tasks of one target. */
  assignOfTarget(...keys: string[]): void {
    for (const key of keys) this.#assign(key, "page");
  }

  #assign(key: string, target: string | undefined): void {
    const name = lease(key);
    const task = { taskId: name.taskId, target };
    this.session.assigned(create(AssignmentSchema, { lease: { ...name, leaseSecs: 60 }, task }));
  }

  /** Hands out tasks without a target, and has the host write and the server take their `started` reports. */
  begin(...keys: string[]): void {
    this.assign(...keys);
    this.writeAll();
    this.answer(...keys.map(() => undefined));
  }

  /** The next message of reports, without writing it. */
  nextReports(): { message: ConnectRequest; reports: Report[] } {
    const [message] = this.session.nextMessages();
    if (message?.message.case !== "reports") throw new Error("there are no reports to write");
    return { message, reports: message.message.value.reports };
  }

  /** Returns the tasks whose handlers begin. */
  write(message: ConnectRequest): (string | undefined)[] {
    return this.session.written(message).map((each) => each.task?.taskId);
  }

  /** Writes the next messages. Returns the reports and the credit in them. */
  writeAll(): string[] {
    return this.writeMessages(undefined).flat();
  }

  /** Writes the next messages and a heartbeat that is due. Returns what is in each. */
  writeWithHeartbeat(machine?: Machine): string[][] {
    return this.writeMessages(this.session.heartbeat(0, machine));
  }

  /** Writes the next messages. Returns the reports, credit and heartbeat in each. */
  writeMessages(heartbeat?: ConnectRequest): string[][] {
    this.begun = [];
    return this.session.nextMessages(heartbeat).map((next) => {
      this.begun.push(...this.write(next).map(String));
      return contents(next);
    });
  }

  /** The server counts accepted reports. */
  accept(count: number): void {
    this.begun = this.session.accepted(count).map((each) => String(each.task?.taskId));
  }

  /** Answers the oldest unanswered message: an error code, or undefined, for each report. Returns the handlers to stop. */
  answer(...codes: (string | undefined)[]): string[] {
    return this.answerWith(...codes.map((code) => (code ? { code, error: "for a reason" } : undefined)));
  }

  answerWith(...errors: ({ code: string; error: string; retryable?: boolean } | undefined)[]): string[] {
    const results = errors.map((error) => (error ? { error } : {}));
    const { begin, stop } = this.session.answered(create(ReportResultsSchema, { results }));
    this.begun = begin.map((each) => String(each.task?.taskId));
    return stop.map(short);
  }

  /** Handlers return without a result. */
  end(...keys: string[]): void {
    for (const key of keys) this.endWith(key, reportFor(key, { case: "completed", value: {} }));
  }

  endWith(key: string, outcome: Report | undefined): void {
    this.session.ended(keyOf(lease(key)), outcome);
  }

  progress(key: string, fraction = 0.5): void {
    this.session.progressed(reportFor(key, { case: "progress", value: { fraction } }));
  }

  /** A handler says a text. */
  say(key: string, text: string): string {
    return this.session.said(lease(key), create(NewChunkSchema, { data: { case: "text", value: text } }));
  }

  /** Answers the oldest message of output: for each lease how many chunks are kept, or an error code. */
  keep(answers: Record<string, number | string>, now = 0): string[] {
    const acks = Object.entries(answers).map(([key, answer]) =>
      typeof answer === "number" ? { ...lease(key), taken: answer } : { ...lease(key), error: { code: answer } },
    );
    return this.session.outputAnswered(create(OutputAcksSchema, { acks }), now).map(short);
  }

  /** Sends a heartbeat. Returns the leases that it lists, with their tokens where it states them. */
  heartbeat(now = 0): string[] {
    const { message } = this.session.heartbeat(now, undefined);
    if (message.case !== "heartbeat") throw new Error("that is no heartbeat");
    this.sequence = message.value.sequence;
    return message.value.leases.map(({ taskId, fencingToken, tokensUsed }) => {
      return `${taskId}${fencingToken}${tokensUsed === undefined ? "" : `: ${tokensUsed} tokens`}`;
    });
  }

  acknowledge(lost: string[] = [], sequence = this.sequence): string[] {
    return this.session.acknowledged(create(HeartbeatAckSchema, { sequence, lost: lost.map(lease) })).map(short);
  }

  cancel(key: string): string[] {
    return this.session.cancelled(create(CancellationSchema, lease(key))).map(short);
  }

  expired(now: number): string[] {
    return this.session.expired(now).map(short);
  }

  /** The leases that a Hello lists. */
  held(): string[] {
    return this.session.held().map((each) => `${each.taskId}${each.fencingToken}`);
  }
}

function contents({ message }: ConnectRequest): string[] {
  const beat = (heartbeat: Heartbeat) => ["heartbeat", ...heartbeat.leases.map(({ taskId }) => taskId)].join(" ");
  switch (message.case) {
    case "credit":
      return [`credit ${message.value.count}`];
    case "heartbeat":
      return [beat(message.value)];
    case "reports": {
      const { reports, credit, heartbeat } = message.value;
      const written = reports.map((each) => `${each.taskId} ${each.event.case}`);
      return [...written, ...(credit ? [`credit ${credit}`] : []), ...(heartbeat ? [beat(heartbeat)] : [])];
    }
    case "output":
      return message.value.leases.map(({ taskId, number, chunks }) => {
        return [`${taskId} says ${number}`, ...chunks.map(textIn)].join(" ");
      });
    default:
      return [];
  }
}

function textIn({ data }: NewChunk): string {
  return typeof data.value === "string" ? data.value.replace(/x{60}/, "long") : String(data.case);
}

function short(key: string): string {
  return key.replace(" ", "");
}
