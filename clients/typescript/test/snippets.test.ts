/** What is shown to readers compiles, and what is shown to run does. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { promisify } from "node:util";
import { TestServer } from "./server.js";

const PACKAGE = join(import.meta.dirname, "../..");
const run = promisify(execFile);

test("the snippets of the README compile", async () => {
  const folder = join(PACKAGE, ".build/readme");
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const readme = await readFile(join(PACKAGE, "README.md"), "utf8");
  const snippets = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code);
  assert.ok(snippets.length >= 6);
  for (const [n, code] of snippets.entries()) await writeFile(join(folder, `snippet-${n + 1}.ts`), String(code));
  const config = {
    extends: "../../tsconfig.json",
    compilerOptions: { noEmit: true, rootDir: "../.." },
    include: ["*"],
    exclude: [],
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  const { stdout } = await run("node", [join(PACKAGE, "node_modules/typescript/bin/tsc"), "--project", folder]).catch(
    (error: { stdout: string }) => error,
  );
  assert.equal(stdout, "");
});

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

const USES = {
  "a client that was closed": `
    const client = connect({ address, agent: "ann" });
    const { taskId } = await client.submit({ action: "nobody" });
    client.wait(taskId).catch(() => {});
    client.watch().next().catch(() => {});
    await client.stats();
    client.close();`,
  "a client that was left open, but idle": `
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
  for (const [what, code] of Object.entries(USES)) {
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
