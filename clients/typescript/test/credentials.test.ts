/** Where credentials come from, to whom they are not sent, and what is said when they are refused. */
import assert from "node:assert/strict";
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { type Address, callerOf } from "../src/caller.js";
import { RuntimeHostService } from "../src/gen/taskyard/v1/runtime_host_pb.js";
import { TaskEvent_Kind, TaskService, WatchEnd_Reason } from "../src/gen/taskyard/v1/task_pb.js";
import { connect, Host } from "../src/index.js";
import { connect as connectWeb } from "../src/web.js";
import { serve, temporaryFolder } from "./certificates.js";

const SECRET = "tyd_0123456789";
let folder: string;

beforeEach(() => {
  for (const name of Object.keys(process.env)) if (name.startsWith("TASKYARD_")) delete process.env[name];
  folder = temporaryFolder();
  process.env.XDG_CONFIG_HOME = folder;
});

afterEach(() => {
  for (const name of Object.keys(process.env)) if (name.startsWith("TASKYARD_")) delete process.env[name];
});

/** Writes a file of the folder, and returns its path. */
function write(name: string, text: string): string {
  const path = join(folder, name);
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, text);
  return path;
}

const configure = (text: string) => write("taskyard/config.toml", text);
const urlsOf = (options: Address) => callerOf(options).servers.map(({ url, path }) => path ?? url.origin);
const tokenOf = (options: Address) => callerOf(options).credentials.token();

test("options come before the environment, and that before its profile", () => {
  configure('[profiles.blue]\naddress = "127.0.0.1:1"\nnamespace = "blue"\ntoken = "of-profile"');
  const caller = callerOf({ profile: "blue" });
  assert.deepEqual([urlsOf({ profile: "blue" })[0], caller.namespace], ["http://127.0.0.1:1", "blue"]);
  assert.equal(caller.credentials.token(), "of-profile");
  process.env.TASKYARD_PROFILE = "blue";
  assert.deepEqual([tokenOf({ address: "127.0.0.1:2" }), urlsOf({})[0]], ["of-profile", "http://127.0.0.1:1"]);
  process.env.TASKYARD_TOKEN = "of-environment";
  assert.equal(tokenOf({}), "of-environment");
  assert.equal(tokenOf({ tokenFile: write("token", "of-file\n") }), "of-file");
  assert.equal(tokenOf({ token: "of-option" }), "of-option");
  assert.equal(tokenOf({ token: "" }), undefined);
  // The token of the environment is not for the server of a profile that was asked for.
  assert.equal(tokenOf({ profile: "blue" }), "of-profile");
});

test("the default profile counts only where no address is given", () => {
  configure('default_profile = "blue"\n[profiles.blue]\naddress = "127.0.0.1:1"\ntoken = "of-profile"');
  assert.equal(tokenOf({}), "of-profile");
  assert.equal(tokenOf({ address: "127.0.0.1:1" }), undefined);
});

test("address and namespace come from the environment where no option names them", () => {
  configure('default_profile = "red"\n[profiles.red]\ntoken = "of-red"\n[profiles.blue]\nnamespace = "blue"');
  process.env.TASKYARD_ADDRESS = "127.0.0.1:1,127.0.0.1:2";
  process.env.TASKYARD_NAMESPACE = "green";
  const placeOf = (options: Address) => [...urlsOf(options), callerOf(options).namespace, tokenOf(options)];
  const both = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
  // The default profile is for its own server.
  assert.deepEqual(placeOf({}), [...both, "green", undefined]);
  assert.deepEqual(placeOf({ address: "127.0.0.1:3" }), ["http://127.0.0.1:3", "green", undefined]);
  assert.deepEqual(placeOf({ namespace: "red" }), [...both, "red", undefined]);
  assert.deepEqual(placeOf({ profile: "blue" }), [...both, "blue", undefined]);
});

test("paths of a profile begin at its folder", () => {
  configure('[profiles.blue]\ntoken_file = "token"');
  write("taskyard/token", "of-file");
  assert.equal(tokenOf({ profile: "blue" }), "of-file");
});

