/** Clients of several servers, and of one that is not the owner of the namespace. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, createRouterTransport } from "@connectrpc/connect";
import { callerOf } from "../src/caller.js";
import { Client } from "../src/client.js";
import { errorFrom, TaskyardError } from "../src/errors.js";
import { ErrorInfoSchema, RetryInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { BatchService } from "../src/gen/taskyard/v1/batch_pb.js";
import {
  TaskEvent_Kind,
  TaskService,
  WatchEnd_Reason,
  WatchTasksResponseSchema,
} from "../src/gen/taskyard/v1/task_pb.js";
import { reconnectDelay } from "../src/reconnecting.js";
import { connect } from "../src/index.js";
import { firstOf } from "../src/racing.js";
import { Outage, retryWhileUnavailable } from "../src/retrying.js";
import { watchEvents } from "../src/watching.js";
import { Authority, serve, temporaryFolder } from "./certificates.js";
import { FakeClock } from "./clock.js";
import { CuttableProxy } from "./server.js";

const refusal = (code: Code, reason: string, ms: number) =>
  new ConnectError("refused", code, undefined, [
    { desc: ErrorInfoSchema, value: { reason, domain: "taskyard", metadata: { owner: "b" } } },
    { desc: RetryInfoSchema, value: { retryDelay: { seconds: 0n, nanos: ms * 1e6 } } },
  ]);
const elsewhere = () => refusal(Code.Unavailable, "NOT_OWNER", 50);
const tooMany = () => refusal(Code.ResourceExhausted, "TOO_MANY_REQUESTS", 300);
const isCode = (code: string) => (error: unknown) => error instanceof TaskyardError && error.code === code;

const ends: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** A server that counts the tasks that it is asked for. */
async function counting(own?: Parameters<typeof serve>[1], path?: string) {
  const counted = { address: "", calls: 0 };
  const routes = ({ service }: ConnectRouter) => {
    service(TaskService, {
      getTask: ({ taskId }) => {
        counted.calls += 1;
        return { taskId };
      },
    });
  };
  const server = await serve(routes, own, undefined, path);
  ends.push(server.close);
  counted.address = server.address;
  return counted;
}

function clientOf(address: string | string[], options: Parameters<typeof connect>[0] = {}): Client {
  const client = connect({ address, patienceMs: 1, ...options });
  ends.push(() => client.close());
  return client;
}

test("a dead server is passed over", async () => {
  const tcp = await counting();
  const unix = await counting(undefined, join(temporaryFolder(), "s"));
  for (const { address } of [tcp, unix]) {
    // In one of a few clients the live one comes last.
    for (let n = 0; n < 8; n++) await clientOf(`127.0.0.1:1, ${address},127.0.0.1:1`).get("tsk_1");
  }
  await clientOf(unix.address).get("tsk_1");
  await clientOf(unix.address.replace("unix:", "unix://")).get("tsk_1");
  await clientOf(`dns:///localhost:${tcp.address.split(":")[1]}`).get("tsk_1");
});

test("clients spread at random, and each keeps its server", async () => {
  const [a, b] = [await counting(), await counting()];
  for (let n = 0; n < 20; n++) {
    const client = clientOf([a.address, b.address]);
    const before = a.calls;
    for (let call = 0; call < 3; call++) await client.get("tsk_1");
    assert.ok([0, 3].includes(a.calls - before), "a client has changed its server");
  }
  assert.ok(a.calls && b.calls, "all clients chose the same server");
});

test("a client goes to another server when its own dies", async () => {
  const { address } = await counting();
  const proxies = [await CuttableProxy.inFrontOf(address), await CuttableProxy.inFrontOf(address)];
  for (const proxy of proxies) ends.push(() => proxy.close());
  const client = clientOf(
    proxies.map((proxy) => proxy.address),
    { patienceMs: 30_000 },
  );
  await client.get("tsk_1");
  for (const proxy of proxies) {
    proxy.close();
    if (proxy === proxies[0]) await client.get("tsk_1");
  }
  await assert.rejects(clientOf(proxies.map((proxy) => proxy.address)).get("tsk_1"), isCode("unavailable"));
});

