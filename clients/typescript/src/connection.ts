/**
 * A connection to the server over HTTP/2: opened by its first call, kept alive by pings, opened again after a loss.
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
import { isIP } from "node:net";
import { connect as connectByTls, type TLSSocket } from "node:tls";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, type Http2SessionManager } from "@connectrpc/connect-node";
import type { Caller, TlsOptions } from "./caller.js";
import { hintFor } from "./connection_errors.js";

/** The server permits a ping every 10 s. Proxies drop connections that are idle for a minute or more. */
const PING_INTERVAL_MS = 30_000;
/** How long a ping, or an attempt to connect, may stay without an answer. */
const ANSWER_MS = 20_000;

/** A transport to the server, and its connection. */
export function openConnection({ baseUrl, tlsOptions, files }: Caller): [Transport, Connection] {
  const connection = new Connection(baseUrl, tlsOptions, undefined, files);
  return [createGrpcTransport({ baseUrl, sessionManager: connection }), connection];
}

/** How often to ping, and how long to wait for an answer, in milliseconds. */
export interface Keepalive {
  intervalMs: number;
  answerMs: number;
}

type Sessions = Pick<Http2SessionManager, "authority" | "request" | "notifyResponseByteRead">;

/** At most one HTTP/2 session that takes new calls, and earlier ones whose calls have not ended. */
export class Connection implements Sessions {
  readonly authority: string;
  readonly #options: () => TlsOptions;
  readonly #keepalive: Keepalive;
  readonly #files: Caller["files"];
  /** The sessions, and the number of open streams of each. */
  readonly #sessions = new Map<ClientHttp2Session, number>();
  #current: Promise<ClientHttp2Session> | undefined;
  #isClosed = false;

  /** `options` is called for each connection; `files` name their certificates. */
  constructor(url: string, options: () => TlsOptions = () => ({}), keepalive?: Keepalive, files: Caller["files"] = {}) {
    this.authority = new URL(url).origin;
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
    for (const session of this.#sessions.keys())
      session.destroy(lost("the connection was closed"), constants.NGHTTP2_CANCEL);
  }

  #session(): Promise<ClientHttp2Session> {
    if (this.#isClosed) throw lost("the connection was closed");
    if (!this.#current) {
      const opening: Promise<ClientHttp2Session> = this.#connect(() => this.#retire(opening));
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
      const open = (this.#sessions.get(session) ?? 0) + change;
      this.#sessions.set(session, open);
      if (open) session.ref();
      else session.unref();
    };
    count(1);
    stream.once("close", () => {
      if (!session.destroyed) count(-1);
    });
    return stream;
  }

  /** Opens a session. `retired` is called once it takes no new calls. */
  #connect(retired: () => void): Promise<ClientHttp2Session> {
    const { intervalMs, answerMs } = this.#keepalive;
    const [session, socket] = this.#begin();
    let state: "dialing" | "connected" | "heard" = "dialing";
    this.#sessions.set(session, 0);
    const giveUp = () => session.destroy(lost(`no answer for ${answerMs / 1000} s`), constants.NGHTTP2_CANCEL);
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
    session.on("goaway", retired);
    session.on("close", () => {
      clearTimeout(waiting);
      clearInterval(pinging);
      this.#sessions.delete(session);
      retired();
    });
    return new Promise((resolve, reject) => {
      const failed = (error: Error, isOurs: boolean) => {
        const isEncrypted = this.authority.startsWith("https:");
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
        retired();
        failed(error, error instanceof ConnectError);
      });
      session.on("close", () => failed(lost("the connection was closed"), this.#isClosed));
      socket?.on("error", (error) => {
        retired();
        failed(error, false);
        // Node leaves a session open whose TLS has ended with an alert, such as that a client certificate is missing.
        setImmediate(() => socket.destroy());
      });
    });
  }

  /** A session, and its socket if it is one of TLS. */
  #begin(): [ClientHttp2Session, TLSSocket?] {
    const { protocol, hostname, port } = new URL(this.authority);
    if (protocol === "http:") return [connect(this.authority)];
    const host = hostname.replace(/^\[|\]$/g, "");
    const named = isIP(host) ? {} : { servername: host };
    try {
      const server = { host, port: Number(port || 443), ALPNProtocols: ["h2"], ...named };
      const socket = connectByTls({ ...server, ...this.#options() });
      return [connect(this.authority, { createConnection: () => socket }), socket];
    } catch (error) {
      // A file of certificates that is being replaced.
      throw lost(`the connection cannot be secured: ${(error as Error).message}`);
    }
  }
}

function lost(why: string): ConnectError {
  return new ConnectError(why, Code.Unavailable);
}
