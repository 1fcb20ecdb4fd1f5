/** The client for browsers, over gRPC-Web with `fetch`, which Node has too. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { ErrorInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { Task_State, TaskEvent_Kind, TaskService, WatchEnd_Reason } from "../src/gen/taskyard/v1/task_pb.js";
import { type Client, connect, TaskyardError } from "../src/web.js";

let server: Server;
let client: Client;
const seen: (string | null)[] = [];

/** A server that serves only gRPC-Web, as the gateway does. */
before(async () => {
  server = createServer(
    connectNodeAdapter({
      connect: false,
      grpc: false,
      routes({ service }) {
        service(TaskService, {
          submitTask({ agentId, params }, { requestHeader }) {
            seen.push(agentId, requestHeader.get("taskyard-namespace"), requestHeader.get("authorization"));
            return { taskId: `tsk_${params?.n}`, state: Task_State.queued };
          },
          getTask() {
            const info = { desc: ErrorInfoSchema, value: { domain: "taskyard", reason: "NOT_FOUND" } };
            throw new ConnectError("task not found", Code.NotFound, undefined, [info]);
          },
          async *watchTasks() {
            const task = { taskId: "tsk_1", state: Task_State.done };
            yield { bookmark: true, cursor: "1" };
            yield { cursor: "2", events: [{ kind: TaskEvent_Kind.changed, task }] };
            yield { end: { reason: WatchEnd_Reason.tasks_ended } };
          },
        });
      },
    }),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  client = connect({ baseUrl, agentId: "ann", namespace: "blue", token: "secret" });
});

after(() => {
  client.close();
  server.closeAllConnections();
  server.close();
});

test("a browser submits a task", async () => {
  const { taskId, state } = await client.submit({ action: "echo", params: { n: 1 } });
  assert.deepEqual([taskId, state], ["tsk_1", "queued"]);
  assert.deepEqual(seen, ["ann", "blue", "Bearer secret"]);
});

test("a browser watches a task", async () => {
  const events: string[] = [];
  for await (const { kind, task } of client.watch({ taskIds: ["tsk_1"], untilEnded: true })) {
    events.push(`${kind} ${task.state}`);
  }
  assert.deepEqual(events, ["changed done"]);
});

test("a browser gets the code and the reason of an error", async () => {
  const error = await client.get("tsk_x").catch((thrown: unknown) => thrown);
  assert.ok(error instanceof TaskyardError);
  assert.deepEqual([error.code, error.reason, error.status], ["not_found", "task not found", "NOT_FOUND"]);
});

test("a gateway that cannot be reached is unavailable", async () => {
  const lonely = connect({ baseUrl: "http://127.0.0.1:1", patienceMs: 100 });
  await assert.rejects(lonely.get("tsk_x"), { code: "unavailable", retryable: true });
});