test("each server shows a certificate of its own name", async () => {
  const ca = new Authority("ca");
  const [a, b] = [await counting(ca.issue("DNS:localhost")), await counting(ca.issue("IP:127.0.0.1"))];
  const both = [`https://${a.address.replace("127.0.0.1", "localhost")}`, b.address];
  for (let n = 0; n < 20; n++) await clientOf(both, { ca: ca.file }).get("tsk_1");
  assert.ok(a.calls && b.calls, "one of the certificates was refused");
});

test("an address that can never work is refused", () => {
  for (const address of [
    "a:1,",
    ",",
    [],
    "a:1,b",
    "a:1,dns://server/b:1",
    "a:1,http://b:1",
    "unix:",
    "unix://host/path",
  ]) {
    assert.throws(() => callerOf({ address }), { name: "TypeError", message: /^address: / });
  }
  assert.throws(() => callerOf({ address: "https://a:1,unix:/tmp/b" }), /a unix socket is not encrypted/);
  assert.throws(() => callerOf({ address: "127.0.0.1:1,a.example:1", token: "secret" }), /without encryption/);
  callerOf({ address: "127.0.0.1:1,unix:/tmp/b", token: "secret" });
});

test("an attempt begins when the one before has failed, or takes too long", async () => {
  const begun: number[] = [];
  const never = new Promise<string>(() => {});
  const attempt = (answers: Promise<string>[]) => (n: number) => {
    begun.push(n);
    return answers[n] ?? never;
  };
  const failed = Promise.reject(new Error("dead"));
  failed.catch(() => {});
  assert.equal(await firstOf([0, 1, 2], attempt([failed, Promise.resolve("b")]), () => {}, 60_000), "b");
  assert.equal(await firstOf([0, 1], attempt([never, Promise.resolve("b")]), () => {}, 1), "b");
  await assert.rejects(
    firstOf([0, 1], attempt([failed, failed]), () => {}, 60_000),
    /dead/,
  );
  assert.deepEqual(begun, [0, 1, 0, 1, 0, 1]);
});

/** A client whose first calls end with an error. */
function failing(count: number, error: () => ConnectError, patienceMs = 10_000) {
  let calls = 0;
  const answer = <T>(value: T) => {
    calls += 1;
    if (calls <= count) throw error();
    return value;
  };
  const transport = createRouterTransport(({ service }) => {
    service(TaskService, {
      submitTask: () => answer({ taskId: "tsk_1" }),
      resumeTask: () => answer({}),
      cancelTask: () => {
        answer({});
        throw new ConnectError("it has ended", Code.FailedPrecondition);
      },
      getTask: () => ({ taskId: "tsk_1", batchId: "bat_first", state: 6 }),
    });
    service(BatchService, { submitBatch: () => answer({ batchId: "bat_second", tasks: [{ taskId: "tsk_1" }] }) });
  });
  return { client: new Client(transport, { agentId: "ann", patienceMs }), calls: () => calls };
}

test("every call is repeated while another server owns the namespace", async () => {
  for (const call of [
    (client: Client) => client.submit({ action: "echo" }),
    // It is not repeated otherwise.
    (client: Client) => client.resume("tsk_1"),
    (client: Client) => client.stubs.tasks.resumeTask({ taskId: "tsk_1" }),
    async (client: Client) => {
      // The batch is that of the answer: no earlier one may have been made.
      assert.equal((await client.submitBatch([{ action: "echo" }])).id, "bat_second");
    },
    // Its conflict is real: the calls before it did nothing.
    (client: Client) => assert.rejects(client.cancel("tsk_1"), isCode("conflict")),
  ]) {
    const { client, calls } = failing(3, elsewhere);
    const began = performance.now();
    await call(client);
    const took = performance.now() - began;
    assert.equal(calls(), 4);
    assert.ok(took > 55, `it took ${took} ms`);
  }
});

test("a namespace without an owner is unavailable after the patience", async () => {
  const { client, calls } = failing(1_000, elsewhere, 400);
  for (const call of [() => client.submit({ action: "echo" }), () => client.resume("tsk_1")]) {
    const began = performance.now();
    await assert.rejects(call(), (error) => {
      assert.ok(error instanceof TaskyardError);
      assert.deepEqual(
        [error.code, error.retryable, error.retryAfterMs, error.details.owner],
        ["unavailable", true, 50, "b"],
      );
      return true;
    });
    const took = performance.now() - began;
    // Not two patiences, one within the other.
    assert.ok(took > 380 && took < 780, `it took ${took} ms`);
  }
  assert.ok(calls() > 4);
});

