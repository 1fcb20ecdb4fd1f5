/** What the end of a handler tells the server, and what a handler learns, with a scripted server. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Cancellation_Reason, type Report } from "../src/gen/taskyard/v1/runtime_host_pb.js";
import type { TaskSchema } from "../src/gen/taskyard/v1/task_pb.js";
import { ActionFailed, currentTask, Host, NotRetryable, Output, Payload, Retry, TaskStopped } from "../src/index.js";
import type { Handler } from "../src/running_task.js";
import { ScriptedServer } from "./scripted_server.js";

type TaskInit = Exclude<MessageInitShape<typeof TaskSchema>, { $typeName: string; $unknown?: unknown }>;

const quiet = { info() {}, warn() {}, error() {} };
const BEYOND = 2n ** 53n + 1n;
let server: ScriptedServer;
let host: Host;
let running: Promise<void> | undefined;

beforeEach(async () => {
  server = await ScriptedServer.up();
  host = new Host({ address: server.address, hostId: "host", slots: 1, logger: quiet });
});

afterEach(async () => {
  host.drain();
  server.release();
  await running;
  server.close();
});

/** Starts the host, and hands it one task of the action `work`. */
async function hand(handler: Handler, task: TaskInit = {}) {
  host.action("work", handler);
  running = host.run();
  const stream = await server.nextStream();
  stream.welcome();
  const lease = { taskId: "a", fencingToken: 1, leaseSecs: 60 };
  const assignment = { lease, task: { taskId: "a", action: "work", ...task } };
  stream.send({ case: "assignments", value: { assignments: [assignment] } as never });
  return stream;
}

/** Runs a handler once. Returns its last progress and its outcome. */
async function runOnce(handler: Handler, task: TaskInit = {}) {
  const stream = await hand(handler, task);
  let progress: Extract<Report["event"], { case: "progress" }>["value"] | undefined;
  for (;;) {
    for (const { event } of (await stream.next("reports")).reports) {
      if (event.case === "progress") progress = event.value;
      else if (event.case === "completed") return { progress, completed: event.value, failed: undefined };
      else if (event.case === "failed") return { progress, completed: undefined, failed: event.value };
    }
    stream.take();
  }
}

const failing = (error: unknown) =>
  runOnce(() => {
    throw error;
  }).then(({ failed }) => failed);

test("an error shows its stack and that of its causes, bounded", async () => {
  const failed = await failing(new RangeError("outer", { cause: new Error("inner") }));
  assert.equal(failed?.error, "RangeError: outer");
  assert.match(
    failed?.traceback ?? "",
    /^RangeError: outer\n +at .*failures\.test[\s\S]*Caused by: Error: inner\n +at /,
  );
});

test("of a long stack the end is kept", async () => {
  const failed = await failing(new Error("x".repeat(20_000), { cause: new Error("inner") }));
  assert.equal(failed?.traceback?.length, 8_000);
  assert.match(failed.traceback, /Caused by: Error: inner/);
});

test("what is no error has no traceback", async () => {
  const failed = await failing("a text");
  assert.deepEqual([failed?.error, failed?.traceback], ["a text", undefined]);
});

for (const [what, error, expected] of [
  ["later", new Retry("not yet", { afterMs: 1_500.5, code: "busy" }), ["not yet", "busy", undefined, 1_501]],
  ["at once", new Retry(undefined, { afterMs: 0 }), ["to be tried again", undefined, undefined, 0]],
  ["by the policy", new Retry("not yet"), ["not yet", undefined, undefined, undefined]],
  ["never", new NotRetryable("no", { code: "gone" }), ["no", "gone", false, undefined]],
  ["by its own failure", new ActionFailed("no", { retryAfterMs: 5 }), ["no", undefined, undefined, 5]],
] as const) {
  test(`a handler says when its task is tried again: ${what}`, async () => {
    const failed = await failing(error);
    assert.deepEqual([failed?.error, failed?.code, failed?.retryable, failed?.retryAfterMs], expected);
  });
}

