/**
 * How a client makes its calls: with its namespace and token, in its time, and again where a repeat is safe.
 *
 * It is a transport around another one, so that the raw stubs behave as the methods of `Client` do. A call whose repeat
 * nobody could notice is repeated while the server is unavailable; which calls these are, the protos say
 * (`idempotency_level`). All others are left to their caller, who knows what a repeat would do.
 */
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { Transport } from "@connectrpc/connect";
import { errorFrom, TaskyardError } from "./errors.js";
import { type Clock, givenUp, persistent } from "./retrying.js";

const NAMESPACE_KEY = "taskyard-namespace";
/** The most that gRPC's header for it holds, more than a day. */
const MAX_TIMEOUT_MS = 99_999_999;

/** What goes with every call, and how long it may take. */
export interface CallOptions {
  /** The namespace to act in. Default `default`. */
  namespace?: string;
  /** Sent as `authorization: Bearer ...`. Default none. */
  token?: string;
  /** How long a call may go without its answer, in milliseconds; streams have no limit. Default 30,000. */
  timeoutMs?: number;
  /** How long an outage of the server is borne, in milliseconds. Default 30,000. */
  patienceMs?: number;
}

/** The calls of one client, until it is closed. */
export class Calls implements Transport {
  readonly timeoutMs: number;
  readonly patienceMs: number;
  readonly #inner: Transport;
  readonly #header: Record<string, string>;
  readonly #clock: Clock | undefined;
  readonly #open = new Set<AbortController>();
  #isClosed = false;

  /** Throws TypeError or RangeError for options that no call could be made with. */
  constructor(inner: Transport, options: CallOptions = {}, clock?: Clock) {
    this.#inner = inner;
    this.#header = headerOf(options);
    this.#clock = clock;
    this.timeoutMs = options.timeoutMs ?? 30_000;
    if (!(this.timeoutMs > 0)) throw new RangeError(`timeoutMs: must be more than 0, is ${this.timeoutMs}`);
    this.patienceMs = options.patienceMs ?? 30_000;
    if (!(this.patienceMs >= 0)) throw new RangeError(`patienceMs: must not be less than 0, is ${this.patienceMs}`);
  }

  /** Throws `cancelled` once the client is closed. */
  checkOpen(): void {
    if (this.#isClosed) throw closed();
  }

  /** End all calls and streams as `cancelled`, and refuse new ones. */
  close(): void {
    this.#isClosed = true;
    for (const call of this.#open) call.abort(closed());
  }

  /** The answer of an attempt that is repeated while the server is unavailable. */
  repeated<T>(attempt: (number: number, linked: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#during(signal, (linked) =>
      persistent((number) => attempt(number, linked), this.patienceMs, this.#clock, linked),
    );
  }

  readonly unary: Transport["unary"] = (method, signal, timeoutMs, header, input, contextValues) =>
    this.#during(signal, (linked) => {
      const once = async () => {
        try {
          const most = callLimit(timeoutMs ?? this.timeoutMs);
          return await this.#inner.unary(method, linked, most, this.#headers(header), input, contextValues);
        } catch (thrown) {
          throw linked.aborted ? givenUp(linked) : errorFrom(thrown);
        }
      };
      const isSafe = method.idempotency !== MethodOptions_IdempotencyLevel.IDEMPOTENCY_UNKNOWN;
      return isSafe ? persistent(once, this.patienceMs, this.#clock, linked) : once();
    });

  // A broken stream is for its reader to resume, who knows how far it came.
  readonly stream: Transport["stream"] = async (method, signal, timeoutMs, header, input, contextValues) => {
    const [call, end] = this.begin(signal);
    const linked = call.signal;
    try {
      const most = timeoutMs && callLimit(timeoutMs);
      const answer = await this.#inner.stream(method, linked, most, this.#headers(header), input, contextValues);
      const message = read(answer.message, linked, () => {
        // A reader that breaks off leaves a stream that nobody else would end.
        call.abort();
        end();
      });
      return { ...answer, message };
    } catch (thrown) {
      end();
      throw linked.aborted ? givenUp(linked) : errorFrom(thrown);
    }
  };

  async #during<T>(signal: AbortSignal | undefined, act: (linked: AbortSignal) => Promise<T>): Promise<T> {
    const [call, end] = this.begin(signal);
    try {
      return await act(call.signal);
    } finally {
      end();
    }
  }

  /**
   * A call that ends with the client, and when its caller says so. What stands second is to be called at its end.
   *
   * Throws `cancelled` once the client is closed.
   */
  begin(signal: AbortSignal | undefined): [AbortController, () => void] {
    this.checkOpen();
    const call = new AbortController();
    const end = () => {
      signal?.removeEventListener("abort", stop);
      this.#open.delete(call);
    };
    const stop = () => {
      call.abort(signal?.reason);
      // The reader of a stream may have left, and nobody else would end it.
      end();
    };
    this.#open.add(call);
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    return [call, end];
  }

  #headers(given: HeadersInit | undefined): Headers {
    const header = new Headers(given);
    for (const [name, value] of Object.entries(this.#header)) header.set(name, value);
    return header;
  }
}

/** What goes with every call. Throws TypeError for what no header can hold: each call would fail by it. */
export function headerOf({ namespace = "default", token }: CallOptions): Record<string, string> {
  for (const [name, value] of Object.entries({ namespace, token })) {
    if (value && !/^[\x20-\x7e]+$/.test(value)) throw new TypeError(`${name}: must be of printable ASCII characters`);
  }
  return { [NAMESPACE_KEY]: namespace, ...(token && { authorization: `Bearer ${token}` }) };
}

/** The time of a call in whole milliseconds, as the header has it. */
function callLimit(ms: number): number {
  return Math.min(Math.ceil(ms), MAX_TIMEOUT_MS);
}

async function* read<T>(messages: AsyncIterable<T>, signal: AbortSignal, end: () => void): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (thrown) {
    throw signal.aborted ? givenUp(signal) : errorFrom(thrown);
  } finally {
    end();
  }
}

function closed(): TaskyardError {
  return new TaskyardError("cancelled", "the client is closed", { status: "CANCELLED" });
}
