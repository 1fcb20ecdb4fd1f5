/** Events that tasks wait for without a slot. With a real server. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Client, connect, Host } from "../src/index.js";
import { TestServer, until } from "./server.js";

let server: TestServer;
let client: Client;

before(async () => {
  server = await TestServer.up();
  client = connect({ address: server.address, agentId: "ann" });
});

after(async () => {
  await client.close();
  await server.down();
});

test("a task has each event once, the oldest first, and is told of one that has not come in time", async () => {
  const host = new Host({ address: server.address, hostId: "worker", slots: 1 });
  host.action("work", async (task) => {
    const first = await task.event<{ n: number }>("paid");
    const second = await task.event("paid", { name: "again", timeoutMs: 60_000 });
    await assert.rejects(task.event("paid", { name: "late", timeoutMs: 0 }), { code: "deadline_exceeded" });
    return [first.n, second];
  });
  host.action("malformed", (task) => task.event("a b"));
  const running = host.run();
  const { id } = await client.submit({ action: "work" });
  await until(async () => (await client.get(id)).state === "parked", "the task is parked");
  const { until: end, ...wait } = (await client.get(id)).park?.waits[0] ?? {};
  assert.deepEqual(wait, { kind: "event", name: "paid", eventName: "paid", taskIds: [] });
  assert.ok(end && end > new Date());
  assert.equal(await client.sendEvent("paid", { n: 1 }, { eventId: "one", lifeMs: 60_000 }), 1);
  await assert.rejects(client.sendEvent("paid", 2, { eventId: "one" }), { code: "already_exists" });
  await assert.rejects(client.sendEvent("a b"), { code: "bad_request" });
  await client.sendEvent("paid");
  const ended = await client.wait(id);
  assert.deepEqual([ended.result, ended.error], [[1, null], undefined]);
  const steps = await client.steps(id);
  assert.deepEqual(
    steps.map(({ kind, name, expired }) => [kind, name, expired]),
    [
      ["event", "paid", undefined],
      ["event", "again", undefined],
      ["event", "late", true],
    ],
  );
  await assert.rejects(client.run({ action: "malformed" }), /event 'a b': a name has 1 to 256 letters/);
  host.drain();
  await running;
});