test("a time that no server takes is refused where it is made", () => {
  for (const afterMs of [-1, Number.NaN, 86_400_001]) {
    assert.throws(() => new Retry("no", { afterMs }), { name: "RangeError", message: /^retryAfterMs: / });
  }
});

test("an attempt begins with what the last one reported, which stays until it reports others", async () => {
  const details = { page: 3 };
  let seen: unknown;
  const { progress } = await runOnce(
    (task) => {
      seen = task.checkpoint;
      task.progress({ fraction: 0.5 });
    },
    { progress: { details } },
  );
  assert.deepEqual([seen, progress?.fraction, progress?.details], [details, 0.5, details]);
});

test("details that are reported are the next checkpoint", async () => {
  const { progress, completed } = await runOnce((task) => {
    assert.deepEqual(task.checkpoint, {});
    assert.throws(() => task.progress({ details: { n: BEYOND } }), { message: /^details\.n: / });
    task.progress({ details: { page: 4 } });
    task.progress({ message: "on" });
  });
  assert.ok(completed);
  assert.deepEqual([progress?.message, progress?.details], ["on", { page: 4 }]);
});

test("an output keeps its digits, a plain result with too many fails the task for good", async () => {
  const { completed } = await runOnce(() => new Output({ id: BEYOND }));
  assert.equal(new TextDecoder().decode(completed?.output?.data), '{"id":9007199254740993}');
  assert.equal(completed?.result, undefined);
});

test("a plain result with an integer of too many digits fails the task for good", async () => {
  const { failed } = await runOnce(() => ({ id: BEYOND }));
  assert.deepEqual([failed?.code, failed?.retryable], ["bad_result", false]);
  assert.match(failed?.error ?? "", /result\.id: 9007199254740993/);
});

test("a payload is sent as it is", async () => {
  const { completed } = await runOnce(() => new Payload(new Uint8Array([1]), "own"));
  assert.deepEqual([[...(completed?.output?.data ?? [])], completed?.output?.encoding], [[1], "own"]);
});

test("an input keeps its digits", async () => {
  let seen: unknown;
  const data = new TextEncoder().encode('{"id":9007199254740993}');
  const see = (task: { input: unknown }) => {
    seen = task.input;
  };
  await runOnce(see, { input: { data } });
  assert.deepEqual(seen, { id: BEYOND });
});

test("an input of a codec fails the task for good", async () => {
  const { failed } = await runOnce((task) => void task.input, { input: { data: new Uint8Array(1), encoding: "own" } });
  assert.deepEqual([failed?.code, failed?.retryable], ["bad_input", false]);
});

test("the task of a handler is known in what it calls and awaits", async () => {
  const seen: unknown[] = [];
  await runOnce(async () => {
    seen.push(currentTask()?.id);
    await new Promise((resolve) => setTimeout(resolve, 1));
    seen.push(currentTask()?.id);
  });
  assert.deepEqual([...seen, currentTask()], ["a", "a", undefined]);
});

test("a handler is told that its run timeout is over", async () => {
  let begin = () => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const stopped = new Promise<unknown>((resolve) => {
    void hand(
      (task) =>
        new Promise<void>((end) => {
          assert.equal(task.task.runTimeoutMs, 1_500);
          begin();
          task.signal.addEventListener("abort", () => {
            resolve(task.signal.reason);
            end();
          });
        }),
      { runTimeoutMs: 1_500 },
    ).then(async (stream) => {
      await stream.next("reports");
      stream.take();
      await begun;
      const reason = Cancellation_Reason.timed_out;
      const cancellation = { taskId: "a", fencingToken: 1, reason, message: "run timeout of 1500 ms exceeded" };
      stream.send({ case: "cancellations", value: { cancellations: [cancellation] } as never });
    });
  });
  const reason = await stopped;
  assert.ok(reason instanceof TaskStopped);
  assert.deepEqual(
    [reason.name, reason.reason, reason.message],
    ["AbortError", "timed_out", "run timeout of 1500 ms exceeded"],
  );
});
