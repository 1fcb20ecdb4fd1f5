/** The client for browsers with a real server: gRPC-Web through its gateway. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Client, connect, TaskyardError } from "../src/web.js";
import { freePort, TestServer } from "./server.js";

let server: TestServer;
let client: Client;

before(async () => {
  const rest = `127.0.0.1:${await freePort()}`;
  server = await TestServer.up(rest);
  client = connect({ baseUrl: `http://${rest}`, agentId: "page" });
});

after(async () => {
  await client.close();
  await server.stop();
});

test("a page submits a task and watches it to its end", async () => {
  const { id: taskId } = await client.submit({ action: "note", params: { n: 1 } });
  const seen: string[] = [];
  for await (const event of client.watch({ taskIds: [taskId], includeCurrent: true, untilEnded: true })) {
    seen.push(`${event.kind} ${event.task.state}`);
    if (seen.length === 1) {
      await client.cancel(taskId);
    }
  }
  assert.deepEqual(seen, ["current queued", "changed cancelled"]);
  assert.deepEqual((await client.get(taskId)).params, { n: 1 });
});

test("a page attaches artifacts and reads them, and its large params are one", async () => {
  const data = Uint8Array.from({ length: 2_500_000 }, (_, n) => n % 251);
  const { id } = await client.submit({ action: "note", hold: true, params: { text: "x".repeat(300_000) } });
  await client.artifacts.attach(id, "page.png", new Blob([data], { type: "image/png" }));
  assert.equal(Buffer.compare(await client.artifacts.read(id, "page.png"), data), 0);
  assert.deepEqual(
    (await client.get(id)).artifacts.map(({ name, mediaType }) => [name, mediaType]),
    [
      ["params.json", "application/json"],
      ["page.png", "image/png"],
    ],
  );
});

test("a refusal comes with its code and reason", async () => {
  await assert.rejects(client.get("nobody"), (error: TaskyardError) => {
    assert.ok(error instanceof TaskyardError);
    assert.deepEqual([error.code, error.reason, error.status], ["not_found", "task not found", "NOT_FOUND"]);
    return true;
  });
});
