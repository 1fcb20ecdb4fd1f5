/** A session, and the moves of its server and its handlers in short words. Leases are of 60 s, the grace is 5 s. */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { AssignmentSchema } from "../src/gen/taskyard/v1/lease_pb.js";
import {
  CancellationSchema,
  type ConnectRequest,
  HeartbeatAckSchema,
  type Report,
  ReportResultsSchema,
  WelcomeSchema,
} from "../src/gen/taskyard/v1/runtime_host_pb.js";
import { report, Session } from "../src/session.js";

/** A lease in short: `a1` is the first lease of the task `a`. */
const named = (key: string) => ({ taskId: key[0] ?? "", fencingToken: Number(key.slice(1)) });
const short = (key: string) => key.replace(" ", "");

export const reportOn = (key: string, event: Report["event"] | Parameters<typeof report>[1]) =>
  report(named(key), event as Parameters<typeof report>[1]);

export class Played {
  readonly session: Session;
  /** The tasks whose handlers began with the last turn. */
  begun: string[] = [];
  sequence = 0;

  constructor(slots = 10, welcome: MessageInitShape<typeof WelcomeSchema> = {}) {
    this.session = new Session(slots);
    this.welcome([], 0, welcome);
  }

  welcome(kept: string[], at = 0, fields: MessageInitShape<typeof WelcomeSchema> = {}): string[] {
    const leases = kept.map((key) => ({ ...named(key), leaseSecs: 60 }));
    const told = { leaseSecs: 60, reconnectGraceMs: 5_000, kept: leases, ...fields };
    return this.session.welcomed(create(WelcomeSchema, told as never), at).map(short);
  }

  assign(...keys: string[]): void {
    for (const key of keys) {
      const lease = { ...named(key), leaseSecs: 60 };
      this.session.assigned(create(AssignmentSchema, { lease, task: { taskId: lease.taskId } }));
    }
  }

  /** What there is to say, without writing it. */
  next(): { message: ConnectRequest; reports: Report[] } {
    const [message] = this.session.turn();
    if (message?.message.case !== "reports") throw new Error("there are no reports to say");
    return { message, reports: message.message.value.reports };
  }

  write(message: ConnectRequest): (string | undefined)[] {
    return this.session.written(message).map((each) => each.task?.taskId);
  }

  /** Write what there is; answers what was said, and notes which handlers begin. */
  turn(): string[] {
    this.begun = [];
    const said: string[] = [];
    for (const written of this.session.turn()) {
      this.begun.push(...this.write(written).map(String));
      const { message } = written;
      if (message.case === "credit") said.push(`credit ${message.value.count}`);
      if (message.case === "reports")
        said.push(...message.value.reports.map((each) => `${each.taskId} ${each.event.case}`));
    }
    return said;
  }

  /** Tasks that were handed out, reported as started and so answered. */
  begin(...keys: string[]): void {
    this.assign(...keys);
    this.turn();
    this.answer(...keys.map(() => undefined));
  }

  answer(...errors: (string | undefined)[]): string[] {
    return this.answerWith(...errors.map((code) => (code ? { code, error: "for a reason" } : undefined)));
  }

  answerWith(...errors: ({ code: string; error: string; retryable?: boolean } | undefined)[]): string[] {
    const results = errors.map((error) => (error ? { error } : {}));
    return this.session.answered(create(ReportResultsSchema, { results })).map(short);
  }

  end(...keys: string[]): void {
    for (const key of keys) this.endWith(key, reportOn(key, { case: "completed", value: {} }));
  }

  endWith(key: string, final: Report | undefined): void {
    this.session.ended(`${key[0]} ${key.slice(1)}`, final);
  }

  progress(key: string, fraction = 0.5): void {
    this.session.progressed(reportOn(key, { case: "progress", value: { fraction } }));
  }

  /** The leases that a heartbeat lists. */
  beat(now = 0): string[] {
    const { message } = this.session.heartbeat(now, undefined);
    if (message.case !== "heartbeat") throw new Error("that is no heartbeat");
    this.sequence = message.value.sequence;
    return message.value.leases.map((lease) => `${lease.taskId}${lease.fencingToken}`);
  }

  acknowledge(lost: string[] = [], sequence = this.sequence): string[] {
    return this.session.acknowledged(create(HeartbeatAckSchema, { sequence, lost: lost.map(named) })).map(short);
  }

  cancel(key: string): string[] {
    return this.session.cancelled(create(CancellationSchema, named(key))).map(short);
  }

  expired(now: number): string[] {
    return this.session.expired(now).map(short);
  }

  held(): string[] {
    return this.session.held().map((lease) => `${lease.taskId}${lease.fencingToken}`);
  }
}
