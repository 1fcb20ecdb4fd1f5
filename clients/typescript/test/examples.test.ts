/** The examples run. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { promisify } from "node:util";
import { connect } from "../src/index.js";
import { TestServer, until } from "./server.js";

const PACKAGE = join(import.meta.dirname, "../..");
const run = promisify(execFile);

test("the examples work together", async () => {
  const server = await TestServer.up();
  const example = (name: string) => join(PACKAGE, ".build/examples", name);
  const host = spawn("node", [example("host.js"), server.address], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const left = new Promise<void>((resolve) => {
      createInterface(host.stdout).on("line", (line) => {
        if (line.includes("has left")) resolve();
      });
    });
    const { stdout } = await run("node", [example("agent.js"), server.address], { timeout: 30_000 });
    assert.match(stdout, /Hello, Ada!/);
    assert.match(stdout, /\{ done: 5 \}/);
    host.kill("SIGTERM");
    await left;
    assert.equal(await new Promise((resolve) => host.on("exit", resolve)), 0);
  } finally {
    host.kill("SIGKILL");
    await server.down();
  }
});

test("the agent program is killed while it asks, goes on, and publishes what twenty parts became", async () => {
  const server = await TestServer.up();
  const client = connect({ address: server.address });
  const program = () => spawn("node", [join(PACKAGE, ".build/examples/agent_program.js"), server.address]);
  let running = program();
  try {
    const asked = async () => {
      for await (const { taskId } of client.questions()) return taskId;
    };
    await until(async () => (await asked()) !== undefined, "the program asks");
    const id = String(await asked());
    running.kill("SIGKILL");
    await once(running, "exit");
    await client.answer(id, "publish", "yes");
    running = program();
    const printed = await text(running.stdout);
    assert.ok(printed.startsWith(`To answer it: taskyard answer ${id} publish yes\nThis is what is known of tides.`));
    assert.ok(printed.endsWith("done published 2,000,000 characters\n"), printed);
    const steps = (await client.steps(id)).map(({ kind, name }) => `${kind} ${name}`);
    assert.deepEqual(steps, ["work outline", "ends join", "ends child report", "work summary", "answer publish"]);
  } finally {
    running.kill("SIGKILL");
    await client.close();
    await server.down();
  }
});
