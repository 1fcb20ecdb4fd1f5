/** Uploads in parts, with a server that a test writes. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { TaskyardError } from "../src/errors.js";
import { ArtifactSchema } from "../src/gen/taskyard/v1/artifact_pb.js";
import { type ArtifactContent, type Part, PART_BYTES, upload } from "../src/uploading.js";

const newHash = () => createHash("sha256");
const someBytes = (count: number) => Uint8Array.from({ length: count }, (_, n) => n % 251);

/** Uploads to a server that answers each part with this. */
async function uploaded(content: ArtifactContent, answer: (part: Part) => void = () => {}, mediaType?: string) {
  const parts: Part[] = [];
  const send = async (part: Part) => {
    parts.push(part);
    answer(part);
    return { artifact: create(ArtifactSchema, { name: "a" }) };
  };
  const artifact = await upload(content, { ...(mediaType && { mediaType }) }, newHash, send);
  return { parts, artifact };
}

test("all parts but the last have the same size, and the last one the hash, whatever has the bytes", async () => {
  for (const count of [0, 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES]) {
    const data = someBytes(count);
    const pieces = async function* () {
      for (let at = 0; at < count; at += 300_000) yield data.subarray(at, at + 300_000);
    };
    for (const content of [data, new Blob([data]), pieces]) {
      const { parts, artifact } = await uploaded(content);
      const sizes = parts.map((part) => part.content.data.length);
      assert.ok(sizes.slice(0, -1).every((size) => size === PART_BYTES));
      assert.deepEqual(
        parts.map(({ offset }) => offset),
        sizes.map((_, n) => n * PART_BYTES),
      );
      assert.equal(Buffer.compare(Buffer.concat(parts.map((part) => part.content.data)), data), 0);
      const hashes = parts.map(({ sha256 }) => sha256);
      assert.deepEqual(hashes, [...hashes.slice(1).map(() => ""), newHash().update(data).digest("hex")]);
      assert.ok(parts.every(({ sizeBytes }) => sizeBytes === (content === pieces ? 0 : count)));
      assert.equal(artifact.name, "a");
    }
  }
});

test("an upload of which the server has lost some begins anew, a few times", async () => {
  const lost = new TaskyardError("bad_request", "offset: is 1048576, must be 0");
  let losses = 2;
  const { parts } = await uploaded(someBytes(PART_BYTES + 1), ({ offset }) => {
    if (offset && losses-- > 0) throw lost;
  });
  assert.deepEqual(
    parts.map(({ offset }) => offset),
    [0, PART_BYTES, 0, PART_BYTES, 0, PART_BYTES],
  );
  const always = () => {
    throw lost;
  };
  await assert.rejects(uploaded(someBytes(1), always), lost);
  const other = new TaskyardError("bad_request", "name: malformed");
  let calls = 0;
  const refuse = () => {
    calls += 1;
    throw other;
  };
  await assert.rejects(uploaded(someBytes(1), refuse), other);
  assert.equal(calls, 1);
});

test("the media type is the given one, else that of the blob", async () => {
  const blob = new Blob(["x"], { type: "text/plain" });
  const typeOf = async (content: ArtifactContent, mediaType?: string) =>
    (await uploaded(content, undefined, mediaType)).parts[0]?.content.contentType;
  assert.deepEqual(
    [await typeOf(blob), await typeOf(blob, "text/css"), await typeOf(someBytes(1))],
    ["text/plain", "text/css", ""],
  );
});
