/** Options that no call can be made with are refused at once, with an error that names them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { TaskSchema } from "../src/gen/taskyard/v1/task_pb.js";
import { connect, Host } from "../src/index.js";
import { RunningTask } from "../src/running_task.js";
import { taskFrom } from "../src/tasks.js";

for (const address of ["http://127.0.0.1:50051", "127.0.0.1", "", "127.0.0.1:99999", "127.0.0.1:50051/x", "a b:1"]) {
  test(`the address '${address}' is refused`, () => {
    const refusal = {
      name: "TypeError",
      message: `address: must be HOST:PORT, https://HOST:PORT, dns:///HOST:PORT or unix:PATH, or several of them, is '${address}'`,
    };
    assert.throws(() => connect({ address }), refusal);
    assert.throws(() => new Host({ address, hostId: "h" }), refusal);
  });
}

test("host names and IP addresses with a port are accepted", async () => {
  for (const address of ["localhost:1", "127.0.0.1:50051", "[::1]:443", "my_host.internal:50051"]) {
    await connect({ address }).close();
  }
});

test("a token or a namespace that no header can hold is refused", () => {
  for (const text of ["two\nlines", "schlüssel", "€"]) {
    assert.throws(() => connect({ token: text }), { name: "TypeError", message: /^token: / });
    assert.throws(() => connect({ namespace: text }), { name: "TypeError", message: /^namespace: / });
    assert.throws(() => new Host({ hostId: "h", token: text }), { name: "TypeError", message: /^token: / });
  }
});

test("invalid times are refused, and any length is accepted", async () => {
  assert.throws(() => connect({ timeoutMs: 0 }), { name: "RangeError", message: /^timeoutMs: / });
  for (const ms of [-1, Number.NaN]) {
    assert.throws(() => connect({ timeoutMs: ms }), { name: "RangeError", message: /^timeoutMs: / });
    assert.throws(() => connect({ patienceMs: ms }), { name: "RangeError", message: /^patienceMs: / });
  }
  const patient = connect({ address: "127.0.0.1:1", timeoutMs: Number.POSITIVE_INFINITY, patienceMs: 100 });
  await assert.rejects(patient.get("t"), { code: "unavailable" });
  await patient.close();
});

test("a host whose Hello cannot be encoded does not connect", async () => {
  for (const slots of [0, 1.5, Number.NaN]) {
    assert.throws(() => new Host({ hostId: "h", slots }), { name: "RangeError", message: /^slots: / });
  }
  const host = new Host({ hostId: "h", leaseSecs: 1.5 }).anyAction(() => {});
  await assert.rejects(host.run(), /lease_secs/);
});

test("an invalid number of tokens is refused when it is set, and does not break the stream of the host", () => {
  const name = { taskId: "t", fencingToken: 1 };
  const stated: (number | undefined)[] = [];
  const reporter = { progressed() {}, said: async () => {}, usedTokens: (count?: number) => stated.push(count) };
  const [{ signal }, unused] = [new AbortController(), undefined as never];
  const task = new RunningTask(taskFrom(create(TaskSchema)), name, signal, reporter, unused);
  for (const count of [-1, 1.5, Number.NaN, 2 ** 32]) {
    assert.throws(
      () => {
        task.tokensUsed = count;
      },
      { name: "RangeError", message: /^tokensUsed: / },
    );
  }
  task.tokensUsed = 7;
  assert.equal(task.reportOf({ case: "completed", value: {} }).tokensUsed, 7);
  assert.deepEqual(stated, [7]);
});
