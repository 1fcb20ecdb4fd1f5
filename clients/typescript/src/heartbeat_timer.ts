/** When the next heartbeat of a stream is due, and when the stream counts as dead because none is answered. */
import { MAX_TIMER_MS } from "./retrying.js";

/** The interval where the server names none. */
const DEFAULT_INTERVAL_MS = 20_000;
const MIN_INTERVAL_MS = 10;
/** In the last part of the interval, as large as this, a heartbeat may come with reports. */
const RIDES_IN_LAST = 0.25;

/** What the timer reports. Times are in milliseconds. */
export interface HeartbeatEvents {
  /** A heartbeat is to be sent now. */
  due(): void;
  /** The timer fired so much later than planned: the event loop was blocked. */
  late(lateMs: number): void;
  /** No heartbeat was answered for so long that the leases may have ended. */
  dead(silentMs: number): void;
}

/** The heartbeats of one stream, from its Welcome until `stop`. */
export class HeartbeatTimer {
  readonly #leaseMs: number;
  readonly #events: HeartbeatEvents;
  #intervalMs = DEFAULT_INTERVAL_MS;
  #timer: NodeJS.Timeout | undefined;
  /** When the timer fires next. */
  #nextAt = 0;
  #answeredAt: number;

  /** `helloSentAt` is when the stream's Hello was sent, by `performance.now`: the first sign of life counts from it. */
  constructor(intervalMs: number, leaseMs: number, helloSentAt: number, events: HeartbeatEvents) {
    this.#leaseMs = leaseMs;
    this.#answeredAt = helloSentAt;
    this.#events = events;
    this.#start(intervalMs || DEFAULT_INTERVAL_MS);
  }

  /** A heartbeat was answered just now. */
  answered(): void {
    this.#answeredAt = performance.now();
  }

  /** Whether it is late enough for a heartbeat that comes with reports, so that a busy host writes no message for it. */
  get mayRide(): boolean {
    return performance.now() >= this.#nextAt - this.#intervalMs * RIDES_IN_LAST;
  }

  /** A heartbeat comes with reports: the next is due an interval later. */
  rides(): void {
    const now = performance.now();
    this.#start(this.#intervalMs);
    this.#checkAnswers(now);
  }

  /** Heartbeats are due at another interval from now on, the next one at once. */
  changeInterval(intervalMs: number): void {
    this.#start(intervalMs || this.#intervalMs);
    this.#events.due();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #start(intervalMs: number): void {
    clearInterval(this.#timer);
    this.#intervalMs = Math.min(Math.max(intervalMs, MIN_INTERVAL_MS), MAX_TIMER_MS);
    this.#nextAt = performance.now() + this.#intervalMs;
    this.#timer = setInterval(() => this.#fire(), this.#intervalMs);
  }

  #fire(): void {
    const now = performance.now();
    const lateMs = now - this.#nextAt;
    this.#nextAt = now + this.#intervalMs;
    if (lateMs > this.#intervalMs) this.#events.late(lateMs);
    // After a blocked event loop the answers may have arrived without being read yet.
    if (lateMs < this.#intervalMs) this.#checkAnswers(now);
    this.#events.due();
  }

  #checkAnswers(now: number): void {
    const silentMs = now - this.#answeredAt;
    if (silentMs > this.#intervalMs + this.#leaseMs) this.#events.dead(silentMs);
  }
}
