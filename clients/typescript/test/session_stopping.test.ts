/** Cancellations, deregistration and drains. */
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

test("a cancellation is answered once no handler runs", () => {
  host.begin("a1");
  same(host.cancel("a1"), ["a1"]);
  same(host.writeAll(), []);
  host.end("a1");
  same(host.writeAll(), ["a released", "credit 1"]);
  host.answer(undefined);
  assert.ok(host.session.isFinished);
});

test("a cancellation of a task that does not run is answered at once", () => {
  same(host.cancel("a1"), []);
  same(host.writeAll(), ["a released"]);
});

for (const isWritten of [true, false]) {
  test(`a cancellation that crosses the outcome is answered ${isWritten ? "before" : "after"} the outcome is refused`, () => {
    host.begin("a1");
    host.end("a1");
    host.writeAll();
    same(host.cancel("a1"), []);
    if (isWritten) same(host.writeAll(), ["a released"]);
    host.answer("lease_lost");
    if (!isWritten) same(host.writeAll(), ["a released"]);
    host.answer(undefined);
    assert.ok(host.session.isFinished);
  });
}

test("a later lease of the same task is a different lease", () => {
  host.begin("a1");
  host.cancel("a1");
  host.begin("a2");
  same(host.held(), ["a2"]);
  host.end("a1");
  host.end("a2");
  same(host.writeAll(), ["a released", "a completed", "credit 2"]);
});

test("a host that was deregistered stops all handlers", () => {
  host.begin("a1", "b1");
  host.session.broken(10_000);
  same(host.session.deregistered(), ["a 1", "b 1"]);
  same(host.held(), []);
});

test("a draining host gives no credit and lets running tasks end", () => {
  host.begin("a1");
  host.session.drain();
  assert.ok(!host.session.isFinished);
  host.end("a1");
  same(host.writeAll(), ["a completed"]);
  host.answer(undefined);
  assert.ok(host.session.isFinished);
});

test("a draining host gives back tasks that have not begun", () => {
  host.assign("a1");
  const { message } = host.nextReports();
  host.assign("b1");
  host.session.drain();
  same(host.write(message), []);
  host.assign("c1");
  same(host.writeAll(), ["a released", "b released", "c released"]);
  same(host.begun, []);
});

test("a draining host renews the leases that it gives back until that is answered", () => {
  host.assign("a1");
  host.session.drain();
  same(host.heartbeat(), ["a1"]);
  host.writeAll();
  host.answer(undefined);
  same(host.heartbeat(), []);
});

test("a task that was interrupted so that the host can leave is given back", () => {
  host.begin("a1");
  host.session.drain();
  host.endWith("a1", undefined);
  same(host.writeAll(), ["a released"]);
});
