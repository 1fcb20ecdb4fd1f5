/** Runtime hosts in Node: say what runs an action, then run the host. */
import { type CallOptions, headerOf } from "./calls.js";
import { Actions } from "./handlers.js";
import { HostRun } from "./host_run.js";
import { type Address, checkAddress } from "./connection.js";
import type { Handler } from "./running_task.js";

/** What comes so soon after the first signal is the same one again: terminals and init processes signal twice. */
const SAME_SIGNAL_MS = 1_000;

/** Where a host tells of its work; `console` is one. */
export interface Logger {
  info(text: string, ...more: unknown[]): void;
  warn(text: string, ...more: unknown[]): void;
  error(text: string, ...more: unknown[]): void;
}

/** What a host is and how it works. */
export interface HostOptions extends Address, Pick<CallOptions, "namespace" | "token"> {
  /** This host's alone. */
  hostId: string;
  /** How many tasks it runs at once. Default 10. */
  slots?: number;
  /** What it can do; a task's `requires` must be among them. */
  capabilities?: string[];
  /** The only project whose tasks it takes. Default any. */
  project?: string;
  /** The operator's own marks. */
  labels?: Record<string, string>;
  /** The length of its leases in seconds, 1 to 3,600. Default: the server's. */
  leaseSecs?: number;
  /** The name for people. Default: the id. */
  displayName?: string;
  /** How long what runs may take when the host is told to stop, in milliseconds. Default 30,000. */
  drainGraceMs?: number;
  /** Report the use of processors and memory. Default true. */
  machineFigures?: boolean;
  /** Drain at SIGTERM and SIGINT while it runs; a second signal ends the process. Default true. */
  handleSignals?: boolean;
  /** Default: warnings and errors to the console. */
  logger?: Logger;
}

const QUIET_LOGGER: Logger = {
  info: () => {},
  warn: (...words) => console.warn(...words),
  error: (...words) => console.error(...words),
};

/**
 * A runtime host: takes tasks from the server, up to `slots` at once, and runs their handlers.
 *
 * Handlers share the event loop with the host's heartbeats, so long computations belong into a worker thread or a
 * process.
 */
export class Host {
  readonly #options: HostOptions;
  readonly #actions = new Actions();
  #run: HostRun | undefined;

  /** Throws TypeError or RangeError for options that it could not connect with. */
  constructor(options: HostOptions) {
    const { slots = 1 } = options;
    if (!Number.isInteger(slots) || slots < 1) throw new RangeError(`slots: must be 1 or more, is ${slots}`);
    checkAddress(options.address);
    headerOf(options);
    this.#options = options;
  }

  /** Have a handler run an action. Throws if it has one already. */
  action(name: string, handler: Handler): this {
    this.#actions.add(name, handler);
    return this;
  }

  /** Have a handler run all actions without one of their own. With it the host takes every action. */
  anyAction(handler: Handler): this {
    this.#actions.add(undefined, handler);
    return this;
  }

  /**
   * Connect, work, reconnect whenever the connection is lost, and end when the host has drained.
   *
   * Throws a `TaskyardError` when the server refuses the host for good: `bad_request`, `unauthenticated`,
   * `permission_denied`, or `conflict` where another stream of this very host has taken its place.
   */
  async run(): Promise<void> {
    if (this.#actions.isEmpty) throw new Error("the host has no handlers: give it some with host.action()");
    if (this.#run) throw new Error("the host runs already");
    this.#run = new HostRun(this.#options, this.#actions, this.#options.logger ?? QUIET_LOGGER);
    const letGo = this.#options.handleSignals === false ? () => {} : this.#takeSignals();
    try {
      await this.#run.run();
    } finally {
      letGo();
      this.#run = undefined;
    }
  }

  /**
   * Take nothing new, finish what runs within the grace period, then have `run` end.
   *
   * What still runs at the end of the grace period has its signal aborted and is given back, so that another host takes
   * it.
   */
  drain(): void {
    this.#run?.drain();
  }

  #takeSignals(): () => void {
    let timer: NodeJS.Timeout | undefined;
    const letGo = () => {
      clearTimeout(timer);
      process.off("SIGTERM", onSignal);
      process.off("SIGINT", onSignal);
    };
    const onSignal = () => {
      // Without our listener the second signal ends the process.
      timer ??= setTimeout(letGo, SAME_SIGNAL_MS);
      this.drain();
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
    return letGo;
  }
}
