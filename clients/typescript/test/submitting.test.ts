/** Tasks that are submitted at the same time, with a scripted server. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { Calls } from "../src/calls.js";
import { type SubmitTaskRequest, SubmitTaskRequestSchema, TaskService } from "../src/gen/taskyard/v1/task_pb.js";
import { Submitter } from "../src/submitting.js";
import { TaskyardError } from "../src/errors.js";
import { FakeClock } from "./clock.js";

const isCode = (code: string) => (error: unknown) => error instanceof TaskyardError && error.code === code;
const never = () => new Promise<never>(() => {});
const task = (action: string, text = "") =>
  create(SubmitTaskRequestSchema, { action, agentId: "ann", idempotencyKey: action, params: { text } });
const named = (count: number) => Array.from({ length: count }, (_, n) => `t${n}`);

/** How the server answers a message of its nth stream: with outcomes, with an error that it throws, or by its end. */
type Script = (tasks: SubmitTaskRequest[], stream: number) => unknown;
interface Settings {
  timeoutMs?: number;
  isSharing?: boolean;
  /** Whether the server refuses calls of single tasks. */
  isDraining?: boolean;
}

const accepted = (tasks: SubmitTaskRequest[]) => ({
  outcomes: tasks.map(({ action }) => ({ outcome: { case: "accepted" as const, value: { taskId: action } } })),
});

/** A submitter, and what its server received: the messages of each stream, and the tasks with a call of their own. */
function start(script: Script = accepted, { timeoutMs, isSharing = true, isDraining = false }: Settings = {}) {
  const streams: string[][][] = [];
  const alone: string[] = [];
  const transport = createRouterTransport(({ service }) => {
    service(TaskService, {
      submitTask({ action }) {
        alone.push(action);
        if (isDraining) throw new ConnectError("draining", Code.Unavailable);
        return { taskId: action };
      },
      async *submitTasks(messages) {
        const stream = streams.push([]);
        for await (const { tasks } of messages) {
          streams[stream - 1]?.push(tasks.map(({ action }) => action));
          const answer = await script(tasks, stream);
          if (!answer) return;
          yield answer as ReturnType<typeof accepted>;
        }
      },
    });
  });
  const clock = new FakeClock();
  const calls = new Calls(transport, { timeoutMs, patienceMs: 5_000 }, clock);
  const submitter = new Submitter(calls, isSharing);
  const submit = async (action: string, signal?: AbortSignal) =>
    (await submitter.submit(task(action), signal)).taskId ?? "";
  return { calls, clock, submitter, submit, streams, alone };
}

test("a single task has a call of its own", async () => {
  const { submit, streams, alone } = start();
  for (const name of ["a", "b"]) assert.equal(await submit(name), name);
  assert.deepEqual([streams, alone], [[], ["a", "b"]]);
});

test("tasks at the same time share the messages of one stream, and each has its own outcome", async () => {
  const { submit, streams, alone } = start();
  const names = named(120);
  assert.deepEqual(await Promise.all(names.map((name) => submit(name))), names);
  assert.deepEqual(
    streams.map((messages) => messages.map((each) => each.length)),
    [[50, 50, 20]],
  );
  assert.deepEqual(alone, []);
});

test("a task that is submitted while others are being sent uses their stream", async () => {
  let answer = () => {};
  const mayAnswer = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const { submit, streams, alone } = start(async (tasks, stream) => {
    if (streams[stream - 1]?.length === 1) await mayAnswer;
    return accepted(tasks);
  });
  const first = [submit("a"), submit("b")];
  await Promise.resolve();
  const later = submit("c");
  answer();
  assert.deepEqual(await Promise.all([...first, later]), ["a", "b", "c"]);
  assert.deepEqual([streams, alone], [[[["a", "b"], ["c"]]], []]);
});

test("without client streams every task has a call of its own", async () => {
  const { submit, streams, alone } = start(accepted, { isSharing: false });
  await Promise.all([submit("a"), submit("b")]);
  assert.deepEqual([streams, alone], [[], ["a", "b"]]);
});

test("a message has a limit in bytes, and a task over the limit has a call of its own", async () => {
  const { submitter, streams, alone } = start();
  const sizes = [400_000, 400_000, 400_000, 2_000_000];
  await Promise.all(sizes.map((size, n) => submitter.submit(task(`t${n}`, "x".repeat(size)))));
  assert.deepEqual([streams, alone], [[[["t0", "t1"], ["t2"]]], ["t3"]]);
});

