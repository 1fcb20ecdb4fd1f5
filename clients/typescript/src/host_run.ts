/**
 * One start of a host: it connects, works, reconnects and leaves.
 *
 * What is held and what is to be said is `Session`'s; this file has the connection and the clock. A stream has a reader
 * and a writer that never wait for each other.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Client as Stub, createClient } from "@connectrpc/connect";
import { Calls } from "./calls.js";
import { errorFrom, TaskyardError } from "./errors.js";
import {
  type ConnectRequest,
  ConnectRequestSchema,
  type ConnectResponse,
  type Drain,
  RuntimeHostService,
  type Welcome,
} from "./gen/taskyard/v1/runtime_host_pb.js";
import { type Actions, Handlers } from "./handlers.js";
import type { HostOptions, Logger } from "./host.js";
import { MachineFigures } from "./machine.js";
import { openConnection } from "./connection.js";
import { MAX_TIMER_MS, systemClock } from "./retrying.js";
import { Session } from "./session.js";
import { randomKey } from "./values.js";

/** What no other try can mend. */
const FINAL_ERRORS = ["bad_request", "conflict", "permission_denied", "unauthenticated", "unimplemented"];
const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 5_000;
/** Leases outlive a break only for seconds. */
const MAX_DELAY_WITH_LEASES_MS = 1_000;
/** A stream that lived so long was a good one; the next break is the first again. */
const STEADY_MS = 5_000;
const WELCOME_MS = 10_000;
const CLOSE_MS = 5_000;
/** How long handlers that were stopped for leaving may take to end. */
const INTERRUPT_MS = 5_000;
/** At the end of a drain of its own the server interrupts what runs, which is better than that the host does. */
const DRAIN_SLACK_MS = 2_000;
const EXPIRY_LOOK_MS = 100;

/** A host at work. */
export class HostRun {
  readonly #options: HostOptions;
  readonly #actions: Actions;
  readonly #logger: Logger;
  readonly #instance = randomKey();
  readonly #machine: MachineFigures | undefined;
  readonly #session: Session;
  readonly #handlers: Handlers;
  /** Aborts when the host leaves without waiting any longer. */
  readonly #gone = new AbortController();
  #isAwake = true;
  #sleepers: (() => void)[] = [];
  #isBeatDue = false;
  #acknowledgedAt = 0;
  #wasConnected = false;
  #stub: Stub<typeof RuntimeHostService> | undefined;
  /** What was logged last about not being connected. */
  #trouble: string | undefined;
  /** When what still runs is interrupted, by who said so. */
  readonly #leaveBy = new Map<"host" | "server", number>();
  #leaving: NodeJS.Timeout | undefined;

  constructor(options: HostOptions, actions: Actions, logger: Logger) {
    this.#options = options;
    this.#actions = actions;
    this.#logger = logger;
    this.#machine = options.machineFigures === false ? undefined : new MachineFigures();
    this.#session = new Session(options.slots ?? 10, (text) => logger.warn(text));
    this.#handlers = new Handlers(actions, this.#session, () => this.#awaken(), logger);
  }

