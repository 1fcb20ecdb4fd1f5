/** A clock for tests, which only `sleep` moves. */
import type { Clock } from "../src/retrying.js";

export class FakeClock implements Clock {
  time = 0;
  readonly slept: number[] = [];

  now(): number {
    return this.time;
  }

  /** Delays are not shortened. */
  random(): number {
    return 1;
  }

  async sleep(ms: number): Promise<void> {
    this.slept.push(ms);
    this.time += ms;
  }
}
