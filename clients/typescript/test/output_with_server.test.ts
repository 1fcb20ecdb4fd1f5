/** Hosts whose tasks say something, and readers of it, with a real server. */
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { MAX_CHUNK_BYTES } from "../src/chunking.js";
import {
  type Client,
  connect,
  Host,
  type HostOptions,
  type OutputChunk,
  type RunningTask,
  TaskStopped,
} from "../src/index.js";
import { CuttableProxy, TestServer } from "./server.js";

const quiet = { info() {}, warn() {}, error() {} };
let server: TestServer;
let hostProxy: CuttableProxy;
let readerProxy: CuttableProxy;
let client: Client;
let host: Host | undefined;
let running: Promise<void> | undefined;

before(async () => {
  server = await TestServer.up();
  hostProxy = await CuttableProxy.inFrontOf(server.address);
  readerProxy = await CuttableProxy.inFrontOf(server.address);
  client = connect({ address: server.address, agentId: "ann" });
});

afterEach(async () => {
  host?.drain();
  await running;
});

after(async () => {
  client.close();
  hostProxy.close();
  readerProxy.close();
  await server.down();
});

function talk(handler: (task: RunningTask) => unknown, options: Partial<HostOptions> = {}): void {
  host = new Host({ address: hostProxy.address, hostId: "talker", logger: quiet, ...options });
  host.action("talk", handler);
  running = host.run();
}

async function all(chunks: AsyncIterable<OutputChunk>): Promise<OutputChunk[]> {
  const found: OutputChunk[] = [];
  for await (const chunk of chunks) found.push(chunk);
  return found;
}

test("readers get what a task says, live and later", async () => {
  const long = "€".repeat(MAX_CHUNK_BYTES);
  talk(async (task) => {
    await task.emit("grüß");
    // What is not waited for stays in order, and before the end.
    void task.emit(new Uint8Array([255]), { channel: "stdout" });
    void task.emit({ n: 1 }, { channel: "log" });
    void task.emit(null);
    void task.emit(long);
  });
  const { id } = await client.submit({ action: "talk" });
  const followed = await all(client.output(id, { follow: true }));
  assert.deepEqual(
    followed.slice(0, 4).map(({ sequence, channel, attempt, kind, data }) => [sequence, channel, attempt, kind, data]),
    [
      [1, "output", 1, "text", "grüß"],
      [2, "stdout", 1, "binary", new Uint8Array([255])],
      [3, "log", 1, "json", { n: 1 }],
      [4, "output", 1, "json", null],
    ],
  );
  assert.ok(followed.every(({ takenAt }) => takenAt.getTime() > 0));
  const rest = await all(client.output(id, { after: 4, channels: ["output"] }));
  assert.equal(rest.map(({ data }) => data).join(""), long);
  assert.equal((await all(client.output(id, { channels: ["log"] }))).length, 1);
  await assert.rejects(all(client.output("tsk_none", { follow: true })), { code: "not_found" });
  await assert.rejects(all(client.output(id, { after: -1 })), RangeError);
});

test("output goes on across broken connections, in order and without a repeat", async () => {
  const count = 3_000;
  let begun = 0;
  let goOn = () => {};
  talk(async (task) => {
    begun += 1;
    for (let at = 0; at < count; at++) {
      if (at % 1_000 === 500) {
        await new Promise<void>((resolve) => {
          goOn = resolve;
        });
      }
      await task.emit(at);
    }
    return "done";
  });
  const reader = connect({ address: readerProxy.address });
  const { id } = await client.submit({ action: "talk" });
  let next = 0;
  for await (const { data } of reader.output(id, { follow: true })) {
    assert.equal(data, next);
    next += 1;
    if (next % 1_000 === 500) {
      readerProxy.cut();
      goOn();
      hostProxy.cut();
    }
  }
  reader.close();
  const task = await client.wait(id);
  assert.deepEqual([next, begun, task.result], [count, 1, "done"]);
});

test("saying something waits for room, and fails once the lease is lost", async () => {
  let begin = () => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  let fail = (_: unknown) => {};
  const failed = new Promise<unknown>((resolve) => {
    fail = resolve;
  });
  let cut = () => {};
  const isCut = new Promise<void>((resolve) => {
    cut = resolve;
  });
  let runs = 0;
  talk(
    async (task) => {
      runs += 1;
      if (runs > 1) return;
      begin();
      await isCut;
      try {
        for (;;) await task.emit(new Uint8Array(50_000));
      } catch (error) {
        fail(error);
      }
    },
    { leaseSecs: 1 },
  );
  const { id } = await client.submit({ action: "talk" });
  await begun;
  hostProxy.silence();
  cut();
  const error = await failed;
  assert.ok(error instanceof TaskStopped);
  assert.equal(error.reason, "lease_lost");
  hostProxy.silence(false);
  hostProxy.cut();
  await client.wait(id);
});
