/** The results of other tasks that a handler is given, with a real server. */
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { HeldArtifacts } from "../src/held_artifacts.js";
import { type Client, connect, Host, Output, Payload, type RunningTask } from "../src/index.js";
import { CuttableProxy, TestServer } from "./server.js";

interface Given {
  n: number | bigint;
  text: string;
}

const quiet = { info() {}, warn() {}, error() {} };
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

/** Runs a host until the test ends. Its action `give` returns what it is given, which is an artifact too; `fail` fails. */
function take(handler: (task: RunningTask) => unknown): void {
  host = new Host({ address: proxy.address, hostId: "worker", logger: quiet });
  host.action<Given>("give", async (task) => {
    await task.putArtifact("text", new TextEncoder().encode(task.input.text));
    return new Output(task.input);
  });
  host.action("encoded", () => new Payload(new Uint8Array([1, 2]), "mine"));
  host.action("fail", () => {
    throw new Error("no words");
  });
  host.action("take", handler);
  running = host.run();
}

test("results of any size are handed on, over broken connections", async () => {
  const n = 2n ** 60n + 1n;
  take(async (task) => {
    const found: Record<string, number> = {};
    for (const [name, input] of Object.entries(task.inputs)) {
      assert.deepEqual([input.taskId, input.state, input.error], [task.task.inputs[name], "done", undefined]);
      const value = input.value<Given>();
      assert.equal(value?.n, n);
      assert.equal(new TextDecoder().decode(await input.readArtifact("text")), value.text);
      await assert.rejects(input.readArtifact("none"), { code: "not_found" });
      found[name] = value.text.length;
    }
    return found;
  });
  const inputs: Record<string, string> = {};
  // Of the middle ones one does not fit beside the others, and the largest is an artifact.
  const sizes = { empty: 0, one: 90_000, two: 90_000, three: 90_000, large: 300_000 };
  for (const [name, size] of Object.entries(sizes)) {
    inputs[name] = (await client.submit({ action: "give", input: { n, text: "x".repeat(size) } })).id;
    await client.wait(inputs[name]);
  }
  // Each input is fetched over a connection that has just broken.
  const original = HeldArtifacts.prototype.input;
  HeldArtifacts.prototype.input = function (...given) {
    proxy.cut();
    return original.apply(this, given);
  };
  try {
    assert.deepEqual(await client.run({ action: "take", inputs }), sizes);
  } finally {
    HeldArtifacts.prototype.input = original;
  }
});

test("an input that failed has an error and no value, and one of a codec its bytes", async () => {
  take(({ inputs: { failed, cancelled, encoded } }) => {
    assert.throws(() => encoded?.value(), TypeError);
    return [
      [failed?.state, failed?.error, failed?.value() ?? null],
      [cancelled?.state, cancelled?.value() ?? null],
      [encoded?.output?.encoding, encoded?.output?.data.length],
    ];
  });
  const { id } = await client.submit({ action: "give", hold: true });
  await client.cancel(id);
  const { outcomes } = await client.submitBatch([
    { action: "fail" },
    { action: "encoded" },
    { action: "take", afterPolicy: "ended", inputs: { cancelled: id }, inputIndexes: { failed: 0, encoded: 1 } },
  ]);
  const { result, inputs } = await client.wait(outcomes[2]?.taskId ?? "");
  assert.deepEqual(result, [
    ["failed", "Error: no words", null],
    ["cancelled", null],
    ["mine", 2],
  ]);
  assert.deepEqual(inputs, { cancelled: id, failed: outcomes[0]?.taskId, encoded: outcomes[1]?.taskId });
});

test("an input that cannot be fetched fails its task", async () => {
  take(() => "x".repeat(300_000));
  const { id } = await client.submit({ action: "take" });
  const original = HeldArtifacts.prototype.read;
  HeldArtifacts.prototype.read = () => Promise.reject(new Error("gone"));
  try {
    await assert.rejects(client.run({ action: "take", inputs: { it: id } }), {
      code: "bad_input",
      message: /the input 'it' cannot be fetched: Error: gone/,
    });
  } finally {
    HeldArtifacts.prototype.read = original;
  }
});
