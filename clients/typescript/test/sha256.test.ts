/** The hash of browsers is that of Node. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { portableHash } from "../src/sha256.js";

test("the hash of any number of bytes, in parts of any size, is that of Node", () => {
  for (const count of [0, 1, 55, 56, 63, 64, 65, 119, 120, 1_000, 70_000]) {
    const data = Uint8Array.from({ length: count }, (_, n) => (n * 7) % 251);
    for (const at of [0, Math.floor(count / 3), count]) {
      const hash = portableHash();
      hash.update(data.subarray(0, at));
      hash.update(data.subarray(at));
      assert.equal(hash.digest("hex"), createHash("sha256").update(data).digest("hex"), `${count} bytes`);
    }
  }
});
