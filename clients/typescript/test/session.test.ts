/** The rules of the host stream, without a stream: what is held, what is said next, what is stopped. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { toBinary } from "@bufbuild/protobuf";
import { ConnectRequestSchema } from "../src/gen/taskyard/v1/runtime_host_pb.js";
import { Played, reportOn } from "./played.js";

const same: (actual: unknown, expected: unknown) => void = assert.deepEqual;
let played: Played;

/** A host that has given credit for its ten slots. */
beforeEach(() => {
  played = new Played();
  same(played.turn(), ["credit 10"]);
});

const text = (key: string, length: number) =>
  reportOn(key, { case: "completed", value: { result: { kind: { case: "stringValue", value: "x".repeat(length) } } } });

test("all slots are credited at first and only once", () => {
  same(played.turn(), []);
});

test("what was handed out and what is credited never exceed the slots", () => {
  played = new Played(3);
  same(played.turn(), ["credit 3"]);
  played.assign("a1", "b1");
  same(played.turn(), ["a started", "b started"]);
});

test("a slot is credited again after the report that freed it", () => {
  played.begin("a1", "b1", "c1");
  played.end("a1", "c1");
  same(played.turn(), ["a completed", "c completed", "credit 2"]);
});

test("a slot stays taken while the handler of a lost lease runs on", () => {
  played.begin("a1");
  same(played.cancel("a1"), ["a1"]);
  same(played.turn(), []);
  played.endWith("a1", undefined);
  same(played.turn(), ["a released", "credit 1"]);
});

test("a new stream begins without credit", () => {
  played.begin("a1");
  played.session.broken(0);
  played.welcome(["a1"]);
  same(played.turn(), ["credit 9"]);
});

test("a handler begins only when its started report was written", () => {
  played.assign("a1");
  const { message, reports } = played.next();
  same(
    reports.map((each) => each.event.case),
    ["started"],
  );
  same(played.write(message), ["a"]);
  same(played.write(message), []);
});

test("a task that was cancelled while its start was written never begins", () => {
  played.assign("a1");
  const { message } = played.next();
  same(played.cancel("a1"), []);
  same(played.write(message), []);
  same(played.turn(), ["a released", "credit 1"]);
});

test("a task that was cancelled before its start was said is only released", () => {
  played.assign("a1");
  played.cancel("a1");
  same(played.turn(), ["a released", "credit 1"]);
  same(played.begun, []);
});

test("a task that had not begun when the stream broke is forgotten", () => {
  played.assign("a1", "b1");
  const { message } = played.next();
  played.session.broken(0);
  same(played.write(message), []);
  same(played.held(), []);
  assert.ok(played.session.isFinished);
});

test("reports of one turn go out in one message in their order", () => {
  played.begin("a1", "b1");
  played.progress("b1");
  played.end("a1", "b1");
  const said = played.next().reports.map((each) => `${each.taskId} ${each.event.case}`);
  same(said, ["b progress", "b completed", "a completed"]);
});

test("a later progress takes the place of one that was not said", () => {
  played.begin("a1");
  for (let tenth = 0; tenth < 10; tenth++) played.progress("a1", tenth / 10);
  const said = played.next().reports.map((each) => each.event.case === "progress" && each.event.value.fraction);
  same(said, [0.9]);
});

test("no message exceeds the most bytes", () => {
  played = new Played(10, { maxMessageBytes: 1_000 });
  played.turn();
  const keys = [..."abcdefgh"].map((task) => `${task}1`);
  played.begin(...keys);
  for (const key of keys) played.endWith(key, text(key, 300));
  const said: string[] = [];
  for (let messages = played.session.turn(); messages.length; messages = played.session.turn()) {
    for (const message of messages) {
      assert.ok(toBinary(ConnectRequestSchema, message).length <= 1_000);
      if (message.message.case === "reports")
        said.push(...message.message.value.reports.map((each) => `${each.taskId}1`));
    }
  }
  same(said, keys);
});

test("a result that fits no message fails its task alone", () => {
  played = new Played(10, { maxMessageBytes: 1_000 });
  played.turn();
  played.begin("a1", "b1");
  played.endWith("a1", text("a1", 1_000));
  played.end("b1");
  const [first, second] = played.next().reports.map((each) => each.event);
  assert.ok(first?.case === "failed");
  same([first.value.code, first.value.retryable], ["too_large", false]);
  same(second?.case, "completed");
});

test("a result that the server refuses becomes a failure", () => {
  played.begin("a1");
  played.end("a1");
  played.turn();
  played.answer("too_large");
  const event = played.next().reports[0]?.event;
  assert.ok(event?.case === "failed");
  const { error, code, retryable } = event.value;
  same([error, code, retryable], ["result refused: for a reason", "too_large", false]);
  played.answer(undefined);
  assert.ok(played.session.isFinished);
});

