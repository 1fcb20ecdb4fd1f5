/** Which reports are written, in which messages, and what follows from their answers. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { toBinary } from "@bufbuild/protobuf";
import { ConnectRequestSchema } from "../src/gen/taskyard/v1/runtime_host_pb.js";
import { reportFor, ScriptedSession } from "./scripted_session.js";

const same: (actual: unknown, expected: unknown) => void = assert.deepEqual;
let host: ScriptedSession;

/** A host that has given credit for its ten slots. */
beforeEach(() => {
  host = new ScriptedSession();
  same(host.writeAll(), ["credit 10"]);
});

const text = (key: string, length: number) =>
  reportFor(key, {
    case: "completed",
    value: { result: { kind: { case: "stringValue", value: "x".repeat(length) } } },
  });

test("pending reports are written in one message, those of a lease in their order", () => {
  host.begin("a1", "b1");
  host.progress("b1");
  host.end("a1", "b1");
  const written = host.nextReports().reports.map((each) => `${each.taskId} ${each.event.case}`);
  same(written, ["b progress", "b completed", "a completed"]);
});

test("a later progress report replaces one that was not written", () => {
  host.begin("a1");
  for (let tenth = 0; tenth < 10; tenth++) host.progress("a1", tenth / 10);
  const written = host.nextReports().reports.map((each) => each.event.case === "progress" && each.event.value.fraction);
  same(written, [0.9]);
});

test("no message is larger than the server's limit", () => {
  host = new ScriptedSession(10, { maxMessageBytes: 1_000 });
  host.writeAll();
  const keys = [..."abcdefgh"].map((task) => `${task}1`);
  host.begin(...keys);
  for (const key of keys) host.endWith(key, text(key, 300));
  const written: string[] = [];
  for (let messages = host.session.nextMessages(); messages.length; messages = host.session.nextMessages()) {
    for (const message of messages) {
      assert.ok(toBinary(ConnectRequestSchema, message).length <= 1_000);
      if (message.message.case === "reports")
        written.push(...message.message.value.reports.map((each) => `${each.taskId}1`));
    }
  }
  same(written, keys);
});

test("a result that fits no message fails its task alone", () => {
  host = new ScriptedSession(10, { maxMessageBytes: 1_000 });
  host.writeAll();
  host.begin("a1", "b1");
  host.endWith("a1", text("a1", 1_000));
  host.end("b1");
  const [first, second] = host.nextReports().reports.map((each) => each.event);
  assert.ok(first?.case === "failed");
  same([first.value.code, first.value.retryable], ["too_large", false]);
  same(second?.case, "completed");
});

test("a result that the server refuses becomes a failure", () => {
  host.begin("a1");
  host.end("a1");
  host.writeAll();
  host.answer("too_large");
  const event = host.nextReports().reports[0]?.event;
  assert.ok(event?.case === "failed");
  const { error, code, retryable } = event.value;
  same([error, code, retryable], ["result refused: for a reason", "too_large", false]);
  host.answer(undefined);
  assert.ok(host.session.isFinished);
});

test("a park that the server refuses becomes a failure", () => {
  host.begin("a1");
  host.endWith("a1", reportFor("a1", { case: "parked", value: {} }));
  same(host.writeAll(), ["a parked", "credit 1"]);
  host.answer("bad_request");
  const event = host.nextReports().reports[0]?.event;
  assert.ok(event?.case === "failed");
  same([event.value.error, event.value.retryable], ["park refused: for a reason", false]);
});

test("a failure that the server refuses becomes a release, and a refused release ends the lease", () => {
  host.begin("a1");
  host.endWith("a1", reportFor("a1", { case: "failed", value: { error: "no" } }));
  host.writeAll();
  host.answer("bad_request");
  same(host.writeAll(), ["a released"]);
  host.answer("bad_request");
  assert.ok(host.session.isFinished);
});

test("an outcome that is refused as retryable is sent again with the next heartbeat", () => {
  host.begin("a1");
  host.end("a1");
  host.writeAll();
  host.answerWith({ code: "unavailable", error: "not now", retryable: true });
  same(host.writeAll(), []);
  same(host.heartbeat(), ["a1"]);
  same(host.writeAll(), ["a completed"]);
});

test("a refused progress report changes nothing", () => {
  host.begin("a1");
  host.progress("a1");
  host.writeAll();
  same(host.answer("too_large"), []);
  same(host.held(), ["a1"]);
});

for (const error of ["lease_lost", "not_found"]) {
  test(`a report refused as ${error} stops the handler`, () => {
    host.begin("a1");
    host.progress("a1");
    host.writeAll();
    same(host.answer(error), ["a1"]);
    same(host.held(), []);
  });

  test(`a release refused as ${error} ends its lease`, () => {
    host.begin("a1");
    host.cancel("a1");
    host.endWith("a1", undefined);
    same(host.writeAll(), ["a released", "credit 1"]);
    host.answer(error);
    assert.ok(host.session.isFinished);
  });
}

test("an outcome whose lease is lost is dropped", () => {
  host.begin("a1");
  host.end("a1");
  host.writeAll();
  host.answer("lease_lost");
  assert.ok(host.session.isFinished);
});

test("an answer to no message is ignored", () => {
  same(host.answer(undefined), []);
});

test("a release of a lost lease that is refused as retryable is sent again with the next heartbeat", () => {
  host.begin("a1");
  host.cancel("a1");
  host.endWith("a1", undefined);
  host.writeAll();
  host.answerWith({ code: "unavailable", error: "not now", retryable: true });
  assert.ok(!host.session.isFinished);
  host.heartbeat();
  same(host.writeAll(), ["a released"]);
  host.answer(undefined);
  assert.ok(host.session.isFinished);
});
