/** A real server for tests, and a proxy in front of it whose connections can be cut or silenced. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { access, mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** The command of the repository's virtual environment. The compiled tests are two folders below the package. */
const COMMAND = join(import.meta.dirname, "../../../../.venv/bin/taskyard");
/** Longer than a start takes on a machine that has much else to do. */
export const PATIENCE_MS = 120_000;

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}

/** A server for some tests. `stop` ends it; `start` starts another one at the same address. */
export class TestServer {
  readonly address: string;
  readonly #arguments: string[];
  readonly #folder: string;
  readonly #settings: Record<string, string>;
  #process: ChildProcess | undefined;

  private constructor(
    address: string,
    metrics: string,
    folder: string,
    rest: string | undefined,
    settings: Record<string, string>,
  ) {
    this.address = address;
    this.#folder = folder;
    this.#settings = settings;
    const gateway = rest === undefined ? ["--no-gateway"] : ["--rest", rest];
    this.#arguments = ["up", ...gateway, "--grpc", address, "--metrics", metrics, "--store", "memory://"];
  }

  /**
   * Starts a server, with a gateway at `rest` if that is given, with settings by their environment variables. Throws
   * if the command is missing: no test is skipped.
   */
  static async up(rest?: string, settings: Record<string, string> = {}): Promise<TestServer> {
    await access(COMMAND).catch(() => {
      throw new Error("the server is not installed: run `make setup` in the root of the repository");
    });
    const folder = await mkdtemp(join(tmpdir(), "taskyard-"));
    const [grpc, metrics] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
    const server = new TestServer(grpc, metrics, folder, rest, settings);
    await server.start();
    return server;
  }

  async start(): Promise<void> {
    // The settings of the person who runs the tests must not change them.
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith("TASKYARD_"));
    const child = spawn(COMMAND, this.#arguments, {
      cwd: this.#folder,
      env: { ...Object.fromEntries(own), ...this.#settings },
    });
    this.#process = child;
    const output: string[] = [];
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        // Its pipes would keep this process alive.
        child.kill("SIGKILL");
        reject(new Error(`the server does not start: ${output.join("\n")}`));
      }, PATIENCE_MS);
      child.once("exit", () => reject(new Error(`the server ended: ${output.join("\n")}`)));
      for (const stream of [child.stdout, child.stderr]) {
        createInterface(stream).on("line", (line) => {
          output.push(line);
          if (!line.includes("serves gRPC")) return;
          clearTimeout(timer);
          resolve();
        });
      }
    });
  }

  /** Ends the server: at once, as a crash does, or by a shutdown with SIGTERM. */
  async stop(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill(signal);
    await gone;
  }

  async down(): Promise<void> {
    await this.stop();
    await rm(this.#folder, { recursive: true });
  }
}

/** Forwards connections to a server. */
export class CuttableProxy {
  readonly address: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isSilent = false;

  private constructor(server: Server, to: string) {
    this.#server = server;
    this.address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on("connection", (near) => {
      const [host, port] = to.split(":");
      const far = connect(Number(port), host);
      this.#pass(near, far);
      this.#pass(far, near);
    });
  }

  static async inFrontOf(to: string): Promise<CuttableProxy> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    return new CuttableProxy(server, to);
  }

  /** Breaks all connections, by a reset or by their regular end. New ones work at once. */
  cut(how: "reset" | "end" = "reset"): void {
    for (const socket of this.#sockets) {
      if (how === "end") socket.end();
      // Node 20 cannot reset a socket whose end is under way: it forgets its handle, which then keeps the process busy.
      else if (socket.writableEnded) socket.destroy();
      else socket.resetAndDestroy();
    }
  }

  /** Forwards no more data until it is called with false. The connections stay open. */
  silence(isSilent = true): void {
    this.#isSilent = isSilent;
    for (const socket of this.#sockets) {
      if (isSilent) socket.pause();
      else socket.resume();
    }
  }

  close(): void {
    this.#server.close();
    this.cut();
  }

  #pass(from: Socket, to: Socket): void {
    this.#sockets.add(from);
    from.on("data", (data) => to.write(data));
    from.on("end", () => to.end());
    from.on("error", () => to.destroy());
    from.on("close", () => {
      this.#sockets.delete(from);
      to.destroy();
    });
    if (this.#isSilent) from.pause();
  }
}

/** Resolves once the condition is true. Throws if that takes too long. */
export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = Date.now() + PATIENCE_MS;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`never came true: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
