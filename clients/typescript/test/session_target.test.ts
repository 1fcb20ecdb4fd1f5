/**
 * Two tasks of one target never run at once: a task that has a target begins only when the server has answered its start
 * report (docs/rules.md, Targets).
 */
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

/** A task with a target whose start report is written and not answered. */
function waitForAnswer(key: string): void {
  host.assignOfTarget(key);
  same(host.writeAll(), [`${key[0]} started`]);
  same(host.begun, []);
}

/** The stream has broken, and the next one keeps these leases. */
function reconnect(kept: string[]): string[] {
  host.session.broken(10_000);
  return host.welcome(kept, 11_000);
}

test("a task with a target begins when its start report is answered", () => {
  waitForAnswer("a1");
  same(host.answer(undefined), []);
  same(host.begun, ["a"]);
  same(host.writeAll(), []);
  host.end("a1");
  same(host.writeAll(), ["a completed", "credit 1"]);
});

test("a task without a target does not wait for those that have one", () => {
  host.assignOfTarget("a1");
  host.assign("b1");
  same(host.writeAll(), ["a started", "b started"]);
  same(host.begun, ["b"]);
  host.answer(undefined, undefined);
  same(host.begun, ["a"]);
});

test("a task that waits for the answer takes a slot and is renewed", () => {
  waitForAnswer("a1");
  same(host.session.active, 1);
  same(host.writeAll(), []);
  same(host.heartbeat(20_000), ["a1"]);
  host.acknowledge();
  same(host.expired(79_999), []);
});

test("after a break a start report without an answer is sent again, and the task begins when that is answered", () => {
  waitForAnswer("a1");
  host.session.broken(10_000);
  same(host.held(), ["a1"]);
  same(host.welcome(["a1"], 11_000), []);
  same(host.writeAll(), ["a started", "credit 9"]);
  same(host.begun, []);
  host.answer(undefined);
  same(host.begun, ["a"]);
});

test("a start report is sent again after each of several breaks", () => {
  waitForAnswer("a1");
  reconnect(["a1"]);
  host.session.broken(12_000);
  same(host.held(), ["a1"]);
  reconnect(["a1"]);
  same(host.writeAll(), ["a started", "credit 9"]);
  host.answer(undefined);
  same(host.begun, ["a"]);
});

test("a task whose lease is lost in a break never begins and frees its slot", () => {
  waitForAnswer("a1");
  same(reconnect([]), []);
  same(host.writeAll(), ["a released", "credit 10"]);
  same([host.begun, host.held()], [[], []]);
  host.answer(undefined);
  assert.ok(host.session.isFinished);
});

test("a task whose start report was not written when the stream broke is forgotten", () => {
  host.assignOfTarget("a1");
  const { message } = host.nextReports();
  host.session.broken(10_000);
  same(host.write(message), []);
  same(host.held(), []);
  assert.ok(host.session.isFinished);
});

test("the answer to a start report of the stream before begins nothing", () => {
  waitForAnswer("a1");
  reconnect(["a1"]);
  same(host.answer(undefined), []);
  same(host.begun, []);
});

for (const code of ["lease_lost", "not_found"]) {
  test(`a task whose start report is refused as ${code} is dropped without running`, () => {
    waitForAnswer("a1");
    same(host.answer(code), []);
    same([host.begun, host.held()], [[], []]);
    same(host.writeAll(), ["a released", "credit 1"]);
    host.answer(code);
    assert.ok(host.session.isFinished);
  });
}

test("a start report that is refused as retryable is sent again with the next heartbeat", () => {
  waitForAnswer("a1");
  host.answerWith({ code: "unavailable", error: "not now", retryable: true });
  same([host.writeAll(), host.heartbeat()], [[], ["a1"]]);
  same(host.writeAll(), ["a started"]);
  host.answer(undefined);
  same(host.begun, ["a"]);
});

test("a task that is given back before the retry of its start report never begins", () => {
  waitForAnswer("a1");
  host.answerWith({ code: "unavailable", error: "not now", retryable: true });
  host.session.drain();
  host.heartbeat();
  same(host.writeAll(), ["a released"]);
});

test("a task whose start report is refused for any other reason is given back", () => {
  waitForAnswer("a1");
  same(host.answer("bad_request"), []);
  same(host.writeAll(), ["a released", "credit 1"]);
  same(host.begun, []);
});

const ENDS: Record<string, () => void> = {
  "is cancelled": () => same(host.cancel("a1"), []),
  "loses its lease by a heartbeat's answer": () => {
    host.heartbeat();
    same(host.acknowledge(["a1"]), []);
  },
  "runs out of time": () => same(host.expired(60_000), []),
  "belongs to a host that drains": () => host.session.drain(),
  "belongs to a host that is deregistered": () => same(host.session.deregistered(), []),
};

for (const [what, end] of Object.entries(ENDS)) {
  test(`a task that ${what} while it waits for the answer is given back and never begins`, () => {
    waitForAnswer("a1");
    end();
    same(host.session.active, 0);
    assert.ok(host.writeAll().includes("a released"));
    host.answer(undefined);
    same(host.begun, []);
    host.answer(undefined);
    assert.ok(host.session.isFinished);
  });

  test(`after a break a task that ${what} while it waited for the answer is only released`, () => {
    waitForAnswer("a1");
    end();
    host.writeAll();
    reconnect(host.held());
    const written = host.writeAll();
    same(
      written.filter((each) => each.startsWith("a ")),
      ["a released"],
    );
    same(host.begun, []);
  });
}

test("the time of a task that waits for the answer ends with the grace period of a break", () => {
  waitForAnswer("a1");
  host.session.broken(10_000);
  same(host.expired(14_999), []);
  same(host.held(), ["a1"]);
  same(host.expired(15_000), []);
  same(host.held(), []);
  host.welcome([], 16_000);
  same(host.writeAll(), ["a released", "credit 10"]);
  same(host.begun, []);
});
