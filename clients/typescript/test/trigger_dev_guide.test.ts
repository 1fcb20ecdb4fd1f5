/** docs/use/from_trigger_dev.md: what stands under Taskyard there compiles, and does what the page says. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { connect, type Host } from "../src/index.js";
import { TestServer, until } from "./server.js";

const PACKAGE = join(import.meta.dirname, "../..");
const FOLDER = join(PACKAGE, ".build/trigger_dev");

/** The host of the page. */
async function hostOfThePage(): Promise<Host> {
  const page = await readFile(join(PACKAGE, "../../docs/use/from_trigger_dev.md"), "utf8");
  const [theirs = "", ours = "", ...others] = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) =>
    String(code),
  );
  assert.ok(theirs.startsWith("// Trigger.dev\n") && ours.startsWith("// Taskyard: post.ts\n"));
  assert.equal(others.length, 0);
  await rm(FOLDER, { recursive: true, force: true });
  await mkdir(FOLDER, { recursive: true });
  await writeFile(join(FOLDER, "post.ts"), ours);
  const compilerOptions = { rootDir: ".", outDir: "." };
  const config = { extends: "../../tsconfig.json", compilerOptions, include: ["post.ts"], exclude: [] };
  await writeFile(join(FOLDER, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(PACKAGE, "node_modules/typescript/bin/tsc");
  const done = await promisify(execFile)("node", [tsc, "--project", FOLDER]).catch(
    (error: { stdout: string }) => error,
  );
  assert.equal(done.stdout, "");
  const { host } = (await import(join(FOLDER, "post.js"))) as { host: Host };
  return host;
}

test("drafts are written once, a person is asked, and a no or a yes is what counts", async () => {
  const server = await TestServer.up();
  process.env.TASKYARD_ADDRESS = server.address;
  const client = connect({ address: server.address, agentId: "ann" });
  try {
    const host = await hostOfThePage();
    const running = host.run();
    const text = "What is known of tides. What is known of winds.";
    for (const [answer, result] of [
      ["no", "not published"],
      ["yes", text],
    ] as const) {
      const { id } = await client.submit({ action: "publish", params: { topics: ["tides", "winds"], seconds: 0.01 } });
      const asked = async () => {
        for await (const { question } of client.questions()) return question?.text;
        return undefined;
      };
      await until(async () => (await asked()) === text, "the question is open");
      await client.answer(id, "publish", answer);
      assert.equal((await client.wait(id)).result, result);
      const children = [];
      for await (const { childName } of client.list({ parentId: id })) children.push(childName);
      assert.deepEqual(children.sort(), ["draft-0", "draft-1"]);
      const said = [];
      for await (const { data } of client.output(id)) said.push(data);
      assert.deepEqual(said, [text]);
    }
    host.drain();
    await running;
  } finally {
    delete process.env.TASKYARD_ADDRESS;
    await client.close();
    await server.down();
  }
});
