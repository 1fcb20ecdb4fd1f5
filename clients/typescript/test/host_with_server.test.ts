/** The host with a real server. */
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { ActionFailed, type Client, connect, Host, type HostOptions, type RunningTask } from "../src/index.js";
import { CuttableProxy, TestServer, until } from "./server.js";

let server: TestServer;
let proxy: CuttableProxy;
let client: Client;
const hosts: { host: Host; running: Promise<void> }[] = [];
const quiet = { info() {}, warn() {}, error() {} };
let number = 0;

before(async () => {
  server = await TestServer.up();
  proxy = await CuttableProxy.inFrontOf(server.address);
  client = connect({ address: server.address, agentId: "ann" });
});

afterEach(async () => {
  for (const { host } of hosts) host.drain();
  await Promise.all(hosts.splice(0).map(({ running }) => running));
});

after(async () => {
  client.close();
  proxy.close();
  await server.down();
});

/** Starts a host, which is drained after the test. */
function start(actions: Record<string, (task: RunningTask) => unknown>, options: Partial<HostOptions> = {}) {
  number += 1;
  const hostId = `host-${number}`;
  const host = new Host({ address: proxy.address, hostId, logger: quiet, ...options });
  for (const [name, handler] of Object.entries(actions)) host.action(name, handler);
  const running = host.run();
  hosts.push({ host, running });
  return { host, hostId, running };
}

/** A promise that a test resolves. */
function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

const aborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));

test("the value of a handler is the task's result", async () => {
  const undated = { at: new Date(0), gone: undefined };
  start({ echo: (task) => task.params, dated: async () => undated, nothing: () => {}, null: () => null });
  assert.deepEqual(await client.run({ action: "echo", params: { a: [1, "ü"] } }), { a: [1, "ü"] });
  assert.deepEqual(await client.run({ action: "dated" }), { at: "1970-01-01T00:00:00.000Z" });
  assert.equal(await client.run({ action: "nothing" }), undefined);
  assert.equal(await client.run({ action: "null" }), null);
});

test("a handler knows its task, its attempt, its fencing token and its trace", async () => {
  let seen: unknown[] = [];
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  start({
    look: (task) => {
      const { TASKYARD_TRACE_ID, TASKYARD_TASK_ID, TRACEPARENT } = task.environment();
      seen = [task.id, task.attempt, task.task.labels, TASKYARD_TASK_ID, TASKYARD_TRACE_ID, TRACEPARENT];
      assert.ok(task.fencingToken > 0);
    },
  });
  const { id: taskId } = await client.submit({ action: "look", labels: { a: "b" }, traceparent });
  assert.equal((await client.wait(taskId)).state, "done");
  const trace = "0af7651916cd43dd8448eb211c80319c";
  assert.deepEqual(seen.slice(0, 5), [taskId, 1, { a: "b" }, taskId, trace]);
  assert.match(String(seen[5]), new RegExp(`^00-${trace}-`));
});

test("a handler fails its task by ActionFailed or by any other error", async () => {
  start({
    refuse: () => {
      throw new ActionFailed("no way", { code: "broken", retryable: false });
    },
    throw: async () => {
      throw new RangeError("half of a pair: \ud83d");
    },
    weird: () => 2n ** 53n + 1n,
    unpaired: () => "\ud83d",
  });
  const ended = async (action: string) =>
    client.wait((await client.submit({ action, retryPolicy: { maxAttempts: 2, firstDelayMs: 10 } })).id);
  const refused = await ended("refuse");
  assert.deepEqual([refused.state, refused.error, refused.attempts.length], ["failed", "no way", 1]);
  assert.equal(refused.attempts[0]?.code, "broken");
  const threw = await ended("throw");
  assert.deepEqual([threw.error, threw.attempts.length], ["RangeError: half of a pair: \ufffd", 2]);
  const weird = await ended("weird");
  assert.deepEqual([weird.attempts.length, weird.attempts[0]?.code], [1, "bad_result"]);
  assert.ok(["done", "failed"].includes((await ended("unpaired")).state));
});

