/** Slots, credit, and when the handler of a task without a target begins. */
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

test("all slots are credited at first, and only once", () => {
  same(host.writeAll(), []);
});

test("the tasks at hand and the credit never exceed the slots", () => {
  host = new ScriptedSession(3);
  same(host.writeAll(), ["credit 3"]);
  host.assign("a1", "b1");
  same(host.writeAll(), ["a started", "b started"]);
});

test("a slot is credited again after the report that freed it", () => {
  host.begin("a1", "b1", "c1");
  host.end("a1", "c1");
  same(host.writeAll(), ["a completed", "c completed", "credit 2"]);
});

test("a slot stays taken while the handler of a lost lease still runs", () => {
  host.begin("a1");
  same(host.cancel("a1"), ["a1"]);
  same(host.writeAll(), []);
  host.endWith("a1", undefined);
  same(host.writeAll(), ["a released", "credit 1"]);
});

test("a new stream begins without credit", () => {
  host.begin("a1");
  host.session.broken(0);
  host.welcome(["a1"]);
  same(host.writeAll(), ["credit 9"]);
});

test("a handler begins only when its start report is written", () => {
  host.assign("a1");
  const { message, reports } = host.nextReports();
  same(
    reports.map((each) => each.event.case),
    ["started"],
  );
  same(host.write(message), ["a"]);
  same(host.write(message), []);
});

test("a task that is cancelled while its start report is written never begins", () => {
  host.assign("a1");
  const { message } = host.nextReports();
  same(host.cancel("a1"), []);
  same(host.write(message), []);
  same(host.writeAll(), ["a released", "credit 1"]);
});

test("a task that was cancelled before its start report was written is only released", () => {
  host.assign("a1");
  host.cancel("a1");
  same(host.writeAll(), ["a released", "credit 1"]);
  same(host.begun, []);
});

test("a task whose start report was not written when the stream broke is forgotten", () => {
  host.assign("a1", "b1");
  const { message } = host.nextReports();
  host.session.broken(0);
  same(host.write(message), []);
  same(host.held(), []);
  assert.ok(host.session.isFinished);
});
