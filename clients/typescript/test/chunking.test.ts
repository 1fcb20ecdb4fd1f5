/** What handlers say, cut into chunks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { chunksOf, MAX_CHUNK_BYTES } from "../src/chunking.js";
import { jsonOf } from "../src/values.js";

const bytesOf = (text: string) => new TextEncoder().encode(text).length;

test("a long text becomes several chunks, and none ends inside a character", () => {
  for (const character of ["€", "😀"]) {
    const text = `${"x".repeat(MAX_CHUNK_BYTES - 1)}${character}${"y".repeat(MAX_CHUNK_BYTES)}`;
    const parts = chunksOf(text, "log").map(({ channel, data }) => {
      assert.equal(channel, "log");
      return data.case === "text" ? data.value : "";
    });
    assert.equal(parts.join(""), text);
    assert.deepEqual([parts.length, bytesOf(parts[0] ?? "")], [3, MAX_CHUNK_BYTES - 1]);
    assert.ok(parts.every((part) => bytesOf(part) <= MAX_CHUNK_BYTES));
  }
});

test("nothing is no chunk, and half of a pair is replaced", () => {
  assert.deepEqual(chunksOf(""), []);
  assert.deepEqual(chunksOf(new Uint8Array()), []);
  assert.equal(chunksOf("a\ud83d")[0]?.data.value, "a\ufffd");
});

test("bytes are cut too, and are those of when they were said", () => {
  const bytes = new Uint8Array(MAX_CHUNK_BYTES + 1);
  const chunks = chunksOf(bytes);
  bytes.fill(1);
  assert.deepEqual(
    chunks.map(({ data }) => (data.value as Uint8Array).length),
    [MAX_CHUNK_BYTES, 1],
  );
  assert.deepEqual(chunks[1]?.data.value, new Uint8Array(1));
});

test("anything else is JSON, of which one chunk has no more than 64 KiB", () => {
  const [chunk] = chunksOf({ n: 1, at: new Date(0) });
  assert.deepEqual(chunk?.data.case === "json" && jsonOf(chunk.data.value), { n: 1, at: "1970-01-01T00:00:00.000Z" });
  assert.equal(chunksOf(null)[0]?.data.case, "json");
  for (const wrong of [undefined, 2n ** 53n + 1n, Number.NaN, ["x".repeat(MAX_CHUNK_BYTES)]]) {
    assert.throws(() => chunksOf(wrong), TypeError);
  }
});

test("a malformed channel is refused", () => {
  for (const channel of ["", "a b", "ü", "x".repeat(65)]) assert.throws(() => chunksOf("x", channel), /channel/);
  assert.equal(chunksOf("x", "output")[0]?.channel, "");
  assert.equal(chunksOf("x", "a/b.c-d_1")[0]?.channel, "a/b.c-d_1");
});