test("a failure that the server refuses becomes a release and then nothing", () => {
  played.begin("a1");
  played.endWith("a1", reportOn("a1", { case: "failed", value: { error: "no" } }));
  played.turn();
  played.answer("bad_request");
  same(played.turn(), ["a released"]);
  played.answer("bad_request");
  assert.ok(played.session.isFinished);
});

test("an outcome refused for now is said again with the next heartbeat", () => {
  played.begin("a1");
  played.end("a1");
  played.turn();
  played.answerWith({ code: "unavailable", error: "not now", retryable: true });
  same(played.turn(), []);
  same(played.beat(), ["a1"]);
  same(played.turn(), ["a completed"]);
});

test("a refused progress changes nothing", () => {
  played.begin("a1");
  played.progress("a1");
  played.turn();
  same(played.answer("too_large"), []);
  same(played.held(), ["a1"]);
});

for (const error of ["lease_lost", "not_found"]) {
  test(`a report refused as ${error} stops the handler`, () => {
    played.begin("a1");
    played.progress("a1");
    played.turn();
    same(played.answer(error), ["a1"]);
    same(played.held(), []);
  });

  test(`a release refused as ${error} is the last word on its lease`, () => {
    played.begin("a1");
    played.cancel("a1");
    played.endWith("a1", undefined);
    same(played.turn(), ["a released", "credit 1"]);
    played.answer(error);
    assert.ok(played.session.isFinished);
  });
}

test("an outcome whose lease is lost is dropped", () => {
  played.begin("a1");
  played.end("a1");
  played.turn();
  played.answer("lease_lost");
  assert.ok(played.session.isFinished);
});

test("an answer that nobody waits for is ignored", () => {
  same(played.answer(undefined), []);
});

test("heartbeats list every lease until its outcome was answered", () => {
  played.begin("a1", "b1");
  played.assign("c1");
  played.end("a1");
  same(played.beat(), ["a1", "b1", "c1"]);
  played.turn();
  same(played.beat(), ["a1", "b1", "c1"]);
  played.answer(undefined, undefined);
  same(played.beat(), ["b1", "c1"]);
});

test("a lease counts from the last answered heartbeat before it came", () => {
  played.beat(20_000);
  played.acknowledge();
  played.beat(40_000);
  played.begin("a1");
  same(played.expired(79_999), []);
  same(played.expired(80_000), ["a1"]);
});

test("a renewal counts from when it was sent, not from its answer", () => {
  played.begin("a1");
  played.beat(20_000);
  played.acknowledge();
  same(played.expired(79_999), []);
  same(played.expired(80_000), ["a1"]);
});

test("an answer renews only what its heartbeat listed", () => {
  played.beat(20_000);
  played.begin("a1");
  played.acknowledge();
  same(played.expired(60_000), ["a1"]);
});

test("an unanswered heartbeat renews nothing", () => {
  played.begin("a1");
  played.beat(20_000);
  same(played.expired(60_000), ["a1"]);
});

test("answers are told apart by their sequence", () => {
  played.begin("a1");
  played.beat(20_000);
  const first = played.sequence;
  played.beat(40_000);
  played.acknowledge([], first);
  same(played.expired(80_000), ["a1"]);
});

test("what a heartbeat's answer names as lost is stopped and then released", () => {
  played.begin("a1", "b1");
  played.beat(20_000);
  same(played.acknowledge(["a1"]), ["a1"]);
  same(played.beat(), ["b1"]);
  played.end("a1");
  same(played.turn(), ["a released", "credit 1"]);
});

test("a lost lease is stopped only once", () => {
  played.begin("a1");
  same(played.cancel("a1"), ["a1"]);
  same(played.cancel("a1"), []);
  same(played.expired(1_000_000), []);
});

test("a cancellation is answered once nothing runs", () => {
  played.begin("a1");
  same(played.cancel("a1"), ["a1"]);
  same(played.turn(), []);
  played.end("a1");
  same(played.turn(), ["a released", "credit 1"]);
  played.answer(undefined);
  assert.ok(played.session.isFinished);
});

test("a cancellation of what does not run is answered at once", () => {
  same(played.cancel("a1"), []);
  same(played.turn(), ["a released"]);
});

for (const isSaid of [true, false]) {
  test(`a cancellation that crosses the outcome is answered ${isSaid ? "before" : "after"} that is refused`, () => {
    played.begin("a1");
    played.end("a1");
    played.turn();
    same(played.cancel("a1"), []);
    if (isSaid) same(played.turn(), ["a released"]);
    played.answer("lease_lost");
    if (!isSaid) same(played.turn(), ["a released"]);
    played.answer(undefined);
    assert.ok(played.session.isFinished);
  });
}