test("a refusal concerns its own task, and is the error that a call of its own would throw", async () => {
  const error = {
    code: "queue_full",
    error: "no room",
    retryable: true,
    details: { queued: 3, agentId: "ann" },
    retryAfterMs: 700,
  };
  const { submit } = start((tasks) => ({
    outcomes: tasks.map(({ action }) =>
      action === "b"
        ? { outcome: { case: "error" as const, value: error }, rejectedTaskId: "tsk_b" }
        : { outcome: { case: "accepted" as const, value: { taskId: action } } },
    ),
  }));
  const [a, b, c] = await Promise.allSettled([submit("a"), submit("b"), submit("c")]);
  assert.deepEqual([a.status, c.status], ["fulfilled", "fulfilled"]);
  assert.ok(b.status === "rejected" && isCode("queue_full")(b.reason));
  const { reason, details, status, retryable, retryAfterMs, taskId } = b.reason as TaskyardError;
  assert.deepEqual([reason, details], ["no room", { queued: "3", agentId: "ann" }]);
  assert.deepEqual([status, retryable, retryAfterMs, taskId], ["RESOURCE_EXHAUSTED", true, 700, "tsk_b"]);
});

test("after a break only the tasks without an answer are submitted again", async () => {
  const { submit, streams, clock } = start((tasks, stream) => {
    if (stream === 1 && tasks[0]?.action !== "t0") throw new ConnectError("gone", Code.Unavailable);
    return accepted(tasks);
  });
  const names = named(60);
  assert.deepEqual(await Promise.all(names.map((name) => submit(name))), names);
  assert.deepEqual(streams.slice(1).flat(2).sort(), names.slice(50));
  assert.ok(clock.slept.length > 0);
});

test("a stream that the server ends without an answer is a break", async () => {
  const { submit, streams } = start((tasks, stream) => (stream === 1 ? undefined : accepted(tasks)));
  assert.deepEqual(await Promise.all([submit("a"), submit("b"), submit("c")]), ["a", "b", "c"]);
  assert.equal(streams[0]?.length, 1);
});

test("a server that drains is tried again until the patience is used up", async () => {
  const draining = { code: "unavailable", error: "draining", retryable: true };
  const { submit, clock, alone } = start(
    (tasks) => ({ outcomes: tasks.map(() => ({ outcome: { case: "error" as const, value: draining } })) }),
    { isDraining: true },
  );
  const ends = await Promise.allSettled([submit("a"), submit("b")]);
  assert.ok(ends.every((end) => end.status === "rejected" && isCode("unavailable")(end.reason)));
  assert.ok(clock.time >= 5_000);
  assert.ok(alone.length < clock.slept.length * 2, "tasks that are tried again together share a stream");
});

test("after a refusal of the whole stream each task is submitted by a call of its own", async () => {
  const { submit, alone } = start(() => {
    throw new ConnectError("no such method", Code.Unimplemented);
  });
  const names = named(60);
  assert.deepEqual(await Promise.all(names.map((name) => submit(name))), names);
  assert.deepEqual(alone.sort(), [...names].sort());
});

test("an answer for another number of tasks is not trusted", async () => {
  const { submit, alone } = start((tasks) => accepted(tasks.slice(1)));
  assert.deepEqual(await Promise.all([submit("a"), submit("b")]), ["a", "b"]);
  assert.deepEqual(alone, ["a", "b"]);
});

test("a server that takes too long to answer is given up", async () => {
  const { submit } = start(never, { timeoutMs: 50 });
  const ends = await Promise.allSettled([submit("a"), submit("b")]);
  assert.ok(ends.every((end) => end.status === "rejected" && isCode("deadline_exceeded")(end.reason)));
});

test("an infinite timeout is accepted", async () => {
  const { submit } = start(accepted, { timeoutMs: Number.POSITIVE_INFINITY });
  assert.deepEqual(await Promise.all([submit("a"), submit("b")]), ["a", "b"]);
});

test("a task that is given up before it is sent is not sent, and does not affect the others", async () => {
  const { submit, streams } = start();
  const stop = new AbortController();
  const [a, b, c] = [submit("a"), submit("b", stop.signal), submit("c")];
  stop.abort();
  await assert.rejects(b, isCode("cancelled"));
  assert.deepEqual(await Promise.all([a, c]), ["a", "c"]);
  assert.deepEqual(streams, [[["a", "c"]]]);
});

test("a task that is given up after it was sent does not affect the others", async () => {
  const stop = new AbortController();
  const { submit } = start((tasks) => {
    stop.abort();
    return accepted(tasks);
  });
  const [a, b] = [submit("a"), submit("b", stop.signal)];
  await assert.rejects(b, isCode("cancelled"));
  assert.equal(await a, "a");
});

test("the submitter is settled once the server has answered for all submitted tasks", async () => {
  let answer = () => {};
  const mayAnswer = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const { submitter, submit } = start(async (tasks) => {
    await mayAnswer;
    return accepted(tasks);
  });
  const submits = Promise.all([submit("a"), submit("b")]);
  const first = await Promise.race([submitter.settled().then(() => "settled"), setImmediate("waiting")]);
  answer();
  await submitter.settled();
  assert.deepEqual([first, await submits], ["waiting", ["a", "b"]]);
});
