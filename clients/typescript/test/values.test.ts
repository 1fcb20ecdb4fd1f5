/** Values and tasks, converted to the wire and back. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Task_State, TaskSchema } from "../src/gen/taskyard/v1/task_pb.js";
import { submitRequest, taskFrom } from "../src/tasks.js";
import { jsonOf, plainJson, timestampFrom, valueFrom } from "../src/values.js";

test("JSON values come back unchanged", () => {
  for (const value of [null, true, 1.5, "grüß", [1, [null]], { a: { b: [] } }]) {
    assert.deepEqual(jsonOf(valueFrom(value)), value);
  }
});

test("values are converted as JSON.stringify converts them", () => {
  assert.deepEqual(plainJson({ at: new Date(0), gone: undefined }), { at: "1970-01-01T00:00:00.000Z" });
});

test("what is not JSON, nests too deep or contains itself is refused with a TypeError", () => {
  const nested = (levels: number) => JSON.parse("[".repeat(levels) + "]".repeat(levels)) as unknown;
  const cyclic: unknown[] = [];
  cyclic.push({ cyclic });
  const tooDeep = [nested(31), nested(100_000), cyclic];
  plainJson(nested(30));
  for (const value of [Number.NaN, { a: Number.POSITIVE_INFINITY }, 2n ** 53n + 1n, () => 1, undefined, ...tooDeep]) {
    assert.throws(() => plainJson(value), TypeError);
  }
  assert.throws(() => submitRequest({ action: "a", params: [] }, "me"), TypeError);
});

test("milliseconds count from now, a date is absolute", () => {
  const before = Date.now();
  const span = Number(timestampFrom(60_000)?.seconds) * 1000;
  assert.ok(span >= before + 58_000 && span <= Date.now() + 60_000);
  assert.deepEqual(timestampFrom(new Date(5_000)), timestampFromMs(5_000));
});

test("a task without an idempotency key gets a new one each time", () => {
  const keys = [1, 2].map(() => submitRequest({ action: "a" }, "me").idempotencyKey);
  assert.notEqual(keys[0], keys[1]);
  assert.match(keys[0] ?? "", /^[0-9a-f]{32}$/);
  assert.equal(submitRequest({ action: "a", idempotencyKey: "mine" }, "me").idempotencyKey, "mine");
});

test("the agent of a task takes precedence over the client's", () => {
  assert.equal(submitRequest({ action: "a" }, "me").agentId, "me");
  assert.equal(submitRequest({ action: "a", agentId: "you" }, "me").agentId, "you");
});

test("optional fields that are not set are absent, all others are present", () => {
  const bare = taskFrom(create(TaskSchema, { taskId: "t", agentId: "me", action: "a", state: Task_State.queued }));
  assert.deepEqual(bare, {
    id: "t",
    agentId: "me",
    agent: "me",
    action: "a",
    state: "queued",
    createdAt: new Date(0),
    priority: 0,
    params: {},
    requires: [],
    labels: {},
    hold: false,
    attempts: [],
    artifacts: [],
    concurrencyKeys: [],
    after: [],
    inputs: {},
    run: 1,
  });
});

test("times are dates, and parts are plain objects", () => {
  const at = timestampFromMs(1_000);
  const task = taskFrom(
    create(TaskSchema, {
      completedAt: at,
      attempts: [{ number: 1, endedAt: at, code: "x" }],
      progress: { fraction: 0.5, reportedAt: at },
      retryPolicy: { maxAttempts: 3 },
      result: valueFrom(null),
    }),
  );
  const date = new Date(1_000);
  assert.deepEqual(task.completedAt, date);
  assert.deepEqual(task.attempts, [{ number: 1, endedAt: date, code: "x" }]);
  assert.deepEqual(task.progress, { fraction: 0.5, reportedAt: date });
  assert.deepEqual(task.retryPolicy, { maxAttempts: 3, nonRetryableCodes: [] });
  assert.equal(task.result, null);
});
