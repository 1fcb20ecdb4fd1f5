/**
 * What a host holds and what it has to say next: the rules of the host stream (the comments of `runtime_host.proto`).
 *
 * No clock, no timers, no connection: `now` is passed in, in milliseconds of a clock that never jumps, messages come in
 * and messages go out. `HostRun` carries them, and runs and stops the handlers as it is told here.
 *
 * A lease goes this way: handed out; begun, once its `started` report was written; ended, when its handler has returned;
 * gone, when its last report was answered. Its slot is taken from the hand-out until its handler has returned, also where
 * the lease is lost meanwhile.
 */
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import type { Assignment } from "./gen/taskyard/v1/lease_pb.js";
import {
  type Cancellation,
  type ConnectRequest,
  ConnectRequestSchema,
  type HeartbeatAck,
  type Machine,
  type Report,
  type ReportResults,
  ReportSchema,
  RuntimeHost_Status,
  type Welcome,
} from "./gen/taskyard/v1/runtime_host_pb.js";
import type { Error as ErrorMessage } from "./gen/taskyard/v1/task_pb.js";

const DEFAULT_MESSAGE_BYTES = 4 * 1024 * 1024;
/** What a message adds to its reports at most, and a report to its own fields. */
const ENVELOPE_BYTES = 32;
/** The reports of a lease, of which it has one each at a time, in the order in which they are said. */
const ORDER = ["started", "progress", "final"] as const;
type Place = (typeof ORDER)[number];

/** A lease by the id of its task and its fencing token. */
export type Key = string;

/** What a lease is called on the wire. */
export interface LeaseName {
  taskId: string;
  fencingToken: number;
}

/** One lease, as its host sees it. */
interface Lease {
  key: Key;
  name: LeaseName;
  lengthMs: number;
  /** When it is over unless it is renewed. */
  endsAt: number;
  /** What its handler is to begin with; undefined once it has begun or never will. */
  waiting: Assignment | undefined;
  /** Whether the lease has ended, for the server or by its time. */
  isLost: boolean;
  /** The reports that are not yet on the stream. */
  unsaid: Map<Place, Report>;
}

/** The leases of a host of so many slots, over all streams of one start of it. Methods answer whose handlers to stop. */
export class Session {
  isDraining = false;
  readonly #slots: number;
  readonly #warn: (text: string) => void;
  readonly #leases = new Map<Key, Lease>();
  /** The leases that take a slot. */
  readonly #busy = new Set<Key>();
  /** The leases with unsaid reports, in the order in which they got them. */
  readonly #toSay = new Set<Key>();
  #unanswered: Report[][] = [];
  #refusedForNow: Report[] = [];
  /** How many tasks the server may still hand out. */
  #credit = 0;
  #sequence = 0;
  /** The heartbeats without an answer. */
  #beats: { sequence: number; sentAt: number; listed: Key[] }[] = [];
  /**
   * When the last answered heartbeat or Hello was sent. A lease handed out since counts from here: not from when it
   * arrived, which may be long after the claim.
   */
  #countsFrom = 0;
  #graceMs = 0;
  #mostBytes = DEFAULT_MESSAGE_BYTES;

  constructor(slots: number, warn: (text: string) => void = () => {}) {
    this.#slots = slots;
    this.#warn = warn;
  }

  // What others ask

  /** Tasks whose handlers have not returned, or are about to begin. */
  get active(): number {
    return this.#busy.size;
  }

