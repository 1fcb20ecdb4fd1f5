/**
 * A connection over HTTP/2 to a server, or to one of several: opened by its first call, kept alive by pings, opened again
 * after a loss.
 *
 * The connection of connect-node is not used: it pings connections that are closed already, and Node then throws an
 * exception that cannot be caught (connect-es, issue 1795).
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type OutgoingHttpHeaders,
} from "node:http2";
import { lookup } from "node:dns";
import { connect as connectByTcp, isIP, type LookupFunction, type Socket } from "node:net";
import { connect as connectByTls } from "node:tls";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, type Http2SessionManager } from "@connectrpc/connect-node";
import type { Server } from "./addresses.js";
import type { Caller, TlsOptions } from "./caller.js";
import { hintFor } from "./connection_errors.js";
import { firstOf, shuffled } from "./racing.js";

/** The server permits a ping every 10 s. Proxies drop connections that are idle for a minute or more. */
const PING_INTERVAL_MS = 30_000;
/** How long a ping, or an attempt to connect, may stay without an answer. */
const ANSWER_MS = 20_000;
/** How long one server has to answer before the next one is tried beside it. */
const HEAD_START_MS = 250;

/** A transport to the servers, and its connection. */
export function openConnection({ servers, tlsOptions, files }: Caller): [Transport, Connection] {
  const connection = new Connection(servers, tlsOptions, undefined, files);
  return [createGrpcTransport({ baseUrl: connection.authority, sessionManager: connection }), connection];
}

/** How often to ping, and how long to wait for an answer, in milliseconds. */
export interface Keepalive {
  intervalMs: number;
  answerMs: number;
}

type Sessions = Pick<Http2SessionManager, "authority" | "request" | "notifyResponseByteRead">;

/** At most one HTTP/2 session that takes new calls, and earlier ones whose calls have not ended. */
export class Connection implements Sessions {
  /** What the transport takes for the server. Each session names its own one. */
  readonly authority: string;
  /** In the order in which they are tried: at random first, so that clients spread; those that failed go last. */
  #servers: Server[];
  readonly #options: () => TlsOptions;
  readonly #keepalive: Keepalive;
  readonly #files: Caller["files"];
  /** The sessions, and of each its socket and the number of its open streams. */
  readonly #sessions = new Map<ClientHttp2Session, { socket: Socket; open: number }>();
  #current: Promise<ClientHttp2Session> | undefined;
  #isClosed = false;

  /** `options` is called for each connection; `files` name their certificates. */
  constructor(
    servers: Server[],
    options: () => TlsOptions = () => ({}),
    keepalive?: Keepalive,
    files: Caller["files"] = {},
  ) {
    this.authority = servers[0]?.url.origin ?? "";
    this.#servers = shuffled(servers);
    this.#options = options;
    this.#files = files;
    this.#keepalive = keepalive ?? { intervalMs: PING_INTERVAL_MS, answerMs: ANSWER_MS };
  }

  readonly request: Sessions["request"] = async (method, path, headers, options) => {
    for (;;) {
      const current = this.#session();
      const session = await current;
      try {
        return this.#open(session, { ...headers, ":method": method, ":path": path }, options);
      } catch (error) {
        if (!session.closed && !session.destroyed) throw error;
        // It is closed, but its `close` event has not come yet.
        this.#retire(current);
      }
    }
  };

  notifyResponseByteRead(): void {}

