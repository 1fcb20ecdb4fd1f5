/** Which calls are repeated and when, with a clock that is passed in. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import { Calls } from "../src/calls.js";
import { TaskyardError } from "../src/errors.js";
import { TaskService } from "../src/gen/taskyard/v1/task_pb.js";
import { retryWhileUnavailable } from "../src/retrying.js";
import { FakeClock } from "./clock.js";

const down = () => new TaskyardError("unavailable", "no server");
const isCode = (code: string) => (error: unknown) => error instanceof TaskyardError && error.code === code;

test("a call is repeated while the server is unavailable, with growing delays", async () => {
  const clock = new FakeClock();
  const answer = await retryWhileUnavailable(
    async (attempt) => {
      if (attempt < 5) throw down();
      return attempt;
    },
    30_000,
    clock,
  );
  assert.equal(answer, 5);
  assert.deepEqual(clock.slept, [100, 200, 400, 800]);
});

test("an outage that is longer than the patience ends with the error that it caused", async () => {
  const clock = new FakeClock();
  await assert.rejects(
    retryWhileUnavailable(() => Promise.reject(down()), 10_000, clock),
    isCode("unavailable"),
  );
  assert.equal(clock.time, 10_000);
  assert.ok(Math.max(...clock.slept) <= 1_000);
});

test("a call follows an outage of three seconds within one more", async () => {
  const clock = new FakeClock();
  await retryWhileUnavailable(() => (clock.time < 3_000 ? Promise.reject(down()) : Promise.resolve()), 30_000, clock);
  assert.ok(clock.time <= 4_000);
});

test("a call that a stopping server cancels is repeated, one that its caller cancels is not", async () => {
  const cancelled = () => Promise.reject(new TaskyardError("cancelled", "CANCEL"));
  assert.equal(
    await retryWhileUnavailable(
      (attempt) => (attempt < 3 ? cancelled() : Promise.resolve(attempt)),
      9_000,
      new FakeClock(),
    ),
    3,
  );
  let tries = 0;
  const call = () => {
    tries += 1;
    return cancelled();
  };
  await assert.rejects(retryWhileUnavailable(call, 9_000, new FakeClock(), AbortSignal.abort()), isCode("cancelled"));
  assert.equal(tries, 1);
});

test("a short patience leaves time for several tries", async () => {
  const clock = new FakeClock();
  let tries = 0;
  const call = () => {
    tries += 1;
    return Promise.reject(down());
  };
  await assert.rejects(retryWhileUnavailable(call, 100, clock));
  assert.ok(tries >= 4);
});

test("only unavailable is repeated", async () => {
  const clock = new FakeClock();
  const error = new TaskyardError("deadline_exceeded", "too slow");
  await assert.rejects(
    retryWhileUnavailable(() => Promise.reject(error), 10_000, clock),
    isCode("deadline_exceeded"),
  );
  assert.deepEqual(clock.slept, []);
});

test("a delay is shortened at random by up to a half", async () => {
  const clock = new FakeClock();
  clock.random = () => 0;
  await retryWhileUnavailable((attempt) => (attempt === 1 ? Promise.reject(down()) : Promise.resolve()), 10_000, clock);
  assert.deepEqual(clock.slept, [50]);
});

function calls(clock: FakeClock, failures: number) {
  const seen: string[] = [];
  const fail = (name: string) => {
    seen.push(name);
    if (seen.length <= failures) throw new ConnectError("starting", Code.Unavailable);
    return {};
  };
  const inner = createRouterTransport(({ service }) => {
    service(TaskService, { getTask: () => fail("get"), resumeTask: () => fail("resume") });
  });
  return { seen, stub: createClient(TaskService, new Calls(inner, { patienceMs: 5_000 }, clock)) };
}

test("a raw stub repeats calls that are idempotent by the protos", async () => {
  const { seen, stub } = calls(new FakeClock(), 2);
  await stub.getTask({ taskId: "t" });
  assert.deepEqual(seen, ["get", "get", "get"]);
});

test("a raw stub does not repeat other calls", async () => {
  const { seen, stub } = calls(new FakeClock(), 2);
  await assert.rejects(stub.resumeTask({ taskId: "t" }), isCode("unavailable"));
  assert.deepEqual(seen, ["resume"]);
});

test("namespace and token go with every call", async () => {
  let header = new Headers();
  const inner = createRouterTransport(({ service }) => {
    service(TaskService, {
      getTask(_, context) {
        header = context.requestHeader;
        return {};
      },
    });
  });
  await createClient(TaskService, new Calls(inner, { namespace: "blue", token: "secret" })).getTask({});
  assert.equal(header.get("taskyard-namespace"), "blue");
  assert.equal(header.get("authorization"), "Bearer secret");
});

test("closing ends calls that wait, and refuses new ones", async () => {
  const inner = createRouterTransport(({ service }) => {
    service(TaskService, { getTask: () => new Promise(() => {}) });
  });
  const closing = new Calls(inner, { timeoutMs: 1_000 });
  const stub = createClient(TaskService, closing);
  const waiting = stub.getTask({});
  closing.close();
  await assert.rejects(waiting, isCode("cancelled"));
  await assert.rejects(stub.getTask({}), isCode("cancelled"));
});