  /** Whether there are leases that the host has not lost. */
  get holdsLeases(): boolean {
    return [...this.#leases.values()].some((lease) => !lease.isLost);
  }

  /** Whether nothing runs and nothing waits to be said or answered. */
  get isFinished(): boolean {
    return this.#leases.size === 0;
  }

  // A stream's life

  /** The leases that a Hello lists: all that are not lost, ended ones too until their report was answered. */
  held(): LeaseName[] {
    return [...this.#leases.values()].filter((lease) => !lease.isLost).map((lease) => lease.name);
  }

  /** A stream begins, whose Hello was sent at `sentAt`. What it does not name as kept is lost. */
  welcomed(welcome: Welcome, sentAt: number): Key[] {
    this.#countsFrom = sentAt;
    this.#graceMs = welcome.reconnectGraceMs;
    this.#mostBytes = (welcome.maxMessageBytes || DEFAULT_MESSAGE_BYTES) - ENVELOPE_BYTES;
    const kept = new Map(welcome.kept.map((lease) => [keyOf(lease), lease]));
    const gone: Key[] = [];
    for (const lease of this.#leases.values()) {
      const found = kept.get(lease.key);
      if (!found) gone.push(lease.key);
      else {
        lease.lengthMs = (found.leaseSecs ?? welcome.leaseSecs) * 1000;
        lease.endsAt = sentAt + lease.lengthMs;
      }
    }
    const stop = this.#lose(gone);
    this.#toSay.clear();
    for (const lease of this.#leases.values()) if (lease.unsaid.size) this.#toSay.add(lease.key);
    return stop;
  }

  /** The stream is gone: leases live on for the grace only, what had no answer is to be said again. */
  broken(now: number): void {
    for (const report of this.#unanswered.flat()) {
      const lease = this.#leases.get(keyOf(report));
      // What was to be said since is newer.
      if (lease && !lease.unsaid.has(placeOf(report))) lease.unsaid.set(placeOf(report), report);
    }
    for (const lease of [...this.#leases.values()]) {
      lease.endsAt = Math.min(lease.endsAt, now + this.#graceMs);
      if (lease.waiting) {
        // For the server it was never started, so it goes to whoever has room.
        this.#busy.delete(lease.key);
        this.#forget(lease.key);
      }
    }
    this.#toSay.clear();
    this.#unanswered = [];
    this.#beats = [];
    this.#credit = 0;
  }

  /** Time has come to `now`: leases that were not renewed are lost. */
  expired(now: number): Key[] {
    const over = [...this.#leases.values()].filter((lease) => lease.endsAt <= now && !lease.isLost);
    if (over.length) this.#warn(`${over.length} leases ended, since the server could not be reached to renew them`);
    return this.#lose(over.map((lease) => lease.key));
  }

  // What the server says

  /** A task was handed out: it is reported as started, or given back at once if the host drains. */
  assigned(assignment: Assignment): void {
    this.#credit = Math.max(0, this.#credit - 1);
    const { taskId = "", fencingToken = 0, leaseSecs = 0 } = assignment.lease ?? {};
    const name = { taskId, fencingToken };
    const key = keyOf(name);
    if (this.#leases.has(key)) return;
    const lengthMs = leaseSecs * 1000;
    const endsAt = this.#countsFrom + lengthMs;
    const lease: Lease = { key, name, lengthMs, endsAt, waiting: assignment, isLost: false, unsaid: new Map() };
    this.#leases.set(key, lease);
    if (this.isDraining) this.#giveBack(lease);
    else {
      this.#busy.add(key);
      this.#say(lease, report(name, { case: "started", value: {} }));
    }
  }

  /** A heartbeat was answered: what it listed is renewed from when it was sent, except for what is lost. */
  acknowledged(ack: HeartbeatAck): Key[] {
    const beat = this.#beats.find(({ sequence }) => sequence === ack.sequence);
    this.#beats = this.#beats.filter(({ sequence }) => sequence > ack.sequence);
    if (!beat) return [];
    this.#countsFrom = beat.sentAt;
    const stop = this.#lose(ack.lost.map(keyOf));
    for (const key of beat.listed) {
      const lease = this.#leases.get(key);
      if (lease) lease.endsAt = Math.max(lease.endsAt, beat.sentAt + lease.lengthMs);
    }
    return stop;
  }

  /** The oldest unanswered message of reports was answered. */
  answered(answer: ReportResults): Key[] {
    const gone: Key[] = [];
    const asked = this.#unanswered.shift() ?? [];
    for (const [index, result] of answer.results.entries()) {
      const said = asked[index];
      if (!said) break;
      const key = keyOf(said);
      const isOver = result.error?.code === "lease_lost" || result.error?.code === "not_found";
      if (placeOf(said) === "final" && (isOver || !result.error)) {
        // A later word on it may be that nothing runs, which is owed to a cancellation on its way.
        if (!this.#leases.get(key)?.unsaid.has("final")) this.#forget(key);
      } else if (isOver) gone.push(key);
      else if (result.error) this.#refused(said, result.error);
    }
    return this.#lose(gone);
  }

  /** The server wants a task stopped. It is told `released` once nothing runs, or now if nothing does. */
  cancelled({ taskId, fencingToken }: Cancellation): Key[] {
    const name = { taskId, fencingToken };
    const key = keyOf(name);
    const stop = this.#lose([key]);
    if (!this.#leases.has(key)) {
      const lease: Lease = {
        key,
        name,
        lengthMs: 0,
        endsAt: 0,
        waiting: undefined,
        isLost: true,
        unsaid: new Map(),
      };
      this.#leases.set(key, lease);
      this.#say(lease, report(name, { case: "released", value: {} }));
    }
    return stop;
  }

  /** The server has ended all leases. */
  deregistered(): Key[] {
    return this.#lose([...this.#leases.keys()]);
  }

  // What the host says

  /** A handler reports its progress; it takes the place of an earlier word that is not yet on the stream. */
  progressed(progress: Report): void {
    const lease = this.#leases.get(keyOf(progress));
    if (lease && this.#busy.has(lease.key) && !lease.isLost) this.#say(lease, progress);
  }

  /** A handler has returned, with its outcome; undefined if it was stopped before it had one. */
  ended(key: Key, final: Report | undefined): void {
    this.#busy.delete(key);
    const lease = this.#leases.get(key);
    if (!lease) return;
    this.#say(lease, lease.isLost || !final ? report(lease.name, { case: "released", value: {} }) : final);
  }

  /** Take no more: no credit is given, and what has not begun is given back. */
  drain(): void {
    this.isDraining = true;
    for (const lease of this.#leases.values()) if (lease.waiting) this.#giveBack(lease);
  }

  /** The heartbeat to send now. What was refused for the time being is said again after it. */
  heartbeat(now: number, machine: Machine | undefined): ConnectRequest {
    for (const refused of this.#refusedForNow) {
      const lease = this.#leases.get(keyOf(refused));
      if (lease && !lease.isLost) this.#say(lease, refused);
    }
    this.#refusedForNow = [];
    this.#sequence += 1;
    const leases = this.held();
    this.#beats.push({ sequence: this.#sequence, sentAt: now, listed: leases.map(keyOf) });
    const status = this.isDraining ? RuntimeHost_Status.busy : undefined;
    return request({ case: "heartbeat", value: { sequence: this.#sequence, leases, machine, status } });
  }

  /**
   * The messages to write next: a batch of reports, then credit for the slots that are free, if there are any.
   *
   * Credit follows the reports that freed its slots, and one batch does not hold it back for the next.
   */
  turn(): ConnectRequest[] {
    const messages: ConnectRequest[] = [];
    const reports = this.#nextReports();
    if (reports.length) {
      this.#unanswered.push(reports);
      messages.push(request({ case: "reports", value: { reports } }));
    }
    const free = this.isDraining ? 0 : this.#slots - this.#busy.size - this.#credit;
    if (free > 0) {
      this.#credit += free;
      messages.push(request({ case: "credit", value: { count: free } }));
    }
    return messages;
  }

  /** A message is on its way to the server. Answers the tasks whose handlers begin now. */
  written({ message }: ConnectRequest): Assignment[] {
    if (message.case !== "reports") return [];
    const begin: Assignment[] = [];
    for (const said of message.value.reports) {
      const lease = this.#leases.get(keyOf(said));
      // Nothing waits any more if it was cancelled or given back while the message was written.
      if (said.event.case !== "started" || !lease?.waiting) continue;
      begin.push(lease.waiting);
      lease.waiting = undefined;
    }
    return begin;
  }

  // Within

  #say(lease: Lease, said: Report): void {
    lease.unsaid.set(placeOf(said), said);
    this.#toSay.add(lease.key);
  }

  /** These leases have ended. Answers those whose handlers run and did not know. */
  #lose(keys: Key[]): Key[] {
    const stop: Key[] = [];
    for (const key of keys) {
      const lease = this.#leases.get(key);
      if (!lease || lease.isLost) continue;
      lease.isLost = true;
      if (!this.#busy.has(key)) {
        // An outcome is nobody's business any more, but that nothing runs may still free a target.
        if (lease.unsaid.get("final")?.event.case !== "released") this.#forget(key);
      } else if (lease.waiting) this.#giveBack(lease);
      else {
        lease.unsaid.clear();
        stop.push(key);
      }
    }
    return stop;
  }

  #forget(key: Key): void {
    this.#leases.delete(key);
    this.#toSay.delete(key);
  }

  /** Nothing will run for this lease, which had not begun. */
  #giveBack(lease: Lease): void {
    this.#busy.delete(lease.key);
    lease.waiting = undefined;
    lease.unsaid.clear();
    this.#say(lease, report(lease.name, { case: "released", value: {} }));
  }

  /** A report was not taken, though its lease lives. It must end somehow, or it would keep its task for ever. */
  #refused(said: Report, error: ErrorMessage): void {
    const lease = this.#leases.get(keyOf(said));
    if (!lease || lease.isLost) return;
    this.#warn(`task ${said.taskId}: ${said.event.case} report refused as ${error.code}: ${error.error}`);
    if (placeOf(said) !== "final") return;
    if (error.retryable) this.#refusedForNow.push(said);
    else if (said.event.case === "completed") {
      this.#say(lease, failedInstead(said, `result refused: ${error.error}`, error.code ?? "internal"));
    } else if (said.event.case === "failed") this.#say(lease, report(lease.name, { case: "released", value: {} }));
    else this.#forget(lease.key);
  }

  /** The reports of the next message, as many as fit; those of one lease in their order. */
  #nextReports(): Report[] {
    const reports: Report[] = [];
    let size = 0;
    for (const key of this.#toSay) {
      const lease = this.#leases.get(key);
      for (const place of ORDER) {
        let said = lease?.unsaid.get(place);
        if (!lease || !said) continue;
        let bytes = sizeOf(said);
        if (bytes > this.#mostBytes) {
          if (place !== "final") {
            lease.unsaid.delete(place);
            this.#warn(`task ${said.taskId}: its progress is too large to be reported`);
            continue;
          }
          said = failedInstead(said, `result of ${bytes} bytes does not fit a message to the server`, "too_large");
          lease.unsaid.set(place, said);
          bytes = sizeOf(said);
        }
        size += bytes;
        if (reports.length && size > this.#mostBytes) return reports;
        reports.push(said);
        lease.unsaid.delete(place);
      }
      this.#toSay.delete(key);
    }
    return reports;
  }
}

/** What tells a lease from all others. */
export function keyOf(about: { taskId?: string; fencingToken?: number }): Key {
  return `${about.taskId ?? ""} ${about.fencingToken ?? 0}`;
}

/** A report on a lease, of one event. */
export function report(
  lease: LeaseName,
  event: MessageInitShape<typeof ReportSchema>["event"],
  tokensUsed?: number,
): Report {
  return create(ReportSchema, { taskId: lease.taskId, fencingToken: lease.fencingToken, event, tokensUsed });
}

/** What a report adds to a message at most. Throws where the report cannot be encoded. */
export function sizeOf(said: Report): number {
  return toBinary(ReportSchema, said).length + ENVELOPE_BYTES;
}

function request(message: MessageInitShape<typeof ConnectRequestSchema>["message"]): ConnectRequest {
  return create(ConnectRequestSchema, { message });
}

function placeOf({ event }: Report): Place {
  return event.case === "started" || event.case === "progress" ? event.case : "final";
}

/** In the place of an outcome that the server does not take; another attempt would give the same. */
function failedInstead({ taskId, fencingToken }: Report, error: string, code: string): Report {
  return create(ReportSchema, {
    taskId,
    fencingToken,
    event: { case: "failed", value: { error, code, retryable: false } },
  });
}
