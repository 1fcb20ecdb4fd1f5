/**
 * What the tasks of a host say on its way to the server: the chunks that wait to be written, those that wait for an answer,
 * and those that are written again (docs/rules.md, Output).
 *
 * This file knows leases by their keys only; what an answer means for a lease is decided in `session.ts`.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import {
  type NewChunk,
  NewChunkSchema,
  type Output,
  type OutputAck,
  OutputSchema,
} from "./gen/taskyard/v1/output_pb.js";
import { type Key, keyOf, type LeaseName } from "./reports.js";

/** About the most that one message carries, so that the reports behind it do not wait for long. */
const MESSAGE_BYTES = 128 * 1024;
/** How long chunks wait that the server cannot keep for now. */
const RETRY_MS = 1_000;

/** What the handler of one lease has said. */
interface Said {
  name: LeaseName;
  /** The chunks that the server does not keep yet, with their sizes. */
  chunks: { chunk: NewChunk; bytes: number }[];
  /** How many of these are written. */
  written: number;
  /** How many came before them. */
  kept: number;
  /** Grows when chunks are to be written again: an answer to an earlier round says nothing about the lease. */
  round: number;
  /** Whether chunks that were refused for the time being wait. */
  waits: boolean;
  /** True from then on until all are kept. */
  wasRefused: boolean;
  /** Whether it is not known how many the server keeps, so that nothing more can be said. */
  isClosed: boolean;
}

/** A lease that is over, and why. */
export interface RefusedOutput {
  key: Key;
  code: string;
  reason: string;
}

export class OutputBox {
  /** How many bytes may be held, and be written without an answer; 0 where the server takes no output. */
  #limit = 0;
  #heldBytes = 0;
  readonly #leases = new Map<Key, Said>();
  /** The leases that have chunks to write, in turn. */
  readonly #turns = new Set<Key>();
  /** The messages without an answer, oldest first: the server answers in this order. */
  #unanswered: { bytes: number; rounds: Map<Key, number> }[] = [];
  #unansweredBytes = 0;
  /** When chunks that were refused for the time being are written again. */
  #retryAt = Number.POSITIVE_INFINITY;

