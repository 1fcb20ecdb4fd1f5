/** How long a lease lives: heartbeats, their answers, and expiry. */
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

test("heartbeats list every lease until its outcome is answered", () => {
  host.begin("a1", "b1");
  host.assign("c1");
  host.end("a1");
  same(host.heartbeat(), ["a1", "b1", "c1"]);
  host.writeAll();
  same(host.heartbeat(), ["a1", "b1", "c1"]);
  host.answer(undefined, undefined);
  same(host.heartbeat(), ["b1", "c1"]);
});

test("a lease counts from the last answered heartbeat before its arrival", () => {
  host.heartbeat(20_000);
  host.acknowledge();
  host.heartbeat(40_000);
  host.begin("a1");
  same(host.expired(79_999), []);
  same(host.expired(80_000), ["a1"]);
});

test("a renewal counts from when it was sent, not from its answer", () => {
  host.begin("a1");
  host.heartbeat(20_000);
  host.acknowledge();
  same(host.expired(79_999), []);
  same(host.expired(80_000), ["a1"]);
});

test("an answer renews only what its heartbeat listed", () => {
  host.heartbeat(20_000);
  host.begin("a1");
  host.acknowledge();
  same(host.expired(60_000), ["a1"]);
});

test("an unanswered heartbeat renews nothing", () => {
  host.begin("a1");
  host.heartbeat(20_000);
  same(host.expired(60_000), ["a1"]);
});

test("answers to heartbeats are matched by their sequence", () => {
  host.begin("a1");
  host.heartbeat(20_000);
  const first = host.sequence;
  host.heartbeat(40_000);
  host.acknowledge([], first);
  same(host.expired(80_000), ["a1"]);
});

test("a handler is stopped, and its lease released, when a heartbeat's answer names the lease as lost", () => {
  host.begin("a1", "b1");
  host.heartbeat(20_000);
  same(host.acknowledge(["a1"]), ["a1"]);
  same(host.heartbeat(), ["b1"]);
  host.end("a1");
  same(host.writeAll(), ["a released", "credit 1"]);
});

test("a handler is stopped only once", () => {
  host.begin("a1");
  same(host.cancel("a1"), ["a1"]);
  same(host.cancel("a1"), []);
  same(host.expired(1_000_000), []);
});

test("a heartbeat states the tokens that a handler has stated last", () => {
  host.begin("a1", "b1", "c1");
  host.session.usedTokens("a 1", 5);
  host.session.usedTokens("a 1", 7);
  host.session.usedTokens("b 1", 0);
  same(host.heartbeat(), ["a1: 7 tokens", "b1: 0 tokens", "c1"]);
});
