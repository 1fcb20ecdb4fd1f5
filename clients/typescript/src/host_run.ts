/**
 * One start of a host: it connects, runs tasks, reconnects and leaves.
 *
 * `Session` decides what the host holds and reports; this file has the connection and the clock. A stream has a reader
 * and a writer that never wait for each other.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Client as Stub, createClient } from "@connectrpc/connect";
import type { Caller } from "./caller.js";
import { Calls } from "./calls.js";
import { errorFrom, isElsewhere, TaskyardError } from "./errors.js";
import {
  Cancellation_Reason,
  type ConnectRequest,
  ConnectRequestSchema,
  type ConnectResponse,
  type Drain,
  type HeartbeatAck,
  HeartbeatAckSchema,
  RuntimeHostService,
  type Welcome,
} from "./gen/taskyard/v1/runtime_host_pb.js";
import { type Actions, Handlers } from "./handlers.js";
import { HostArtifacts } from "./held_artifacts.js";
import { HeartbeatTimer } from "./heartbeat_timer.js";
import type { HostOptions } from "./host.js";
import type { Logger } from "./logger.js";
import { MachineFigures } from "./machine.js";
import { openConnection } from "./connection.js";
import { reconnectDelay } from "./reconnecting.js";
import { MAX_TIMER_MS, systemClock } from "./retrying.js";
import { Session } from "./session.js";
import { randomKey } from "./values.js";

/** The errors that another try cannot avoid. */
const FINAL_ERRORS = ["bad_request", "conflict", "permission_denied", "unauthenticated", "unimplemented"];
const MAX_DELAY_MS = 5_000;
/** Leases outlive a broken stream for seconds only. */
const MAX_DELAY_WITH_LEASES_MS = 1_000;
/** After a stream that lasted so long, another outage begins. */
const STEADY_MS = 5_000;
/** How long the server may take to answer a Hello. */
const WELCOME_MS = 10_000;
/** How long the server may take to answer the calls and the end of the stream with which a host leaves. */
const CLOSE_MS = 5_000;
/** How long handlers that were stopped so that the host can leave may take to end. */
const INTERRUPT_MS = 5_000;
/** The server interrupts tasks at the deadline of its drain. The host gives it so much time before it does so itself. */
const DRAIN_SLACK_MS = 2_000;
const EXPIRY_CHECK_MS = 100;

/** How far one stream has come. */
interface StreamState {
  isWelcome: boolean;
  hasLeft: boolean;
}

export class HostRun {
  readonly #options: HostOptions;
  readonly #caller: Caller;
  readonly #actions: Actions;
  readonly #logger: Logger;
  readonly #instance = randomKey();
  readonly #machine: MachineFigures | undefined;
  readonly #session: Session;
  readonly #artifacts: HostArtifacts;
  readonly #handlers: Handlers;
  /** Aborts when the host leaves without waiting any longer. */
  readonly #abandoned = new AbortController();
  /** Whether something has changed since the writer last looked. */
  #isAwake = true;
  #sleepers: (() => void)[] = [];
  #isHeartbeatDue = false;
  /** The heartbeats of the present stream, once that is welcome. */
  #heartbeats: HeartbeatTimer | undefined;
  #wasConnected = false;
  /** Whether the server has asked for the next stream. */
  #isAskedBack = false;
  /** Whether the token was read anew since a stream was welcome last. */
  #isRenewed = false;
  /** The stub of the present connection, once its stream is welcome. */
  #stub: Stub<typeof RuntimeHostService> | undefined;
  /** The code of the last connection error that was logged. */
  #loggedCode: string | undefined;
  /** When running tasks are interrupted, by who drains. */
  readonly #leaveBy = new Map<"host" | "server", number>();
  #leaving: NodeJS.Timeout | undefined;
  /** The calls with which the host leaves, once they are made. They settle without an error. */
  #drainCall: Promise<unknown> | undefined;
  #deregisterCall: Promise<void> | undefined;

  constructor(options: HostOptions, caller: Caller, actions: Actions, logger: Logger) {
    this.#options = options;
    this.#caller = caller;
    this.#actions = actions;
    this.#logger = logger;
    this.#machine = options.machineFigures === false ? undefined : new MachineFigures();
    this.#session = new Session(options.slots ?? 10, (text) => logger.warn(text));
    this.#artifacts = new HostArtifacts(caller, options.hostId);
    this.#handlers = new Handlers(actions, this.#session, this.#artifacts, () => this.#wake(), logger);
  }

