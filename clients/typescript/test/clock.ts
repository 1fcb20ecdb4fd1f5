/** A clock for tests: sleeping moves it, and nothing else does. */
import type { Clock } from "../src/retrying.js";

export class FakeClock implements Clock {
  time = 0;
  readonly slept: number[] = [];

  now(): number {
    return this.time;
  }

  /** No shortening by chance. */
  random(): number {
    return 1;
  }

  async sleep(ms: number): Promise<void> {
    this.slept.push(ms);
    this.time += ms;
  }
}
