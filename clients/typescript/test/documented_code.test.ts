/** The code of the README and of docs/use/from_trigger_dev.md compiles, and that of the guide does what the page says. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, test } from "node:test";
import { promisify } from "node:util";
import { connect, type Host } from "../src/index.js";
import { TestServer, until } from "./server.js";

const PACKAGE = join(import.meta.dirname, "../..");
const FOLDER = join(PACKAGE, ".build/documented");

/** What the compiler says of all of it. */
let said = "";

before(async () => {
  const [readme, guide] = await Promise.all([codeIn("README.md"), codeIn("../../docs/use/from_trigger_dev.md")]);
  assert.ok(readme.length >= 6);
  const [theirs = "", ours = "", ...others] = guide;
  assert.ok(theirs.startsWith("// Trigger.dev\n") && ours.startsWith("// Taskyard: post.ts\n"));
  assert.equal(others.length, 0);
  await rm(FOLDER, { recursive: true, force: true });
  await mkdir(FOLDER, { recursive: true });
  for (const [n, code] of readme.entries()) await writeFile(join(FOLDER, `readme-${n + 1}.ts`), code);
  await writeFile(join(FOLDER, "post.ts"), ours);
  const compilerOptions = { rootDir: ".", outDir: ".", skipLibCheck: true };
  const config = { extends: "../../tsconfig.json", compilerOptions, include: ["*"], exclude: [] };
  await writeFile(join(FOLDER, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(PACKAGE, "node_modules/typescript/bin/tsc");
  const done = await promisify(execFile)("node", [tsc, "--project", FOLDER]).catch(
    (error: { stdout: string }) => error,
  );
  said = done.stdout;
});

/** The blocks of TypeScript in a document. */
async function codeIn(document: string): Promise<string[]> {
  const text = await readFile(join(PACKAGE, document), "utf8");
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => String(code));
}

test("what stands in the README, and under Taskyard in the guide, compiles", () => {
  assert.equal(said, "");
});

test("drafts are written once, a person is asked, and a no or a yes is what counts", async () => {
  const server = await TestServer.up();
  process.env.TASKYARD_ADDRESS = server.address;
  const client = connect({ address: server.address, agentId: "ann" });
  try {
    const { host } = (await import(join(FOLDER, "post.js"))) as { host: Host };
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
