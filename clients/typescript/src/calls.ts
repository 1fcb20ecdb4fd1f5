/**
 * How a client makes its calls: with its namespace and token, with a timeout, and again where a repeat is safe.
 *
 * `Calls` is a transport around another one, so that the raw stubs behave as the methods of `Client` do. A call is
 * repeated while the server is unavailable if its method is idempotent by the protos (`idempotency_level`). Any other
 * call is left to its caller, who knows what a repeat would do, unless it was not carried out since another server serves
 * the namespace.
 */
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { Transport } from "@connectrpc/connect";
import { onAbort } from "./abort_listeners.js";
import { checkHeader, type Credentials, explained, fixedToken } from "./credentials.js";
import { errorFrom, isElsewhere, TaskyardError } from "./errors.js";
import type { OutageLog } from "./outage_log.js";
import { abortError, type Clock, retryWhileUnavailable } from "./retrying.js";

const NAMESPACE_KEY = "taskyard-namespace";
/** The longest timeout that the header of gRPC holds, more than a day. */
const MAX_TIMEOUT_MS = 99_999_999;

/** What every call of a client carries, and how long it may take. */
export interface CallOptions {
  /** The namespace of all calls, printable ASCII. Default `default`. */
  namespace?: string;
  /** The token of the caller, printable ASCII, sent as `authorization: Bearer ...`. Default none. */
  token?: string;
  /**
   * How long a call waits for its answer, in milliseconds, more than 0. It then throws `deadline_exceeded`. Streams have
   * no limit. Default 30,000; more than 99,999,999 (27 hours) counts as that.
   */
  timeoutMs?: number;
  /**
   * How long calls are repeated while the server is unavailable, in milliseconds; 0 for no repeats. Default 30,000.
   */
  patienceMs?: number;
}

/** The calls of one client, until it is closed. */
export class Calls implements Transport {
  readonly timeoutMs: number;
  readonly patienceMs: number;
  readonly #inner: Transport;
  readonly #namespace: string;
  readonly #credentials: Credentials;
  readonly #clock: Clock | undefined;
  readonly #outages: OutageLog | undefined;
  readonly #open = new Set<AbortController>();
  /** The signals of calls that `repeated` repeats, which are not repeated on their own. */
  readonly #repeated = new WeakSet<AbortSignal>();
  #isClosed = false;

