/**
 * The rules of the host stream, as `runtime_host.proto` documents them: which leases a host holds, what it reports next,
 * which handlers begin and which stop (docs/rules.md, Hosts).
 *
 * No clock, no timers, no connection: `now` is passed in, in milliseconds of a clock that never jumps, messages come in
 * and messages go out. `HostRun` carries the messages, and runs and stops the handlers that the methods return.
 *
 * A lease passes these steps: the task is handed out; its handler begins; its handler returns; its last report is
 * answered, and the lease is forgotten. It takes a slot from the hand-out until its handler has returned, even if the
 * lease is lost meanwhile.
 *
 * When a handler begins depends on the target. A task without one begins once its `started` report is written. A task
 * with one begins only once the server has answered that report without an error: until then the server may hand out
 * another task of the target, and two tasks of a target must never run at once (docs/rules.md, Targets).
 */
import type { Assignment } from "./gen/taskyard/v1/lease_pb.js";
import {
  type Cancellation,
  type ConnectRequest,
  type HeartbeatAck,
  type Machine,
  type Report,
  type ReportResults,
  RuntimeHost_Status,
  type Welcome,
} from "./gen/taskyard/v1/runtime_host_pb.js";
import type { NewChunk, OutputAcks } from "./gen/taskyard/v1/output_pb.js";
import type { Error as ErrorMessage } from "./gen/taskyard/v1/task_pb.js";
import type { Lease } from "./host_lease.js";
import { joinedWith, request } from "./host_messages.js";
import { OutputBox } from "./output_box.js";
import { failureInstead, type Key, keyOf, type LeaseName, ReportQueue, reportOn, stageOf } from "./reports.js";

/** What the handlers do next. */
export interface HandlerChanges {
  begin: Assignment[];
  stop: Key[];
}

/**
 * The leases of one start of a host, over all of its streams.
 *
 * Methods that return keys return the leases whose handlers are to be stopped.
 */
export class Session {
  isDraining = false;
  readonly #slots: number;
  readonly #warn: (text: string) => void;
  readonly #leases = new Map<Key, Lease>();
  /** The leases that take a slot: their handler runs or is about to begin. */
  readonly #busy = new Set<Key>();
  readonly #reports: ReportQueue;
  readonly #output = new OutputBox();
  /** Reports that were refused as retryable. They are sent again with the next heartbeat, or by the next stream. */
  #refusedForNow: Report[] = [];
  /** How many tasks the server may still hand out. */
  #credit = 0;
  #sequence = 0;
  /** The heartbeats without an answer, oldest first. */
  #heartbeats: { sequence: number; sentAt: number; listed: Key[] }[] = [];
  /**
   * When the last answered heartbeat or Hello was sent. A lease handed out since then counts from here, not from its
   * arrival: that may be long after the server began to count.
   */
  #renewedAt = 0;
  #graceMs = 0;
  /** The most bytes of a result, or of a child's params, that are no artifact; 0 where the server takes none. */
  maxPayloadBytes = 0;
  /** Whether the server counts accepted reports, and reads what comes with reports. */
  #countsAccepted = false;
  /** A lower bound of the ends of all leases, so that most looks for ended ones cost nothing. */
  #noneEndsBefore = Number.POSITIVE_INFINITY;

  constructor(slots: number, warn: (text: string) => void = () => {}) {
    this.#slots = slots;
    this.#warn = warn;
    this.#reports = new ReportQueue(warn);
  }

  // State

  /** The number of tasks whose handlers run or are about to begin. */
  get active(): number {
    return this.#busy.size;
  }

