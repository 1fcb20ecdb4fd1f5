/** The hosts that the conformance scenario starts, and their actions. */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import {
  ActionFailed,
  ChildFailed,
  connect,
  Host,
  type HostOptions,
  Output,
  Parked,
  type RunningTask,
  TaskyardError,
} from "@taskyard/client";

/** A host in the background that counts how its handlers begin and end. */
export class ObservedHost {
  begun = 0;
  ended = 0;
  stopped = 0;
  left = false;
  readonly #host: Host;

  constructor(options: HostOptions) {
    this.#host = new Host(options);
    this.#add("echo", async (task) => task.params);
    this.#add("work", work);
    this.#add("fail", async (task) => {
      const { error, code, retryable, retry_after_ms, until } = task.params;
      if (until !== undefined && task.attempt >= Number(until)) return work(task);
      const retryAfterMs = retry_after_ms as number | undefined;
      throw new ActionFailed(String(error), { code: code as string, retryable: retryable !== false, retryAfterMs });
    });
    this.#add("progress", async (task) => {
      const { fraction, message, tokens } = task.params;
      if (tokens !== undefined) task.tokensUsed = Number(tokens);
      task.progress({ fraction: fraction as number, message: message as string });
    });
    this.#add("say", async (task) => {
      const texts = task.params.texts as string[];
      for (const text of texts) await task.emit(text);
      await task.emit({ said: texts.length }, { channel: "log" });
      await task.emit(new TextEncoder().encode("end"), { channel: "bytes" });
    });
    this.#add("artifact", async (task) => {
      const name = String(task.params.name);
      const data = Uint8Array.from({ length: Number(task.params.bytes) }, (_, place) => place % 251);
      await task.putArtifact(name, data);
      return { sha256: hashOf(await task.readArtifact(name)) };
    });
    this.#add("take", take);
    this.#add("steps", steps);
    this.#add("parks", (task) => parks(task, options));
    this.#add("children", children);
    this.#add("crash", async (task) => {
      throw new RangeError(String(task.params.text));
    });
    this.#add("typed", async ({ input }) => {
      const { id } = input as { id: number | bigint };
      return new Output({ id, next: BigInt(id) + 1n });
    });
    this.#host.run().then(
      () => {
        this.left = true;
      },
      (error) => console.error(error),
    );
  }

  drain(): void {
    this.#host.drain();
  }

  #add(action: string, handler: (task: RunningTask) => Promise<unknown>): void {
    this.#host.action(action, async (task) => {
      this.begun += 1;
      let isParked = false;
      try {
        return await handler(task);
      } catch (error) {
        isParked = error instanceof Parked;
        throw error;
      } finally {
        if (task.signal.aborted) this.stopped += 1;
        else if (!isParked) this.ended += 1;
      }
    });
  }
}

async function take({ inputs, params }: RunningTask): Promise<JsonObject> {
  const found: JsonObject = {};
  for (const [name, input] of Object.entries(inputs)) {
    const whole = input.value<JsonObject>();
    const { pad, ...value } = whole ?? {};
    let sha256: string | null = null;
    try {
      if (params.name !== undefined) sha256 = hashOf(await input.readArtifact(String(params.name)));
    } catch (error) {
      if (!(error instanceof TaskyardError) || error.code !== "not_found") throw error;
    }
    const told = { state: input.state ?? null, error: input.error ?? null, value: whole ? value : null };
    found[name] = { ...told, pad: pad === undefined ? null : String(pad).length, sha256 };
  }
  return found;
}

async function steps(task: RunningTask): Promise<JsonObject> {
  const [found, size] = [[] as { attempt: number; pad: string }[], Number(task.params.bytes)];
  let done = 0;
  for (const name of task.params.names as string[]) {
    const doStep = () => {
      done += 1;
      return { attempt: task.attempt, pad: "x".repeat(size) };
    };
    found.push(await task.step(name, doStep));
  }
  if (task.attempt < Number(task.params.until ?? 0)) throw new ActionFailed("again");
  return { done, attempts: found.map(({ attempt }) => attempt), bytes: found.map(({ pad }) => pad.length) };
}

async function children(task: RunningTask): Promise<JsonObject> {
  const { names, action = "echo", fail, join } = task.params;
  const found = [];
  for (const [n, name] of (names as string[]).entries()) {
    found.push(await task.child(name, { action: String(action), params: { n } }));
  }
  const ids = found.map(({ id }) => id);
  const first = await task.step("ids", () => ids);
  if (fail && task.attempt === 1) throw new ActionFailed("again");
  if (join) await task.join(found, { name: "all" });
  const results: JsonValue[] = [];
  for (const child of found) {
    const result = child.result().catch((error) => {
      if (error instanceof ChildFailed) return { child: error.childName, state: error.state };
      throw error;
    });
    results.push((await result) ?? null);
  }
  return { results, ids_differ: new Set([...first, ...ids]).size };
}

async function parks(task: RunningTask, options: HostOptions): Promise<JsonObject> {
  const { ask, choices, sleep_ms, join, event } = task.params;
  const result: JsonObject = { before: await task.step("before", () => task.attempt) };
  if (ask !== undefined) result.answer = await task.ask("go", String(ask), choices ? { choices: choices as [] } : {});
  if (sleep_ms !== undefined) await task.sleep(Number(sleep_ms), "nap");
  if (join !== undefined) {
    await task.join(join as string[], { name: "all" });
    const client = connect(options);
    result.ends = await Promise.all((join as string[]).map(async (id) => (await client.get(id)).state));
    await client.close();
  }
  if (event !== undefined) result.event = await task.event(String(event));
  return result;
}

export function hashOf(data: Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}

export async function work(task: RunningTask): Promise<JsonValue> {
  await sleep(Number(task.params.ms ?? 0), undefined, { signal: task.signal });
  return { attempt: task.attempt };
}
