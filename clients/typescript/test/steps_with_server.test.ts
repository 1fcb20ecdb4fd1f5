/** Steps that are done once over the attempts of a task, with a real server. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, afterEach, before, test } from "node:test";
import { ActionFailed, type Client, connect, Host, outputOf, Payload, type RunningTask } from "../src/index.js";
import { CuttableProxy, TestServer } from "./server.js";

const quiet = { info() {}, warn() {}, error() {} };
/** One attempt right after the other. */
const thrice = { retryPolicy: { maxAttempts: 3, firstDelayMs: 1 } };
let server: TestServer;
let proxy: CuttableProxy;
let client: Client;
let host: Host | undefined;
let running: Promise<void> | undefined;

before(async () => {
  server = await TestServer.up();
  proxy = await CuttableProxy.inFrontOf(server.address);
  client = connect({ address: server.address, agentId: "ann" });
});

afterEach(async () => {
  host?.drain();
  await running;
});

after(async () => {
  await client.close();
  proxy.close();
  await server.down();
});

/** Runs a host whose handler has the action `work`, until the test ends. */
function work(handler: (task: RunningTask) => unknown): void {
  host = new Host({ address: proxy.address, hostId: "worker", logger: quiet });
  host.action("work", handler);
  running = host.run();
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, "abort");
}

test("steps are done once over all attempts, over broken connections, and come back as they were", async () => {
  const given = { id: 2n ** 60n + 1n, at: new Date(0), none: undefined, text: "€".repeat(100_000) };
  const done: string[] = [];
  work(async (task) => {
    const doStep = (name: string, value: unknown) =>
      task.step<unknown>(name, () => {
        done.push(name);
        proxy.cut();
        return value;
      });
    const kept = { id: given.id, at: given.at.toISOString(), text: given.text };
    assert.deepEqual(await doStep("large", given), kept);
    assert.equal(await doStep("number", task.attempt), 1);
    if (task.attempt < 3) throw new ActionFailed("again");
    const raw = new Payload(new Uint8Array([1, 255]), "mine");
    assert.deepEqual(await doStep("raw", raw), raw);
    assert.equal(await doStep("nothing", undefined), undefined);
    return task.task.steps ?? null;
  });
  const { id } = await client.submit({ action: "work", ...thrice });
  const ended = await client.wait(id);
  assert.deepEqual([ended.state, ended.error, ended.result, ended.steps], ["done", undefined, 2, 4]);
  assert.deepEqual(done, ["large", "number", "raw", "nothing"]);
  const steps = await client.steps(id);
  const where = steps.map(({ name, run, attempt }) => [name, run, attempt]);
  assert.deepEqual(where, [
    ["large", 1, 1],
    ["number", 1, 1],
    ["raw", 1, 3],
    ["nothing", 1, 3],
  ]);
  const { $artifact } = (steps[0]?.result ?? {}) as { $artifact?: Record<string, string> };
  assert.match($artifact?.name ?? "", /^step-[0-9a-f]{16}\.json$/);
  assert.ok($artifact?.href);
  assert.equal(outputOf(steps[1] ?? {}), 1);
  assert.equal(steps[2]?.output?.encoding, "mine");
  assert.ok(steps.every(({ durationMs, recordedAt }) => durationMs !== undefined && recordedAt > ended.createdAt));
  await assert.rejects(client.steps("tsk_none"), { code: "not_found" });
});

test("steps at the same time need names of their own", async () => {
  work(async (task) => {
    const names = ["a", "b", "c", "d"];
    const found = await Promise.all(names.map((name) => task.step(name, () => `${name}${task.attempt}`)));
    if (task.attempt === 1) throw new ActionFailed("again");
    assert.deepEqual(found, ["a1", "b1", "c1", "d1"]);
    return task.step("b", () => 7);
  });
  const ended = await client.wait((await client.submit({ action: "work", ...thrice })).id);
  assert.equal(ended.error, "step 'b': this run has it already: each step needs a name of its own");
  assert.deepEqual([ended.state, ended.attempts.length, ended.steps], ["failed", 2, 4]);
});

test("what a step has said is kept before the step is, also over a stream that breaks", async () => {
  const [emitted, kept]: [string[], string[]] = [[], []];
  work(async (task) => {
    await task.step("talk", async () => {
      for (let n = 0; n < 300; n++) {
        if (n % 100 === 50) proxy.cut();
        emitted.push(`${n}`);
        const said = task.emit(`${n}`);
        // Those that nobody waits for count too.
        if (n % 2) await said;
      }
    });
    for await (const { data } of client.output(task.id, { follow: false })) kept.push(String(data));
  });
  const ended = await client.wait((await client.submit({ action: "work" })).id);
  assert.deepEqual([ended.error, ended.steps, kept], [undefined, 1, emitted]);
});

test("a step that fails is not recorded", async () => {
  const broken = new Error("broken");
  work(async (task) => {
    const fail = () => Promise.reject(broken);
    await assert.rejects(task.step("once", fail), broken);
    for (const name of ["", " ", "€".repeat(257), "\ud800"]) {
      await assert.rejects(task.step(name, fail), /its name must have 1 to 256 characters/);
    }
    for (const value of [() => 1, Number.NaN]) {
      const [refused, deaf] = [{ name: "NotRetryable", code: "bad_result" }, task.step("deaf", () => value)];
      await assert.rejects(deaf, refused);
    }
    assert.equal(await task.step("invalid", () => "\ud800"), "\ufffd");
    return task.step("once", () => 2);
  });
  const ended = await client.wait((await client.submit({ action: "work" })).id);
  assert.deepEqual([ended.error, ended.result, ended.steps], [undefined, 2, 2]);
});

test("a step that has no room among the others is an artifact", async () => {
  work(async (task) => {
    let size = 0;
    for (let n = 0; n < 6; n++) size += (await task.step(`step ${n}`, () => "x".repeat(200_000))).length;
    if (task.attempt === 1) throw new ActionFailed("again");
    return size;
  });
  const ended = await client.wait((await client.submit({ action: "work", ...thrice })).id);
  assert.deepEqual([ended.error, ended.result, ended.steps, ended.artifacts.length], [undefined, 1_200_000, 6, 1]);
});

test("a step ends with the lease of its task", async () => {
  const [begun, late] = [new AbortController(), new AbortController()];
  work(async (task) => {
    const recorded = task.step("late", async () => {
      begun.abort();
      await aborted(task.signal);
    });
    await recorded.catch((error) => late.abort(error));
    await assert.rejects(
      task.step("later", () => 1),
      { name: "AbortError", reason: "cancelled" },
    );
  });
  const { id } = await client.submit({ action: "work" });
  await aborted(begun.signal);
  await client.cancel(id);
  await aborted(late.signal);
  assert.equal(late.signal.reason.code, "cancelled");
  assert.deepEqual(await client.steps(id), []);
});
