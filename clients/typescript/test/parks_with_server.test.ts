/** Handlers that ask, sleep and join: they hold no slot meanwhile, and begin again with what came. With a real server. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, afterEach, before, test } from "node:test";
import { type Client, connect, Host, NotRetryable, Parked, type RunningTask, TaskStopped } from "../src/index.js";
import { TestServer, until } from "./server.js";

let server: TestServer;
let client: Client;
let host: Host | undefined;
let running: Promise<void> | undefined;
/** What the host has logged as errors. */
const errors: string[] = [];
const logger = { info() {}, warn() {}, error: (text: string) => errors.push(text) };

before(async () => {
  server = await TestServer.up();
  client = connect({ address: server.address, agentId: "ann" });
});

afterEach(async () => {
  errors.length = 0;
  host?.drain();
  await running;
});

after(async () => {
  await client.close();
  await server.down();
});

/** Runs a host of one slot whose handler has the action `work`, until the test ends. */
function work(handler: (task: RunningTask) => unknown): void {
  host = new Host({ address: server.address, hostId: "worker", slots: 1, logger });
  host.action("work", handler);
  host.action("child", ({ id }) => id);
  running = host.run();
}

/** A task of the handler, once it is parked. */
async function parked(handler: (task: RunningTask) => unknown): Promise<string> {
  work(handler);
  const { id } = await client.submit({ action: "work" });
  await untilParked(id);
  return id;
}

const untilParked = (id: string) => until(async () => (await client.get(id)).state === "parked", "the task is parked");

const waitsOf = async (id: string) => (await client.get(id)).park?.waits.map(({ kind, name }) => `${kind} ${name}`);

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

test("a task waits without a slot for an answer, a time and other tasks, and goes on with what came", async () => {
  const built: string[] = [];
  const schema = { type: "object", required: ["go"] };
  const id = await parked(async (task) => {
    try {
      const image = await task.step("build", () => {
        built.push("image");
        return "shop-1";
      });
      const { go } = await task.ask<{ go: boolean }>("build", `Deploy ${image}?`, { schema, timeoutMs: 60_000 });
      await task.sleep(1, "settle");
      const part = await task.step("part", async () => (await client.submit({ action: "child" })).id);
      await task.join([part]);
      return { go, part: (await client.get(part)).result ?? null };
    } finally {
      await task.emit("left");
    }
  });
  assert.equal(await client.run({ action: "child" }).then(Boolean), true);
  const [open] = await all(client.questions({ agentId: "ann", pageSize: 1 }));
  const { since, until: end, ...rest } = open ?? {};
  assert.deepEqual(rest, {
    taskId: id,
    agentId: "ann",
    action: "work",
    questionId: "build",
    question: { text: "Deploy shop-1?", schema },
  });
  assert.equal(end && since && end > since, true);
  assert.deepEqual((await client.get(id)).park?.waits[0]?.question, rest.question);
  assert.deepEqual(await all(client.questions({ agentId: "bob" })), []);
  await assert.rejects(client.answer(id, "build", { stop: 1 }), { code: "bad_request" });
  await assert.rejects(client.answer(id, "other", 1), { code: "not_found" });
  assert.equal(await client.answer(id, "build", { go: true }), "queued");
  await client.answer(id, "build", { go: true });
  const ended = await client.wait(id);
  assert.deepEqual([ended.error, ended.attempts], [undefined, []]);
  const steps = await client.steps(id);
  assert.deepEqual(ended.result, { go: true, part: steps[3]?.result });
  assert.deepEqual(built, ["image"]);
  assert.deepEqual(
    steps.map(({ kind, name, by }) => [kind, name, by]),
    [
      ["work", "build", undefined],
      ["answer", "build", "local"],
      ["time", "settle", undefined],
      ["work", "part", undefined],
      ["ends", "join", undefined],
    ],
  );
  assert.deepEqual(steps[1]?.question, rest.question);
  assert.equal((await all(client.output(id))).length, 4);
  await assert.rejects(client.answer(id, "build", { go: false }), { code: "conflict" });
  assert.deepEqual(errors, []);
});

