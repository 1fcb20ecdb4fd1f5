/** Handlers with children: submitted once over all runs, waited for without a slot, their results handed on. With a real server. */
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import {
  ActionFailed,
  ChildFailed,
  type Client,
  connect,
  type Handler,
  Host,
  type NewChild,
  Output,
  Parked,
  Payload,
  TaskyardError,
} from "../src/index.js";
import { CuttableProxy, TestServer, until } from "./server.js";

let server: TestServer;
let proxy: CuttableProxy;
let client: Client;
let host: Host | undefined;
let running: Promise<void> | undefined;
let agents = 0;

before(async () => {
  server = await TestServer.up();
  proxy = await CuttableProxy.inFrontOf(server.address);
  client = connect({ address: server.address });
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

/** Runs a parent on a host of one slot, which has `part` for its children, and returns the id of the parent once it has ended. */
async function ended(work: Handler, part: Handler = ({ params }) => params, maxAttempts = 1) {
  const logger = { info() {}, warn() {}, error() {} };
  host = new Host({ address: proxy.address, hostId: "worker", slots: 1, logger })
    .action("work", work)
    .action("part", part);
  running = host.run();
  const agentId = `agent-${++agents}`;
  const { id } = await client.submit({ agentId, action: "work", retryPolicy: { maxAttempts, firstDelayMs: 1 } });
  const task = await client.wait(id);
  assert.equal(task.error, undefined);
  return task;
}

/** The children of a task, by their names. */
async function childrenOf(parentId: string) {
  const found = new Map<string | undefined, Awaited<ReturnType<Client["get"]>>>();
  for await (const each of client.list({ parentId })) found.set(each.childName, each);
  return found;
}

test("a parent has the results of its children on one slot, of any kind and size", async () => {
  const results: Record<string, unknown> = {
    nothing: undefined,
    exact: new Output({ id: 2n ** 60n }),
    large: { pad: "x".repeat(1_000_000) },
    encoded: new Payload(new Uint8Array([1, 2]), "mine"),
  };
  const { id, result } = await ended(
    async (task) => {
      const [names, isFirst] = [Object.keys(results), task.task.steps === undefined];
      const found = await Promise.all(
        names.map(async (name) => {
          // Each child is submitted over a connection that has just broken.
          if (isFirst) proxy.cut();
          return (await task.child<unknown>(name, { action: "part", params: { name } })).result();
        }),
      );
      const [nothing, exact, large, encoded] = found as [undefined, { id: bigint }, { pad: string }, Payload];
      return [nothing ?? null, exact.id === 2n ** 60n, large.pad.length, encoded.encoding, [...encoded.data]];
    },
    ({ params }) => results[String(params.name)],
  );
  assert.deepEqual(result, [null, true, 1_000_000, "mine", [1, 2]]);
  const children = await childrenOf(id);
  assert.deepEqual([...children.keys()].sort(), Object.keys(results).sort());
  assert.ok([...children.values()].every(({ onParentEnd }) => onParentEnd === "cancel"));
  assert.ok((await client.steps(id)).every(({ kind, name }) => kind === "ends" && name.startsWith("child ")));
});

test("a later attempt and run find the children again, which may be joined and handed on", async () => {
  const ids = new Set<string>();
  let attempts = 0;
  const { result, attempts: counted } = await ended(
    async (task) => {
      const parts = await Promise.all(
        [1, 2].map((n) => task.child<{ n: number }>(`part-${n}`, { action: "part", params: { n } })),
      );
      for (const { id } of parts) ids.add(id);
      if (++attempts === 1) throw new Error("broken");
      await task.join(parts);
      const inputs = Object.fromEntries(parts.map(({ name, id }) => [name, id]));
      const whole = await task.child<number>("whole", { action: "part", inputs });
      return [ids.size, (await parts[1]?.result())?.n, await whole.result(), await whole.result()];
    },
    ({ params, inputs }) =>
      params.n ? params : Object.values(inputs).reduce((sum, each) => sum + (each.value<{ n: number }>()?.n ?? 0), 0),
    2,
  );
  assert.deepEqual([result, counted.length], [[2, 2, 3, 3], 2]);
});

test("several parts of a handler wait for the same child", async () => {
  const { id, result } = await ended(
    async (task) => {
      const one = await task.child<number>("one", { action: "part", params: { n: 1 } });
      const half = async () => (await task.child<number>("one", { action: "part" })).result();
      const found = await Promise.all([one.result(), half(), one.result(), task.join([one]), task.join([one])]);
      await task.join([one]);
      return found.slice(0, 3);
    },
    ({ params }) => params.n,
  );
  assert.deepEqual(result, [1, 1, 1]);
  const steps = (await client.steps(id)).map(({ name }) => name);
  assert.deepEqual(steps.sort(), ["child one", "child one 2", "child one 3", "join"]);
});

test("a child that does not end as done, or in time, is an error", async () => {
  const { result } = await ended(
    async (task) => {
      const [broken, late] = [
        await task.child("broken", { action: "part" }),
        await task.child("late", { action: "part", hold: true }),
      ];
      const caught = (call: () => Promise<unknown>) =>
        call().catch((error: unknown) => {
          if (error instanceof Parked) throw error;
          return error;
        });
      const failed = await caught(() => broken.result());
      const timeout = await caught(() => late.result({ timeoutMs: 1 }));
      const join = (name: string) => caught(() => task.join([late], { name, timeoutMs: 1 })).then(String);
      assert.equal(await join("it"), "TaskyardError: deadline_exceeded: join 'it': the tasks have not ended in time");
      assert.match(
        await join("it"),
        /^NotRetryable: join 'it': this run has used the name already, and names must differ/,
      );
      assert.equal(await join("its"), "TaskyardError: deadline_exceeded: join 'its': the tasks have not ended in time");
      await client.cancel(late.id);
      const cancelled = await caught(() => late.result());
      assert.ok(failed instanceof ChildFailed && cancelled instanceof ChildFailed && timeout instanceof TaskyardError);
      assert.deepEqual([failed.childName, failed.id, failed.reason], ["broken", broken.id, "no words"]);
      return [failed.state, failed.message.replace(broken.id, "ID"), timeout.code, cancelled.state];
    },
    () => {
      throw new ActionFailed("no words");
    },
  );
  assert.deepEqual(result, ["failed", "the child 'broken' (ID) is failed: no words", "deadline_exceeded", "cancelled"]);
});

test("a child that has not ended in time is awaited again, also with other timeouts side by side", async () => {
  const ending = ended(
    async (task) => {
      const late = await task.child<number>("late", { action: "part", params: { n: 1 }, hold: true });
      const within = (timeoutMs: number) =>
        late.result({ timeoutMs }).catch((error: Error) => {
          if (error instanceof Parked) throw error;
          return (error as TaskyardError).code;
        });
      const tries = [await within(1), ...(await Promise.all([within(2), within(60_000), within(1)]))];
      return [...tries, await within(60_000)];
    },
    ({ params }) => params.n,
  );
  const late = async () => {
    for await (const { id, park } of client.list({ states: ["parked"] })) {
      if (park?.waits.map(({ name }) => name).join() === "child late 3") return (await childrenOf(id)).get("late")?.id;
    }
    return undefined;
  };
  await until(async () => (await late()) !== undefined, "all that had less time has expired");
  await client.resume(String(await late()));
  const { id, result } = await ending;
  // The last run finds the child ended.
  assert.deepEqual(result, [1, 1, 1, 1, 1]);
  const steps = (await client.steps(id)).map(({ name, expired }) => `${name}${expired ? " expired" : ""}`);
  assert.deepEqual(steps.sort(), [
    "child late 2 expired",
    "child late 3",
    "child late 4 expired",
    "child late expired",
  ]);
});

test("children end with their parent unless told otherwise", async () => {
  const { id } = await ended(async (task) => {
    await task.child("one", { action: "part", hold: true });
    await task.child("two", { action: "part", hold: true, onParentEnd: "keep" });
  });
  const children = await childrenOf(id);
  assert.equal((await client.wait(children.get("one")?.id ?? "")).state, "cancelled");
  assert.equal(children.get("two")?.state, "pending");
});

test("what cannot be a child is said at once", async () => {
  const refusals: [string, object, object][] = [
    ["a/b", { action: "part" }, { code: "bad_request", message: /name: must have 1 to 128/ }],
    ["one", { action: "part", uniqueKey: "k" }, { code: "bad_request", message: /the name of a child is its key/ }],
    [
      "one",
      { action: "part", idempotencyKey: "k" },
      { code: "bad_request", message: /the name of a child is its key/ },
    ],
    ["one", { action: "part", params: [] }, { name: "NotRetryable", message: /^child 'one': params: it is no JSON/ }],
    ["one", { action: "part", deadline: Number.NaN }, { name: "NotRetryable", message: /^child 'one': / }],
    ["one", { action: "part", priority: 1.5 }, { name: "NotRetryable", message: /^child 'one': .*priority/ }],
  ];
  const { id } = await ended(async (task) => {
    for (const [name, child, error] of refusals) await assert.rejects(task.child(name, child as NewChild), error);
  });
  assert.equal((await childrenOf(id)).size, 0);
});

test("a handler that goes on after its task was parked submits no child", async () => {
  const { id, result } = await ended(async (task) => {
    const one = await task.child("one", { action: "part", params: { n: 1 } });
    const found = await one.result().catch(() => undefined);
    if (found) return found;
    await assert.rejects(task.child("two", { action: "part" }), Parked);
    await assert.rejects(one.result(), Parked);
    return "went on";
  });
  assert.deepEqual(result, { n: 1 });
  assert.deepEqual([...(await childrenOf(id)).keys()], ["one"]);
});
