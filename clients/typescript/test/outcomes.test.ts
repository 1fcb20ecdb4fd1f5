/** How a task ends that a caller waits for: with its output, with its failure, or without either. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Client } from "../src/client.js";
import { TaskyardError } from "../src/errors.js";
import { LeaseService } from "../src/gen/taskyard/v1/lease_pb.js";
import {
  type CancelTaskRequest,
  type SubmitTaskRequest,
  type Task as TaskMessage,
  Task_State,
  TaskService,
} from "../src/gen/taskyard/v1/task_pb.js";
import { TaskCancelled, TaskFailed, TaskLost } from "../src/index.js";
import { untilRoom } from "../src/retrying.js";
import { FakeClock } from "./clock.js";

type Methods = Partial<ServiceImpl<typeof TaskService>>;

/** A client of a server with these methods, what it was asked for, and what the client has logged. */
function serve(methods: Methods, options: ConstructorParameters<typeof Client>[1] = {}, parentId?: string) {
  const [submits, cancels, lines]: [SubmitTaskRequest[], CancelTaskRequest[], string[]] = [[], [], []];
  const transport = createRouterTransport(({ service }) => {
    service(TaskService, {
      submitTask(request) {
        submits.push(request);
        return { taskId: "tsk_1", state: Task_State.queued };
      },
      cancelTask(request) {
        cancels.push(request);
        return { status: Task_State.cancelled, childrenCancelled: request.cancelChildren ? 3 : undefined };
      },
      ...methods,
    });
  });
  const log = (text: string) => lines.push(text);
  const logger = { info: log, warn: log, error: log };
  const client = new Client(transport, { logger, ...options }, { server: "yard:1", parentId: () => parentId });
  return { client, submits, cancels, lines };
}

const ended = (task: Partial<TaskMessage>): Methods => ({
  waitTask: () => ({ ended: true, task: { taskId: "tsk_1", ...task } as never }),
});

test("a failed task says what its host reported", async () => {
  const attempts = [{ number: 1 }, { number: 2 }] as never;
  const failure = { state: Task_State.failed, error: "no page", code: "gone", traceback: "in fetch", attempts };
  const error = await serve(ended(failure))
    .client.run({ action: "a" })
    .catch((thrown: unknown) => thrown);
  assert.ok(error instanceof TaskFailed && !(error instanceof TaskCancelled));
  assert.deepEqual(
    [error.code, error.traceback, error.attempts.length, error.message],
    ["gone", "in fetch", 2, "tsk_1 is failed after 2 attempts: no page"],
  );
  const cancelled = serve(ended({ state: Task_State.cancelled }));
  await assert.rejects(cancelled.client.run({ action: "a" }), TaskCancelled);
});

test("the default deadline is named where it failed a task", async () => {
  const { client } = serve(
    ended({
      state: Task_State.failed,
      error: "deadline exceeded while queued",
      createdAt: timestampFromMs(1_000),
      deadline: timestampFromMs(61_001),
    }),
  );
  const message = "tsk_1 is failed: deadline exceeded while queued (the default deadline of 60 s; see deadline)";
  await assert.rejects(client.run({ action: "a" }), { message });
  await assert.rejects(client.run({ action: "a", deadline: 5 }), {
    message: "tsk_1 is failed: deadline exceeded while queued",
  });
});

test("a run that is given up cancels its task, unless it is told not to", async () => {
  for (const [cancelOnExit, count] of [
    [undefined, 1],
    [false, 0],
  ] as const) {
    const { client, cancels } = serve({ waitTask: () => new Promise(() => {}) });
    const signal = AbortSignal.timeout(20);
    const options = { signal, ...(cancelOnExit === undefined ? {} : { cancelOnExit }) };
    await assert.rejects(client.run({ action: "a" }, options), { code: "cancelled" });
    assert.equal(cancels.length, count);
  }
});

test("a task that the server knew, and knows no more, is lost", async () => {
  let waits = 0;
  const { client } = serve({
    waitTask() {
      waits += 1;
      if (waits === 3) return { ended: false };
      throw new ConnectError("no such task", Code.NotFound);
    },
  });
  const lost = (error: unknown) =>
    error instanceof TaskLost && error.code === "not_found" && /was started anew without a store/.test(error.message);
  await assert.rejects(client.run({ action: "a" }), lost);
  await assert.rejects(client.wait("tsk_1"), (error) => error instanceof TaskyardError && !(error instanceof TaskLost));
  await assert.rejects(client.wait("tsk_1"), lost);
});

