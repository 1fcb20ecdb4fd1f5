/** Children whose params are too large for a message: they have the value, wherever a run of their parent is cut off. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, afterEach, before, mock, test } from "node:test";
import {
  type Artifact,
  type ArtifactContent,
  type Client,
  connect,
  type Handler,
  Host,
  type NewChild,
  Payload,
  TaskyardError,
} from "../src/index.js";
import { HeldArtifacts } from "../src/held_artifacts.js";
import { Session } from "../src/session.js";
import { PART_BYTES } from "../src/uploading.js";
import { CuttableProxy, TestServer } from "./server.js";

/** 2 MB, which come in two parts. */
const TEXT = "ä".repeat(1_000_000);
const hashOf = (text: string | Uint8Array) => createHash("sha256").update(text).digest("hex");

let server: TestServer;
let proxy: CuttableProxy;
let client: Client;
let host: Host | undefined;
let running: Promise<void> | undefined;

before(async () => {
  const [payload, artifacts] = ["TASKYARD_SCHEDULER__MAX_PAYLOAD_BYTES", "TASKYARD_SCHEDULER__MAX_ARTIFACT_BYTES"];
  server = await TestServer.up(undefined, { [payload]: "10000", [artifacts]: "3000000" });
  proxy = await CuttableProxy.inFrontOf(server.address);
  client = connect({ address: server.address, agentId: "ann" });
});

afterEach(async () => {
  mock.restoreAll();
  host?.drain();
  await running;
});

after(async () => {
  await client.close();
  proxy.close();
  await server.down();
});

/** What a child finds: the run that has submitted it, and its text. */
const found: Handler = ({ params }) => [params.run ?? null, hashOf(String(params.text))];