  /**
   * `credentials` go before the token of the options. Throws TypeError or RangeError for options that no call can be made
   * with. Outages are logged if a log is given.
   */
  constructor(
    inner: Transport,
    options: CallOptions = {},
    clock?: Clock,
    credentials?: Credentials,
    outages?: OutageLog,
  ) {
    this.#outages = outages;
    this.#inner = inner;
    this.#namespace = options.namespace ?? "default";
    if (this.#namespace) checkHeader("namespace", this.#namespace);
    this.#credentials = credentials ?? fixedToken(options.token);
    this.#clock = clock;
    this.timeoutMs = options.timeoutMs ?? 30_000;
    if (!(this.timeoutMs > 0)) throw new RangeError(`timeoutMs: must be more than 0, is ${this.timeoutMs}`);
    this.patienceMs = options.patienceMs ?? 30_000;
    if (!(this.patienceMs >= 0)) throw new RangeError(`patienceMs: must not be less than 0, is ${this.patienceMs}`);
  }

  /** Reads the token anew after a refusal. Returns whether there may be another one. */
  renew(): boolean {
    return this.#credentials.renew();
  }

  /** Throws `cancelled` once the client is closed. */
  checkOpen(): void {
    if (this.#isClosed) throw closed();
  }

  /** Ends all calls and streams as `cancelled`, and refuses new ones. */
  close(): void {
    this.#isClosed = true;
    for (const call of this.#open) call.abort(closed());
  }

  /**
   * Makes a call, again and again while the server is unavailable. `call` is told whether an earlier try may have been
   * carried out, and is given the signal to make it with.
   */
  repeated<T>(call: (isInDoubt: boolean, linked: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#during(signal, (linked) => {
      this.#repeated.add(linked);
      const attempt = (_: number, isInDoubt: boolean) => call(isInDoubt, linked);
      return retryWhileUnavailable(attempt, this.patienceMs, this.#clock, linked);
    });
  }

  readonly unary: Transport["unary"] = (method, signal, timeoutMs, header, input, contextValues) =>
    this.#during(signal, (linked) => {
      const once = async () => {
        try {
          const limit = headerTimeout(timeoutMs ?? this.timeoutMs);
          const answer = await this.#inner.unary(method, linked, limit, this.#headers(header), input, contextValues);
          this.#outages?.worked();
          return answer;
        } catch (thrown) {
          throw this.#errorOf(thrown, linked);
        }
      };
      if (signal && this.#repeated.has(signal)) return once();
      // A repeat of a claim with an id gets the same leases.
      const hasClaimId = "claimId" in input && Boolean(input.claimId);
      const isSafe = hasClaimId || method.idempotency !== MethodOptions_IdempotencyLevel.IDEMPOTENCY_UNKNOWN;
      return retryWhileUnavailable(once, this.patienceMs, this.#clock, linked, isSafe ? undefined : isElsewhere);
    });

  // A broken stream is resumed by its reader, who knows what it has read.
  readonly stream: Transport["stream"] = async (method, signal, timeoutMs, header, input, contextValues) => {
    const [call, end] = this.begin(signal);
    const linked = call.signal;
    try {
      const limit = timeoutMs && headerTimeout(timeoutMs);
      const answer = await this.#inner.stream(method, linked, limit, this.#headers(header), input, contextValues);
      const fail = (thrown: unknown) => this.#errorOf(thrown, linked);
      const over = () => {
        // A reader that stops early leaves a stream that nothing else would end.
        call.abort();
        end();
      };
      const message = read(answer.message, fail, over, () => this.#outages?.worked());
      return { ...answer, message };
    } catch (thrown) {
      end();
      throw this.#errorOf(thrown, linked);
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
   * Begins a call that is aborted when the client closes and when the caller's signal aborts. The returned function must
   * be called at its end.
   *
   * Throws `cancelled` once the client is closed.
   */
  begin(signal: AbortSignal | undefined): [AbortController, () => void] {
    this.checkOpen();
    const call = new AbortController();
    let removeListener = () => {};
    const end = () => {
      removeListener();
      this.#open.delete(call);
    };
    const stop = () => {
      call.abort(signal?.reason);
      // The reader of a stream may have gone without ending the call.
      end();
    };
    this.#open.add(call);
    if (signal?.aborted) stop();
    else if (signal) removeListener = onAbort(signal, stop);
    return [call, end];
  }

  #headers(given: HeadersInit | undefined): Headers {
    const header = new Headers(given);
    header.set(NAMESPACE_KEY, this.#namespace);
    const token = this.#credentials.token();
    if (token) header.set("authorization", `Bearer ${token}`);
    return header;
  }

  #errorOf(thrown: unknown, linked: AbortSignal): TaskyardError {
    if (linked.aborted) return abortError(linked);
    const error = explained(errorFrom(thrown), this.#credentials);
    this.#outages?.failed(error, this.patienceMs);
    return error;
  }
}

/** A timeout in whole milliseconds that the header can hold. */
function headerTimeout(ms: number): number {
  return Math.min(Math.ceil(ms), MAX_TIMEOUT_MS);
}

async function* read<T>(
  messages: AsyncIterable<T>,
  fail: (thrown: unknown) => TaskyardError,
  end: () => void,
  came: () => void,
): AsyncGenerator<T> {
  try {
    for await (const message of messages) {
      came();
      yield message;
    }
  } catch (thrown) {
    throw fail(thrown);
  } finally {
    end();
  }
}

function closed(): TaskyardError {
  return new TaskyardError("cancelled", "the client is closed", { status: "CANCELLED" });
}