test("what is waited for side by side is one park, once steps are done", async () => {
  const go = new AbortController();
  const id = await parked((task) => {
    const slow = async () => {
      setImmediate(() => setImmediate(() => go.abort()));
      if (!go.signal.aborted) await once(go.signal, "abort");
      return "slow";
    };
    return Promise.all([task.ask("a", "A?"), task.step("slow", slow), task.ask("b", "B?", { choices: [1] })]);
  });
  assert.deepEqual(await waitsOf(id), ["answer a", "answer b"]);
  const steps = (await client.steps(id)).map(({ name }) => name);
  assert.deepEqual(steps, ["slow"]);
  await client.answer(id, "b", 1);
  await until(async () => (await waitsOf(id))?.join() === "answer a", "it waits for the other");
  await client.answer(id, "a", null);
  assert.deepEqual((await client.wait(id)).result, [null, "slow", 1]);
});

test("what did not come in time is the default, an error, or the end of the task", async () => {
  const held = await client.submit({ action: "child", hold: true });
  work(async (task) => {
    assert.deepEqual(await task.ask("go", "Go?", { default: { no: 1 }, timeoutMs: 1 }), { no: 1 });
    const late = await task.join([held], { timeoutMs: 1 }).catch((error) => {
      if (error instanceof Parked) throw error;
      return String(error.code);
    });
    assert.equal(late, "deadline_exceeded");
    await task.ask("why", "", { url: "https://example.com", timeoutMs: 1 });
  });
  const ended = await client.wait((await client.submit({ action: "work" })).id);
  assert.deepEqual([ended.state, ended.code], ["failed", "question_expired"], ended.error);
  const steps = (await client.steps(ended.id)).map(({ kind, result, expired, by }) => [kind, result, expired, by]);
  assert.deepEqual(steps.slice(0, 2), [
    ["answer", { no: 1 }, true, undefined],
    ["ends", undefined, true, undefined],
  ]);
});

test("a handler that swallows the unwinding is parked all the same, and is told", async () => {
  const refused: unknown[] = [];
  const id = await parked(async (task) => {
    const go = () => task.ask("go", "Go?");
    const answer = await go().catch(() => "swallowed");
    if (answer !== "swallowed") return answer;
    for (const call of [go, () => task.sleep(1), () => task.join(["tsk_1"]), () => task.step("late", () => 1)]) {
      await call().catch((error) => refused.push(error));
    }
    return "went on";
  });
  assert.deepEqual([await waitsOf(id), await client.steps(id)], [["answer go"], []]);
  assert.ok(refused.length === 4 && refused.every((error) => error instanceof Parked));
  const told = `task ${id} (work): the handler went on after its task was parked: `;
  assert.deepEqual(errors, [
    `${told}what it does is refused. Let Parked through, or throw it again`,
    `${told}what it has returned is not reported`,
  ]);
  await client.answer(id, "go", "yes");
  assert.equal((await client.wait(id)).result, "yes");
});

test("a handler may clean up, and wrap what unwinds it; another error of it is logged", async () => {
  const failure = new Error("cannot be closed");
  const id = await parked(async (task) => {
    const first = await task.ask("a", "A?").catch((cause) => {
      throw cause instanceof Parked ? new Error("unwound", { cause }) : cause;
    });
    try {
      return [first, await task.ask("b", "B?")];
    } catch (error) {
      throw error instanceof Parked ? failure : error;
    }
  });
  assert.deepEqual(errors, []);
  await client.answer(id, "a", 1);
  await until(async () => (await waitsOf(id))?.join() === "answer b", "the next question is asked");
  assert.match(errors.join(), /went on after its task was parked: what it has thrown is not reported$/);
  await client.answer(id, "b", 2);
  assert.deepEqual((await client.wait(id)).result, [1, 2]);
});

