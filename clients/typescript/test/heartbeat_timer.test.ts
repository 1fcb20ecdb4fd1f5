/** When heartbeats are due. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { HeartbeatTimer } from "../src/heartbeat_timer.js";

/** Starts a timer with this interval. Returns it, and how many heartbeats are due so far. */
function timerOf(intervalMs: number): { timer: HeartbeatTimer; count: () => number } {
  let count = 0;
  const due = () => {
    count += 1;
  };
  const timer = new HeartbeatTimer(intervalMs, 60_000, performance.now(), { due, late() {}, dead() {} });
  return { timer, count: () => count };
}

test("no interval is shorter than ten milliseconds", async () => {
  const { timer, count } = timerOf(1);
  await sleep(300);
  timer.stop();
  assert.ok(count() > 0 && count() <= 31, `${count()} heartbeats`);
});

test("a heartbeat may ride in the last quarter of its interval, and puts off the next", async () => {
  const { timer, count } = timerOf(400);
  assert.equal(timer.mayRide, false);
  await sleep(320);
  assert.equal(timer.mayRide, true);
  timer.rides();
  assert.equal(timer.mayRide, false);
  await sleep(200);
  timer.stop();
  assert.equal(count(), 0);
});

test("an interval of zero names none", async () => {
  const { timer, count } = timerOf(0);
  await sleep(100);
  assert.equal(count(), 0);
  // As after any change, one is due at once.
  timer.changeInterval(0);
  await sleep(100);
  assert.equal(count(), 1);
  timer.changeInterval(20);
  timer.changeInterval(0);
  await sleep(200);
  timer.stop();
  assert.ok(count() > 3, "the interval before stays");
});
