/** Certificates that the tests make for themselves, with openssl. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createSecureServer, createServer, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import type { ConnectRouter } from "@connectrpc/connect";

const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/** The files of a certificate and its key. */
export interface Pair {
  cert: string;
  key: string;
}

/** A folder that is removed when the process ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "taskyard-ts-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A certificate authority. */
export class Authority {
  readonly #folder = temporaryFolder();
  readonly #name: string;
  #count = 0;

  constructor(name: string) {
    this.#name = name;
    const { cert, key } = this.#pair("ca");
    this.#openssl("req", "-x509", ...NEW_KEY, "-keyout", key, "-out", cert, "-days", "1", "-subj", `/CN=${name}`);
  }

  /** The file with its certificate. */
  get file(): string {
    return this.#pair("ca").cert;
  }

  /** A certificate for this machine, or for other names. */
  issue(forNames = "DNS:localhost,IP:127.0.0.1"): Pair {
    this.#count += 1;
    const own = this.#pair(`${this.#count}`);
    const [request, names] = [`${own.cert}.csr`, `${own.cert}.txt`];
    writeFileSync(names, `subjectAltName=${forNames}`);
    this.#openssl("req", ...NEW_KEY, "-keyout", own.key, "-out", request, "-subj", `/CN=${this.#name}-${this.#count}`);
    const { cert, key } = this.#pair("ca");
    const serial = `${Date.now()}${this.#count}`;
    const files = ["-in", request, "-CA", cert, "-CAkey", key, "-out", own.cert, "-extfile", names];
    this.#openssl("x509", "-req", ...files, "-set_serial", serial, "-days", "1");
    return own;
  }

  #pair(name: string): Pair {
    return { cert: join(this.#folder, `${name}.pem`), key: join(this.#folder, `${name}.key`) };
  }

  #openssl(...args: string[]): void {
    execFileSync("openssl", args, { stdio: ["ignore", "ignore", "pipe"] });
  }
}

/**
 * A gRPC server of the routes: with TLS if it has a certificate, for clients of one authority if that is given, at a unix
 * socket if there is a path.
 */
export async function serve(routes: (router: ConnectRouter) => void, own?: Pair, clients?: Authority, path?: string) {
  const adapter = connectNodeAdapter({ routes });
  const secrets = own && { cert: readFileSync(own.cert), key: readFileSync(own.key) };
  const trust = clients && { requestCert: true, rejectUnauthorized: true, ca: readFileSync(clients.file) };
  const server: Http2Server = secrets ? createSecureServer({ ...secrets, ...trust }, adapter) : createServer(adapter);
  const sessions = new Set<ServerHttp2Session>();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => {});
    session.on("close", () => sessions.delete(session));
  });
  if (path) server.listen(path);
  else server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = () => {
    server.close();
    for (const session of sessions) session.destroy();
  };
  return { address: path ? `unix:${path}` : `127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}