  /** Whether the host has leases that are not lost. */
  get holdsLeases(): boolean {
    return [...this.#leases.values()].some((lease) => !lease.isLost);
  }

  /** Whether no handler runs and no report is pending or unanswered. */
  get isFinished(): boolean {
    return this.#leases.size === 0;
  }

  // Streams

  /** The leases that a Hello lists: all that are not lost, including ended ones whose last report is not answered. */
  held(): LeaseName[] {
    return this.#held().map((lease) => lease.name);
  }

  /** A stream begins. Its Hello was sent at `sentAt`; a lease that the Welcome does not name as kept is lost. */
  welcomed(welcome: Welcome, sentAt: number): Key[] {
    this.#renewedAt = sentAt;
    this.#graceMs = welcome.reconnectGraceMs;
    this.#countsAccepted = welcome.countsAccepted;
    this.maxPayloadBytes = welcome.maxPayloadBytes;
    this.#reports.limit(welcome.maxMessageBytes);
    const kept = new Map(welcome.kept.map((lease) => [keyOf(lease), lease]));
    const lost: Key[] = [];
    for (const lease of this.#leases.values()) {
      const found = kept.get(lease.key);
      if (!found) lost.push(lease.key);
      else {
        lease.lengthMs = (found.leaseSecs ?? welcome.leaseSecs) * 1000;
        this.#endAt(lease, sentAt + lease.lengthMs);
      }
    }
    const stop = this.#lose(lost);
    this.#output.welcomed(welcome.outputBytes);
    this.#retryRefused();
    return stop;
  }

  /** The stream has broken: leases outlive it by the grace period at most, and unanswered reports are sent again. */
  broken(now: number): void {
    this.#reports.restore((report) => {
      const lease = this.#leases.get(keyOf(report));
      return lease !== undefined && (!lease.isLost || stageOf(report) === "final");
    });
    for (const lease of [...this.#leases.values()]) {
      this.#endAt(lease, Math.min(lease.endsAt, now + this.#graceMs));
      if (lease.assignment && !lease.isStartWritten) {
        // The server has heard nothing of it, and hands it to a host with a free slot.
        this.#busy.delete(lease.key);
        this.#forget(lease.key);
      }
    }
    this.#output.broken();
    this.#heartbeats = [];
    this.#credit = 0;
  }

