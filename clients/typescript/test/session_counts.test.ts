/** A server that counts accepted reports, and an older one that does not. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { MachineSchema } from "../src/gen/taskyard/v1/runtime_host_pb.js";
import { ScriptedSession } from "./scripted_session.js";

const same: (actual: unknown, expected: unknown) => void = assert.deepEqual;
let host: ScriptedSession;

/** A host whose server counts, and has the credit of its ten slots. */
beforeEach(() => {
  host = new ScriptedSession(10, { countsAccepted: true });
  same(host.writeMessages(), [["credit 10"]]);
});

test("reports and the credit of the slots that they free are one message", () => {
  host.assign("a1", "b1");
  host.writeAll();
  host.end("a1", "b1");
  same(host.writeMessages(), [["a completed", "b completed", "credit 2"]]);
});

test("a server that does not count gets heartbeat, reports and credit as three messages", () => {
  host = new ScriptedSession(10);
  host.writeAll();
  host.begin("a1");
  host.end("a1");
  assert.equal(host.session.heartbeatMayRide, false);
  same(host.writeWithHeartbeat(), [["heartbeat a"], ["a completed"], ["credit 1"]]);
});

test("a heartbeat comes with reports, and lists the leases of before them", () => {
  host.assign("a1", "b1");
  host.writeAll();
  host.end("a1");
  assert.equal(host.session.heartbeatMayRide, true);
  same(host.writeWithHeartbeat(), [["a completed", "credit 1", "heartbeat a b"]]);
});

test("a heartbeat without reports is a message of its own", () => {
  assert.equal(host.session.heartbeatMayRide, false);
  same(host.writeWithHeartbeat(), [["heartbeat"]]);
});

test("a heartbeat that makes the message too large comes before the reports", () => {
  host = new ScriptedSession(10, { countsAccepted: true, maxMessageBytes: 1_000 });
  host.writeAll();
  host.assign("a1");
  const machine = create(MachineSchema, { context: { text: "x".repeat(950) } });
  same(host.writeWithHeartbeat(machine), [["heartbeat a"], ["a started"]]);
});

test("a count answers the oldest reports, whatever their messages", () => {
  host.assign("a1", "b1");
  host.writeAll();
  host.end("a1", "b1");
  host.writeAll();
  host.accept(3);
  same(host.held(), ["b1"]);
  host.accept(1);
  assert.ok(host.session.isFinished);
});

test("a result is for the oldest report after those that are counted", () => {
  host.assign("a1", "b1", "c1");
  host.writeAll();
  host.accept(1);
  same(host.answer("lease_lost"), ["b1"]);
  host.accept(1);
  host.end("a1", "c1");
  same(host.writeAll(), ["a completed", "c completed", "credit 2"]);
});

test("a task with a target begins when its start is counted", () => {
  host.assign("a1");
  host.assignOfTarget("b1");
  host.writeAll();
  same(host.begun, ["a"]);
  host.accept(1);
  same(host.begun, []);
  host.accept(1);
  same(host.begun, ["b"]);
});

test("a count beyond what was reported changes nothing", () => {
  host.assign("a1");
  host.writeAll();
  host.accept(5);
  same(host.held(), ["a1"]);
});

test("reports that were not counted before a break are sent again, also to an older server", () => {
  host.assign("a1", "b1");
  host.writeAll();
  host.accept(2);
  host.end("a1", "b1");
  host.writeAll();
  host.accept(1);
  host.session.broken(0);
  host.welcome(["b1"]);
  same(host.writeMessages(), [["b completed"], ["credit 10"]]);
});
