/** What a session says of its tasks, and what the answers mean. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { ScriptedSession } from "./scripted_session.js";

const same: (actual: unknown, expected: unknown) => void = assert.deepEqual;
const LONG = "x".repeat(60);
const TAKES = { outputBytes: 100 };
let host: ScriptedSession;

/** A host of two slots, whose server takes 100 bytes of output ahead, with the tasks a and b. */
beforeEach(() => {
  host = new ScriptedSession(2, TAKES);
  host.writeAll();
  host.begin("a1", "b1");
});

test("chunks are numbered within their lease, and a message has those of several", () => {
  host.say("a1", "one");
  host.say("b1", "two");
  host.say("a1", "three");
  same(host.writeMessages(), [["a says 1 one three", "b says 1 two"]]);
  host.say("b1", "four");
  same(host.writeMessages(), [["b says 2 four"]]);
  same(host.keep({ a1: 2, b1: 1 }), []);
  same(host.keep({ b1: 2 }), []);
  same(host.writeMessages(), []);
});

test("what was said comes before the report of the end, for which others do not wait", () => {
  host.say("a1", "one");
  host.end("a1", "b1");
  same(host.writeMessages(), [["b completed"], ["credit 2"], ["a says 1 one"]]);
  same(host.writeMessages(), [["a completed"]]);
});

test("progress does not wait for output", () => {
  host.say("a1", "one");
  host.progress("a1");
  same(host.writeMessages(), [["a progress"], ["a says 1 one"]]);
});

test("no more is held than the server allows, and what it keeps makes room", () => {
  same(host.say("a1", LONG), "said");
  same(host.say("b1", LONG), "full");
  same(host.writeMessages(), [["a says 1 long"]]);
  same(host.say("b1", LONG), "full");
  host.keep({ a1: 1 });
  same(host.say("b1", LONG), "said");
  same(host.writeMessages(), [["b says 1 long"]]);
});

test("a chunk that is larger than the limit is said alone", () => {
  host.session.broken(0);
  host.welcome(["a1", "b1"], 0, { outputBytes: 10 });
  same(host.say("a1", LONG), "said");
  same(host.say("b1", "one"), "full");
  same(host.writeMessages(), [["a says 1 long"]]);
});

test("what is not kept after a break is said again with its number, and its report behind it", () => {
  host.say("a1", "one");
  host.writeAll();
  host.keep({ a1: 1 });
  host.say("a1", "two");
  host.say("a1", "three");
  host.end("a1");
  same(host.writeMessages(), [["credit 1"], ["a says 2 two three"]]);
  same(host.writeMessages(), [["a completed"]]);
  host.session.broken(0);
  host.welcome(["a1", "b1"], 0, TAKES);
  same(host.writeMessages(), [["credit 1"], ["a says 2 two three"]]);
  same(host.writeMessages(), [["a completed"]]);
});

test("who waits until what was said is kept waits for no more, and not where nothing is kept", () => {
  const mark = () => host.session.markOutput({ taskId: "a", fencingToken: 1 });
  assert.ok(mark()());
  host.say("a1", "one");
  const isKept = mark();
  host.say("a1", "two");
  host.writeAll();
  assert.ok(!isKept());
  host.keep({ a1: 1 });
  assert.ok(isKept());
  const isAllKept = mark();
  host.session.broken(0);
  assert.ok(!isAllKept());
  host.welcome(["a1", "b1"], 0, { outputBytes: 0 });
  assert.ok(isAllKept());
});

test("who waits until what was said is kept does not wait for a lease that is over", () => {
  host.say("a1", "one");
  const isKept = host.session.markOutput({ taskId: "a", fencingToken: 1 });
  host.cancel("a1");
  assert.ok(isKept());
});

test("what was said under a lease that is lost meanwhile is dropped", () => {
  host.say("a1", "one");
  host.session.broken(0);
  same(host.welcome(["b1"], 0, TAKES), ["a1"]);
  same(host.writeMessages(), []);
  same(host.say("a1", "two"), "over");
});

test("what is refused for now is said again a second later, with what was behind it", () => {
  host.say("a1", "one");
  host.writeAll();
  host.say("a1", "two");
  host.writeAll();
  same(host.keep({ a1: "unavailable" }, 0), []);
  host.say("a1", "three");
  same(host.writeMessages(), []);
  assert.equal(host.session.outputRetried(900), false);
  // The second message left a gap.
  same(host.keep({ a1: "bad_request" }, 900), []);
  assert.equal(host.session.outputRetried(1_000), true);
  same(host.writeMessages(), [["a says 1 one two three"]]);
  host.keep({ a1: 3 });
  same(host.writeMessages(), []);
});

test("the report of the end waits until what was refused for now is kept", () => {
  host.say("a1", "one");
  host.writeAll();
  host.keep({ a1: "unavailable" });
  host.end("a1");
  host.say("b1", "two");
  same(host.writeMessages(), [["credit 1"], ["b says 1 two"]]);
  assert.equal(host.session.outputRetried(1_000), true);
  same(host.writeMessages(), [["a says 1 one"]]);
  same(host.writeMessages(), []);
  host.keep({ b1: 1 });
  host.keep({ a1: 1 });
  same(host.writeMessages(), [["a completed"]]);
});

test("a lease that is over says nothing more", () => {
  host.say("a1", "one");
  host.say("b1", "two");
  host.writeAll();
  same(host.keep({ a1: "lease_lost", b1: 1 }), ["a1"]);
  same(host.say("a1", "three"), "over");
  host.say("b1", "four");
  same(host.writeMessages(), [["b says 2 four"]]);
  assert.match(host.warnings.join(), /lease_lost/);
});

test("the end of a task ends its output", () => {
  host.say("a1", "one");
  host.end("a1");
  same(host.say("a1", "two"), "over");
  same(host.writeMessages(), [["credit 1"], ["a says 1 one"]]);
});

test("nothing is said to a server that takes no output, and what is not kept is dropped there", () => {
  host.say("a1", "one");
  host.session.broken(0);
  host.welcome(["a1", "b1"]);
  same(host.say("a1", "two"), "none");
  same(host.say("b1", "two"), "none");
  host.end("a1");
  same(host.writeMessages(), [["a completed"], ["credit 1"]]);
});

test("one lease does not keep others from saying something", () => {
  host.session.broken(0);
  host.welcome(["a1", "b1"], 0, { outputBytes: 10_000, maxMessageBytes: 500 });
  for (let at = 0; at < 20; at++) {
    host.say("a1", LONG);
    host.say("b1", String(at));
  }
  assert.match(host.writeAll().join(), /^a says 1 [^b]*$/);
  assert.match(host.writeAll().join(), /^b says 1 0/);
});

test("an answer to no message is ignored", () => {
  same(host.keep({ a1: 1 }), []);
  host.say("a1", "one");
  same(host.writeMessages(), [["a says 1 one"]]);
});