test("progress and tokens reach the server before the outcome", async () => {
  start({
    count: (task) => {
      task.tokensUsed = 7;
      task.progress({ fraction: 2, message: "all of it", details: { n: 1 } });
    },
  });
  const task = await client.wait((await client.submit({ action: "count" })).id);
  assert.deepEqual([task.state, task.tokensUsed, task.progress?.fraction], ["done", 7, 1]);
  assert.deepEqual([task.progress?.message, task.progress?.details], ["all of it", { n: 1 }]);
});

test("tokens that a handler only states fail its task, which a higher limit resumes", async () => {
  const action = "spend";
  const stopped = gate();
  const spend = async (task: RunningTask) => {
    task.tokensUsed = 11;
    if (task.task.run === 2) return "done";
    return aborted(task.signal).finally(stopped.open);
  };
  // A heartbeat is due after a third of a lease.
  start({ [action]: spend }, { leaseSecs: 3 });
  const { id: taskId } = await client.submit({ action, tokenLimit: 10 });
  const failed = await client.wait(taskId, { timeoutMs: 10_000 });
  assert.deepEqual([failed.state, failed.error, failed.tokensUsed], ["failed", "token limit exceeded", 11]);
  await stopped.opened;
  await assert.rejects(client.resume(taskId), {
    code: "conflict",
    message: /used 11 of 10 tokens, resume it with a higher tokenLimit/,
  });
  assert.equal(await client.resume(taskId, { tokenLimit: 22 }), "queued");
  const done = await client.wait(taskId, { timeoutMs: 10_000 });
  assert.deepEqual([done.state, done.result, done.run], ["done", "done", 2]);
  assert.deepEqual([done.tokensUsed, done.tokenLimit], [22, 22]);
});

test("no more handlers run at once than there are slots", async () => {
  let now = 0;
  let most = 0;
  const step = async () => {
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setTimeout(resolve, 5));
    now -= 1;
  };
  start({ step }, { slots: 3 });
  const { id, taskIds } = await client.submitBatch(Array.from({ length: 30 }, () => ({ action: "step" })));
  for (const taskId of taskIds) assert.equal((await client.wait(taskId)).state, "done");
  assert.equal((await client.getBatch(id)).ended, true);
  assert.equal(most, 3);
});

for (const how of ["cancel", "pause"] as const) {
  test(`a ${how} aborts the handler's signal, and the target is free once the handler has returned`, async () => {
    const begun = gate();
    const stopped = gate();
    const mayReturn = gate();
    let reason = "";
    start({
      long: async (task) => {
        if (task.params.second) return "second";
        begun.open();
        await aborted(task.signal).catch((error: Error) => {
          reason = error.name;
        });
        stopped.open();
        await mayReturn.opened;
      },
    });
    const first = await client.submit({ action: "long", target: how });
    await begun.opened;
    const second = await client.submit({ action: "long", target: how, params: { second: true } });
    const state = await client[how](first.id, { reason: "wrong site" });
    await stopped.opened;
    assert.equal(reason, "AbortError");
    const shown = await client.get(first.id);
    assert.deepEqual([shown.state, shown.reason], [state, "wrong site"]);
    // A slot is free, but the target is taken until the first handler has returned.
    assert.equal((await client.stats()).queue?.targets?.waiting, 1);
    mayReturn.open();
    if (how === "pause") await client.resolve(first.id, undefined, { reason: "by hand" });
    assert.equal((await client.wait(second.id)).result, "second");
  });
}

for (const how of ["reset", "end"] as const) {
  test(`after a connection's ${how} the host keeps its leases and its unanswered reports`, async () => {
    const begun = gate();
    const mayEnd = gate();
    let calls = 0;
    start({
      work: async (task) => {
        calls += 1;
        if (task.params.late) begun.open();
        await mayEnd.opened;
        return task.attempt;
      },
    });
    const retryPolicy = { maxAttempts: 3 };
    const early = await client.submit({ action: "work", retryPolicy });
    const late = await client.submit({ action: "work", retryPolicy, params: { late: true } });
    await begun.opened;
    proxy.cut(how);
    mayEnd.open();
    for (const { taskId } of [early, late]) {
      const task = await client.wait(taskId);
      assert.deepEqual([task.state, task.result, task.attempts.length], ["done", 1, 1]);
    }
    assert.equal(calls, 2);
  });
}