  /** Work until the host has drained. Throws `TaskyardError` when the server refuses it for good. */
  async run(): Promise<void> {
    // What cannot be encoded would fail each time.
    toBinary(ConnectRequestSchema, this.#hello());
    const expiring = setInterval(() => {
      this.#expireLeases();
    }, EXPIRY_LOOK_MS);
    try {
      await this.#stayConnected();
    } finally {
      clearInterval(expiring);
      clearTimeout(this.#leaving);
      this.#handlers.stopAll("the host has left");
    }
    this.#logger.info(`host ${this.#options.hostId} has left`);
  }

  #expireLeases(): void {
    this.#handlers.stop(this.#session.expired(now()), "the server cannot be reached to renew the lease");
  }

  /** Take no more, finish what runs within the grace period, then leave. A repeat changes nothing. */
  drain(): void {
    if (this.#leaveBy.has("host")) return;
    this.#logger.info(`host ${this.#options.hostId} drains: ${this.#session.active} tasks run`);
    if (!this.#session.isDraining) {
      // Have the server hand out nothing more, also for the credit that it still has. What comes is given back.
      this.#stub?.drainHost({ hostId: this.#options.hostId }, { timeoutMs: CLOSE_MS }).catch(() => {});
    }
    this.#drainUntil("host", now() + (this.#options.drainGraceMs ?? 30_000));
  }

  // Connection

  async #stayConnected(): Promise<void> {
    const session = this.#session;
    let tries = 0;
    while (!this.#gone.signal.aborted && !(session.isDraining && !session.active && !session.holdsLeases)) {
      const began = now();
      try {
        await this.#connect();
        return;
      } catch (thrown) {
        const error = errorFrom(thrown);
        if (this.#gone.signal.aborted) return;
        if (error.code === "conflict" && error.details.cause === "deregistered") {
          this.#logger.warn(`host ${this.#options.hostId} was deregistered: it stops what runs and registers anew`);
          this.#handlers.stop(session.deregistered(), "the host was deregistered");
        } else if (FINAL_ERRORS.includes(error.code)) throw error;
        else this.#note(error);
      }
      if (now() - began > STEADY_MS) tries = 0;
      await this.#pause(tries);
      tries += 1;
    }
  }

  /** Hold one stream until the host has left by it. Throws a `TaskyardError` if it breaks; handlers go on all the same. */
  async #connect(): Promise<void> {
    // A connection that failed may not know it yet; a new one is sure.
    const [transport, connection] = openConnection(this.#options);
    const { namespace, token, hostId } = this.#options;
    const stub = createClient(RuntimeHostService, new Calls(transport, { namespace, token, patienceMs: CLOSE_MS }));
    const stream = new AbortController();
    const stop = () => stream.abort(new TaskyardError("cancelled", "the host leaves"));
    this.#gone.signal.addEventListener("abort", stop);
    try {
      await this.#hold(stub, stream);
      this.#stub = undefined;
      // A host that has left in order is not looked for any more. If that fails it stays registered, as a dead one.
      await stub.deregisterHost({ hostId }, { timeoutMs: CLOSE_MS }).catch(() => {});
    } finally {
      this.#stub = undefined;
      this.#gone.signal.removeEventListener("abort", stop);
      connection.close();
    }
  }

  async #hold(stub: Stub<typeof RuntimeHostService>, stream: AbortController): Promise<void> {
    const timers: NodeJS.Timeout[] = [];
    const giveUp = (reason: string) => stream.abort(new TaskyardError("unavailable", reason));
    const state = {
      isWelcome: false,
      hasLeft: false,
      leave() {
        this.hasLeft = true;
        timers.push(setTimeout(() => giveUp("no answer to the host's end"), CLOSE_MS));
      },
    };
    const welcomeBy = setTimeout(() => giveUp("no answer to the host's hello"), WELCOME_MS);
    timers.push(welcomeBy);
    const sentAt = now();
    try {
      for await (const response of stub.connect(this.#say(stream.signal, state), { signal: stream.signal })) {
        const { message } = response;
        if (message.case === "welcome") {
          clearTimeout(welcomeBy);
          this.#welcomed(message.value, sentAt);
          this.#stub = stub;
          state.isWelcome = true;
          timers.push(this.#beat(message.value, giveUp));
        } else this.#hear(message);
        this.#awaken();
      }
      if (!state.hasLeft) throw new TaskyardError("unavailable", "the server closed the stream");
    } catch (error) {
      // After its own end of the stream the host does not depend on the server's.
      if (!state.hasLeft) throw error;
    } finally {
      stream.abort();
      for (const timer of timers) clearTimeout(timer);
      this.#session.broken(now());
      // Its writer ends.
      this.#awaken();
    }
  }

  #hear(message: ConnectResponse["message"]): void {
    const session = this.#session;
    switch (message.case) {
      case "assignments":
        for (const assignment of message.value.assignments) session.assigned(assignment);
        break;
      case "reportResults":
        this.#handlers.stop(session.answered(message.value));
        break;
      case "heartbeatAck":
        this.#acknowledgedAt = now();
        this.#handlers.stop(session.acknowledged(message.value));
        break;
      case "cancellations":
        for (const cancellation of message.value.cancellations) {
          const why = cancellation.message || "no reason given";
          this.#logger.info(`task ${cancellation.taskId} is to be stopped: ${why}`);
          // It may be the word on a lease that is lost already; then its handler knows.
          this.#handlers.stop(session.cancelled(cancellation), why);
        }
        break;
      case "drain":
        this.#drained(message.value);
    }
  }

  #welcomed(welcome: Welcome, sentAt: number): void {
    const { hostId, address } = this.#options;
    this.#handlers.stop(this.#session.welcomed(welcome, sentAt), "the lease was lost while the host was away");
    this.#acknowledgedAt = sentAt;
    this.#isBeatDue = false;
    const how = this.#wasConnected ? "is back at" : "connected to";
    this.#logger.info(`host ${hostId} ${how} ${address ?? "its server"} (session ${welcome.session})`);
    if (welcome.lost.length) this.#logger.warn(`${welcome.lost.length} leases were lost while the host was away`);
    this.#wasConnected = true;
    this.#trouble = undefined;
  }

  /** What there is to say, message by message. The transport asks for the next one when it has written the last. */
  async *#say(ended: AbortSignal, state: { isWelcome: boolean; leave(): void }): AsyncGenerator<ConnectRequest> {
    const session = this.#session;
    yield this.#hello();
    while (!ended.aborted) {
      this.#isAwake = false;
      const messages: ConnectRequest[] = [];
      if (state.isWelcome) {
        if (this.#isBeatDue) {
          this.#isBeatDue = false;
          messages.push(session.heartbeat(now(), this.#machine?.look(session.active)));
        }
        messages.push(...session.turn());
      }
      for (const message of messages) {
        yield message;
        if (ended.aborted) return;
        // What lay in a buffer while the process stood still may be over before it begins.
        this.#expireLeases();
        this.#handlers.begin(session.written(message));
      }
      if (messages.length) continue;
      if (session.isDraining && session.isFinished && state.isWelcome) {
        state.leave();
        return;
      }
      await this.#awoken();
    }
  }

  /** Have a heartbeat written each interval, and give the stream up when none was answered for as long as a lease. */
  #beat(welcome: Welcome, giveUp: (reason: string) => void): NodeJS.Timeout {
    const intervalMs = welcome.heartbeatIntervalMs || 20_000;
    let due = now() + intervalMs;
    return setInterval(() => {
      const late = now() - due;
      due = now() + intervalMs;
      if (late > intervalMs) this.#logger.warn(`heartbeat late by ${Math.round(late)} ms: a handler blocks the loop`);
      const silentMs = now() - this.#acknowledgedAt;
      // After a stall of the loop the answers may wait to be read.
      if (late < intervalMs && silentMs > intervalMs + welcome.leaseSecs * 1000) {
        giveUp(`no heartbeat was answered for ${Math.round(silentMs)} ms`);
      }
      this.#isBeatDue = true;
      this.#awaken();
    }, intervalMs);
  }

  /** Wait before the next try: exponential backoff with full jitter, cut short when the host is told to drain. */
  async #pause(tries: number): Promise<void> {
    const most = this.#session.holdsLeases ? MAX_DELAY_WITH_LEASES_MS : MAX_DELAY_MS;
    const until = now() + Math.random() * Math.min(most, FIRST_DELAY_MS * 2 ** Math.min(tries, 10));
    const wasDraining = this.#session.isDraining;
    for (;;) {
      const left = until - now();
      if (left <= 0 || this.#session.isDraining !== wasDraining || this.#gone.signal.aborted) return;
      this.#isAwake = false;
      const timer = new AbortController();
      await Promise.race([systemClock.sleep(left, timer.signal), this.#awoken()]);
      timer.abort();
    }
  }

  // Leaving

  #drained(drain: Drain): void {
    this.#logger.info(`host ${this.#options.hostId} is told to drain: ${drain.reason || "no reason given"}`);
    // Nothing new comes on this stream, and what runs then is stopped by the server. After it there is another.
    if (drain.reconnect) return;
    const left = drain.deadline && Math.max(0, timestampMs(drain.deadline) - Date.now());
    this.#drainUntil("server", left === undefined ? Number.POSITIVE_INFINITY : now() + left + DRAIN_SLACK_MS);
  }

  #drainUntil(who: "host" | "server", end: number): void {
    this.#session.drain();
    this.#leaveBy.set(who, end);
    clearTimeout(this.#leaving);
    const left = Math.min(...this.#leaveBy.values()) - now();
    if (left < MAX_TIMER_MS) this.#leaving = setTimeout(() => this.#interrupt(), left);
    this.#awaken();
  }

  /** Interrupt what still runs, and leave without waiting for ever. */
  #interrupt(): void {
    const { active } = this.#session;
    if (active) this.#logger.warn(`${active} tasks still run: they are interrupted and given back`);
    this.#handlers.stopAll("the host leaves");
    this.#leaving = setTimeout(() => {
      this.#logger.warn(`host ${this.#options.hostId} leaves without waiting for ${this.#session.active} handlers`);
      this.#gone.abort();
      this.#awaken();
    }, INTERRUPT_MS);
  }

