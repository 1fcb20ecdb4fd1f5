/** How a watch continues after broken streams, with a scripted server and a clock that is passed in. */
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { Calls } from "../src/calls.js";
import { errorFrom, TaskyardError } from "../src/errors.js";
import {
  Task_State,
  TaskEvent_Kind,
  TaskService,
  WatchEnd_Reason,
  type WatchTasksRequest,
  type WatchTasksResponse,
  WatchTasksResponseSchema,
} from "../src/gen/taskyard/v1/task_pb.js";
import { abortError } from "../src/retrying.js";
import { type TaskEvent, watchEvents, type WatchOptions } from "../src/watching.js";
import { FakeClock } from "./clock.js";

/** What a server sends on a stream: a message, the error that ends it, or nothing more. */
type Sent = WatchTasksResponse | TaskyardError | "silence";

const message = (fields: MessageInitShape<typeof WatchTasksResponseSchema>) => create(WatchTasksResponseSchema, fields);
const event = (taskId: string, kind: TaskEvent_Kind, state = Task_State.running) => ({
  kind,
  task: { taskId, state },
});
const changed = (cursor: string, ...ids: string[]) =>
  message({ cursor, events: ids.map((id) => event(id, TaskEvent_Kind.changed)) });
const current = (...ids: string[]) => message({ events: ids.map((id) => event(id, TaskEvent_Kind.current)) });
const bookmark = (cursor: string) => message({ bookmark: true, cursor });
const end = (reason: WatchEnd_Reason) => message({ end: { reason, message: "the end" } });
const broken = () => new TaskyardError("unavailable", "reset");
const ENDED = end(WatchEnd_Reason.tasks_ended);

/** Watches a server that sends these lists, one for each stream. Returns the requests and the events. */
async function watch(streams: Sent[][], options: WatchOptions = {}, clock = new FakeClock(), silenceLimitMs = 1_000) {
  const requests: WatchTasksRequest[] = [];
  const events: TaskEvent[] = [];
  async function* open(request: unknown, signal: AbortSignal) {
    requests.push(request as WatchTasksRequest);
    for (const sent of streams.shift() ?? [broken()]) {
      if (sent === "silence") await new Promise((resolve) => signal.addEventListener("abort", resolve));
      if (signal.aborted) throw abortError(signal);
      if (sent instanceof TaskyardError) throw sent;
      yield sent as WatchTasksResponse;
    }
  }
  let error: TaskyardError | undefined;
  try {
    for await (const each of watchEvents(open, options, 10_000, clock, silenceLimitMs)) events.push(each);
  } catch (thrown) {
    error = errorFrom(thrown);
  }
  return { requests, events, error, names: events.map(({ kind, task }) => `${kind} ${task.id}`) };
}

test("a watch ends once all tasks have ended", async () => {
  const { names, error } = await watch([[bookmark("1"), changed("2", "a"), ENDED]]);
  assert.deepEqual(names, ["changed a"]);
  assert.equal(error, undefined);
});

test("all filters reach the server", async () => {
  const { requests } = await watch([[ENDED]], {
    taskIds: ["a"],
    batchId: "b",
    agentId: "c",
    target: "d",
    states: ["done", "failed"],
    untilEnded: true,
    cursor: "7",
  });
  const { taskIds, batchId, agentId, target, state, untilEnded, cursor, includeCurrent } = requests[0]!;
  assert.deepEqual([taskIds, batchId, agentId, target, state, untilEnded], [["a"], "b", "c", "d", "done,failed", true]);
  assert.deepEqual([cursor, includeCurrent], ["7", undefined]);
});

test("only the last event of a message has the message's cursor", async () => {
  const { events } = await watch([[bookmark("1"), changed("2", "a", "b"), changed("3", "c"), ENDED]]);
  assert.deepEqual(
    events.map(({ cursor }) => cursor),
    ["1", "2", "3"],
  );
});

for (const [why, breaks] of [
  ["a break", [broken()]],
  ["an internal error", [new TaskyardError("internal", "x")]],
  ["a server that shuts down", [end(WatchEnd_Reason.shutdown)]],
  ["a stream that just ends", []],
  ["a silent stream", ["silence"]],
] as [string, Sent[]][]) {
  test(`a watch continues at its last cursor after ${why}`, async () => {
    const streams: Sent[][] = [
      [bookmark("1"), changed("2", "a"), ...breaks],
      [bookmark("2"), changed("3", "b"), ENDED],
    ];
    const { requests, names, error } = await watch(streams, { agentId: "x" }, new FakeClock(), 50);
    assert.deepEqual(names, ["changed a", "changed b"]);
    assert.deepEqual([requests[1]?.cursor, requests[1]?.agentId], ["2", "x"]);
    assert.equal(error, undefined);
  });
}

test("between the messages of a long list, what else waits has its turn", async () => {
  const ids = Array.from({ length: 100 }, (_, place) => `t${place}`);
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns += 1;
    if (!isOver) globalThis.setImmediate(count);
  };
  count();
  const lists = ["a", "b", "c", "d"].map((part) => current(...ids.map((id) => part + id)));
  const { names } = await watch([[...lists, bookmark("1"), ENDED]], { includeCurrent: true });
  isOver = true;
  assert.equal(names.length, 400);
  assert.ok(turns >= lists.length, `${turns} turns`);
});

