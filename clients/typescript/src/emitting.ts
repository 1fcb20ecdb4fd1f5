/** The chunks that handlers say, and what waits until the server keeps enough of them. */
import { onAbort } from "./abort_listeners.js";
import { TaskyardError } from "./errors.js";
import type { NewChunk } from "./gen/taskyard/v1/output_pb.js";
import type { LeaseName } from "./reports.js";
import { TaskStopped } from "./running_task.js";
import type { Session } from "./session.js";

const NO_OUTPUT = "the server takes no output: it, or a replica beside it, is of an earlier version";

interface Waiting {
  name: LeaseName;
  chunk: NewChunk;
  resolve(): void;
  reject(error: unknown): void;
}

/** The chunks of one host that wait for room, in the order in which they were said. */
export class Emitter {
  readonly #session: Session;
  #waiting: Waiting[] = [];
  /** Those that wait until the server keeps what was said. */
  readonly #flushing = new Set<{ isKept: () => boolean; resolve: () => void }>();

  constructor(session: Session) {
    this.#session = session;
  }

  /** Resolves once the chunk is on its way. Rejects when `signal` aborts before, and where it can never be said. */
  say(name: LeaseName, chunk: NewChunk, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting = { name, chunk, resolve, reject };
      if (!this.#waiting.length && this.#isOver(waiting)) return;
      if (signal.aborted) return reject(signal.reason);
      const forget = onAbort(signal, () => {
        this.#waiting = this.#waiting.filter((each) => each !== waiting);
        reject(signal.reason);
      });
      waiting.resolve = () => {
        forget();
        resolve();
      };
      waiting.reject = (error) => {
        forget();
        reject(error);
      };
      this.#waiting.push(waiting);
    });
  }

  /** Resolves once the server keeps what is on its way under a lease. Rejects when `signal` aborts before. */
  kept(name: LeaseName, signal: AbortSignal): Promise<void> {
    const isKept = this.#session.markOutput(name);
    if (isKept()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const flushing = { isKept, resolve: () => {} };
      const forget = onAbort(signal, () => {
        this.#flushing.delete(flushing);
        reject(signal.reason);
      });
      flushing.resolve = () => {
        forget();
        resolve();
      };
      this.#flushing.add(flushing);
    });
  }

  /** There may be room for those that wait, and the server may keep more. */
  retry(): void {
    for (let [first] = this.#waiting; first && this.#isOver(first); [first] = this.#waiting) this.#waiting.shift();
    for (const flushing of this.#flushing) {
      if (!flushing.isKept()) continue;
      this.#flushing.delete(flushing);
      flushing.resolve();
    }
  }

  /** Whether a chunk was said, or never will be. */
  #isOver({ name, chunk, resolve, reject }: Waiting): boolean {
    const outcome = this.#session.said(name, chunk);
    if (outcome === "full") return false;
    if (outcome === "said") resolve();
    else if (outcome === "over") reject(new TaskStopped("the lease has ended", "lease_lost"));
    else reject(new TaskyardError("unimplemented", NO_OUTPUT));
    return true;
  }
}
