/** Reading output over streams that a test plays. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { TaskyardError } from "../src/errors.js";
import { ReadOutputResponseSchema } from "../src/gen/taskyard/v1/output_pb.js";
import { type OutputOptions, readChunks } from "../src/reading.js";

type Message = MessageInitShape<typeof ReadOutputResponseSchema>;
type Asked = { after?: number; channels?: string[]; follow?: boolean };

const said = (sequence: number) => ({
  sequence,
  channel: "output",
  data: { case: "text" as const, value: `${sequence}` },
});

/** What a reader gets of these streams, each of which breaks behind its messages but the last; and what it asked for. */
async function read(streams: Message[][], options: OutputOptions = {}) {
  const asked: unknown[] = [];
  const open = async function* (request: Asked) {
    asked.push([request.after, request.channels, request.follow]);
    const messages = streams[asked.length - 1] ?? [];
    for (const message of messages) yield create(ReadOutputResponseSchema, message as never);
    if (asked.length < streams.length) throw new TaskyardError("unavailable", "broken");
  };
  const texts: unknown[] = [];
  const clock = { now: () => 0, random: () => 0, sleep: async () => {} };
  for await (const { data } of readChunks(open as never, "t", options, { patienceMs: 1_000, clock })) texts.push(data);
  return { texts, asked };
}

test("after a break the next stream begins behind the last message", async () => {
  const streams = [
    [{ chunks: [said(3), said(4)], nextAfter: 6, firstSequence: 1 }],
    [],
    [{ chunks: [said(7)], nextAfter: 7, firstSequence: 1 }],
  ];
  const { texts, asked } = await read(streams, { after: 2, channels: ["output"], follow: true });
  assert.deepEqual(texts, ["3", "4", "7"]);
  assert.deepEqual(
    asked,
    [2, 6, 6].map((after) => [after, ["output"], true]),
  );
});

test("a reader is told how many chunks were dropped to make room", async () => {
  const told: number[] = [];
  const streams = [
    [
      { chunks: [said(5)], nextAfter: 5, firstSequence: 5 },
      { chunks: [said(6)], nextAfter: 6, firstSequence: 9 },
      { chunks: [], nextAfter: 6, firstSequence: 9 },
      { chunks: [], nextAfter: 6, firstSequence: 9 },
    ],
  ];
  const { texts } = await read(streams, { onDropped: (chunks) => told.push(chunks) });
  assert.deepEqual(texts, ["5", "6"]);
  assert.deepEqual(told, [4, 2]);
});