test("what cannot be waited for is said at once", async () => {
  const refusals: [(task: RunningTask) => Promise<unknown>, string][] = [
    [(task) => task.ask("a b", "Go?"), "ask 'a b': an id has 1 to 128 letters, digits"],
    [(task) => task.ask("go"), "ask 'go': it needs a text or a url"],
    [(task) => task.ask("go", "Go?", { timeoutMs: -1 }), "ask 'go': timeoutMs: must be 0 to 31622400000, is -1"],
    [(task) => task.ask("go", "Go?", { default: 2n ** 60n }), "ask 'go': default: 1152921504606846976"],
    [(task) => task.ask("go", "Go?", { choices: [Number.NaN] }), "ask 'go': NaN is not JSON"],
    [(task) => task.ask("go", "Go?", { schema: [] }), "ask 'go': schema: it is no JSON object"],
    [(task) => task.sleep(Number.NaN), "sleep 'sleep': ms: must be 0 to 31622400000, is NaN"],
    [(task) => task.sleep(1, " "), "sleep ' ': its name must have 1 to 256 characters"],
    [
      (task) => task.join(Array.from({ length: 10_001 }, (_, n) => String(n))),
      "join 'join': at most 10000 tasks, not 10001",
    ],
    [
      (task) => Promise.all([task.sleep(1), task.sleep(2)]),
      "sleep 'sleep': this run has used the name already, and names must differ",
    ],
    [(task) => task.step("it", () => task.ask("go", "Go?")), "ask 'go': it is called within the step 'it'"],
  ];
  work(async (task) => {
    await task.join([]);
    const [call, text] = refusals[Number(task.params.n)] ?? [];
    const error = await call?.(task).catch((error: unknown) => error);
    return error instanceof NotRetryable && error.message.startsWith(text ?? "-") ? null : String(error);
  });
  const given = refusals.map((_, n) => client.run({ action: "work", params: { n } }));
  assert.deepEqual(
    await Promise.all(given),
    refusals.map(() => null),
  );
});

for (const releases of [false, true]) {
  test(`the target of a task that waits ${releases ? "is free where it says so" : "stays taken"}`, async () => {
    const begun: string[] = [];
    work(async (task) => {
      begun.push(String(task.params.name));
      task.releasesTarget = releases;
      if (task.params.name === "first") await task.ask("go", "Go?");
    });
    const target = `page ${releases}`;
    const submit = (name: string) => client.submit({ action: "work", target, params: { name } });
    const { id } = await submit("first");
    await untilParked(id);
    const second = await submit("second");
    if (releases) await client.wait(second.id);
    // A task without a target passes all that may begin.
    await client.run({ action: "work", params: { name: "other" } });
    await client.answer(id, "go", 1);
    for (const each of [id, second.id]) assert.equal((await client.wait(each)).state, "done");
    const rest = releases ? ["second", "other", "first"] : ["other", "first", "second"];
    assert.deepEqual(begun, ["first", ...rest]);
  });
}

test("a question that the server refuses fails its task", async () => {
  work((task) => task.ask("go", "Go?", { choices: ["yes"], default: "no" }));
  const { state, error, code } = await client.wait((await client.submit({ action: "work" })).id);
  assert.deepEqual([state, code], ["failed", "bad_request"]);
  assert.match(error ?? "", /^park refused: .*default: must be one of the choices/);
});

test("a cancel ends what waits beside a step", async () => {
  const [begun, ended] = [new AbortController(), new AbortController()];
  work(async (task) => {
    const stepping = task.step("slow", () => {
      begun.abort();
      return once(task.signal, "abort");
    });
    await Promise.all([stepping.catch(() => {}), task.ask("go", "Go?")]).catch((error) => ended.abort(error));
  });
  const { id } = await client.submit({ action: "work" });
  if (!begun.signal.aborted) await once(begun.signal, "abort");
  await client.cancel(id);
  if (!ended.signal.aborted) await once(ended.signal, "abort");
  assert.ok(ended.signal.reason instanceof TaskStopped);
  assert.deepEqual(await client.steps(id), []);
});

test("a task that is cancelled while it is parked has no question any more", async () => {
  const id = await parked((task) => task.ask("go", "Go?"));
  await client.cancel(id);
  await assert.rejects(client.answer(id, "go", 1), { code: "not_found" });
  assert.deepEqual(await all(client.questions()), []);
});

test("a handler that ends before what it has asked for is not parked", async () => {
  work((task) => {
    void task.ask("go", "Go?");
    return "done";
  });
  assert.equal(await client.run({ action: "work" }), "done");
});
