/** One signal for many calls: it ends all of them, and Node sees no more than one listener. */
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { onAbort } from "../src/abort_listeners.js";
import { Calls } from "../src/calls.js";
import { TaskyardError } from "../src/errors.js";
import { TaskService } from "../src/gen/taskyard/v1/task_pb.js";

const isCancelled = (error: unknown) => error instanceof TaskyardError && error.code === "cancelled";

test("many calls with one signal do not make Node warn, and end when it aborts", async (t) => {
  const warnings: Error[] = [];
  const warn = (warning: Error) => warnings.push(warning);
  process.on("warning", warn);
  t.after(() => process.off("warning", warn));
  const transport = createRouterTransport(({ service }) => {
    service(TaskService, { getTask: () => new Promise(() => {}) });
  });
  const stub = createClient(TaskService, new Calls(transport));
  const signal = AbortSignal.timeout(100);
  const calls = Array.from({ length: 30 }, () => assert.rejects(stub.getTask({}, { signal }), isCancelled));
  await setImmediate();
  assert.deepEqual(warnings, []);
  // The timer of a signal does not keep the process alive.
  const alive = setTimeout(() => {}, 10_000);
  await Promise.all(calls);
  clearTimeout(alive);
  assert.deepEqual(getEventListeners(signal, "abort"), []);
});

test("a signal keeps no listener once all of its listeners are removed", () => {
  const { signal } = new AbortController();
  const removals = [1, 2].map(() => onAbort(signal, () => {}));
  assert.equal(getEventListeners(signal, "abort").length, 1);
  for (const remove of removals) remove();
  assert.deepEqual(getEventListeners(signal, "abort"), []);
});

test("a listener that is removed twice leaves later ones alone", () => {
  const controller = new AbortController();
  const heard: string[] = [];
  const remove = onAbort(controller.signal, () => heard.push("first"));
  remove();
  onAbort(controller.signal, () => heard.push("second"));
  remove();
  controller.abort();
  assert.deepEqual(heard, ["second"]);
});

test("a listener that is removed while the others are called is not called", () => {
  const controller = new AbortController();
  const heard: string[] = [];
  let removeSecond = () => {};
  onAbort(controller.signal, () => removeSecond());
  removeSecond = onAbort(controller.signal, () => heard.push("second"));
  onAbort(controller.signal, () => heard.push("third"));
  controller.abort();
  assert.deepEqual(heard, ["third"]);
});
