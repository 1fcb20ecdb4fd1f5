/** The client with a real server. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Client, connect, type TaskEvent, TaskFailed, TaskyardError } from "../src/index.js";
import { CuttableProxy, PATIENCE_MS, TestServer, until } from "./server.js";

let server: TestServer;
let proxy: CuttableProxy;
let client: Client;

before(async () => {
  server = await TestServer.up();
  proxy = await CuttableProxy.inFrontOf(server.address);
  client = connect({ address: proxy.address, agentId: "ann" });
});

after(async () => {
  client.close();
  proxy.close();
  await server.down();
});

const held = { action: "echo", hold: true };
const isCode = (code: string) => (error: unknown) => error instanceof TaskyardError && error.code === code;

async function toList<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

test("a submitted task has the fields that it was submitted with", async () => {
  const params = { text: "grüß", list: [1, null], map: { k: 1.5 } };
  const retryPolicy = { maxAttempts: 3, firstDelayMs: 10 };
  const submitted = await client.submit({ ...held, params, labels: { team: "blue" }, deadline: 60_000, retryPolicy });
  assert.equal(submitted.state, "pending");
  const task = await client.get(submitted.id);
  assert.deepEqual(task.params, params);
  assert.deepEqual(task.labels, { team: "blue" });
  assert.equal(task.agentId, "ann");
  assert.equal(task.hold, true);
  assert.equal(task.retryPolicy?.maxAttempts, 3);
  assert.deepEqual(task.createdAt, submitted.createdAt);
  assert.ok(task.deadline && task.deadline > task.createdAt);
});

test("the same idempotency key makes one task", async () => {
  const task = { ...held, idempotencyKey: "once" };
  assert.equal((await client.submit(task)).taskId, (await client.submit(task)).id);
  await assert.rejects(client.submit({ ...task, action: "other" }), isCode("already_exists"));
});

test("a refusal has a code, a status and a reason", async () => {
  const error = await client.get("tsk_unknown").catch((thrown: unknown) => thrown);
  assert.ok(error instanceof TaskyardError);
  assert.deepEqual([error.code, error.status, error.retryable], ["not_found", "NOT_FOUND", false]);
  assert.match(error.message, /^not_found: /);
  await assert.rejects(client.submit({ action: "" }), isCode("bad_request"));
});

test("a refusal is the same whether a task was submitted alone or with others", async () => {
  const crowded = connect({ address: proxy.address, agentId: "ann", namespace: "crowded" });
  const full = { ...held, agentId: "bob" };
  await Promise.all(Array.from({ length: 100 }, () => crowded.submit(full)));
  await crowded.submit({ ...held, idempotencyKey: "taken" });
  for (const refused of [
    full,
    { ...held, idempotencyKey: "taken", action: "other" },
    { action: "" },
    { ...held, priority: 1.5 },
  ]) {
    const alone = await crowded.submit(refused).catch((thrown: unknown) => thrown);
    const [together] = await Promise.allSettled([crowded.submit(refused), crowded.submit({ action: "" })]);
    assert.ok(alone instanceof TaskyardError && together.status === "rejected");
    const fields = ({ code, message, details, status, retryable, retryAfterMs }: TaskyardError) => {
      return { code, message, details, status, retryable, retryAfterMs };
    };
    assert.deepEqual(fields(together.reason), fields(alone));
    assert.equal(alone.retryAfterMs !== undefined, alone.code === "queue_full");
  }
  await crowded.close();
});

test("tasks that are submitted at the same time are made once, however often the connection breaks", async () => {
  const crowd = connect({ address: proxy.address, namespace: "crowd" });
  const submits = Array.from({ length: 900 }, (_, n) => crowd.submit({ ...held, agentId: `agent-${n % 20}` }));
  for (const n of [0, 300, 600]) {
    await submits[n];
    proxy.cut(n ? "reset" : "end");
  }
  const ids = new Set((await Promise.all(submits)).map(({ id }) => id));
  const created = await toList(crowd.list());
  assert.deepEqual([ids.size, created.length], [900, 900]);
  await crowd.close();
});

test("a batch is admitted task by task, listed in pages, and cancelled as a whole", async () => {
  const batch = await client.submitBatch([held, held, { action: "echo", notBefore: 60_000 }], { agentId: "bob" });
  assert.equal(batch.taskIds.length, 3);
  const listed = await toList(client.list({ batchId: batch.id, pageSize: 2, states: ["pending"] }));
  assert.deepEqual(
    listed.map(({ id }) => id),
    batch.taskIds,
  );
  const [oldest] = listed;
  const newest = { batchId: batch.id, newestFirst: true, createdUntil: new Date(Date.now() + 60_000) };
  const createdFrom = new Date(oldest!.createdAt!.getTime() - 1);
  const back = await toList(client.list({ ...newest, createdFrom }));
  assert.deepEqual(
    back.map(({ id }) => id),
    batch.taskIds.toReversed(),
  );
  assert.deepEqual(await toList(client.list({ ...newest, createdFrom: new Date(Date.now() + 60_000) })), []);
  await assert.rejects(toList(client.list({ history: true })), { code: "bad_request" });
  assert.equal(await client.cancelBatch(batch.id), 3);
  const ended = await client.getBatch(batch.id);
  assert.deepEqual([ended.ended, ended.states, ended.tasks.length, ended.agentId], [true, { cancelled: 3 }, 3, "bob"]);
});

test("a wait ends with the task or at its timeout", async () => {
  const { id: taskId } = await client.submit(held);
  await assert.rejects(client.wait(taskId, { timeoutMs: 50 }), isCode("deadline_exceeded"));
  const waiting = client.wait(taskId);
  assert.equal(await client.cancel(taskId), "cancelled");
  assert.equal((await waiting).state, "cancelled");
  await assert.rejects(client.cancel(taskId), isCode("conflict"));
});

test("a wait may be longer than a timer takes", async () => {
  const { id: taskId } = await client.submit(held);
  const waits = [30 * 86_400_000, Number.POSITIVE_INFINITY].map((timeoutMs) => client.wait(taskId, { timeoutMs }));
  await assert.rejects(client.wait(taskId, { timeoutMs: 100 }), isCode("deadline_exceeded"));
  await client.cancel(taskId);
  for (const task of await Promise.all(waits)) assert.equal(task.state, "cancelled");
  await assert.rejects(client.wait(taskId, { timeoutMs: Number.NaN }), RangeError);
});

test("a run throws TaskFailed if the task does not end as done", async () => {
  const running = client.run({ action: "nobody", agentId: "runner" });
  const [task] = await (async () => {
    let found = await toList(client.list({ agentId: "runner" }));
    while (!found.length) found = await toList(client.list({ agentId: "runner" }));
    return found;
  })();
  await client.cancel(task!.id);
  await assert.rejects(running, (error) => error instanceof TaskFailed && error.task.state === "cancelled");
});

test("a call ends when its signal aborts", async () => {
  const { id: taskId } = await client.submit(held);
  const stop = new AbortController();
  const waiting = client.wait(taskId, { signal: stop.signal });
  stop.abort();
  await assert.rejects(waiting, isCode("cancelled"));
});

test("namespaces do not see each other", async () => {
  const other = connect({ address: proxy.address, agentId: "ann", namespace: "other" });
  const { id: taskId } = await client.submit(held);
  await assert.rejects(other.get(taskId), isCode("not_found"));
  other.close();
});

for (const how of ["reset", "end"] as const) {
  test(`a watch continues without a gap or a repeat after a connection's ${how}`, async () => {
    const ids: string[] = [];
    for (let n = 0; n < 20; n++) ids.push((await client.submit({ ...held, agentId: how })).id);
    const events: TaskEvent[] = [];
    let hasBegun = () => {};
    const begun = new Promise<void>((resolve) => {
      hasBegun = resolve;
    });
    const watching = (async () => {
      for await (const event of client.watch({ taskIds: ids, includeCurrent: true, untilEnded: true })) {
        events.push(event);
        if (events.length === ids.length) hasBegun();
      }
    })();
    await begun;
    for (const [n, id] of ids.entries()) {
      if (n % 5 === 2) proxy.cut(how);
      await client.cancel(id);
    }
    await watching;
    const changes = events.filter(({ kind }) => kind === "changed");
    assert.deepEqual(
      changes.map(({ task, previousState }) => [task.id, task.state, previousState]),
      ids.map((id) => [id, "cancelled", "pending"]),
    );
  });
}

test("another watch continues at the cursor of an event", async () => {
  const { id, taskIds } = await client.submitBatch([held, held]);
  const first = client.watch({ batchId: id, includeCurrent: true });
  await first.next();
  await first.next();
  await client.cancel(taskIds[0]!);
  const { value: seen } = await first.next();
  await first.return();
  await client.cancel(taskIds[1]!);
  const rest = await toList(client.watch({ batchId: id, cursor: seen!.cursor, untilEnded: true }));
  assert.deepEqual(
    rest.map(({ task }) => task.id),
    [taskIds[1]],
  );
});

test("calls survive a restart of the server, and a watch lists the tasks of the new server", async () => {
  const own = await TestServer.up();
  const patient = connect({ address: own.address, agentId: "ann", patienceMs: PATIENCE_MS });
  try {
    const events: TaskEvent[] = [];
    const stop = new AbortController();
    const watching = (async () => {
      const options = { agentId: "ann", includeCurrent: true, signal: stop.signal };
      for await (const event of patient.watch(options)) events.push(event);
    })().catch((error: unknown) => error);
    await patient.submit(held);
    await until(() => events.length > 0, "the watch reports the first task");
    await own.stop();
    const submitting = patient.submit({ ...held, idempotencyKey: "after" });
    await own.start();
    const { id: taskId } = await submitting;
    const hasTask = () => events.some(({ task }) => task.id === taskId);
    await until(hasTask, "the watch reports the task of the new server");
    stop.abort();
    assert.ok(isCode("cancelled")(await watching));
  } finally {
    patient.close();
    await own.down();
  }
});

test("without a server a call throws unavailable once the patience is used up", async () => {
  const lonely = connect({ address: "127.0.0.1:1", patienceMs: 200 });
  const error = await lonely.get("tsk_x").catch((thrown: unknown) => thrown);
  assert.ok(error instanceof TaskyardError);
  assert.deepEqual([error.code, error.retryable, error.status], ["unavailable", true, "UNAVAILABLE"]);
  lonely.close();
});

test("a closed client ends its calls and watches, waits for submitted tasks, and refuses new calls", async () => {
  const closing = connect({ address: proxy.address, agentId: "ann" });
  const { id: taskId } = await closing.submit(held);
  const submitting = [closing.submit(held), closing.submit(held)];
  const waiting = closing.wait(taskId);
  const watching = closing.watch().next();
  const closed = closing.close();
  await assert.rejects(waiting, isCode("cancelled"));
  await assert.rejects(watching, isCode("cancelled"));
  await assert.rejects(closing.get(taskId), isCode("cancelled"));
  await assert.rejects(closing.submit(held), isCode("cancelled"));
  await closed;
  for (const { id: taskId } of await Promise.all(submitting)) assert.equal((await client.get(taskId)).state, "pending");
});