test("mistakes in credentials are named without the secret", () => {
  configure(
    `[profiles.both]\ntoken = "${SECRET}"\ntoken_file = "token"\n[profiles.number]\ntoken = 5\n[profiles.typo]\ntokens = "${SECRET}"`,
  );
  const empty = write("empty", "\n");
  for (const [options, want] of [
    [{ profile: "red" }, /\[profiles\.red\]/],
    [{ profile: "__proto__" }, /unknown/],
    [{ profile: "both" }, /token_file of profile both: set only one/],
    [{ profile: "number" }, /profiles\.number\.token: must be a text/],
    [{ profile: "typo" }, /profiles\.typo\.tokens: unknown key/],
    [{ token: SECRET, tokenFile: empty }, /set only one of them/],
    [{ tokenFile: empty }, /is empty/],
    [{ tokenFile: write("lines", `${SECRET}\n${SECRET}\n`) }, /printable ASCII/],
    [{ tokenFile: "/nowhere/token" }, /ENOENT/],
    [{ tokenFile: SECRET }, /is a token/],
    [{ token: `${SECRET}\n` }, /printable ASCII/],
    [{ ca: "/nowhere" }, /^TypeError: ca: ENOENT/],
    [{ cert: "cert.pem" }, /cert and key: one needs the other/],
    [{ cert: "cert.pem", key: `-----BEGIN PRIVATE KEY-----\n${SECRET}` }, /is a text in PEM/],
  ] as [Address, RegExp][]) {
    assert.throws(
      () => callerOf(options),
      (error) => error instanceof TypeError && want.test(String(error)) && !String(error.stack).includes(SECRET),
    );
  }
  for (const broken of [`token = ${SECRET}`, `[profiles.red]\n"${SECRET}`, `[profiles.red]\ntoken = ["${SECRET}"]`]) {
    configure(broken);
    assert.throws(
      () => callerOf({ profile: "red" }),
      (error) => error instanceof TypeError && /profile/.test(String(error)) && !String(error.stack).includes(SECRET),
    );
  }
});

test("a token is not sent in the clear to another machine", async () => {
  for (const address of ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "LOCALHOST:1", "https://10.0.0.1"]) {
    assert.equal(tokenOf({ address, token: "secret" }), "secret");
  }
  const refusal = { name: "TypeError", message: /without encryption/ };
  for (const host of ["taskyard.example", "10.0.0.1", "0.0.0.0", "localhost.example", "127.0.0.1.example", "[::2]"]) {
    assert.throws(() => connect({ address: `${host}:1`, token: "secret" }), refusal);
    assert.throws(() => new Host({ address: `${host}:1`, hostId: "h", token: "secret" }), refusal);
    assert.throws(() => connectWeb({ baseUrl: `http://${host}`, token: "secret" }), refusal);
    await connectWeb({ baseUrl: `https://${host}`, token: "secret" }).close();
    assert.equal(tokenOf({ address: `${host}:1`, token: "secret", insecure: true }), "secret");
    assert.equal(tokenOf({ address: `${host}:1` }), undefined);
  }
  process.env.TASKYARD_TOKEN = "secret";
  assert.throws(() => connect({ address: "taskyard.example:1" }), refusal);
});

test("https:// is TLS, at the port 443 unless another is given", () => {
  const urls = ["https://a.example", "https://a.example/", "https://a.example:80", "https://[::2]"];
  const found = urlsOf({ address: urls });
  assert.deepEqual(found, ["https://a.example", "https://a.example", "https://a.example:80", "https://[::2]"]);
  for (const address of ["https://", "https://a/b", "https://a@b", "https://a?b", "http://a:1", "ftp://a:1"]) {
    assert.throws(() => callerOf({ address }), { name: "TypeError", message: /^address: / });
  }
});

/** A server that takes one token, whose refusals quote what they got. */
class Picky {
  token = "first";
  seen: string[] = [];
  watches = 0;
  hosts = 0;

  check(header: Headers): void {
    const got = header.get("authorization") ?? "";
    this.seen.push(got);
    if (got !== `Bearer ${this.token}`) throw new ConnectError(`not valid: ${got}`, Code.Unauthenticated);
  }

  /** The next token, for which the streams of the last one end. */
  expire(file: string): never {
    this.token = "second";
    writeFileSync(file, "second");
    throw new ConnectError("expired", Code.Unauthenticated);
  }