  // Words

  #hello(): ConnectRequest {
    const { hostId, displayName, capabilities, slots, project, labels, leaseSecs } = this.#options;
    const hello = {
      hostId,
      instance: this.#instance,
      displayName,
      capabilities,
      slots: slots ?? 10,
      leases: this.#session.held(),
      project,
      actions: this.#actions.names,
      labels,
      leaseSecs,
      machine: this.#machine?.look(this.#session.active),
    };
    return create(ConnectRequestSchema, { message: { case: "hello", value: hello } });
  }

  /** Say once what keeps the host from its server. */
  #note(error: TaskyardError): void {
    if (error.code === this.#trouble) return;
    this.#trouble = error.code;
    const { hostId, address } = this.#options;
    if (error.code === "already_exists") {
      this.#logger.warn(`host ${hostId}: another instance holds this id; trying until it is gone`);
    } else if (this.#wasConnected) {
      this.#logger.warn(`host ${hostId} lost its connection, trying on: ${error.reason}`);
    } else this.#logger.warn(`host ${hostId}: no server at ${address ?? "the default"} yet: ${error.reason}`);
  }

  /** There may be something to write, or a reason to leave. */
  #awaken(): void {
    this.#isAwake = true;
    for (const wake of this.#sleepers.splice(0)) wake();
  }

  #awoken(): Promise<void> {
    return this.#isAwake ? Promise.resolve() : new Promise((resolve) => this.#sleepers.push(resolve));
  }
}

function now(): number {
  return performance.now();
}