/** Runs a parent on a host that runs its children, too, and returns the parent once it has ended. */
async function ended(work: Handler, part = found, maxAttempts = 1) {
  const logger = { info() {}, warn() {}, error() {} };
  host = new Host({ address: proxy.address, hostId: "worker", slots: 2, logger })
    .action("work", work)
    .action("part", part);
  running = host.run();
  const { id } = await client.submit({ action: "work", retryPolicy: { maxAttempts, firstDelayMs: 1 } });
  const task = await client.wait(id);
  assert.equal(task.error, undefined);
  return task;
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** Has hosts put artifacts in another way. `real` puts them, and may be given other content. */
function putBy(other: (real: (content?: ArtifactContent) => Promise<Artifact>, data: Uint8Array) => Promise<Artifact>) {
  const { put } = HeldArtifacts.prototype;
  mock.method(
    HeldArtifacts.prototype,
    "put",
    function (this: HeldArtifacts, ...[name, content, ...rest]: Parameters<typeof put>) {
      const real = (changed = content) => put.call(this, name, changed, ...rest);
      return content instanceof Uint8Array ? other(real, content) : real();
    },
  );
}

/** The same bytes in two pieces, between which something happens when the first part is sent. */
function pieces(data: Uint8Array, between: () => void) {
  return async function* () {
    yield data.subarray(0, PART_BYTES + 1);
    between();
    yield data.subarray(PART_BYTES + 1);
  };
}

function cutOff(): never {
  throw new Error("cut off");
}

test("a child has what its parent gives it, whatever its size and kind, over connections that break", async () => {
  putBy((real, data) => {
    proxy.cut();
    return real(pieces(data, () => proxy.cut()));
  });
  const given: Record<string, Pick<NewChild, "params" | "input">> = {
    params: { params: { text: TEXT } },
    input: { input: [TEXT, 2n ** 60n] },
    encoded: { input: new Payload(new TextEncoder().encode(TEXT), "mine") },
    most: { params: { text: "x".repeat(9_980) } },
    more: { params: { text: "x".repeat(10_000) } },
  };
  const { id, result } = await ended(
    async (task) => {
      const children = Object.entries(given).map(([name, each]) => task.child(name, { action: "part", ...each }));
      await task.join(await Promise.all(children));
      return Promise.all(children.map(async (child) => (await child).result()));
    },
    (task) => {
      const { input, params } = task.task;
      if (input?.encoding) return [input.encoding, hashOf(input.data)];
      const [text, number] = input ? (task.input as [string, bigint]) : [params.text];
      return [String(number), hashOf(String(text))];
    },
  );
  assert.deepEqual(result, [
    ["undefined", hashOf(TEXT)],
    [String(2n ** 60n), hashOf(TEXT)],
    ["mine", hashOf(TEXT)],
    ["undefined", hashOf("x".repeat(9_980))],
    ["undefined", hashOf("x".repeat(10_000))],
  ]);
  for await (const { childName = "", artifacts, hold } of client.list({ parentId: id })) {
    const names = artifacts.map((each) => `${each.name} ${each.mediaType} ${each.attempt}`);
    assert.deepEqual(names, childName === "most" ? [] : ["params.json application/json undefined"], childName);
    assert.ok(!hold);
  }
  assert.deepEqual((await client.get(id)).artifacts, []);
});

const CUTS: Record<string, Parameters<typeof putBy>[0]> = {
  "before the first part": cutOff,
  "between the parts": (real, data) => real(pieces(data, cutOff)),
  "after the last part": (real) => real().then(cutOff),
  "after the child was let go": (real) => real(),
};
for (const [when, cut] of Object.entries(CUTS)) {
  for (const hold of [false, true]) {
    test(`a run is cut off ${when}, and the next one makes up for it${hold ? ", and holds on" : ""}`, async () => {
      putBy(cut);
      const parent = await ended(
        async (task) => {
          if (task.attempt > 1) mock.restoreAll();
          const params = { run: task.attempt, text: TEXT };
          const child = await task.child("one", { action: "part", params, hold, onParentEnd: "keep" });
          return task.attempt > 1 ? child.id : cutOff();
        },
        found,
        2,
      );
      const id = String(parent.result);
      if (hold) {
        const child = await client.get(id);
        assert.deepEqual([child.state, child.hold, child.artifacts.length], ["pending", true, 1]);
        await client.resume(id);
      }
      const run = when === "after the child was let go" && !hold ? 1 : 2;
      assert.deepEqual((await client.wait(id)).result, [run, hashOf(TEXT)]);
      assert.equal(parent.attempts.length, 2);
    });
  }
}

test("a child that two parts of a handler submit at once is one, and its params are not those of its parent", async () => {
  const { result } = await ended(async (task) => {
    const own = new TextEncoder().encode("own");
    await task.putArtifact("params.json", own);
    const child = () => task.child("one", { action: "part", params: { text: TEXT } });
    const [one, other] = await Promise.all([child(), child()]);
    assert.equal(one.id, other.id);
    assert.deepEqual(await task.readArtifact("params.json"), own);
    // It has its params, and is asked for nothing more.
    putBy(cutOff);
    assert.equal((await child()).id, one.id);
    mock.restoreAll();
    return one.result();
  });
  assert.deepEqual(result, [null, hashOf(TEXT)]);
});

test("a child that was let go meanwhile has its params already", async () => {
  putBy(async (real, data) => {
    mock.restoreAll();
    await real();
    const [child] = await all(client.list({ states: ["pending"] }));
    await client.resume(String(child?.id));
    return real(data);
  });
  const { result } = await ended(async (task) =>
    (await task.child("one", { action: "part", params: { text: TEXT } })).result(),
  );
  assert.deepEqual(result, [null, hashOf(TEXT)]);
});

test("params that cannot be an artifact are an error, and smaller ones take their place", async () => {
  const refusals: unknown[] = [];
  const { result } = await ended(async (task) => {
    const child = (text: string) => task.child("one", { action: "part", params: { text } });
    if (!task.task.steps) {
      await child("x".repeat(4_000_000)).catch(({ code, reason }) => refusals.push([code, reason]));
      putBy(async () => {
        throw new TaskyardError("conflict", "the server keeps no artifacts");
      });
      await child(TEXT).catch(({ code, reason }) => refusals.push([code, reason]));
    }
    return (await child("small")).result();
  });
  assert.deepEqual(refusals, [
    ["too_large", "content: the artifacts of a task may have 3000000 bytes in all"],
    ["too_large", "params: are so large that they would be an artifact, but the server keeps no artifacts"],
  ]);
  assert.deepEqual(result, [null, hashOf("small")]);
});

for (const [maxPayloadBytes, outcome] of [
  [262_144, [null, hashOf("x".repeat(11_000))]],
  [0, "too_large child.params: must be at most 10000 bytes when encoded, is 11015"],
] as const) {
  test(`a server takes less than the ${maxPayloadBytes} that the host was told`, async () => {
    // As by another replica, to which the host was connected.
    const { welcomed } = Session.prototype;
    mock.method(
      Session.prototype,
      "welcomed",
      function (this: Session, ...[welcome, sentAt]: Parameters<typeof welcomed>) {
        return welcomed.call(this, { ...welcome, maxPayloadBytes }, sentAt);
      },
    );
    const { result } = await ended(async (task) => {
      const params = { text: "x".repeat(11_000) };
      try {
        return await (await task.child("one", { action: "part", params })).result();
      } catch (error) {
        if (error instanceof TaskyardError) return `${error.code} ${error.reason}`;
        throw error;
      }
    });
    assert.deepEqual(result, outcome);
  });
}
