/** What a host keeps, sends again and loses when its stream breaks. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { ScriptedSession } from "./scripted_session.js";

const same: (actual: unknown, expected: unknown) => void = assert.deepEqual;
let host: ScriptedSession;

/** A host that has given credit for its ten slots. */
beforeEach(() => {
  host = new ScriptedSession();
  same(host.writeAll(), ["credit 10"]);
});

test("after a break the outcomes of kept leases are sent again and those of lost leases dropped", () => {
  host.begin("a1", "b1");
  host.end("a1", "b1");
  host.writeAll();
  host.session.broken(10_000);
  same(host.held(), ["a1", "b1"]);
  same(host.welcome(["a1"], 11_000), []);
  same(host.writeAll(), ["a completed", "credit 10"]);
  same(host.held(), ["a1"]);
});

test("an answered outcome is not sent again", () => {
  host.begin("a1");
  host.end("a1");
  host.writeAll();
  host.answer(undefined);
  host.session.broken(10_000);
  host.welcome([]);
  same(host.writeAll(), ["credit 10"]);
});

test("reports since the break follow the unanswered ones", () => {
  host.assign("a1");
  host.writeAll();
  host.progress("a1");
  host.writeAll();
  host.session.broken(10_000);
  host.end("a1");
  host.welcome(["a1"]);
  same(host.writeAll(), ["a started", "a progress", "a completed", "credit 10"]);
  same(host.begun, []);
});

test("leases outlive a break by the grace period", () => {
  host.begin("a1");
  host.session.broken(10_000);
  same(host.expired(14_999), []);
  same(host.expired(15_000), ["a1"]);
});

test("a failed attempt to connect does not extend the grace period", () => {
  host.begin("a1");
  host.session.broken(10_000);
  host.session.broken(14_000);
  same(host.expired(15_000), ["a1"]);
});

test("the grace period never extends a lease", () => {
  host.begin("a1");
  host.session.broken(58_000);
  same(host.expired(60_000), ["a1"]);
});

test("a kept lease counts from when the Hello was sent", () => {
  host.begin("a1");
  host.session.broken(10_000);
  host.welcome(["a1"], 12_000);
  same(host.expired(71_999), []);
  same(host.expired(72_000), ["a1"]);
});

test("a kept lease has the length that the server names", () => {
  host.begin("a1");
  host.session.broken(10_000);
  host.welcome([], 12_000, { kept: [{ taskId: "a", fencingToken: 1, leaseSecs: 20 }] });
  same(host.expired(31_999), []);
  same(host.expired(32_000), ["a1"]);
});

test("the answer to a heartbeat of an earlier stream renews nothing", () => {
  host.begin("a1");
  host.heartbeat(20_000);
  host.session.broken(21_000);
  host.welcome(["a1"], 15_000);
  host.acknowledge();
  same(host.expired(75_000), ["a1"]);
});

test("handlers of leases that a Welcome does not keep are stopped", () => {
  host.begin("a1", "b1");
  host.session.broken(10_000);
  same(host.welcome(["b1"]), ["a1"]);
});

test("a lease that ended during a break is not listed, and is released after it", () => {
  host.begin("a1");
  host.session.broken(10_000);
  same(host.expired(15_000), ["a1"]);
  same(host.held(), []);
  host.endWith("a1", undefined);
  host.welcome([]);
  same(host.writeAll(), ["a released", "credit 10"]);
});

test("a release that was not answered is sent again", () => {
  host.begin("a1");
  host.cancel("a1");
  host.endWith("a1", undefined);
  host.writeAll();
  host.session.broken(10_000);
  host.welcome([]);
  same(host.writeAll(), ["a released", "credit 10"]);
});

test("of two progress reports that were not answered, the newer one is sent again", () => {
  host.begin("a1");
  for (const fraction of [0.1, 0.9]) {
    host.progress("a1", fraction);
    same(host.writeAll(), ["a progress"]);
  }
  host.session.broken(10_000);
  host.welcome(["a1"]);
  const { event } = host.nextReports().reports[0]!;
  assert.ok(event.case === "progress");
  same(event.value.fraction, 0.9);
});

test("an outcome that crossed a cancellation is not sent again in place of its release", () => {
  host.begin("a1");
  host.end("a1");
  same(host.writeAll(), ["a completed", "credit 1"]);
  host.cancel("a1");
  same(host.writeAll(), ["a released"]);
  host.session.broken(10_000);
  host.welcome([]);
  same(host.writeAll(), ["a released", "credit 10"]);
});

test("a release is sent again although the outcome that crossed the cancellation was answered", () => {
  host.begin("a1");
  host.end("a1");
  host.writeAll();
  host.cancel("a1");
  host.writeAll();
  same(host.answer("lease_lost"), []);
  host.session.broken(10_000);
  host.welcome([]);
  same(host.writeAll(), ["a released", "credit 10"]);
  host.answer("lease_lost");
  assert.ok(host.session.isFinished);
});
