/** Artifacts of tasks, and values that are artifacts since they are too large, with a real server. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createReadStream, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { type Client, connect, Host, outputOf, Output, Payload, type RunningTask, saveArtifact } from "../src/index.js";
import { PART_BYTES } from "../src/uploading.js";
import { CuttableProxy, TestServer } from "./server.js";

const quiet = { info() {}, warn() {}, error() {} };
const folder = mkdtempSync(join(tmpdir(), "taskyard-artifacts-"));
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
  rmSync(folder, { recursive: true });
});

/** Runs a host whose handler has the action `work`, until the test ends. */
function work(handler: (task: RunningTask) => unknown): void {
  host = new Host({ address: proxy.address, hostId: "worker", logger: quiet });
  host.action("work", handler);
  running = host.run();
}

function someBytes(count: number): Uint8Array {
  return Uint8Array.from({ length: count }, (_, n) => n % 251);
}

function hashOf(data: Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}

async function held(): Promise<string> {
  return (await client.submit({ action: "work", hold: true })).id;
}

test("handlers put artifacts that anybody reads, across broken connections", async () => {
  const data = someBytes(3 * PART_BYTES + 5);
  const path = join(folder, "put");
  writeFileSync(path, data);
  let isCut = false;
  work(async (task) => {
    const file = async function* () {
      for await (const bytes of createReadStream(path)) {
        yield bytes as Uint8Array;
        if (!isCut) proxy.cut();
        isCut = true;
      }
    };
    await task.putArtifact("shot.png", file, { mediaType: "image/png" });
    await task.putArtifact("empty", new Uint8Array());
    proxy.cut();
    return hashOf(await task.readArtifact("shot.png"));
  });
  const { id } = await client.submit({ action: "work" });
  const { artifacts, result } = await client.wait(id);
  assert.equal(result, hashOf(data));
  const [shot, empty] = artifacts;
  assert.ok(shot && shot.createdAt.getTime() > 0);
  const { name, mediaType, sizeBytes, sha256, attempt } = shot;
  assert.deepEqual([name, mediaType, sizeBytes, sha256, attempt], ["shot.png", "image/png", data.length, result, 1]);
  assert.deepEqual([empty?.mediaType, empty?.sizeBytes], ["application/octet-stream", 0]);
  assert.equal(hashOf(await client.artifacts.read(id, "shot.png")), result);
  assert.equal((await client.artifacts.read(id, "empty")).length, 0);

  const reader = connect({ address: proxy.address });
  const read = createHash("sha256");
  let [parts, cuts] = [0, 0];
  for await (const part of reader.artifacts.stream(id, "shot.png")) {
    read.update(part);
    if (++parts === 2) {
      proxy.cut();
      cuts += 1;
    }
  }
  assert.deepEqual([read.digest("hex"), cuts], [result, 1]);
  const saved = await saveArtifact(reader, id, "shot.png", join(folder, "saved"));
  assert.deepEqual([saved.name, hashOf(readFileSync(join(folder, "saved")))], ["shot.png", result]);
  await reader.close();
});

test("an artifact that was attached is there for the handler", async () => {
  const id = await held();
  const attached = await client.artifacts.attach(id, "page.html", new Blob(["<h1>"], { type: "text/html" }));
  assert.deepEqual([attached.mediaType, attached.attempt], ["text/html", undefined]);
  await client.resume(id);
  await assert.rejects(client.artifacts.attach(id, "page.html", someBytes(1)), { code: "conflict" });
  work(async (task) => {
    await assert.rejects(task.readArtifact("none"), { code: "not_found" });
    const before = new TextDecoder().decode(await task.readArtifact("page.html"));
    await task.putArtifact("page.html", someBytes(2));
    return [before, (await task.readArtifact("page.html")).length];
  });
  assert.deepEqual((await client.wait(id)).result, ["<h1>", 2]);
});

test("an artifact that cannot be read is an error, and leaves no file", async () => {
  const id = await held();
  for (const task of [id, "tsk_none"]) {
    await assert.rejects(client.artifacts.read(task, "none"), { code: "not_found" });
    await assert.rejects(saveArtifact(client, task, "none", join(folder, "none")), { code: "not_found" });
  }
  await assert.rejects(client.artifacts.attach(id, "../none", someBytes(1)), { code: "bad_request" });
  await client.artifacts.attach(id, "some", someBytes(1));
  await assert.rejects(saveArtifact(client, id, "some", join(folder, "none", "some")), { code: "ENOENT" });
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.includes("none")),
    [],
  );
});