  /** Ends the connection and all open streams. The process can then exit. */
  close(): void {
    this.#isClosed = true;
    for (const [session, { socket }] of this.#sessions) end(session, socket, "the connection was closed");
  }

  #session(): Promise<ClientHttp2Session> {
    if (this.#isClosed) throw lost("the connection was closed");
    if (!this.#current) {
      const opening: Promise<ClientHttp2Session> = this.#connect(() => this.#retire(opening));
      opening.catch(() => this.#retire(opening));
      this.#current = opening;
    }
    return this.#current;
  }

  #retire(session: Promise<ClientHttp2Session>): void {
    if (this.#current === session) this.#current = undefined;
  }

  /** Opens a stream of the session, which keeps the process alive while it is open. */
  #open(session: ClientHttp2Session, headers: OutgoingHttpHeaders, options: object): ClientHttp2Stream {
    const stream = session.request(headers, options);
    const count = (change: number) => {
      const counted = this.#sessions.get(session);
      if (!counted) return;
      counted.open += change;
      if (counted.open) session.ref();
      else session.unref();
    };
    count(1);
    stream.once("close", () => {
      if (!session.destroyed) count(-1);
    });
    return stream;
  }

  /** Opens a session with a server that answers. `retired` is called once it takes no new calls. */
  async #connect(retired: () => void): Promise<ClientHttp2Session> {
    let chosen: ClientHttp2Session | undefined;
    const attempt = (server: Server, unwanted: AbortSignal) =>
      this.#attempt(server, unwanted, (session) => {
        if (session === chosen) retired();
      });
    chosen = await firstOf(this.#servers, attempt, (late) => late.destroy(), HEAD_START_MS);
    return chosen;
  }

  #putLast(server: Server): void {
    this.#servers = [...this.#servers.filter((each) => each !== server), server];
  }

  /** Opens a session with a server, unless the signal aborts before its first word. */
  #attempt(
    server: Server,
    unwanted: AbortSignal,
    retired: (session: ClientHttp2Session) => void,
  ): Promise<ClientHttp2Session> {
    const { intervalMs, answerMs } = this.#keepalive;
    if (this.#isClosed) return Promise.reject(lost("the connection was closed"));
    const isEncrypted = server.url.protocol === "https:";
    const [session, socket] = this.#begin(server);
    let state: "dialing" | "connected" | "heard" = "dialing";
    this.#sessions.set(session, { socket, open: 0 });
    const giveUp = () => end(session, socket, `no answer for ${answerMs / 1000} s`);
    let waiting: NodeJS.Timeout | undefined = setTimeout(giveUp, answerMs).unref();
    const answered = () => {
      clearTimeout(waiting);
      waiting = undefined;
    };
    const pinging = setInterval(() => {
      if (waiting || session.closed || session.destroyed) return;
      waiting = setTimeout(giveUp, answerMs).unref();
      session.ping((error) => {
        if (!error) answered();
      });
    }, intervalMs).unref();
    const leave = () => {
      if (!unwanted.aborted || state === "heard") this.#putLast(server);
      retired(session);
    };
    session.on("goaway", leave);
    session.on("close", () => {
      clearTimeout(waiting);
      clearInterval(pinging);
      this.#sessions.delete(session);
      leave();
    });
    unwanted.addEventListener("abort", () => {
      if (state !== "heard") end(session, socket, "another server has answered");
    });
    return new Promise((resolve, reject) => {
      const failed = (error: Error, isOurs: boolean) => {
        const attempt = { isEncrypted, isConnected: state === "connected", ...this.#files };
        const hint = state === "heard" || isOurs ? undefined : hintFor(error, attempt);
        reject(hint ? new ConnectError(hint, Code.Unavailable, undefined, undefined, error) : error);
      };
      session.on("connect", () => {
        state = "connected";
      });
      // A server that demands TLS, or a client certificate, ends the connection before it says a word.
      session.once("remoteSettings", () => {
        state = "heard";
        answered();
        // An idle connection does not keep the process alive.
        session.unref();
        resolve(session);
      });
      // Its streams fail with the error too. Without a listener here the error would end the process.
      session.on("error", (error) => {
        leave();
        failed(error, error instanceof ConnectError);
      });
      session.on("close", () => failed(lost("the connection was closed"), this.#isClosed || unwanted.aborted));
      if (isEncrypted) {
        socket.on("error", (error) => {
          leave();
          failed(error, false);
          // Node leaves a session open whose TLS has ended with an alert, such as that a client certificate is missing.
          setImmediate(() => socket.destroy());
        });
      }
    });
  }

  /** A session, and its socket. */
  #begin({ url, path }: Server): [ClientHttp2Session, Socket] {
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const isEncrypted = url.protocol === "https:";
    const server = { host, port: Number(url.port || (isEncrypted ? 443 : 80)), lookup: lookupAtRandom };
    try {
      // The certificate of each server bears its own name.
      const named = isIP(host) ? {} : { servername: host };
      const socket = isEncrypted
        ? connectByTls({ ...server, ALPNProtocols: ["h2"], ...named, ...this.#options() })
        : connectByTcp(path ? { path } : server);
      return [connect(url.origin, { createConnection: () => socket }), socket];
    } catch (error) {
      // A file of certificates that is being replaced.
      throw lost(`the connection cannot be secured: ${(error as Error).message}`);
    }
  }
}

/** Finds the addresses of a name in random order. Node tries one after the other. */
const lookupAtRandom: LookupFunction = (name, options, found) => {
  lookup(name, options, (error, addresses, family) => {
    found(error, Array.isArray(addresses) ? shuffled(addresses) : addresses, family);
  });
};

/**
 * Ends a session, its streams and its socket. By itself Node waits for a socket that still connects, and for a server
 * that has announced its end to close it.
 */
function end(session: ClientHttp2Session, socket: Socket, why: string): void {
  session.destroy(lost(why), constants.NGHTTP2_CANCEL);
  // The server is told first.
  setImmediate(() => socket.destroy());
}

function lost(why: string): ConnectError {
  return new ConnectError(why, Code.Unavailable);
}
