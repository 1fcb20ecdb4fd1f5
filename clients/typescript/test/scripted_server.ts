/**
 * A gRPC server that serves the stream of hosts as a test writes it: each message from the server is a line of the test,
 * and a connection breaks where the test says so.
 */
import { once } from "node:events";
import { createServer, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { setTimeout } from "node:timers/promises";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  type ConnectRequest,
  type ConnectResponse,
  ConnectResponseSchema,
  type Hello,
  RuntimeHostService,
  type WelcomeSchema,
} from "../src/gen/taskyard/v1/runtime_host_pb.js";

type Request = ConnectRequest["message"];
type RequestCase = Exclude<Request["case"], undefined>;
type ValueOf<C extends RequestCase> = Extract<Request, { case: C }>["value"];

/** Items that are read in the order in which they were added. Reading waits for the next one. */
class Channel<T> {
  readonly #items: T[] = [];
  readonly #readers: ((item: T) => void)[] = [];

  push(item: T): void {
    const reader = this.#readers.shift();
    if (reader) reader(item);
    else this.#items.push(item);
  }

  next(): Promise<T> {
    if (!this.#items.length) return new Promise((resolve) => this.#readers.push(resolve));
    return Promise.resolve(this.#items.shift() as T);
  }
}

/** One stream of a host. */
export class HostStream {
  readonly hello: Hello;
  readonly #requests: Channel<Request>;
  readonly #responses: Channel<ConnectResponse | undefined>;
  readonly #breakConnection: () => void;
  /** The number of reports in each message that was read and not answered. */
  readonly #unanswered: number[] = [];

  constructor(
    hello: Hello,
    requests: Channel<Request>,
    responses: Channel<ConnectResponse | undefined>,
    breakConnection: () => void,
  ) {
    this.hello = hello;
    this.#requests = requests;
    this.#responses = responses;
    this.#breakConnection = breakConnection;
  }

  /** The leases of the Hello, as `a1` for the first lease of the task `a`. */
  get listed(): string[] {
    return this.hello.leases.map(({ taskId, fencingToken }) => `${taskId}${fencingToken}`);
  }

  send(message: MessageInitShape<typeof ConnectResponseSchema>["message"]): void {
    this.#responses.push(create(ConnectResponseSchema, { message }));
  }

  /** Answers the Hello. Leases last 60 s and heartbeats are due each minute, unless the fields say otherwise. */
  welcome(fields: MessageInitShape<typeof WelcomeSchema> = {}): void {
    const value = { heartbeatIntervalMs: 60_000, leaseSecs: 60, reconnectGraceMs: 5_000, ...fields };
    this.send({ case: "welcome", value: value as never });
  }

  /** Hands out the first lease of a task, of the action `work` unless another is given. */
  assign(taskId: string, target?: string, action = "work"): void {
    const task = { taskId, action, target };
    const lease = { taskId, fencingToken: 1, leaseSecs: 60 };
    this.send({ case: "assignments", value: { assignments: [{ lease, task }] } });
  }

  /** The next message of this kind. Others before it are skipped. */
  async next<C extends RequestCase>(kind: C): Promise<ValueOf<C>> {
    for (;;) {
      const request = await this.#requests.next();
      if (request.case === "reports") this.#unanswered.push(request.value.reports.length);
      if (request.case === kind) return request.value as ValueOf<C>;
    }
  }

  /** The reports of the next message of reports. */
  async nextReports(): Promise<string[]> {
    const { reports } = await this.next("reports");
    return reports.map((report) => `${report.taskId} ${report.event.case}`);
  }

  /** Takes the reports of the oldest unanswered message. */
  take(): void {
    const results = Array.from({ length: this.#unanswered.shift() ?? 0 }, () => ({}));
    this.send({ case: "reportResults", value: { results } });
  }

  /** Takes all reports from now on. */
  async takeAll(): Promise<never> {
    for (;;) {
      while (this.#unanswered.length) this.take();
      await this.next("reports");
    }
  }

  /** Ends this stream in order. */
  end(): void {
    this.#responses.push(undefined);
  }

  /** Breaks the connection, and with it this stream. */
  break(): void {
    this.#breakConnection();
  }
}

export class ScriptedServer {
  readonly address: string;
  readonly #server: Http2Server;
  readonly #sessions: Set<ServerHttp2Session>;
  readonly #streams: Channel<HostStream>;
  #latest: HostStream | undefined;
  /** What hosts have done to leave, in order. */
  readonly leaving: string[];

  private constructor(
    server: Http2Server,
    sessions: Set<ServerHttp2Session>,
    streams: Channel<HostStream>,
    leaving: string[],
  ) {
    this.leaving = leaving;
    this.#server = server;
    this.#sessions = sessions;
    this.#streams = streams;
    this.address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async up(): Promise<ScriptedServer> {
    const streams = new Channel<HostStream>();
    const sessions = new Set<ServerHttp2Session>();
    const leaving: string[] = [];
    const breakConnections = () => {
      for (const session of sessions) session.destroy();
    };
    const server = createServer(
      connectNodeAdapter({
        routes({ service }) {
          service(RuntimeHostService, {
            async *connect(requests) {
              const [received, responses] = [new Channel<Request>(), new Channel<ConnectResponse | undefined>()];
              void read(requests, received, () => {
                leaving.push("end of stream");
                responses.push(undefined);
              });
              const hello = await received.next();
              if (hello.case !== "hello") throw new Error("the first message is no Hello");
              streams.push(new HostStream(hello.value, received, responses, breakConnections));
              for (;;) {
                const response = await responses.next();
                if (!response) return;
                yield response;
              }
            },
            async drainHost() {
              // Other messages of the host, if it sends them meanwhile, arrive before the answer.
              await setTimeout(50);
              leaving.push("drain answered");
              return {};
            },
            deregisterHost() {
              leaving.push("deregistered");
              return { deregistered: true };
            },
          });
        },
      }),
    );
    server.on("session", (session) => {
      sessions.add(session);
      session.on("close", () => sessions.delete(session));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new ScriptedServer(server, sessions, streams, leaving);
  }

  /** The next stream that a host opens. */
  async nextStream(): Promise<HostStream> {
    this.#latest = await this.#streams.next();
    return this.#latest;
  }

  /** Lets the host leave: takes all of its reports. */
  release(): void {
    void this.#latest?.takeAll();
  }

  close(): void {
    this.#server.close();
    for (const session of this.#sessions) session.destroy();
  }
}

async function read(requests: AsyncIterable<ConnectRequest>, into: Channel<Request>, ended: () => void): Promise<void> {
  try {
    for await (const { message } of requests) into.push(message);
  } catch {
    // The connection was broken.
  }
  ended();
}