test("a host that cannot reach its server stops its handlers when their leases end, and runs the tasks again later", async () => {
  const begun = gate();
  const stopped = gate();
  let attempts = 0;
  start(
    {
      work: async (task) => {
        attempts += 1;
        if (attempts > 1) return "again";
        begun.open();
        await aborted(task.signal).catch((error: Error) => error);
        stopped.open();
        throw task.signal.reason;
      },
    },
    { leaseSecs: 1 },
  );
  const { id: taskId } = await client.submit({ action: "work" });
  await begun.opened;
  proxy.silence();
  await stopped.opened;
  proxy.silence(false);
  const task = await client.wait(taskId);
  assert.deepEqual([task.state, task.result], ["done", "again"]);
});

test("a host that was deregistered stops its handlers and registers again", async () => {
  const begun = gate();
  let calls = 0;
  const { hostId } = start({
    work: async (task) => {
      calls += 1;
      if (calls > 1) return "again";
      begun.open();
      return aborted(task.signal);
    },
  });
  const { id: taskId } = await client.submit({ action: "work" });
  await begun.opened;
  await client.stubs.hosts.deregisterHost({ hostId });
  assert.equal((await client.wait(taskId)).result, "again");
});

test("a host that drains finishes running tasks, takes no new ones, and leaves", async () => {
  const begun = gate();
  const mayEnd = gate();
  const { host, hostId, running } = start({
    work: async () => {
      begun.open();
      await mayEnd.opened;
      return "finished";
    },
  });
  const first = await client.submit({ action: "work" });
  await begun.opened;
  host.drain();
  const isDraining = async () =>
    (await client.stubs.hosts.listHosts({})).hosts.some(({ id, draining }) => id === hostId && draining);
  await until(isDraining, "the server knows that the host drains");
  const second = await client.submit({ action: "work" });
  mayEnd.open();
  await running;
  assert.equal((await client.get(first.id)).result, "finished");
  assert.equal((await client.get(second.id)).state, "queued");
  assert.ok(!(await client.stubs.hosts.listHosts({})).hosts.some(({ id }) => id === hostId));
  await client.cancel(second.id);
});

test("a task that still runs at the end of the grace period is stopped and goes to another host", async () => {
  const begun = gate();
  const { host, running } = start(
    {
      work: async (task) => {
        begun.open();
        return aborted(task.signal);
      },
    },
    { drainGraceMs: 100 },
  );
  const { id: taskId } = await client.submit({ action: "work" });
  await begun.opened;
  host.drain();
  await running;
  start({ work: () => "by another" });
  const task = await client.wait(taskId);
  assert.deepEqual([task.state, task.result], ["done", "by another"]);
});

test("a host that the server drains finishes running tasks and leaves", async () => {
  const begun = gate();
  const mayEnd = gate();
  const { hostId, running } = start({
    work: async () => {
      begun.open();
      await mayEnd.opened;
    },
  });
  const { id: taskId } = await client.submit({ action: "work" });
  await begun.opened;
  await client.stubs.hosts.drainHost({ hostId });
  mayEnd.open();
  await running;
  assert.equal((await client.get(taskId)).state, "done");
});

test("a host survives a restart of its server, after a shutdown and after a crash", async () => {
  const own = await TestServer.up();
  const patient = connect({ address: own.address, agentId: "ann" });
  const { host, running } = start({ work: () => "done" }, { address: own.address });
  try {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      assert.equal(await patient.run({ action: "work" }), "done");
      await own.stop(signal);
      await own.start();
    }
    assert.equal(await patient.run({ action: "work" }), "done");
    host.drain();
    await running;
  } finally {
    patient.close();
    await own.down();
  }
});

test("run throws the error of a server that refuses the host for good", async () => {
  const host = new Host({ address: server.address, hostId: "", logger: quiet });
  await assert.rejects(host.action("a", () => {}).run(), { code: "bad_request" });
});

test("a second host of the same id waits until the first has left", async () => {
  const first = start({ work: () => "first" });
  assert.equal(await client.run({ action: "work" }), "first");
  start({ other: () => "second" }, { hostId: first.hostId });
  const { id: taskId } = await client.submit({ action: "other" });
  first.host.drain();
  await first.running;
  assert.equal((await client.wait(taskId)).result, "second");
});
