/** The entry for browsers: nothing that it imports needs Node. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

test("the entry for browsers imports nothing of Node, and no parser of configuration files", () => {
  const seen = new Set<string>();
  const foreign = new Set<string>();
  const visit = (path: string) => {
    if (seen.has(path)) return;
    seen.add(path);
    for (const [, name] of readFileSync(path, "utf8").matchAll(/^(?:import|export)[^;]*? from "([^"]+)"/gms)) {
      if (name?.startsWith(".")) visit(join(path, "..", name));
      else if (name) foreign.add(name);
    }
  };
  visit(join(import.meta.dirname, "../src/web.js"));
  assert.ok(seen.size > 10);
  assert.deepEqual(
    [...foreign].filter((name) => !/^@(connectrpc\/connect(-web)?|bufbuild\/protobuf|noble\/hashes)(\/|$)/.test(name)),
    [],
  );
});
