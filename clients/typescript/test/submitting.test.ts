/** Submits at the same time, against a server that is played. */
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

/** What the server of a test does with one message of its nth stream: the outcomes, what it throws, or nothing more. */
type Reaction = (tasks: SubmitTaskRequest[], stream: number) => unknown;
interface Played {
  timeoutMs?: number;
  isSharing?: boolean;
  /** Whether calls of single tasks are refused. */
  isDraining?: boolean;
}

const accepted = (tasks: SubmitTaskRequest[]) => ({
  outcomes: tasks.map(({ action }) => ({ outcome: { case: "accepted" as const, value: { taskId: action } } })),
});

/** A submitter, and what its server got: the sizes of the messages by stream, and the tasks that came alone. */
function play(react: Reaction = accepted, { timeoutMs, isSharing = true, isDraining = false }: Played = {}) {
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
          const answer = await react(tasks, stream);
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

test("a task alone has a call of its own", async () => {
  const { submit, streams, alone } = play();
  for (const name of ["a", "b"]) assert.equal(await submit(name), name);
  assert.deepEqual([streams, alone], [[], ["a", "b"]]);
});

test("tasks at the same time share the messages of one stream, and each is told its own outcome", async () => {
  const { submit, streams, alone } = play();
  const names = named(120);
  assert.deepEqual(await Promise.all(names.map((name) => submit(name))), names);
  assert.deepEqual(
    streams.map((messages) => messages.map((each) => each.length)),
    [[50, 50, 20]],
  );
  assert.deepEqual(alone, []);
});

test("a task that comes while others are on their way goes by their stream", async () => {
  let answer = () => {};
  const asked = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const { submit, streams, alone } = play(async (tasks, stream) => {
    if (streams[stream - 1]?.length === 1) await asked;
    return accepted(tasks);
  });
  const first = [submit("a"), submit("b")];
  await Promise.resolve();
  const later = submit("c");
  answer();
  assert.deepEqual(await Promise.all([...first, later]), ["a", "b", "c"]);
  assert.deepEqual([streams, alone], [[[["a", "b"], ["c"]]], []]);
});

test("without streams of the client every task has a call of its own", async () => {
  const { submit, streams, alone } = play(accepted, { isSharing: false });
  await Promise.all([submit("a"), submit("b")]);
  assert.deepEqual([streams, alone], [[], ["a", "b"]]);
});

test("a message holds no more bytes than the server takes, and what is too large for one goes alone", async () => {
  const { submitter, streams, alone } = play();
  const sizes = [400_000, 400_000, 400_000, 2_000_000];
  await Promise.all(sizes.map((size, n) => submitter.submit(task(`t${n}`, "x".repeat(size)))));
  assert.deepEqual([streams, alone], [[[["t0", "t1"], ["t2"]]], ["t3"]]);
});

test("a refusal is for its own task, in the words of a call of its own", async () => {
  const error = { code: "queue_full", error: "no room", retryable: true, details: { queued: 3, agentId: "ann" } };
  const { submit } = play((tasks) => ({
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
  assert.deepEqual([status, retryable, retryAfterMs, taskId], ["RESOURCE_EXHAUSTED", true, 1_000, "tsk_b"]);
});

test("after a break only what has no answer is submitted again", async () => {
  const { submit, streams, clock } = play((tasks, stream) => {
    if (stream === 1 && tasks[0]?.action !== "t0") throw new ConnectError("gone", Code.Unavailable);
    return accepted(tasks);
  });
  const names = named(60);
  assert.deepEqual(await Promise.all(names.map((name) => submit(name))), names);
  assert.deepEqual(streams.slice(1).flat(2).sort(), names.slice(50));
  assert.ok(clock.slept.length > 0);
});

test("a stream that the server ends without an answer is a break", async () => {
  const { submit, streams } = play((tasks, stream) => (stream === 1 ? undefined : accepted(tasks)));
  assert.deepEqual(await Promise.all([submit("a"), submit("b"), submit("c")]), ["a", "b", "c"]);
  assert.equal(streams[0]?.length, 1);
});

test("a server that drains is tried again for as long as the patience", async () => {
  const draining = { code: "unavailable", error: "draining", retryable: true };
  const { submit, clock, alone } = play(
    (tasks) => ({ outcomes: tasks.map(() => ({ outcome: { case: "error" as const, value: draining } })) }),
    { isDraining: true },
  );
  const ends = await Promise.allSettled([submit("a"), submit("b")]);
  assert.ok(ends.every((end) => end.status === "rejected" && isCode("unavailable")(end.reason)));
  assert.ok(clock.time >= 5_000);
  assert.ok(alone.length < clock.slept.length * 2, "tasks that come back together go together");
});

test("what ends a whole stream is no task's fault: each is told by a call of its own", async () => {
  const { submit, alone } = play(() => {
    throw new ConnectError("no such method", Code.Unimplemented);
  });
  const names = named(60);
  assert.deepEqual(await Promise.all(names.map((name) => submit(name))), names);
  assert.deepEqual(alone.sort(), [...names].sort());
});

test("an answer for other tasks than were sent is not believed", async () => {
  const { submit, alone } = play((tasks) => accepted(tasks.slice(1)));
  assert.deepEqual(await Promise.all([submit("a"), submit("b")]), ["a", "b"]);
  assert.deepEqual(alone, ["a", "b"]);
});

test("a server that owes an answer for too long is given up", async () => {
  const { submit } = play(never, { timeoutMs: 50 });
  const ends = await Promise.allSettled([submit("a"), submit("b")]);
  assert.ok(ends.every((end) => end.status === "rejected" && isCode("deadline_exceeded")(end.reason)));
});

test("any time for an answer is waited for", async () => {
  const { submit } = play(accepted, { timeoutMs: Number.POSITIVE_INFINITY });
  assert.deepEqual(await Promise.all([submit("a"), submit("b")]), ["a", "b"]);
});

test("one that is given up harms no other, and is not sent if it was not yet", async () => {
  const { submit, streams } = play();
  const stop = new AbortController();
  const [a, b, c] = [submit("a"), submit("b", stop.signal), submit("c")];
  stop.abort();
  await assert.rejects(b, isCode("cancelled"));
  assert.deepEqual(await Promise.all([a, c]), ["a", "c"]);
  assert.deepEqual(streams, [[["a", "c"]]]);
});

test("one that is given up on its way harms no other", async () => {
  const stop = new AbortController();
  const { submit } = play((tasks) => {
    stop.abort();
    return accepted(tasks);
  });
  const [a, b] = [submit("a"), submit("b", stop.signal)];
  await assert.rejects(b, isCode("cancelled"));
  assert.equal(await a, "a");
});

test("it is settled once the server has answered for all that was submitted", async () => {
  let answer = () => {};
  const asked = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const { submitter, submit } = play(async (tasks) => {
    await asked;
    return accepted(tasks);
  });
  const submits = Promise.all([submit("a"), submit("b")]);
  const first = await Promise.race([submitter.settled().then(() => "settled"), setImmediate("owing")]);
  answer();
  await submitter.settled();
  assert.deepEqual([first, await submits], ["owing", ["a", "b"]]);
});