  /** Takes a chunk of a lease. False if it does not fit yet; undefined if the server takes no output of the lease. */
  add(name: LeaseName, chunk: NewChunk): boolean | undefined {
    const key = keyOf(name);
    let said = this.#leases.get(key);
    if (!this.#limit || said?.isClosed) return undefined;
    const bytes = toBinary(NewChunkSchema, chunk).length;
    if (this.#heldBytes && this.#heldBytes + bytes > this.#limit) return false;
    if (!said) {
      said = { name, chunks: [], written: 0, kept: 0, round: 0, waits: false, wasRefused: false, isClosed: false };
      this.#leases.set(key, said);
    }
    this.#heldBytes += bytes;
    said.chunks.push({ chunk, bytes });
    if (!said.waits) this.#turns.add(key);
    return true;
  }

  /**
   * Whether the report of the end of a lease must wait for its chunks: until they are written, and once some were refused
   * for the time being until they are kept.
   */
  isBehind(key: Key): boolean {
    const said = this.#leases.get(key);
    return said !== undefined && (said.written < said.chunks.length || said.wasRefused);
  }

  /** What tells whether the server keeps all that was said under a lease until now, or never will. */
  mark(key: Key): () => boolean {
    const said = this.#leases.get(key);
    const count = said ? said.kept + said.chunks.length : 0;
    return () => !said || said.kept >= count || said.isClosed || this.#leases.get(key) !== said;
  }

  /** Forgets the chunks of a lease that is over. Those that are written are answered all the same. */
  drop(key: Key): void {
    const said = this.#leases.get(key);
    if (!said) return;
    this.#free(said, said.chunks.length);
    this.#leases.delete(key);
    this.#turns.delete(key);
  }

  /** A stream begins, with a limit of its own. */
  welcomed(limit: number): void {
    this.#limit = limit;
    if (limit) return;
    for (const said of this.#leases.values()) {
      said.isClosed ||= said.chunks.length > 0;
      said.waits = said.wasRefused = false;
      this.#free(said, said.chunks.length);
    }
    this.#turns.clear();
  }

  /** The stream has broken: what has no answer is written again. */
  broken(): void {
    this.#unanswered = [];
    this.#unansweredBytes = 0;
    this.#retryAt = Number.POSITIVE_INFINITY;
    for (const [key, said] of this.#leases) {
      said.written = 0;
      said.waits = said.wasRefused = false;
      if (said.chunks.length) this.#turns.add(key);
    }
  }

  /** The next message, undefined if there is nothing to write, or too much without an answer. Leases take turns. */
  next(maxBytes: number): Output | undefined {
    const message = create(OutputSchema);
    const rounds = new Map<Key, number>();
    const limit = Math.min(maxBytes, MESSAGE_BYTES);
    let bytes = 0;
    for (const key of [...this.#turns]) {
      const said = this.#leases.get(key);
      if (!said) continue;
      const begin = said.written;
      for (const next of said.chunks.slice(begin)) {
        const ahead = this.#unansweredBytes + bytes;
        // A chunk that is larger than a limit goes alone.
        if (bytes && bytes + next.bytes > limit) break;
        if (ahead && ahead + next.bytes > this.#limit) break;
        bytes += next.bytes;
        said.written += 1;
      }
      if (said.written === begin) break;
      rounds.set(key, said.round);
      const chunks = said.chunks.slice(begin, said.written).map(({ chunk }) => chunk);
      message.leases.push({
        $typeName: "taskyard.v1.LeaseOutput",
        ...said.name,
        number: said.kept + begin + 1,
        chunks,
      });
      this.#turns.delete(key);
      if (said.written < said.chunks.length) {
        this.#turns.add(key);
        break;
      }
    }
    if (!rounds.size) return undefined;
    this.#unanswered.push({ bytes, rounds });
    this.#unansweredBytes += bytes;
    return message;
  }

  /** The oldest message without an answer has this one. Returns the leases that are over. */
  answered(acks: readonly OutputAck[], now: number): RefusedOutput[] {
    const over: RefusedOutput[] = [];
    const message = this.#unanswered.shift();
    this.#unansweredBytes -= message?.bytes ?? 0;
    for (const { taskId, fencingToken, taken, error } of message ? acks : []) {
      const key = keyOf({ taskId, fencingToken });
      const said = this.#leases.get(key);
      const round = message?.rounds.get(key);
      if (!said || round === undefined) continue;
      const count = Math.min(taken - said.kept, said.chunks.length);
      if (count > 0) {
        this.#free(said, count);
        said.kept += count;
        said.wasRefused &&= said.chunks.length > 0;
      }
      if (!error) continue;
      const code = error.code ?? "internal";
      const isOld = round !== said.round;
      if (code === "unavailable" && !isOld) {
        said.written = 0;
        said.waits = said.wasRefused = true;
        said.round += 1;
        this.#turns.delete(key);
        this.#retryAt = Math.min(this.#retryAt, now + RETRY_MS);
      } else if (!isOld || code === "lease_lost" || code === "not_found") {
        // What was written behind chunks that were refused leaves a gap, which says nothing.
        over.push({ key, code, reason: error.error ?? code });
      }
    }
    return over;
  }

  /** It is `now`: chunks that were refused for the time being are to be written again. Returns whether there are any. */
  retried(now: number): boolean {
    if (now < this.#retryAt) return false;
    this.#retryAt = Number.POSITIVE_INFINITY;
    for (const [key, said] of this.#leases) {
      if (!said.waits) continue;
      said.waits = false;
      this.#turns.add(key);
    }
    return true;
  }

  /** Takes out the first chunks of a lease. */
  #free(said: Said, count: number): void {
    for (const { bytes } of said.chunks.splice(0, count)) this.#heldBytes -= bytes;
    said.written = Math.max(0, said.written - count);
  }
}
