/** The HTTP/2 connection, with a plain HTTP/2 server and short times. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, test } from "node:test";
import { Connection } from "../src/connection.js";
import { CuttableProxy, until } from "./server.js";

const KEEPALIVE = { intervalMs: 30, answerMs: 200 };

let server: Http2Server;
let proxy: CuttableProxy;
let connection: Connection;
let sessions: ServerHttp2Session[];
let streams: ServerHttp2Stream[];
let pings: number;

beforeEach(async () => {
  sessions = [];
  streams = [];
  pings = 0;
  server = createServer();
  server.on("session", (session) => {
    sessions.push(session);
    session.on("ping", () => {
      pings += 1;
    });
    session.on("error", () => {});
  });
  server.on("stream", (stream) => {
    streams.push(stream);
    stream.on("error", () => {});
    stream.respond({ ":status": 200 });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  proxy = await CuttableProxy.inFrontOf(`127.0.0.1:${(server.address() as AddressInfo).port}`);
  connection = new Connection([{ url: new URL(`http://${proxy.address}`) }], undefined, KEEPALIVE);
});

afterEach(() => {
  connection.close();
  proxy.close();
  server.close();
});

/** A stream that stays open until it is closed. `gone` resolves at its end with its error, if any. */
async function open() {
  const stream = await connection.request("POST", "/x", {}, {});
  let error: unknown;
  stream.on("error", (thrown) => {
    error = thrown;
  });
  const gone = new Promise((resolve) => stream.on("close", () => resolve(error)));
  await once(stream, "response");
  // Unread data would keep the stream open.
  stream.resume();
  stream.end();
  return { stream, gone };
}

test("calls share one connection", async () => {
  await Promise.all([open(), open(), open()]);
  assert.deepEqual([sessions.length, streams.length], [1, 3]);
});

test("a connection is pinged with and without calls", async () => {
  const { stream, gone } = await open();
  await until(() => pings > 2, "pings during a call");
  stream.close();
  await gone;
  const before = pings;
  await until(() => pings > before + 2, "pings without calls");
});

for (const how of [["reset"], ["end"], ["end", "reset"]] as const) {
  test(`after a connection's ${how.join(" and ")} the next call opens another one, and the first is not pinged`, async () => {
    const { gone } = await open();
    for (const each of how) proxy.cut(each);
    await gone;
    await open();
    assert.equal(sessions.length, 2);
    // A ping of a closed connection would end this process.
    await until(() => pings > 5, "pings of the second connection");
  });
}

test("a server that falls silent ends its calls", async () => {
  const { gone } = await open();
  proxy.silence();
  assert.match(String(await gone), /no answer/);
  proxy.silence(false);
  await open();
});

test("a server that sends GOAWAY finishes its calls, and gets no new ones", async () => {
  const { gone } = await open();
  sessions[0]?.goaway(0);
  await until(async () => {
    // A call that crosses the GOAWAY may be refused.
    const next = await open().catch(() => undefined);
    next?.stream.close();
    return sessions.length === 2;
  }, "another connection");
  streams[0]?.end("bye");
  assert.equal(await gone, undefined);
});

test("without a server a call fails at once", async () => {
  const lonely = new Connection([{ url: new URL("http://127.0.0.1:1") }]);
  await assert.rejects(lonely.request("POST", "/x", {}, {}), { code: "ECONNREFUSED" });
});

test("closing ends open calls and refuses new ones", async () => {
  const { gone } = await open();
  connection.close();
  await gone;
  await assert.rejects(connection.request("POST", "/x", {}, {}), /closed/);
});

test("closing leaves nothing open of a server that has announced its end and fallen silent", async () => {
  const sockets = () => process.getActiveResourcesInfo().filter((each) => each === "TCPSocketWrap").length;
  await open();
  const [session] = sessions as [ServerHttp2Session];
  session.goaway(0);
  // The client has answered it with its own one.
  await once(session, "goaway");
  proxy.silence();
  const before = sockets();
  connection.close();
  await until(() => sockets() < before, "the socket of the connection is closed");
});
