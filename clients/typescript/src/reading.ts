/** What tasks say, as callers read it: over one stream after the other, without a gap or a repeat. */
import type { JsonValue, MessageInitShape } from "@bufbuild/protobuf";
import type {
  OutputChunk as ChunkMessage,
  ReadOutputRequestSchema,
  ReadOutputResponse,
} from "./gen/taskyard/v1/output_pb.js";
import { LONG_MESSAGE, nextTurn, overStreams, type Resuming } from "./streaming.js";
import { checkCount, dateOf, jsonOf } from "./values.js";

/** A piece of what a task has said. */
export type OutputChunk = {
  /** Numbers the chunks of a task from 1, without a gap, over all of its attempts. */
  sequence: number;
  /** `output`, `stdout`, `stderr`, `log`, or a name of the host's. */
  channel: string;
  /** The number of the attempt that said it, from 1. */
  attempt: number;
  /** When the server took it. */
  takenAt: Date;
} & (
  | { /** How it was said. */ kind: "text" /** What was said. */; data: string }
  | { kind: "json"; data: JsonValue }
  | { kind: "binary"; data: Uint8Array }
);

/** What to read of a task's output. */
export interface OutputOptions {
  /** Begins behind the chunk with this `sequence`. Default 0: with the oldest that is kept. */
  after?: number;
  /** Only chunks of these channels. Default all. */
  channels?: string[];
  /** Whether to go on until the task has ended and all is read. Default false: it ends with what is there. */
  follow?: boolean;
  /**
   * Called with the number of chunks that are missing at this point, since the server has dropped them to make room.
   * Default none.
   */
  onDropped?: (chunks: number) => void;
  /** Ends the reading as `cancelled` when it aborts. Default none. */
  signal?: AbortSignal;
}

type Request = MessageInitShape<typeof ReadOutputRequestSchema>;

/** The chunks of a task. `open` opens one stream. */
export async function* readChunks(
  open: (request: Request, signal: AbortSignal) => AsyncIterable<ReadOutputResponse>,
  taskId: string,
  options: OutputOptions,
  resuming: Resuming,
): AsyncGenerator<OutputChunk, void, undefined> {
  const { channels, follow } = options;
  let after = options.after ?? 0;
  checkCount("after", after);
  const next = (signal: AbortSignal) => open({ taskId, after, channels, follow }, signal);
  for await (const message of overStreams(next, () => false, resuming, true)) {
    // The server may still have more than it promises.
    const first = Math.min(message.firstSequence ?? 1, message.chunks[0]?.sequence ?? Number.POSITIVE_INFINITY);
    if (first - 1 > after) {
      options.onDropped?.(first - 1 - after);
      after = first - 1;
    }
    for (const chunk of message.chunks) yield chunkFrom(chunk);
    after = Math.max(after, message.nextAfter ?? 0);
    if (message.chunks.length >= LONG_MESSAGE) await nextTurn();
  }
}

function chunkFrom({ sequence = 0, channel = "", attempt = 0, takenAt, data }: ChunkMessage): OutputChunk {
  const about = { sequence, channel, attempt, takenAt: dateOf(takenAt) ?? new Date(0) };
  if (data.case === "json") return { ...about, kind: "json", data: jsonOf(data.value) ?? null };
  if (data.case === "binary") return { ...about, kind: "binary", data: data.value };
  return { ...about, kind: "text", data: data.value ?? "" };
}