test("an artifact whose place another one takes is read anew, and a stream of it ends with an error", async () => {
  const id = await held();
  const [first, later] = [someBytes(2 * PART_BYTES), someBytes(7)];
  const replacing = async (read: () => Promise<unknown>) => {
    await client.artifacts.attach(id, "data", first);
    return read();
  };
  const { artifacts } = client.stubs;
  const original = artifacts.readArtifact;
  let isReplaced = false;
  const replaceFirst: typeof original = async function* (request, options) {
    if (!isReplaced) await client.artifacts.attach(id, "data", later);
    isReplaced = true;
    yield* original(request, options);
  };
  Object.assign(artifacts, { readArtifact: replaceFirst });
  assert.deepEqual(await replacing(() => client.artifacts.read(id, "data")), later);
  isReplaced = false;
  const path = join(folder, "replaced");
  await replacing(() => saveArtifact(client, id, "data", path));
  assert.deepEqual(new Uint8Array(readFileSync(path)), later);
  isReplaced = false;
  const streaming = async () => {
    for await (const _ of client.artifacts.stream(id, "data"));
  };
  await assert.rejects(
    replacing(() => streaming()),
    { code: "internal", message: /other bytes than its hash/ },
  );
  Object.assign(artifacts, { readArtifact: original });
});

test("params and results of any size travel as values", async () => {
  const text = "€".repeat(100_000);
  work((task) => {
    const { id, length } = task.input as unknown as { id: bigint | number; length?: number };
    if (length !== undefined) return length;
    return typeof id === "bigint" ? new Output({ id: id + 2n, text }) : { id, text, hasParams: "text" in task.params };
  });
  const small = { id: 7, text };
  assert.deepEqual(await client.run({ action: "work", params: small }), { ...small, hasParams: true });
  assert.deepEqual(await client.run({ action: "work", input: small }), { ...small, hasParams: true });
  const { id } = await client.submit({ action: "work", input: { id: 9_007_199_254_740_993n, text } });
  const ended = await client.wait(id);
  assert.deepEqual(outputOf(ended), { id: 9_007_199_254_740_995n, text });
  assert.deepEqual(
    ended.artifacts.map(({ name, mediaType }) => [name, mediaType]),
    [
      ["params.json", "application/json"],
      ["result.json", "application/json"],
    ],
  );
  // A plain record has the references.
  const { params, result, output, hold } = await client.get(id);
  assert.deepEqual(
    [Object.keys(params), Object.keys(result as object), output, hold],
    [["$artifact"], ["$artifact"], undefined, false],
  );
  const { href } = (result as { $artifact: { href: string } }).$artifact;
  assert.equal(href, `/tasks/${id}/artifacts/result.json`);
});

test("bytes of a codec that are too large keep their encoding", async () => {
  const data = someBytes(400_000);
  work((task) => {
    const { input } = task.task;
    return new Payload(input?.data ?? new Uint8Array(), `${input?.encoding} again`);
  });
  const { id } = await client.submit({ action: "work", input: new Payload(data, "mine") });
  const { output } = await client.wait(id);
  assert.deepEqual([output?.encoding, hashOf(output?.data ?? new Uint8Array())], ["mine again", hashOf(data)]);
});

test("what only looks like a reference is a value", async () => {
  const $artifact = { name: "result.json", sizeBytes: 1, sha256: "00" };
  work(async (task) => {
    await task.putArtifact("result.json", someBytes(1));
    return task.params;
  });
  assert.deepEqual(await client.run({ action: "work", params: { $artifact } }), { $artifact });
});

test("a repeat of large params is the same task, which keeps its hold", async () => {
  const params = { one: 1, two: "x".repeat(300_000) };
  const task = { action: "work", idempotencyKey: "once", hold: true, params };
  const first = await client.submit(task);
  const again = await client.submit({ ...task, params: { two: params.two, one: 1 } });
  assert.deepEqual([again.id, again.state], [first.id, "pending"]);
  assert.equal((await client.get(first.id)).hold, true);
  await client.resume(first.id);
  const last = await client.submit(task);
  assert.deepEqual([last.id, last.state], [first.id, "queued"]);
  await assert.rejects(client.submit({ ...task, params: { two: `${params.two}!` } }), { code: "already_exists" });
  await client.cancel(first.id);
});

test("a task that is given up before it has its params is cancelled", async () => {
  const slow = connect({ address: proxy.address, agentId: "ann" });
  const stop = new AbortController();
  const submitting = slow.submit(
    { action: "nobody", params: { text: "x".repeat(30_000_000) } },
    { signal: stop.signal },
  );
  let found: string | undefined;
  while (found === undefined) for await (const { id } of client.list({ action: "nobody" })) found = id;
  stop.abort();
  await assert.rejects(submitting, { code: "cancelled" });
  assert.equal((await client.wait(found)).state, "cancelled");
  await slow.close();
});

test("params that are no JSON fail their task, and a batch with large ones says what to do", async () => {
  const id = (
    await client.submit({
      action: "work",
      hold: true,
      params: { $artifact: { name: "params.json", sizeBytes: 1, sha256: hashOf(new TextEncoder().encode("{")) } },
    })
  ).id;
  await client.artifacts.attach(id, "params.json", new TextEncoder().encode("{"));
  await client.resume(id);
  work(() => "it ran");
  const { state, error, code } = await client.wait(id);
  assert.deepEqual([state, code], ["failed", "bad_input"]);
  assert.match(error ?? "", /^the params cannot be fetched: /);
  const tasks = [{ action: "work" }, { action: "work", params: { text: "x".repeat(300_000) } }];
  await assert.rejects(client.submitBatch(tasks), {
    code: "too_large",
    message: /tasks\[1\]\.params: .*submit this task by itself/,
  });
});