  /** Runs tasks until the host has drained. Throws `TaskyardError` when the server refuses it for good. */
  async run(): Promise<void> {
    // A Hello that cannot be encoded would fail at each try.
    toBinary(ConnectRequestSchema, this.#hello());
    const expiring = setInterval(() => this.#expireLeases(), EXPIRY_CHECK_MS);
    try {
      await this.#stayConnected();
    } finally {
      clearInterval(expiring);
      clearTimeout(this.#leaving);
      this.#handlers.stopAll("the host has left");
      this.#artifacts.close();
    }
    this.#logger.info(`host ${this.#options.hostId} has left`);
  }

  #expireLeases(): void {
    this.#handlers.stop(this.#session.expired(now()), "the server cannot be reached to renew the lease");
    if (this.#session.outputRetried(now())) this.#wake();
  }

  /** Takes no more tasks, lets the running ones end within the grace period, then leaves. A repeat changes nothing. */
  drain(): void {
    if (this.#leaveBy.has("host")) return;
    this.#logger.info(`host ${this.#options.hostId} drains: ${this.#session.active} tasks run`);
    if (!this.#session.isDraining) {
      // The server still has credit: this ends its hand-outs. A task that comes all the same is given back.
      this.#drainCall = this.#stub
        ?.drainHost({ hostId: this.#options.hostId }, { timeoutMs: CLOSE_MS })
        .catch(() => {});
    }
    this.#drainUntil("host", now() + (this.#options.drainGraceMs ?? 30_000));
  }

  // Connection

  async #stayConnected(): Promise<void> {
    const session = this.#session;
    let brokeAt: number | undefined;
    while (!this.#abandoned.signal.aborted && !(session.isDraining && !session.active && !session.holdsLeases)) {
      const began = now();
      let error: TaskyardError;
      try {
        await this.#connect();
        return;
      } catch (thrown) {
        error = errorFrom(thrown);
        if (this.#abandoned.signal.aborted) return;
        if (error.code === "conflict" && error.details.cause === "deregistered") {
          this.#logger.warn(`host ${this.#options.hostId} was deregistered: it stops what runs and registers anew`);
          this.#handlers.stop(session.deregistered(), "the host was deregistered");
        } else if (error.code === "unauthenticated" && !this.#isRenewed && this.#caller.credentials.renew()) {
          this.#isRenewed = true;
          this.#log(error);
        } else if (FINAL_ERRORS.includes(error.code)) throw error;
        else this.#log(error);
      }
      const isFirst = brokeAt === undefined || now() - began > STEADY_MS;
      if (brokeAt === undefined || isFirst) brokeAt = now();
      const maxMs = session.holdsLeases ? MAX_DELAY_WITH_LEASES_MS : MAX_DELAY_MS;
      const isAsked = isFirst && (this.#isAskedBack || isElsewhere(error));
      this.#isAskedBack = false;
      await this.#pause(reconnectDelay(error, isAsked, now() - brokeAt, maxMs));
    }
  }

  /** Holds one stream until the host has left. Throws a `TaskyardError` if the stream breaks; handlers run on. */
  async #connect(): Promise<void> {
    // A connection that has failed may not have noticed it yet, so each try opens a new one.
    const [transport, connection] = openConnection(this.#caller);
    const { namespace, credentials } = this.#caller;
    const calls = new Calls(transport, { namespace, patienceMs: CLOSE_MS }, undefined, credentials);
    const stub = createClient(RuntimeHostService, calls);
    const stream = new AbortController();
    const stop = () => stream.abort(new TaskyardError("cancelled", "the host leaves"));
    this.#abandoned.signal.addEventListener("abort", stop);
    try {
      await this.#hold(stub, stream);
      await this.#deregisterCall;
    } finally {
      this.#stub = undefined;
      this.#abandoned.signal.removeEventListener("abort", stop);
      connection.close();
    }
  }

  async #hold(stub: Stub<typeof RuntimeHostService>, stream: AbortController): Promise<void> {
    const abort = (reason: string) => stream.abort(new TaskyardError("unavailable", reason));
    let leaveTimer: NodeJS.Timeout | undefined;
    const state: StreamState = { isWelcome: false, hasLeft: false };
    const leave = async () => {
      state.hasLeft = true;
      this.#deregisterCall = this.#deregister(stub);
      await this.#deregisterCall;
      leaveTimer = setTimeout(() => abort("no answer to the host's end"), CLOSE_MS);
    };
    const welcomeTimer = setTimeout(() => abort("no answer to the host's hello"), WELCOME_MS);
    const sentAt = now();
    try {
      const requests = this.#requests(stream.signal, state, leave);
      for await (const response of stub.connect(requests, { signal: stream.signal })) {
        if (response.message.case === "welcome") {
          const welcome = response.message.value;
          clearTimeout(welcomeTimer);
          this.#welcomed(welcome, sentAt);
          this.#stub = stub;
          state.isWelcome = true;
          this.#heartbeats = this.#heartbeatTimer(welcome, sentAt, abort);
        } else this.#receive(response);
        this.#wake();
      }
      if (!state.hasLeft) throw new TaskyardError("unavailable", "the server closed the stream");
    } catch (error) {
      // Once the host has ended the stream, it does not matter how the server ends it.
      if (!state.hasLeft) throw error;
    } finally {
      stream.abort();
      clearTimeout(welcomeTimer);
      clearTimeout(leaveTimer);
      this.#heartbeats?.stop();
      this.#heartbeats = undefined;
      this.#session.broken(now());
      // The writer looks and ends.
      this.#wake();
    }
  }

  /**
   * Deregisters the host, which would else be listed as dead. This ends the stream. It must not come after its end: both
   * calls name the host by its id, and would then reach the next host with that id.
   */
  async #deregister(stub: Stub<typeof RuntimeHostService>): Promise<void> {
    await this.#drainCall;
    await stub.deregisterHost({ hostId: this.#options.hostId }, { timeoutMs: CLOSE_MS }).catch(() => {});
  }

  #receive({ message, acceptedReports, acknowledgedHeartbeat }: ConnectResponse): void {
    const session = this.#session;
    const sequence = acknowledgedHeartbeat;
    if (sequence !== undefined) this.#acknowledged(create(HeartbeatAckSchema, { sequence }));
    if (acceptedReports) {
      // What is counted comes before the message.
      this.#expireLeases();
      this.#handlers.begin(session.accepted(acceptedReports));
    }
    switch (message.case) {
      case "assignments":
        for (const assignment of message.value.assignments) session.assigned(assignment);
        break;
      case "reportResults": {
        // The process may have stood still since the answer came: a lease that is over must not begin.
        this.#expireLeases();
        const { begin, stop } = session.answered(message.value);
        this.#handlers.stop(stop);
        this.#handlers.begin(begin);
        break;
      }
      case "outputAcks":
        this.#handlers.stop(session.outputAnswered(message.value, now()));
        break;
      case "heartbeatAck":
        this.#acknowledged(message.value);
        break;
      case "heartbeatInterval":
        this.#heartbeats?.changeInterval(message.value.heartbeatIntervalMs);
        break;
      case "cancellations":
        for (const cancellation of message.value.cancellations) {
          const reason = cancellation.message || "no reason given";
          this.#logger.info(`task ${cancellation.taskId} is to be stopped: ${reason}`);
          // The handler of a lease that was lost before is stopped already.
          this.#handlers.stop(session.cancelled(cancellation), reason, nameOf(cancellation.reason));
        }
        break;
      case "drain":
        this.#drained(message.value);
    }
  }

  #acknowledged(ack: HeartbeatAck): void {
    this.#heartbeats?.answered();
    this.#handlers.stop(this.#session.acknowledged(ack));
  }

  #welcomed(welcome: Welcome, sentAt: number): void {
    const { hostId } = this.#options;
    this.#handlers.stop(this.#session.welcomed(welcome, sentAt), "the lease was lost while the host was away");
    this.#isHeartbeatDue = false;
    const how = this.#wasConnected ? "is back at" : "connected to";
    this.#logger.info(`host ${hostId} ${how} ${this.#caller.server} (session ${welcome.session})`);
    if (welcome.lost.length) this.#logger.warn(`${welcome.lost.length} leases were lost while the host was away`);
    this.#wasConnected = true;
    this.#isRenewed = false;
    this.#loggedCode = undefined;
  }

  /** The messages to write. The transport asks for the next one when it has written the last. */
  async *#requests(ended: AbortSignal, state: StreamState, leave: () => Promise<void>): AsyncGenerator<ConnectRequest> {
    const session = this.#session;
    yield this.#hello();
    while (!ended.aborted) {
      this.#isAwake = false;
      const messages = state.isWelcome ? this.#nextMessages() : [];
      for (const message of messages) {
        yield message;
        if (ended.aborted) return;
        // The process may have stood still while the message waited: a lease that is over must not begin.
        this.#expireLeases();
        this.#handlers.begin(session.written(message));
      }
      if (messages.length) continue;
      if (session.isDraining && session.isFinished && state.isWelcome) {
        await leave();
        return;
      }
      await this.#woken();
    }
  }

  #nextMessages(): ConnectRequest[] {
    const session = this.#session;
    if (!this.#isHeartbeatDue) {
      if (!session.heartbeatMayRide || !this.#heartbeats?.mayRide) return session.nextMessages();
      this.#heartbeats.rides();
    }
    this.#isHeartbeatDue = false;
    return session.nextMessages(session.heartbeat(now(), this.#machine?.measure(session.active)));
  }

  #heartbeatTimer(welcome: Welcome, sentAt: number, abort: (reason: string) => void): HeartbeatTimer {
    return new HeartbeatTimer(welcome.heartbeatIntervalMs, welcome.leaseSecs * 1000, sentAt, {
      due: () => {
        this.#isHeartbeatDue = true;
        this.#wake();
      },
      late: (ms) => this.#logger.warn(`heartbeat late by ${Math.round(ms)} ms: a handler blocks the event loop`),
      dead: (ms) => abort(`no heartbeat was answered for ${Math.round(ms)} ms`),
    });
  }

  /** Waits before the next try, cut short when the host is told to drain. */
  async #pause(ms: number): Promise<void> {
    const until = now() + ms;
    const wasDraining = this.#session.isDraining;
    for (;;) {
      const left = until - now();
      if (left <= 0 || this.#session.isDraining !== wasDraining || this.#abandoned.signal.aborted) return;
      this.#isAwake = false;
      const timer = new AbortController();
      await Promise.race([systemClock.sleep(left, timer.signal), this.#woken()]);
      timer.abort();
    }
  }

  // Leaving

  #drained(drain: Drain): void {
    this.#logger.info(`host ${this.#options.hostId} is told to drain: ${drain.reason || "no reason given"}`);
    if (drain.reconnect) {
      // The server shuts down, or another one serves the namespace: it ends this stream itself. Then the host connects
      // again at once, and its tasks go on.
      this.#isAskedBack = true;
      return;
    }
    const left = drain.deadline && Math.max(0, timestampMs(drain.deadline) - Date.now());
    this.#drainUntil("server", left === undefined ? Number.POSITIVE_INFINITY : now() + left + DRAIN_SLACK_MS);
  }

  #drainUntil(who: "host" | "server", end: number): void {
    this.#session.drain();
    this.#leaveBy.set(who, end);
    clearTimeout(this.#leaving);
    const left = Math.min(...this.#leaveBy.values()) - now();
    if (left < MAX_TIMER_MS) this.#leaving = setTimeout(() => this.#interrupt(), left);
    this.#wake();
  }

  /** Interrupts the tasks that still run, and leaves even if their handlers do not end. */
  #interrupt(): void {
    const { active } = this.#session;
    if (active) this.#logger.warn(`${active} tasks still run: they are interrupted and given back`);
    this.#handlers.stopAll("the host leaves");
    this.#leaving = setTimeout(() => {
      this.#logger.warn(`host ${this.#options.hostId} leaves without waiting for ${this.#session.active} handlers`);
      this.#abandoned.abort();
      this.#wake();
    }, INTERRUPT_MS);
  }

  // Messages and logs

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
      countsAccepted: true,
      machine: this.#machine?.measure(this.#session.active),
    };
    return create(ConnectRequestSchema, { message: { case: "hello", value: hello } });
  }

  /** Logs why the host is not connected, once for each code in a row. */
  #log(error: TaskyardError): void {
    if (error.code === this.#loggedCode) return;
    this.#loggedCode = error.code;
    const { hostId } = this.#options;
    if (error.code === "already_exists") {
      this.#logger.warn(`host ${hostId}: another instance holds this id; trying until it is gone`);
    } else if (this.#wasConnected) {
      this.#logger.warn(`host ${hostId} lost its connection, trying on: ${error.reason}`);
    } else this.#logger.warn(`host ${hostId}: no server at ${this.#caller.server} yet: ${error.reason}`);
  }

  /** There may be a message to write, or a reason to leave. */
  #wake(): void {
    this.#isAwake = true;
    this.#handlers.emitter.retry();
    for (const resolve of this.#sleepers.splice(0)) resolve();
  }

  #woken(): Promise<void> {
    return this.#isAwake ? Promise.resolve() : new Promise((resolve) => this.#sleepers.push(resolve));
  }
}

/** The reason of a cancellation as other SDKs spell it. */
function nameOf(reason: Cancellation_Reason): string {
  return (Cancellation_Reason[reason] ?? String(reason)).replace("REASON_", "").toLowerCase();
}

function now(): number {
  return performance.now();
}
