/** Connections by TLS, and what a client says when they fail. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { copyFileSync, renameSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { after, before, test } from "node:test";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { TaskService } from "../src/gen/taskyard/v1/task_pb.js";
import { type ConnectOptions, connect, TaskyardError } from "../src/index.js";
import { Authority, type Pair, serve } from "./certificates.js";
import { freePort } from "./server.js";

const routes = ({ service }: ConnectRouter) => service(TaskService, { getTask: ({ taskId }) => ({ taskId }) });

let [ca, clients, others]: Authority[] = [];
let servers: { address: string; close: () => void }[];

before(async () => {
  for (const name of Object.keys(process.env)) if (name.startsWith("TASKYARD_")) delete process.env[name];
  process.env.XDG_CONFIG_HOME = "/nowhere";
  [ca, clients, others] = [new Authority("ca"), new Authority("clients"), new Authority("others")];
  servers = [await serve(routes, ca.issue()), await serve(routes, ca.issue(), clients)];
});

after(() => {
  for (const each of servers) each.close();
});

async function get(options: ConnectOptions): Promise<string> {
  const client = connect({ patienceMs: 0, ...options });
  return client
    .get("tsk_1")
    .then(({ id }) => id)
    .finally(() => client.close());
}

const [ENCRYPTED, MUTUAL] = [0, 1];
const at = (n: number) => servers[n]?.address ?? "";

test("a CA encrypts the connection, by option and by environment", async () => {
  assert.equal(await get({ address: at(ENCRYPTED), ca: ca?.file ?? "", token: "secret" }), "tsk_1");
  process.env.TASKYARD_CA = ca?.file;
  try {
    assert.equal(await get({ address: `https://${at(ENCRYPTED)}` }), "tsk_1");
    assert.equal(await get({ address: at(ENCRYPTED) }), "tsk_1");
  } finally {
    delete process.env.TASKYARD_CA;
  }
});

test("a client certificate is shown to a server that demands one", async () => {
  assert.equal(await get({ address: at(MUTUAL), ca: ca?.file ?? "", ...clients?.issue() }), "tsk_1");
});

for (const [name, server, options, want] of [
  ["a server with TLS and a client without", ENCRYPTED, () => ({}), /if it demands TLS, set ca/],
  ["an authority that Node does not know", ENCRYPTED, () => ({ tls: true }), /set ca to the one that signed it/],
  [
    "another authority than the server's",
    ENCRYPTED,
    () => ({ ca: others?.file }),
    /is not signed by the CA in .*ca.pem/,
  ],
  ["no client certificate", MUTUAL, () => ({ ca: ca?.file }), /demands a client certificate/],
  [
    "a client certificate of somebody unknown",
    MUTUAL,
    () => ({ ca: ca?.file, ...others?.issue() }),
    /after the client cert/,
  ],
] as [string, number, () => ConnectOptions, RegExp][]) {
  test(`the error of a connection says what to set: ${name}`, async () => {
    const error = await get({ address: at(server), ...options() }).catch((thrown: unknown) => thrown);
    assert.ok(error instanceof TaskyardError);
    assert.equal(error.code, "unavailable");
    assert.match(error.reason, want);
    assert.ok(error.cause instanceof ConnectError && error.cause.cause instanceof Error, "the raw error is the cause");
  });
}

test("the error of a connection says what to set: a client with TLS and a server without", async () => {
  // Other servers than Node's answer in plain text; Node's says nothing, and waits.
  const server = createServer((socket) =>
    socket.on("error", () => {}).end("\0\0\x06\x04\0\0\0\0\0\0\x05\0\0@\0"),
  ).listen(0);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await assert.rejects(get({ address: `https://127.0.0.1:${port}` }), /does not speak TLS/);
  server.close();
});

test("an outage of a server with TLS is not blamed on certificates", async () => {
  const address = `127.0.0.1:${await freePort()}`;
  await assert.rejects(get({ address, ca: ca?.file ?? "" }), /ECONNREFUSED/);
});

test("replaced certificates hold for new connections", async () => {
  const [trusted, own] = [new Authority("old"), others?.issue() as Pair];
  const client = connect({ address: at(MUTUAL), ca: trusted.file, ...own, patienceMs: 0 });
  try {
    await assert.rejects(client.get("tsk_1"), { code: "unavailable" });
    const next = clients?.issue() as Pair;
    renameSync(next.cert, own.cert);
    renameSync(next.key, own.key);
    copyFileSync(ca?.file ?? "", trusted.file);
    assert.equal((await client.get("tsk_1")).id, "tsk_1");
  } finally {
    await client.close();
  }
});

test("a server that refuses credentials over TLS is not unavailable", async () => {
  const refuse = () => {
    throw new ConnectError("no", Code.Unauthenticated);
  };
  const server = await serve(({ service }) => service(TaskService, { getTask: refuse }), ca?.issue(), clients);
  const own = clients?.issue();
  await assert.rejects(get({ address: server.address, ca: ca?.file ?? "", ...own }), {
    code: "unauthenticated",
    reason: `no (tried: the client certificate ${own?.cert})`,
  });
  server.close();
});
