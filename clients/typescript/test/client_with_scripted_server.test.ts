/** The client with a scripted server: what its methods send, and what they make of the answers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createRouterTransport } from "@connectrpc/connect";
import { Client } from "../src/client.js";
import { BatchService } from "../src/gen/taskyard/v1/batch_pb.js";
import { type ResumeTargetTaskRequest, TargetService } from "../src/gen/taskyard/v1/target_pb.js";
import { type ResumeTaskRequest, Task_State, TaskService } from "../src/gen/taskyard/v1/task_pb.js";

test("a resume sends a new token limit if it is given one", async () => {
  const requests: ResumeTaskRequest[] = [];
  const transport = createRouterTransport(({ service }) => {
    service(TaskService, {
      resumeTask(request) {
        requests.push(request);
        return { status: Task_State.queued };
      },
    });
  });
  const client = new Client(transport);
  assert.equal(await client.resume("tsk_1"), "queued");
  assert.equal(await client.resume("tsk_1", { tokenLimit: 500 }), "queued");
  assert.deepEqual(
    requests.map(({ taskId, tokenLimit }) => [taskId, tokenLimit]),
    [
      ["tsk_1", undefined],
      ["tsk_1", 500],
    ],
  );
  for (const tokenLimit of [-1, 1.5, Number.NaN, 2 ** 32]) {
    await assert.rejects(client.resume("tsk_1", { tokenLimit }), { name: "RangeError", message: /^tokenLimit: / });
  }
  assert.equal(requests.length, 2);
});

test("a task of a target is resumed with a new token limit if it is given one", async () => {
  const requests: ResumeTargetTaskRequest[] = [];
  const transport = createRouterTransport(({ service }) => {
    service(TargetService, {
      resumeTargetTask(request) {
        requests.push(request);
        return { status: Task_State.pending };
      },
    });
  });
  const client = new Client(transport);
  assert.equal(await client.resumeTargetTask("page", "tsk_1"), "pending");
  assert.equal(await client.resumeTargetTask("page", "tsk_1", { tokenLimit: 0 }), "pending");
  assert.deepEqual(
    requests.map(({ target, taskId, tokenLimit }) => [target, taskId, tokenLimit]),
    [
      ["page", "tsk_1", undefined],
      ["page", "tsk_1", 0],
    ],
  );
  const resuming = client.resumeTargetTask("page", "tsk_1", { tokenLimit: -1 });
  await assert.rejects(resuming, { name: "RangeError", message: /^tokenLimit: / });
  assert.equal(requests.length, 2);
});

test("a refused task of a batch says when to try again", async () => {
  const transport = createRouterTransport(({ service }) => {
    service(BatchService, {
      submitBatch: () => ({
        batchId: "bat_1",
        tasks: [
          { taskId: "tsk_1", state: Task_State.queued, position: 1 },
          {
            taskId: "tsk_2",
            state: Task_State.rejected,
            error: { code: "queue_full", error: "full", retryable: true, retryAfterMs: 1_500 },
          },
        ],
      }),
    });
  });
  const batch = await new Client(transport).submitBatch([{ action: "a" }, { action: "b" }]);
  assert.deepEqual(batch.taskIds, ["tsk_1"]);
  const { error } = batch.outcomes[1]!;
  assert.deepEqual([error?.code, error?.retryAfterMs, error?.taskId], ["queue_full", 1_500, "tsk_2"]);
});