test("a task waits for room in a full queue, in steps that grow from the time that the server names", async () => {
  const clock = new FakeClock();
  clock.random = () => 0;
  let tries = 0;
  const submit = async () => {
    tries += 1;
    if (tries < 6) throw new TaskyardError("queue_full", "full", { retryAfterMs: 2_000 });
    return tries;
  };
  assert.equal(await untilRoom(submit, undefined, clock), 6);
  assert.deepEqual(clock.slept, [2_000, 4_000, 8_000, 10_000, 10_000]);
});

test("a full queue is refused, or waited for until the signal aborts", async () => {
  const submitTask = () => {
    throw new ConnectError("full", Code.ResourceExhausted);
  };
  const refused = serve({ submitTask });
  await assert.rejects(refused.client.submit({ action: "a" }), { code: "too_large" });
  const gaveUp = new AbortController();
  const full = async () => {
    gaveUp.abort();
    throw new TaskyardError("queue_full", "full");
  };
  await assert.rejects(untilRoom(full, gaveUp.signal), { code: "queue_full" });
});

test("a cancel with children says how many", async () => {
  const { client, cancels } = serve({});
  assert.equal(await client.cancelWithChildren("tsk_1", { reason: "wrong site" }), 3);
  assert.equal(await client.cancel("tsk_1"), "cancelled");
  assert.deepEqual(
    cancels.map(({ cancelChildren, reason }) => [cancelChildren, reason]),
    [
      [true, "wrong site"],
      [undefined, undefined],
    ],
  );
});

test("a task has the parent that it names, else the task whose handler submits it", async () => {
  const { client, submits } = serve({}, {}, "tsk_parent");
  await client.submit({ action: "a", runTimeoutMs: 1_500 });
  await client.submit({ action: "a", parentId: "tsk_other" });
  assert.deepEqual(
    submits.map(({ parentId, runTimeoutMs }) => [parentId, runTimeoutMs]),
    [
      ["tsk_parent", 1_500],
      ["tsk_other", undefined],
    ],
  );
});

test("former names still do", async () => {
  const { client, submits } = serve({}, { agent: "ann" });
  const submitted = await client.submit({ action: "a" });
  await client.submit({ action: "a", agent: "bob" });
  await client.submit({ action: "a", agentId: "eve" });
  assert.deepEqual([submitted.id, submitted.taskId], ["tsk_1", "tsk_1"]);
  assert.deepEqual(
    submits.map(({ agentId }) => agentId),
    ["ann", "bob", "eve"],
  );
});

test("the first failed call of an outage is logged with the address, and its end", async () => {
  let isDown = true;
  const getTask = () => {
    if (isDown) throw new ConnectError("connect ECONNREFUSED", Code.Unavailable);
    return { taskId: "tsk_1" };
  };
  const { client, lines } = serve({ getTask }, { patienceMs: 40 });
  const tried = { code: "unavailable", message: /connect ECONNREFUSED; tried for 0\.\d s$/ };
  await Promise.all([1, 2].map(() => assert.rejects(client.get("tsk_1"), tried)));
  isDown = false;
  await client.get("tsk_1");
  assert.equal(lines[0], "no answer from yard:1: connect ECONNREFUSED; calls that may be repeated are, for 0.04 s");
  assert.match(lines[1] ?? "", /^yard:1 answers again, after \d\.\d s$/);
  assert.equal(lines.length, 2);
});

test("a claim with an id is repeated while the server is unavailable, one without is not", async () => {
  let tries = 0;
  const transport = createRouterTransport(({ service }) => {
    service(LeaseService, {
      claimTask() {
        tries += 1;
        if (tries < 3) throw new ConnectError("down", Code.Unavailable);
        return { claimed: false };
      },
    });
  });
  const quiet = { info() {}, warn() {}, error() {} };
  const { leases } = new Client(transport, { logger: quiet }).stubs;
  assert.equal((await leases.claimTask({ hostId: "h", claimId: "c" })).claimed, false);
  tries = 0;
  await assert.rejects(leases.claimTask({ hostId: "h" }), { code: "unavailable" });
  assert.equal(tries, 1);
});