test("a bookmark moves the cursor", async () => {
  const { requests } = await watch([[bookmark("1"), bookmark("5"), broken()], [ENDED]]);
  assert.equal(requests[1]?.cursor, "5");
});

test("a request that is refused is not repeated", async () => {
  const { requests, error } = await watch([[new TaskyardError("bad_request", "no such state")], [ENDED]]);
  assert.equal(error?.code, "bad_request");
  assert.equal(requests.length, 1);
});

test("an outage that is longer than the patience ends the watch", async () => {
  const clock = new FakeClock();
  const { error } = await watch([], {}, clock);
  assert.equal(error?.code, "unavailable");
  assert.equal(clock.time, 10_000);
});

test("a message ends an outage, so that a watch survives many short ones", async () => {
  const streams: Sent[][] = Array.from({ length: 50 }, (_, n) => [bookmark(String(n)), broken()]);
  const clock = new FakeClock();
  const { requests } = await watch([...streams, [ENDED]], {}, clock);
  assert.equal(requests.length, 51);
});

for (const [how, sent] of [
  ["by the status", new TaskyardError("cursor_expired", "gone")],
  ["by the last message", end(WatchEnd_Reason.cursor_expired)],
] as [string, Sent][]) {
  test(`after a cursor that has expired, reported ${how}, the current tasks are listed again`, async () => {
    const { requests, names } = await watch([[sent], [current("a"), bookmark("1"), ENDED]], { cursor: "old" });
    assert.deepEqual(names, ["current a"]);
    assert.deepEqual([requests[1]?.cursor, requests[1]?.includeCurrent], [undefined, true]);
  });
}

test("current tasks have no cursor", async () => {
  const { events } = await watch([[current("a"), bookmark("1"), ENDED]], { includeCurrent: true });
  assert.deepEqual(
    events.map(({ cursor }) => cursor),
    [undefined],
  );
});

test("after a break in the list of current tasks only new and changed ones are reported", async () => {
  const moved = message({ events: [event("b", TaskEvent_Kind.current, Task_State.done)] });
  const streams = [
    [current("a", "b"), broken()],
    [current("a"), moved, current("c"), bookmark("1"), ENDED],
  ];
  const { names, requests } = await watch(streams, { includeCurrent: true });
  assert.deepEqual(names, ["current a", "current b", "current b", "current c"]);
  assert.equal(requests[1]?.includeCurrent, true);
});

test("after the last current task a new stream resumes at the cursor", async () => {
  const { requests } = await watch([[current("a"), bookmark("1"), broken()], [ENDED]], { includeCurrent: true });
  assert.deepEqual([requests[1]?.cursor, requests[1]?.includeCurrent], ["1", undefined]);
});

test("a slow reader is not mistaken for a silent server", async () => {
  const requests: unknown[] = [];
  async function* open(request: unknown, signal: AbortSignal) {
    requests.push(request);
    for (const id of ["a", "b"]) {
      if (signal.aborted) throw abortError(signal);
      yield changed(id, id);
    }
    yield ENDED;
  }
  for await (const _ of watchEvents(open, {}, 10_000, new FakeClock(), 20)) {
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  assert.equal(requests.length, 1);
});

test("a reader that stops ends the stream", async () => {
  let ended: AbortSignal | undefined;
  async function* open(_: unknown, signal: AbortSignal) {
    ended = signal;
    yield changed("1", "a");
    yield changed("2", "b");
  }
  for await (const _ of watchEvents(open, {}, 10_000)) break;
  assert.equal(ended?.aborted, true);
});

test("a client keeps no listener of a watch whose reader has stopped", async () => {
  const transport = createRouterTransport(({ service }) => {
    service(TaskService, {
      async *watchTasks() {
        yield { cursor: "1", bookmark: true };
        yield changed("2", "a");
        yield changed("3", "b");
      },
    });
  });
  const stub = createClient(TaskService, new Calls(transport));
  let signal: AbortSignal | undefined;
  const open = (request: object, given: AbortSignal) => {
    signal = given;
    return stub.watchTasks(request, { signal });
  };
  for await (const _ of watchEvents(open, {}, 10_000)) break;
  await setImmediate();
  assert.ok(signal);
  assert.deepEqual(getEventListeners(signal, "abort"), []);
});

test("a watch that ends with its tasks shows each as ended once", async () => {
  const failed = message({ cursor: "1", events: [event("a", TaskEvent_Kind.changed, Task_State.failed)] });
  const again = [TaskEvent_Kind.changed, TaskEvent_Kind.evicted].map((kind) => event("a", kind, Task_State.cancelled));
  const sent = () => [failed, message({ cursor: "2", events: again }), changed("3", "b"), ENDED];
  const { names } = await watch([sent()], { taskIds: ["a", "b"], untilEnded: true });
  assert.deepEqual(names, ["changed a", "changed b"]);
  const all = await watch([sent()], { taskIds: ["a", "b"] });
  assert.deepEqual(all.names, ["changed a", "changed a", "evicted a", "changed b"]);
});

test("a watch tells of a gap", async () => {
  const gaps: string[] = [];
  const onGap = (reason: string) => gaps.push(reason);
  await watch([[changed("1", "a"), end(WatchEnd_Reason.cursor_expired)], [ENDED]], { batchId: "b", onGap });
  assert.deepEqual(gaps, ["the end"]);
});
