/** Keys, predecessors, unique keys and waits for a stop: what is sent, and what becomes of the answers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { Client } from "../src/client.js";
import { BatchService, type SubmitBatchRequest } from "../src/gen/taskyard/v1/batch_pb.js";
import {
  After_Policy,
  type CancelTaskRequest,
  Stopping_Outcome,
  Task_State,
  TaskSchema,
  TaskService,
  Parent_OnEnd,
  Unique_Conflict,
  Unique_While,
} from "../src/gen/taskyard/v1/task_pb.js";
import { connect, type ListOptions, type NewSingleTask } from "../src/index.js";
import { submitRequest, taskFrom } from "../src/tasks.js";
import { TestServer } from "./server.js";

const task: NewSingleTask = {
  action: "report",
  concurrencyKeys: ["site:a"],
  after: ["tsk_1"],
  afterPolicy: "ended",
  uniqueKey: "k",
  uniqueWhile: "queued",
  onConflict: "replaceQueued",
  parentId: "tsk_0",
  onParentEnd: "cancel",
  onTargetFailure: "continue",
};

test("a task is sent with its keys and policies", () => {
  const request = submitRequest({ ...task, inputs: { page: "tsk_2" } }, "ann");
  assert.deepEqual([request.concurrencyKeys, request.after, request.uniqueKey], [["site:a"], ["tsk_1"], "k"]);
  assert.deepEqual(request.inputs, { page: "tsk_2" });
  assert.deepEqual([request.afterPolicy, request.uniqueWhile], [After_Policy.ended, Unique_While.queued]);
  assert.deepEqual([request.onConflict, request.onTargetFailure], [Unique_Conflict.replaceQueued, "continue"]);
  assert.equal(request.onParentEnd, Parent_OnEnd.cancel);
  assert.equal(submitRequest({ action: "report" }, "ann").afterPolicy, undefined);
});

test("a word that a field does not take is refused", () => {
  const afterPolicy = "always" as "ended";
  assert.throws(() => submitRequest({ action: "report", afterPolicy }, "ann"), {
    name: "TypeError",
    message: 'afterPolicy: is one of success, ended, not "always"',
  });
  for (const places of [{ afterIndexes: [0] }, { inputIndexes: { page: 0 } }]) {
    assert.throws(() => submitRequest({ action: "report", ...places }, "ann"), /Indexes: is for the tasks of a batch/);
  }
});

test("a task of a batch comes after others of it by their places", async () => {
  const requests: SubmitBatchRequest[] = [];
  const transport = createRouterTransport(({ service }) => {
    service(BatchService, {
      submitBatch(request) {
        requests.push(request);
        return { tasks: [{ taskId: "tsk_1", existing: true }, { taskId: "tsk_2" }] };
      },
    });
  });
  const second = { action: "b", afterIndexes: [0], inputIndexes: { page: 0 } };
  const batch = await new Client(transport).submitBatch([{ action: "a" }, second]);
  const { afterIndexes, inputIndexes } = requests[0]?.tasks[1] ?? {};
  assert.deepEqual([afterIndexes, inputIndexes], [[0], { page: 0 }]);
  assert.deepEqual(
    batch.outcomes.map(({ existing }) => existing),
    [true, false],
  );
});

test("a task shows its words, and none that were not set", () => {
  const shown = taskFrom(create(TaskSchema, { afterPolicy: After_Policy.success, uniqueWhile: Unique_While.live }));
  assert.deepEqual([shown.afterPolicy, shown.uniqueWhile, shown.onTargetFailure], ["success", "live", undefined]);
  assert.equal(taskFrom(create(TaskSchema, { onParentEnd: Parent_OnEnd.cancel })).onParentEnd, "cancel");
  const plain = taskFrom(create(TaskSchema, {}));
  assert.deepEqual(["afterPolicy" in plain, "onParentEnd" in plain, plain.concurrencyKeys], [false, false, []]);
});

test("a cancel waits for the host, and does not know what a lost answer said", async () => {
  const requests: CancelTaskRequest[] = [];
  const transport = createRouterTransport(({ service }) => {
    service(TaskService, {
      cancelTask(request) {
        requests.push(request);
        if (request.taskId === "tsk_1") return { status: Task_State.cancelled, stopping: Stopping_Outcome.released };
        const isFirst = requests.filter(({ taskId }) => taskId === "tsk_2").length === 1;
        throw new ConnectError("no", isFirst ? Code.Unavailable : Code.FailedPrecondition);
      },
      getTask: () => ({ state: Task_State.cancelled }),
    });
  });
  const client = new Client(transport, { logger: { info() {}, warn() {}, error() {} } });
  assert.equal(await client.cancelAndWait("tsk_1", 1_500), "released");
  assert.equal(requests[0]?.waitMs, 1_500);
  assert.equal(await client.cancelAndWait("tsk_2", 10), "waiting");
  await assert.rejects(client.cancelAndWait("tsk_1", -1), { name: "RangeError", message: /^waitMs: / });
});

test("what had the unique key before is not cancelled", async () => {
  const cancelled: string[] = [];
  const transport = createRouterTransport(({ service }) => {
    service(TaskService, {
      submitTask: () => ({ taskId: "tsk_1", existing: true }),
      waitTask: async (_, { signal }) => {
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        return {};
      },
      cancelTask({ taskId }) {
        cancelled.push(taskId);
        return {};
      },
    });
  });
  const client = new Client(transport);
  await assert.rejects(client.run({ action: "a", uniqueKey: "k" }, { signal: AbortSignal.timeout(50) }));
  assert.deepEqual(cancelled, []);
});

test("a server shows and lists tasks by what they were given", async () => {
  const server = await TestServer.up();
  const client = connect({ address: server.address, agentId: "ann" });
  try {
    const labels = { site: "shop", 'a "b", c=d': "e\\f" };
    const first = await client.submit({ action: "fetch", labels });
    const { id } = await client.submit({ ...task, after: [first.id], target: "page" });
    const shown = await client.get(id);
    assert.deepEqual([shown.concurrencyKeys, shown.after, shown.afterPolicy], [["site:a"], [first.id], "ended"]);
    assert.deepEqual([shown.uniqueKey, shown.uniqueWhile, shown.onTargetFailure], ["k", "queued", "continue"]);
    const listed = async (options: ListOptions) => {
      const ids: string[] = [];
      for await (const each of client.list(options)) ids.push(each.id);
      return ids;
    };
    assert.deepEqual(await listed({ labels: "site in (shop,docs)" }), [first.id]);
    assert.deepEqual(await listed({ labels }), [first.id]);
    assert.deepEqual(await listed({ concurrencyKey: "site:a" }), [id]);
    assert.deepEqual(await listed({ action: "fetch" }), [first.id]);
  } finally {
    client.close();
    await server.down();
  }
});
