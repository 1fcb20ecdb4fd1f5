/** Clients and hosts do not keep a process alive once they are closed, drained or idle. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { TestServer } from "./server.js";

const PACKAGE = join(import.meta.dirname, "../..");
const run = promisify(execFile);

/** Programs by what they did before their last line. */
const PROGRAMS = {
  "a client that was closed": `
    const client = connect({ address, agent: "ann" });
    const { taskId } = await client.submit({ action: "nobody" });
    client.wait(taskId).catch(() => {});
    client.watch().next().catch(() => {});
    await client.stats();
    client.close();`,
  "an idle client that was not closed": `
    await connect({ address, agent: "ann" }).stats();`,
  "a host that has drained": `
    const host = new Host({ address, hostId: "short" }).action("work", () => "done");
    const running = host.run();
    const client = connect({ address, agent: "ann" });
    await client.run({ action: "work" });
    client.close();
    host.drain();
    await running;`,
};

test("the process can exit", async (t) => {
  const server = await TestServer.up();
  for (const [what, code] of Object.entries(PROGRAMS)) {
    await t.test(`after ${what}`, async () => {
      const program = `
        import { connect, Host } from "@taskyard/client";
        const address = process.argv[1];
        ${code}
        console.log("through");`;
      const args = ["--input-type=module", "--eval", program, server.address];
      const began = Date.now();
      const { stdout, stderr } = await run("node", args, { cwd: PACKAGE, timeout: 10_000 });
      assert.deepEqual([stdout, stderr], ["through\n", ""]);
      assert.ok(Date.now() - began < 5_000);
    });
  }
  await server.down();
});
