/** One line when an outage begins, however many calls fail, and one when it is over. */
import { isElsewhere, type TaskyardError } from "./errors.js";
import { type Logger, QUIET_LOGGER } from "./logger.js";

export class OutageLog {
  readonly #logger: Logger;
  readonly #server: string;
  #since: number | undefined;

  constructor(logger: Logger = QUIET_LOGGER, server = "the server") {
    this.#logger = logger;
    this.#server = server;
  }

  /** An attempt has failed. Calls that may be repeated are, for `patienceMs`. */
  failed(error: TaskyardError, patienceMs: number): void {
    if (error.code !== "unavailable" || isElsewhere(error) || this.#since !== undefined) return;
    this.#since = performance.now();
    const repeated = patienceMs ? `; calls that may be repeated are, for ${patienceMs / 1000} s` : "";
    this.#logger.warn(`no answer from ${this.#server}: ${error.reason}${repeated}`);
  }

  /** The server has answered. */
  worked(): void {
    if (this.#since === undefined) return;
    const secs = ((performance.now() - this.#since) / 1000).toFixed(1);
    this.#since = undefined;
    this.#logger.info(`${this.#server} answers again, after ${secs} s`);
  }
}