test("too many requests are repeated when the server says", async () => {
  const { client, calls } = failing(1, tooMany);
  const began = performance.now();
  await client.submit({ action: "echo" });
  assert.ok(performance.now() - began >= 299);
  assert.equal(calls(), 2);
  const other = failing(1, tooMany);
  await assert.rejects(
    other.client.resume("tsk_1"),
    (error) => isCode("too_many_requests")(error) && (error as TaskyardError).retryable,
  );
});

test("the owner is waited for a moment, and longer after too many requests", async () => {
  const clock = new FakeClock();
  const outage = new Outage(30_000, clock, true);
  for (const error of [elsewhere(), elsewhere(), tooMany()]) await outage.backOff(errorFrom(error));
  assert.deepEqual(clock.slept, [0, 50, 375]);
});

test("a call is in doubt only after an attempt that may have been carried out", async () => {
  for (const [error, want] of [
    [elsewhere(), false],
    [tooMany(), false],
    [new ConnectError("down", Code.Unavailable), true],
  ] as const) {
    const found = await retryWhileUnavailable(
      (attempt, isInDoubt) => (attempt === 1 ? Promise.reject(error) : Promise.resolve(isInDoubt)),
      9_000,
      new FakeClock(),
    );
    assert.equal(found, want);
  }
});

test("tasks on a stream are submitted again when the namespace moves", async () => {
  for (const endsStream of [true, false]) {
    let streams = 0;
    const transport = createRouterTransport(({ service }) => {
      service(TaskService, {
        // They come back one by one.
        submitTask: ({ action }) => ({ taskId: action }),
        async *submitTasks(messages) {
          streams += 1;
          if (endsStream) throw elsewhere();
          for await (const { tasks } of messages) {
            const error = { code: "unavailable", error: "b serves it", retryable: true, details: { owner: "b" } };
            yield { outcomes: tasks.map(() => ({ outcome: { case: "error" as const, value: error } })) };
          }
        },
      });
    });
    const client = new Client(transport, { agentId: "ann", patienceMs: 5_000 }, { sharesSubmits: true });
    const began = performance.now();
    const actions = ["a", "b"];
    const submitted = await Promise.all(actions.map((action) => client.submit({ action })));
    assert.deepEqual(
      submitted.map(({ taskId }) => taskId),
      actions,
    );
    assert.ok(streams >= 1);
    assert.ok(performance.now() - began < 2_000);
  }
});

test("a watch goes on at once when the namespace moves", async () => {
  const cursors: (string | undefined)[] = [];
  async function* open({ cursor }: { cursor?: string | undefined }) {
    cursors.push(cursor);
    const event = { kind: TaskEvent_Kind.changed, task: { taskId: "t", state: 2 } };
    if (cursors.length === 4) throw elsewhere();
    if (cursors.length > 4) yield create(WatchTasksResponseSchema, { end: { reason: WatchEnd_Reason.tasks_ended } });
    else yield create(WatchTasksResponseSchema, { cursor: `c${cursors.length}`, events: [event] });
    throw elsewhere();
  }
  const clock = new FakeClock();
  const kinds = [];
  for await (const { kind } of watchEvents(open, { taskIds: ["t"], untilEnded: true }, 30_000, clock)) kinds.push(kind);
  assert.deepEqual([kinds.length, cursors], [3, [undefined, "c1", "c2", "c3", "c3"]]);
  // One that brought nothing is followed after a moment.
  assert.deepEqual(clock.slept, [0, 0, 0, 50]);
});

test("a host comes back in short steps at first", () => {
  const down = new TaskyardError("unavailable", "down");
  for (const [outMs, shortest, longest] of [
    [0, 50, 100],
    [2_900, 50, 100],
    [4_000, 0, 2_000],
    [3_600_000, 0, 5_000],
  ] as const) {
    for (let n = 0; n < 100; n++) {
      const delay = reconnectDelay(down, false, outMs, 5_000);
      assert.ok(delay >= shortest && delay <= longest, `${outMs} ms out, ${delay} ms`);
    }
  }
  assert.equal(reconnectDelay(down, true, 0, 5_000), 0);
  assert.ok(reconnectDelay(errorFrom(tooMany()), true, 0, 5_000) >= 300);
});
