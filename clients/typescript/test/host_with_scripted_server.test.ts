/** The host with a scripted server, which loses reports and connections where a test needs it. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { Host, type RunningTask } from "../src/index.js";
import { ScriptedServer } from "./scripted_server.js";
import { until } from "./server.js";

const quiet = { info() {}, warn() {}, error() {} };
/** A handler that runs until the test ends, whatever its signal says. */
let endAll: () => void;
let ended: Promise<void>;
let server: ScriptedServer;
let host: Host;
let running: Promise<void>;
/** The tasks whose handlers have begun and not returned. */
const active = new Map<string, RunningTask>();

beforeEach(async () => {
  active.clear();
  ended = new Promise((resolve) => {
    endAll = resolve;
  });
  server = await ScriptedServer.up();
  host = new Host({ address: server.address, hostId: "host", logger: quiet });
  host.action("work", async (task) => {
    active.set(task.id, task);
    await ended;
    active.delete(task.id);
  });
  running = host.run();
});

afterEach(async () => {
  endAll();
  host.drain();
  server.release();
  await running;
  server.close();
});

const begun = () => [...active.keys()];

test("two tasks of one target never run at once, also when a start report is lost with its stream", async () => {
  const first = await server.nextStream();
  first.welcome();
  first.assign("a", "page");
  assert.deepEqual(await first.nextReports(), ["a started"]);
  // The report is lost: the server frees the target, and hands out the next task of it.
  first.break();
  const second = await server.nextStream();
  assert.deepEqual(second.listed, ["a1"]);
  second.welcome({ lost: second.hello.leases });
  second.assign("b", "page");
  void second.takeAll();
  await until(() => active.has("b"), "the second task begins");
  assert.deepEqual(begun(), ["b"]);
});

test("the tasks of a host that is asked back go on", async () => {
  const first = await server.nextStream();
  first.welcome();
  first.assign("a");
  await first.nextReports();
  first.take();
  await until(() => active.has("a"), "the task begins");
  first.send({ case: "drain", value: { reconnect: true, reason: "another replica serves this namespace" } as never });
  first.end();
  const second = await server.nextStream();
  assert.deepEqual(second.listed, ["a1"]);
  second.welcome({ kept: [{ taskId: "a", fencingToken: 1, leaseSecs: 60 }] });
  endAll();
  assert.deepEqual(await second.nextReports(), ["a completed"]);
});

test("a park whose answer was lost with its stream is reported again, with all that is waited for", async () => {
  host.action("ask", (task) => Promise.all([task.ask("a", "A?"), task.sleep(500)]));
  const first = await server.nextStream();
  first.welcome();
  first.assign("a", undefined, "ask");
  assert.deepEqual(await first.nextReports(), ["a started"]);
  first.take();
  assert.deepEqual(await first.nextReports(), ["a parked"]);
  first.break();
  const second = await server.nextStream();
  assert.deepEqual(second.listed, ["a1"]);
  second.welcome({ kept: [{ taskId: "a", fencingToken: 1, leaseSecs: 60 }] });
  const [report] = (await second.next("reports")).reports;
  const waits = report?.event.case === "parked" ? report.event.value.waits : [];
  const told = waits.map(({ name, awaited }) => [name, awaited.case, awaited.case === "sleepSecs" && awaited.value]);
  assert.deepEqual(told, [
    ["a", "question", false],
    ["sleep", "sleepSecs", 0.5],
  ]);
});

test("a host that is asked back is back at once", async () => {
  (await server.nextStream()).welcome();
  const gaps: number[] = [];
  // A machine that is busy may be slow once.
  for (let n = 0; n < 20 && !gaps.some((gap) => gap < 50); n++) {
    const other = await ScriptedServer.up();
    const asked = new Host({ address: other.address, hostId: "asked", logger: quiet });
    asked.anyAction(() => undefined);
    const run = asked.run();
    const stream = await other.nextStream();
    stream.welcome();
    await stream.next("credit");
    stream.send({ case: "drain", value: { reconnect: true } as never });
    const began = performance.now();
    stream.end();
    const next = await other.nextStream();
    gaps.push(performance.now() - began);
    next.welcome();
    await next.next("credit");
    asked.drain();
    other.release();
    await run;
    other.close();
  }
  assert.ok(Math.min(...gaps) < 50, `the next stream came after ${gaps} ms`);
});

test("a report that one server refuses for now is sent to the next one at once", async () => {
  const first = await server.nextStream();
  first.welcome();
  first.assign("a");
  await first.nextReports();
  first.take();
  await until(() => active.has("a"), "the task begins");
  endAll();
  await first.nextReports();
  const error = { code: "unavailable", error: "another replica serves this namespace", retryable: true };
  first.send({ case: "reportResults", value: { results: [{ error }] } as never });
  first.send({ case: "drain", value: { reconnect: true } as never });
  first.end();
  const second = await server.nextStream();
  second.welcome({ kept: [{ taskId: "a", fencingToken: 1, leaseSecs: 60 }] });
  assert.deepEqual(await second.nextReports(), ["a completed"]);
});

test("a task whose start report was lost begins once a repeat of the report is answered", async () => {
  const first = await server.nextStream();
  first.welcome();
  first.assign("a", "page");
  await first.nextReports();
  first.break();
  const second = await server.nextStream();
  assert.deepEqual(second.listed, ["a1"]);
  second.welcome({ kept: [{ taskId: "a", fencingToken: 1, leaseSecs: 60 }] });
  assert.deepEqual(await second.nextReports(), ["a started"]);
  assert.deepEqual(begun(), []);
  second.take();
  await until(() => active.has("a"), "the task begins");
});

test("a task without a target begins without an answer", async () => {
  const stream = await server.nextStream();
  stream.welcome();
  stream.assign("a");
  await until(() => active.has("a"), "the task begins");
});

test("a host takes a new heartbeat interval at once, and sends its next heartbeat at once", async () => {
  const stream = await server.nextStream();
  stream.welcome({ heartbeatIntervalMs: 3_600_000 });
  stream.send({ case: "heartbeatInterval", value: { heartbeatIntervalMs: 20 } });
  for (const sequence of [1, 2, 3]) assert.equal((await stream.next("heartbeat")).sequence, sequence);
  stream.send({ case: "heartbeatInterval", value: { heartbeatIntervalMs: 3_600_000 } });
  const { sequence } = await stream.next("heartbeat");
  assert.ok(sequence >= 4);
});

test("heartbeats carry the tokens that a handler has stated, without a progress report", async () => {
  const stream = await server.nextStream();
  stream.welcome();
  stream.assign("a");
  await until(() => active.has("a"), "the task begins");
  const tokens = async () => {
    stream.send({ case: "heartbeatInterval", value: { heartbeatIntervalMs: 60_000 } });
    return (await stream.next("heartbeat")).leases.map(({ tokensUsed }) => tokensUsed);
  };
  assert.deepEqual(await tokens(), [undefined]);
  for (const count of [7, 12]) {
    active.get("a")!.tokensUsed = count;
    assert.deepEqual(await tokens(), [count]);
  }
});

test("a host that leaves ends its stream only after its other calls, which could reach the next host of its id", async () => {
  const stream = await server.nextStream();
  stream.welcome();
  await stream.next("credit");
  host.drain();
  await running;
  await until(() => server.leaving.length >= 3, "the stream ends");
  assert.deepEqual(server.leaving, ["drain answered", "deregistered", "end of stream"]);
});
