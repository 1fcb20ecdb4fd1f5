/** Clients and hosts do not keep a process alive once they are closed, drained or idle. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createConnection } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { TestServer } from "./server.js";

const PACKAGE = join(import.meta.dirname, "../..");

/** Programs by what they did before their last line. */
const PROGRAMS = {
  "a client that was closed": `
    const client = connect({ address, agentId: "ann" });
    const { id: taskId } = await client.submit({ action: "nobody" });
    client.wait(taskId).catch(() => {});
    client.watch().next().catch(() => {});
    await client.stats();
    client.close();`,
  "an idle client that was not closed": `
    await connect({ address, agentId: "ann" }).stats();`,
  "a client that was closed while it connected to a server that does not answer": `
    const client = connect({ address: mute });
    client.stats().catch(() => {});
    await new Promise(setImmediate);
    client.close();`,
  "idle clients of two servers of which one does not answer": `
    for (let n = 0; n < 8; n++) await connect({ address: [mute, address] }).stats();`,
  "a host that has drained": `
    const host = new Host({ address, hostId: "short" }).action("work", () => "done");
    const running = host.run();
    const client = connect({ address, agentId: "ann" });
    await client.run({ action: "work" });
    client.close();
    host.drain();
    await running;`,
  "two hosts that take no signals unless they are asked to": `
    const listeners = () => process.listenerCount("SIGTERM");
    const hosts = [1, 2].map((n) => new Host({ address, hostId: "quiet-" + n }).action("work", () => {}));
    const runs = hosts.map((host) => host.run());
    if (listeners()) console.log("signals were taken");
    for (const host of hosts) host.drain();
    await Promise.all(runs);`,
  "two hosts that were asked to drain at a signal": `
    process.on("SIGTERM", () => {});
    const hosts = [1, 2].map((n) => {
      return new Host({ address, hostId: "asked-" + n, handleSignals: true }).action("work", () => {});
    });
    const runs = hosts.map((host) => host.run());
    process.kill(process.pid, "SIGTERM");
    await Promise.all(runs);
    if (process.listenerCount("SIGTERM") !== 1) console.log("the program's own listener is not alone again");`,
};

/** The address of a server that has stopped, and has no room for connections: what connects to it waits. */
async function muteServer(): Promise<[string, () => void]> {
  const program = `
    const server = require("node:net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 });
    server.on("listening", () => console.log(server.address().port));`;
  const child = spawn("node", ["--eval", program], { stdio: ["ignore", "pipe", "inherit"] });
  const [port] = (await once(child.stdout, "data")) as [Buffer];
  child.kill("SIGSTOP");
  const waiting = Array.from({ length: 8 }, () => createConnection(Number(port), "127.0.0.1").on("error", () => {}));
  const end = () => {
    for (const socket of waiting) socket.destroy();
    child.kill("SIGKILL");
  };
  return [`127.0.0.1:${Number(port)}`, end];
}

test("the process can exit", async (t) => {
  const server = await TestServer.up();
  const [mute, unmute] = await muteServer();
  for (const [what, lines] of Object.entries(PROGRAMS)) {
    await t.test(`after ${what}`, async () => {
      const program = `
        import { connect, Host } from "@taskyard/client";
        const [address, mute] = process.argv.slice(1);
        ${lines}
        console.log("through");`;
      const args = ["--input-type=module", "--eval", program, server.address, mute];
      const child = spawn("node", args, { cwd: PACKAGE, stdio: ["ignore", "pipe", "pipe"] });
      const output: string[] = [];
      let finishedAt = Number.NaN;
      for (const stream of [child.stdout, child.stderr]) {
        stream.on("data", (data: Buffer) => {
          output.push(String(data));
          finishedAt = performance.now();
        });
      }
      // A process that does not exit is ended, and then has no exit code.
      const timer = setTimeout(() => child.kill("SIGKILL"), 45_000);
      const [code] = (await once(child, "close")) as [number | null];
      clearTimeout(timer);
      assert.deepEqual([output.join(""), code], ["through\n", 0]);
      assert.ok(performance.now() - finishedAt < 5_000);
    });
  }
  unmute();
  await server.down();
});