  routes(file: string) {
    return ({ service }: ConnectRouter) => {
      service(TaskService, {
        getTask: ({ taskId }, { requestHeader }) => {
          this.check(requestHeader);
          return { taskId };
        },
        watchTasks: async function* (this: Picky, _: unknown, { requestHeader }: { requestHeader: Headers }) {
          this.watches += 1;
          this.check(requestHeader);
          yield { cursor: "1", events: [{ kind: TaskEvent_Kind.submitted, task: { taskId: "a" } }] };
          if (this.watches === 1) this.expire(file);
          yield { end: { reason: WatchEnd_Reason.tasks_ended } };
        }.bind(this),
      });
      service(RuntimeHostService, {
        connect: async function* (this: Picky, requests: AsyncIterable<unknown>, context: { requestHeader: Headers }) {
          this.hosts += 1;
          this.check(context.requestHeader);
          yield { message: { case: "welcome" as const, value: { leaseSecs: 60, heartbeatIntervalMs: 60_000 } } };
          if (this.hosts === 1) this.expire(file);
          for await (const each of requests) void each;
        }.bind(this),
        drainHost: () => ({}),
        deregisterHost: () => ({}),
      });
    };
  }
}

test("a refusal says which credentials were tried, and not what they hold", async () => {
  configure(`[profiles.blue]\ntoken = "${SECRET}"`);
  const file = write("token", SECRET);
  const server = await serve(new Picky().routes(file));
  for (const [options, tried] of [
    [{}, "nothing: no token and no client certificate is set"],
    [{ token: SECRET }, "the token from the option token"],
    [{ tokenFile: file }, `the token file ${file} from the option tokenFile`],
    [{ profile: "blue" }, "the token of profile blue"],
  ] as [Address, string][]) {
    const client = connect({ address: server.address, ...options });
    const watch = client.watch({});
    for (const call of [() => client.get("t"), () => watch.next(), () => client.stubs.tasks.getTask({ taskId: "t" })]) {
      const error: unknown = await (call() as Promise<unknown>).catch((thrown: unknown) => thrown);
      assert.match(String(error), /^TaskyardError: unauthenticated: /);
      assert.ok(String(error).endsWith(`(tried: ${tried})`), String(error));
      assert.ok(!JSON.stringify([error, String((error as Error).cause)]).includes(SECRET));
    }
    await client.close();
  }
  process.env.TASKYARD_TOKEN = SECRET;
  const client = connect({ address: server.address });
  await assert.rejects(client.get("t"), /tried: the token from TASKYARD_TOKEN\)$/);
  await client.close();
  server.close();
});

test("a token file is read anew when it changes", async () => {
  const file = write("token", "first\n");
  const picky = new Picky();
  const server = await serve(picky.routes(file));
  const client = connect({ address: server.address, tokenFile: file });
  await client.get("t");
  writeFileSync(file, "again");
  picky.token = "again";
  await client.get("t");
  renameSync(write("new", "third"), file);
  picky.token = "third";
  await client.get("t");
  // A file is replaced in steps.
  rmSync(file);
  await client.get("t");
  await client.close();
  server.close();
});

test("a watch and a host go on once with the token read anew", async () => {
  const file = write("token", "first");
  const picky = new Picky();
  const server = await serve(picky.routes(file));
  const client = connect({ address: server.address, tokenFile: file });
  const tasks: string[] = [];
  for await (const { task } of client.watch({})) tasks.push(task.id);
  assert.deepEqual([tasks, picky.watches], [["a", "a"], 2]);
  picky.token = "first";
  writeFileSync(file, "first");
  const logger = { info: () => {}, warn: () => {}, error: () => {} };
  const host = new Host({ address: server.address, hostId: "h", tokenFile: file, logger }).anyAction(() => {});
  const left = host.run();
  while (picky.hosts < 2) await new Promise(setImmediate);
  host.drain();
  await left;
  await client.close();
  server.close();
});

test("a watch and a host end when the token read anew is refused too", async () => {
  const file = write("token", "revoked");
  const picky = new Picky();
  const server = await serve(picky.routes(file));
  const logger = { info: () => {}, warn: () => {}, error: () => {} };
  for (const [options, tries] of [
    [{ tokenFile: file }, 2],
    [{ token: "revoked" }, 1],
  ] as const) {
    [picky.watches, picky.hosts] = [0, 0];
    const client = connect({ address: server.address, ...options });
    await assert.rejects(client.watch({}).next(), { code: "unauthenticated" });
    await client.close();
    const host = new Host({ address: server.address, hostId: "h", logger, ...options }).anyAction(() => {});
    await assert.rejects(host.run(), { code: "unauthenticated" });
    assert.deepEqual([picky.watches, picky.hosts], [tries, tries]);
  }
  server.close();
});
