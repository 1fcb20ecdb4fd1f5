/** What a handler says, cut into chunks. */
import { create, fromJson, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { type NewChunk, NewChunkSchema } from "./gen/taskyard/v1/output_pb.js";
import { plainJson } from "./values.js";

/** The most that one chunk has. */
export const MAX_CHUNK_BYTES = 64 * 1024;
const DEFAULT_CHANNEL = "output";
const CHANNEL = /^[\w./-]{1,64}$/;

/**
 * What a handler says, as chunks: a string as text, bytes as they are, anything else as JSON. Throws TypeError for a
 * malformed channel, for what is not JSON, and for JSON that does not fit a chunk.
 */
export function chunksOf(said: unknown, channel = DEFAULT_CHANNEL): NewChunk[] {
  if (!CHANNEL.test(channel)) {
    throw new TypeError(`channel: must have 1 to 64 letters, digits, '.', '_', '-' or '/', is '${channel}'`);
  }
  const named = channel === DEFAULT_CHANNEL ? "" : channel;
  const chunk = (data: MessageInitShape<typeof NewChunkSchema>["data"]) =>
    create(NewChunkSchema, { channel: named, data: data as never });
  if (typeof said === "string") return textParts(said.toWellFormed()).map((value) => chunk({ case: "text", value }));
  if (said instanceof Uint8Array) {
    // The caller may use its bytes again.
    return byteParts(said.slice()).map((value) => chunk({ case: "binary", value }));
  }
  const value = fromJson(ValueSchema, plainJson(said, "output"));
  const { length } = toBinary(ValueSchema, value);
  if (length > MAX_CHUNK_BYTES) {
    throw new TypeError(`output: JSON of ${length} bytes does not fit a chunk of ${MAX_CHUNK_BYTES}`);
  }
  return [chunk({ case: "json", value })];
}

/** A text in parts that fit a chunk each. None ends inside a character. */
function textParts(text: string): string[] {
  // No character takes more than three bytes for each of its UTF-16 units.
  if (text.length * 3 <= MAX_CHUNK_BYTES) return text ? [text] : [];
  const encoder = new TextEncoder();
  const buffer = new Uint8Array(MAX_CHUNK_BYTES);
  const parts: string[] = [];
  for (let at = 0; at < text.length; ) {
    const { read } = encoder.encodeInto(text.slice(at, at + MAX_CHUNK_BYTES), buffer);
    parts.push(text.slice(at, at + read));
    at += read;
  }
  return parts;
}

function byteParts(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let at = 0; at < bytes.length; at += MAX_CHUNK_BYTES) parts.push(bytes.subarray(at, at + MAX_CHUNK_BYTES));
  return parts;
}