  /** It is `now`: leases that were not renewed in time are lost. */
  expired(now: number): Key[] {
    if (now < this.#noneEndsBefore) return [];
    const held = this.#held();
    const over = held.filter((lease) => lease.endsAt <= now);
    this.#noneEndsBefore = Math.min(...held.filter((lease) => lease.endsAt > now).map((lease) => lease.endsAt));
    if (over.length) this.#warn(`${over.length} leases ended, since the server could not be reached to renew them`);
    return this.#lose(over.map((lease) => lease.key));
  }

  // Messages from the server

  /** A task was handed out. It is reported as started, or given back at once if the host drains. */
  assigned(assignment: Assignment): void {
    this.#credit = Math.max(0, this.#credit - 1);
    const { taskId = "", fencingToken = 0, leaseSecs = 0 } = assignment.lease ?? {};
    const name = { taskId, fencingToken };
    if (this.#leases.has(keyOf(name))) return;
    const lease = this.#add(name, leaseSecs * 1000);
    lease.assignment = assignment;
    if (this.isDraining) this.#giveBack(lease);
    else {
      this.#busy.add(lease.key);
      this.#reports.add(reportOn(name, { case: "started", value: {} }));
    }
  }

  /** A heartbeat was answered: the leases that it listed are renewed from when it was sent, except for the lost ones. */
  acknowledged(ack: HeartbeatAck): Key[] {
    const heartbeat = this.#heartbeats.find(({ sequence }) => sequence === ack.sequence);
    this.#heartbeats = this.#heartbeats.filter(({ sequence }) => sequence > ack.sequence);
    if (!heartbeat) return [];
    this.#renewedAt = heartbeat.sentAt;
    const stop = this.#lose(ack.lost.map(keyOf));
    for (const key of heartbeat.listed) {
      const lease = this.#leases.get(key);
      if (lease) lease.endsAt = Math.max(lease.endsAt, heartbeat.sentAt + lease.lengthMs);
    }
    return stop;
  }

  /** The server has accepted so many of the oldest unanswered reports. Returns the tasks whose handlers begin now. */
  accepted(count: number): Assignment[] {
    return this.#reports.answered(count).flatMap((report) => this.#accepted(report));
  }

  /** The oldest unanswered reports have these results: those of a message, or the refused ones. */
  answered(answer: ReportResults): HandlerChanges {
    const begin: Assignment[] = [];
    const lost: Key[] = [];
    const reports = this.#reports.answered(answer.results.length);
    for (const [index, { error }] of answer.results.entries()) {
      const report = reports[index];
      if (!report) break;
      const isOver = error?.code === "lease_lost" || error?.code === "not_found";
      // A release whose lease is over has nothing left to report. An outcome has: a release may follow it, for which a
      // target waits.
      if (!error || (isOver && report.event.case === "released")) begin.push(...this.#accepted(report));
      else if (isOver) lost.push(keyOf(report));
      else this.#refused(report, error);
    }
    return { begin, stop: this.#lose(lost) };
  }

  /** The oldest message of output has this answer. */
  outputAnswered({ acks }: OutputAcks, now: number): Key[] {
    const over = this.#output.answered(acks, now);
    for (const { key, code, reason } of over) this.#warn(`lease ${key}: output refused as ${code}: ${reason}`);
    return this.#lose(over.map(({ key }) => key));
  }

  /** The server ends the work on a task. The host reports `released` once no handler runs, which may be now. */
  cancelled({ taskId, fencingToken }: Cancellation): Key[] {
    const name = { taskId, fencingToken };
    const stop = this.#lose([keyOf(name)]);
    if (!this.#leases.has(keyOf(name))) {
      this.#add(name, 0).isLost = true;
      this.#reports.add(reportOn(name, { case: "released", value: {} }));
    }
    return stop;
  }

  /** The server has deregistered the host, which ended all of its leases. */
  deregistered(): Key[] {
    return this.#lose([...this.#leases.keys()]);
  }

  // Events of the host

  /** A handler reports its progress, which replaces an earlier progress report that was not written yet. */
  progressed(progress: Report): void {
    const lease = this.#leases.get(keyOf(progress));
    if (lease && this.#busy.has(lease.key) && !lease.isLost) this.#reports.add(progress);
  }

  /** A handler says a chunk. It may not fit yet, its lease may be over, and the server may take no output. */
  said(name: LeaseName, chunk: NewChunk): "said" | "full" | "over" | "none" {
    const lease = this.#leases.get(keyOf(name));
    if (!lease || lease.isLost || !this.#busy.has(lease.key)) return "over";
    const fits = this.#output.add(name, chunk);
    return fits === undefined ? "none" : fits ? "said" : "full";
  }

  /** What tells whether the server keeps all that was said under a lease until now, or never will. */
  markOutput(name: LeaseName): () => boolean {
    return this.#output.mark(keyOf(name));
  }

  /** It is `now`: returns whether chunks that were refused for the time being are to be written again. */
  outputRetried(now: number): boolean {
    return this.#output.retried(now);
  }

  /** A handler states how many tokens its attempt has used so far. Heartbeats carry the number from now on. */
  usedTokens(key: Key, tokens: number | undefined): void {
    const lease = this.#leases.get(key);
    if (lease) lease.tokensUsed = tokens;
  }

  /** A handler has returned with its outcome; undefined if it was stopped before it had one. */
  ended(key: Key, outcome: Report | undefined): void {
    this.#busy.delete(key);
    const lease = this.#leases.get(key);
    if (!lease) return;
    const released = reportOn(lease.name, { case: "released", value: {} });
    this.#reports.add(lease.isLost || !outcome ? released : outcome);
  }

  /** Take no more tasks: no more credit is given, and tasks that have not begun are given back. */
  drain(): void {
    this.isDraining = true;
    for (const lease of this.#leases.values()) if (lease.assignment) this.#giveBack(lease);
  }

  /** The heartbeat to send now. Reports that were refused as retryable are sent after it. */
  heartbeat(now: number, machine: Machine | undefined): ConnectRequest {
    this.#retryRefused();
    this.#sequence += 1;
    const held = this.#held();
    this.#heartbeats.push({ sequence: this.#sequence, sentAt: now, listed: held.map((lease) => lease.key) });
    const leases = held.map(({ name, tokensUsed }) => ({ ...name, tokensUsed }));
    const status = this.isDraining ? RuntimeHost_Status.busy : undefined;
    return request({ case: "heartbeat", value: { sequence: this.#sequence, leases, machine, status } });
  }

  /** Whether there are reports to write, and a heartbeat may come with them. */
  get heartbeatMayRide(): boolean {
    return this.#countsAccepted && this.#reports.hasPending;
  }

  /**
   * The messages to write next: the heartbeat if there is one, a batch of reports, credit for free slots, if there are
   * any, then output. A server that counts accepted reports gets all but the output in one message. Reports wait for the
   * output of their own task alone.
   *
   * Credit comes after the reports that freed its slots, and does not wait for the batches that are left.
   */
  nextMessages(heartbeat?: ConnectRequest): ConnectRequest[] {
    const messages = this.#nextReports(heartbeat);
    const output = this.#output.next(this.#reports.maxBytes);
    if (output) messages.push(request({ case: "output", value: output }));
    return messages;
  }

  #nextReports(heartbeat?: ConnectRequest): ConnectRequest[] {
    const messages = heartbeat ? [heartbeat] : [];
    const reports = this.#reports.nextBatch((key) => this.#output.isBehind(key));
    const free = this.isDraining ? 0 : Math.max(0, this.#slots - this.#busy.size - this.#credit);
    this.#credit += free;
    if (reports.length && this.#countsAccepted) {
      const joined = request({ case: "reports", value: { reports, credit: free } });
      return heartbeat ? joinedWith(heartbeat, joined, (bytes) => this.#reports.fits(bytes)) : [joined];
    }
    if (reports.length) messages.push(request({ case: "reports", value: { reports } }));
    if (free) messages.push(request({ case: "credit", value: { count: free } }));
    return messages;
  }

  /** A message was written to the stream. Returns the tasks whose handlers begin now. */
  written({ message }: ConnectRequest): Assignment[] {
    if (message.case !== "reports") return [];
    const begin: Assignment[] = [];
    for (const report of message.value.reports) {
      const lease = this.#leases.get(keyOf(report));
      if (report.event.case !== "started" || !lease?.assignment) continue;
      lease.isStartWritten = true;
      if (!lease.assignment.task?.target) begin.push(...this.#begin(lease.key));
    }
    return begin;
  }

  // Internals

  /** A report has changed what it says. Returns the task whose handler begins, if its start was waited for. */
  #accepted(report: Report): Assignment[] {
    const key = keyOf(report);
    const stage = stageOf(report);
    // A newer final report is the answer to a cancellation, which the server waits for.
    if (stage === "final" && !this.#reports.pendingFinal(key)) this.#forget(key);
    return stage === "started" ? this.#begin(key) : [];
  }

  /** Sets when a lease ends. A later end than before may be set without it. */
  #endAt(lease: Lease, endsAt: number): void {
    lease.endsAt = endsAt;
    this.#noneEndsBefore = Math.min(this.#noneEndsBefore, endsAt);
  }

  #held(): Lease[] {
    return [...this.#leases.values()].filter((lease) => !lease.isLost);
  }

  #add(name: LeaseName, lengthMs: number): Lease {
    const key = keyOf(name);
    const lease: Lease = {
      key,
      name,
      lengthMs,
      endsAt: this.#renewedAt + lengthMs,
      assignment: undefined,
      isStartWritten: false,
      isLost: false,
      tokensUsed: undefined,
    };
    this.#leases.set(key, lease);
    this.#endAt(lease, lease.endsAt);
    return lease;
  }

  /** The task whose handler begins now; none if it began before, was given back or was stopped. */
  #begin(key: Key): Assignment[] {
    const lease = this.#leases.get(key);
    if (!lease?.assignment) return [];
    const { assignment } = lease;
    lease.assignment = undefined;
    return [assignment];
  }

  /** These leases have ended. Returns those whose handlers run and were not stopped before. */
  #lose(keys: Key[]): Key[] {
    const stop: Key[] = [];
    for (const key of keys) {
      const lease = this.#leases.get(key);
      if (!lease || lease.isLost) continue;
      lease.isLost = true;
      this.#output.drop(key);
      if (!this.#busy.has(key)) {
        // The server takes no outcome any more, but a target may wait for a `released` report.
        if (this.#reports.pendingFinal(key)?.event.case !== "released") this.#forget(key);
      } else if (lease.assignment) this.#giveBack(lease);
      else {
        this.#reports.drop(key);
        stop.push(key);
      }
    }
    return stop;
  }

  #forget(key: Key): void {
    this.#leases.delete(key);
    this.#reports.drop(key);
    this.#output.drop(key);
  }

  /** The handler of this lease, which has not begun, never will. */
  #giveBack(lease: Lease): void {
    this.#busy.delete(lease.key);
    lease.assignment = undefined;
    this.#reports.drop(lease.key);
    this.#reports.add(reportOn(lease.name, { case: "released", value: {} }));
  }

  /**
   * A report was refused though its lease lives, or it only releases a lost lease. The lease must end in some way: else
   * it would be renewed for ever.
   */
  #refused(report: Report, error: ErrorMessage): void {
    const lease = this.#leases.get(keyOf(report));
    const isRelease = report.event.case === "released";
    if (!lease || (lease.isLost && !isRelease)) return;
    this.#warn(`task ${report.taskId}: ${report.event.case} report refused as ${error.code}: ${error.error}`);
    // A handler that runs reports its outcome later.
    const isDue = stageOf(report) === "final" || (stageOf(report) === "started" && lease.assignment);
    if (!isDue) return;
    if (error.retryable) this.#refusedForNow.push(report);
    else if (report.event.case === "completed" || report.event.case === "parked") {
      const what = report.event.case === "parked" ? "park" : "result";
      this.#reports.add(failureInstead(report, `${what} refused: ${error.error}`, error.code ?? "internal"));
    } else if (isRelease) this.#forget(lease.key);
    else this.#giveBack(lease);
  }

  #retryRefused(): void {
    for (const report of this.#refusedForNow) {
      const lease = this.#leases.get(keyOf(report));
      if (!lease) continue;
      if (report.event.case === "released" || (stageOf(report) === "final" && !lease.isLost) || lease.assignment) {
        this.#reports.add(report);
      }
    }
    this.#refusedForNow = [];
  }
}
