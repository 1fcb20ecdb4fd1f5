/** Runtime hosts for Node: register the handlers of actions, then run the host. */
import type { JsonValue } from "@bufbuild/protobuf";
import { type Address, type Caller, callerOf } from "./caller.js";
import { Actions } from "./handlers.js";
import { HostRun } from "./host_run.js";
import { type Logger, QUIET_LOGGER } from "./logger.js";
import type { Handler } from "./running_task.js";

/** A signal that follows the first one so soon is the same request: terminals and init processes send two. */
const SAME_SIGNAL_MS = 1_000;

/** The identity and the settings of a host. */
export interface HostOptions extends Address {
  /** The id of this host. No other running host may use it. */
  hostId: string;
  /** The maximum number of tasks that it runs at once. Default 10. */
  slots?: number;
  /** What it offers; the `requires` of a task must be among them. Default none. */
  capabilities?: string[];
  /** The only project whose tasks it takes. Default: any. */
  project?: string;
  /** Labels for the operator, which the server shows. Default none. */
  labels?: Record<string, string>;
  /** The length of its leases in seconds, 1 to 3,600. Default: the server's `leaseSecs`. */
  leaseSecs?: number;
  /** A name for people. Default: the id. */
  displayName?: string;
  /** How long running tasks may take to end after `drain`, in milliseconds. Default 30,000. */
  drainGraceMs?: number;
  /** Whether to report the use of processors and memory. Default true. */
  machineFigures?: boolean;
  /**
   * Whether to drain at SIGTERM and SIGINT while it runs, as programs want it that do nothing else. A second signal then
   * ends the process. Several hosts may do so, and what listens to the signals beside them goes on to. Default false:
   * signals are the program's, which calls `drain`.
   */
  handleSignals?: boolean;
  /** Where it logs. Default: warnings and errors to the console. */
  logger?: Logger;
}

/**
 * A runtime host: it takes tasks from the server, up to `slots` at once, and runs their handlers.
 *
 * Handlers share the event loop with the host's heartbeats, so long computations belong in a worker thread or a child
 * process.
 *
 * Two tasks of one target never run at once. The host begins a task that has a target only when the server has confirmed
 * its start.
 */
export class Host {
  readonly #options: HostOptions;
  readonly #caller: Caller;
  readonly #actions = new Actions();
  #run: HostRun | undefined;

  /**
   * @throws RangeError if `slots` is not a whole number of at least 1.
   * @throws TypeError for an address, namespace or credentials that no call can be made with, and for a token that would
   *   leave this machine without encryption.
   */
  constructor(options: HostOptions) {
    const { slots = 1 } = options;
    if (!Number.isInteger(slots) || slots < 1) throw new RangeError(`slots: must be 1 or more, is ${slots}`);
    this.#caller = callerOf(options);
    this.#options = options;
  }

  /**
   * Registers the handler of an action. `I` is the type of its `task.input`, which is not checked.
   *
   * @returns This host, for further calls.
   * @throws Error if the action has a handler already.
   */
  action<I = JsonValue>(name: string, handler: Handler<I>): this {
    this.#actions.add(name, handler as Handler);
    return this;
  }

  /**
   * Registers the handler of all actions that have none of their own. With it the host takes tasks of any action.
   *
   * @returns This host, for further calls.
   * @throws Error if there is such a handler already.
   */
  anyAction(handler: Handler): this {
    this.#actions.add(undefined, handler);
    return this;
  }

  /**
   * Connects, runs tasks, and reconnects whenever the connection is lost. The promise resolves when the host has drained.
   *
   * @throws TaskyardError when the server refuses the host for good: `bad_request`, `unauthenticated`,
   *   `permission_denied`, `unimplemented`, or `conflict` if another stream of this host has replaced this one.
   * @throws Error if the host has no handlers or runs already.
   */
  async run(): Promise<void> {
    if (this.#actions.isEmpty) throw new Error("the host has no handlers: give it some with host.action()");
    if (this.#run) throw new Error("the host runs already");
    this.#run = new HostRun(this.#options, this.#caller, this.#actions, this.#options.logger ?? QUIET_LOGGER);
    const stopListening = this.#options.handleSignals ? this.#drainAtSignals() : () => {};
    try {
      await this.#run.run();
    } finally {
      stopListening();
      this.#run = undefined;
    }
  }

  /**
   * Takes no new tasks, lets the running ones end within `drainGraceMs`, then has `run` resolve. It returns at once, and
   * does nothing if the host does not run.
   *
   * The signals of handlers that still run at the end of the grace period are aborted, and their tasks are given back so
   * that another host takes them.
   */
  drain(): void {
    this.#run?.drain();
  }

  #drainAtSignals(): () => void {
    let timer: NodeJS.Timeout | undefined;
    const stopListening = () => {
      clearTimeout(timer);
      process.off("SIGTERM", onSignal);
      process.off("SIGINT", onSignal);
    };
    const onSignal = () => {
      // Once the listener is gone, the next signal ends the process.
      timer ??= setTimeout(stopListening, SAME_SIGNAL_MS);
      this.drain();
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
    return stopListening;
  }
}