test("a later lease of the same task is another one", () => {
  played.begin("a1");
  played.cancel("a1");
  played.begin("a2");
  same(played.held(), ["a2"]);
  played.end("a1");
  played.end("a2");
  same(played.turn(), ["a released", "a completed", "credit 2"]);
});

test("after a break the outcomes of kept leases are said again and those of lost ones dropped", () => {
  played.begin("a1", "b1");
  played.end("a1", "b1");
  played.turn();
  played.session.broken(10_000);
  same(played.held(), ["a1", "b1"]);
  same(played.welcome(["a1"], 11_000), []);
  same(played.turn(), ["a completed", "credit 10"]);
  same(played.held(), ["a1"]);
});

test("an answered outcome is not said again", () => {
  played.begin("a1");
  played.end("a1");
  played.turn();
  played.answer(undefined);
  played.session.broken(10_000);
  played.welcome([]);
  same(played.turn(), ["credit 10"]);
});

test("what was said since the break follows what had no answer", () => {
  played.assign("a1");
  played.turn();
  played.progress("a1");
  played.turn();
  played.session.broken(10_000);
  played.end("a1");
  played.welcome(["a1"]);
  same(played.turn(), ["a started", "a progress", "a completed", "credit 10"]);
  same(played.begun, []);
});

test("leases outlive a break for the grace", () => {
  played.begin("a1");
  played.session.broken(10_000);
  same(played.expired(14_999), []);
  same(played.expired(15_000), ["a1"]);
});

test("a try that fails does not prolong the grace", () => {
  played.begin("a1");
  played.session.broken(10_000);
  played.session.broken(14_000);
  same(played.expired(15_000), ["a1"]);
});

test("the grace never outlasts the lease", () => {
  played.begin("a1");
  played.session.broken(58_000);
  same(played.expired(60_000), ["a1"]);
});

test("a kept lease counts from when the hello was sent", () => {
  played.begin("a1");
  played.session.broken(10_000);
  played.welcome(["a1"], 12_000);
  same(played.expired(71_999), []);
  same(played.expired(72_000), ["a1"]);
});

test("a kept lease has the length that the server names", () => {
  played.begin("a1");
  played.session.broken(10_000);
  played.welcome([], 12_000, { kept: [{ taskId: "a", fencingToken: 1, leaseSecs: 20 }] });
  same(played.expired(31_999), []);
  same(played.expired(32_000), ["a1"]);
});

test("the answer to a heartbeat of an earlier stream renews nothing", () => {
  played.begin("a1");
  played.beat(20_000);
  played.session.broken(21_000);
  played.welcome(["a1"], 15_000);
  played.acknowledge();
  same(played.expired(75_000), ["a1"]);
});

test("handlers of leases that a welcome does not keep are stopped", () => {
  played.begin("a1", "b1");
  played.session.broken(10_000);
  same(played.welcome(["b1"]), ["a1"]);
});

test("a lease that ended during a break is not listed and is released after it", () => {
  played.begin("a1");
  played.session.broken(10_000);
  same(played.expired(15_000), ["a1"]);
  same(played.held(), []);
  played.endWith("a1", undefined);
  played.welcome([]);
  same(played.turn(), ["a released", "credit 10"]);
});

test("a release that was not answered is said again", () => {
  played.begin("a1");
  played.cancel("a1");
  played.endWith("a1", undefined);
  played.turn();
  played.session.broken(10_000);
  played.welcome([]);
  same(played.turn(), ["a released", "credit 10"]);
});

test("a host that was deregistered stops all", () => {
  played.begin("a1", "b1");
  played.session.broken(10_000);
  same(played.session.deregistered(), ["a 1", "b 1"]);
  same(played.held(), []);
});

test("a draining host gives no credit and finishes what runs", () => {
  played.begin("a1");
  played.session.drain();
  assert.ok(!played.session.isFinished);
  played.end("a1");
  same(played.turn(), ["a completed"]);
  played.answer(undefined);
  assert.ok(played.session.isFinished);
});

test("a draining host gives back what has not begun", () => {
  played.assign("a1");
  const { message } = played.next();
  played.assign("b1");
  played.session.drain();
  same(played.write(message), []);
  played.assign("c1");
  same(played.turn(), ["b released", "a released", "c released"]);
  same(played.begun, []);
});

test("a draining host still renews what it gives back until that is answered", () => {
  played.assign("a1");
  played.session.drain();
  same(played.beat(), ["a1"]);
  played.turn();
  played.answer(undefined);
  same(played.beat(), []);
});

test("a task that was interrupted for leaving is given back", () => {
  played.begin("a1");
  played.session.drain();
  played.endWith("a1", undefined);
  same(played.turn(), ["a released"]);
});
