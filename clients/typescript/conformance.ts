/**
 * The conformance program of this client, see clients/conformance/README.md.
 *
 * It performs the steps of a scenario in order and prints the outcome of each as one line of JSON. With `--serve` it runs
 * a host until SIGTERM instead.
 */
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import {
  type AfterPolicy,
  connect,
  type Client,
  Host,
  type OnConflict,
  type OnTargetFailure,
  outputOf,
  Payload,
  type Task,
  type TaskEvent,
  TaskyardError,
  type TaskState,
} from "@taskyard/client";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { hashOf, ObservedHost, work } from "./conformance_hosts.js";
import { onQueue } from "./conformance_queue.js";
import { bytesOf, type Outcome, payloadFields, workAlone } from "./conformance_workers.js";

interface Step {
  id: string;
  do: string;
  with: JsonObject;
}

type Labels = Record<string, string>;

const { values: given } = parseArgs({
  options: {
    server: { type: "string" },
    namespace: { type: "string" },
    scenario: { type: "string" },
    run: { type: "string", default: "{}" },
    serve: { type: "boolean", default: false },
    "host-id": { type: "string", default: "typescript" },
    slots: { type: "string", default: "4" },
  },
});
const connection = { address: given.server, namespace: given.namespace };

/** A watch that stays open over several steps. A read that was not finished in time continues in the next step. */
class OpenWatch {
  #cursor: string | undefined;
  #pending: Promise<IteratorResult<TaskEvent, void>> | undefined;
  readonly #stop = new AbortController();
  readonly #events: AsyncGenerator<TaskEvent, void, undefined>;

  constructor(client: Client, options: Parameters<Client["watch"]>[0]) {
    this.#events = client.watch({ ...options, signal: this.#stop.signal });
  }

  async read(count: number, ms: number): Promise<Outcome> {
    const events: string[] = [];
    let ended = false;
    const end = new AbortController();
    const late = sleep(ms, "late" as const, { signal: end.signal }).catch(() => "late" as const);
    while (!ended && (count === 0 || events.length < count)) {
      this.#pending ??= this.#events.next();
      const next = await Promise.race([this.#pending, late]);
      if (next === "late") break;
      this.#pending = undefined;
      if (next.done) ended = true;
      else {
        events.push(`${next.value.kind} ${next.value.task.state}`);
        this.#cursor = next.value.cursor;
      }
    }
    end.abort();
    return { events, cursor: this.#cursor ?? null, ended };
  }

  close(): void {
    this.#pending?.catch(() => {});
    this.#stop.abort();
  }
}

/** Performs the operations of the steps. */
class Program {
  readonly #client = connect(connection);
  readonly #hosts = new Map<string, ObservedHost>();
  readonly #watches = new Map<string, OpenWatch>();

  async perform(id: string, operation: string, args: JsonObject): Promise<Outcome> {
    const client = this.#client;
    const text = (name: string) => args[name] as string;
    const number = (name: string) => args[name] as number;
    switch (operation) {
      case "submit": {
        const retry = args.retry as JsonObject | undefined;
        const submitted = await client.submit({
          agentId: text("agent"),
          action: text("action"),
          params: withPad(args.params as JsonObject | undefined, number("pad")) as JsonObject,
          labels: args.labels as Labels,
          priority: number("priority"),
          hold: args.hold as boolean,
          tokenLimit: number("token_limit"),
          idempotencyKey: text("key"),
          runTimeoutMs: number("run_timeout_ms"),
          parentId: text("parent"),
          input: args.input === undefined ? undefined : new Payload(bytesOf(args.input), text("input_encoding")),
          retryPolicy: retry && {
            maxAttempts: retry.max_attempts as number,
            firstDelayMs: retry.first_delay_ms as number,
            nonRetryableCodes: retry.non_retryable_codes as string[],
          },
          concurrencyKeys: args.keys as string[],
          after: args.after as string[],
          inputs: args.inputs as Record<string, string>,
          afterPolicy: args.after_policy as AfterPolicy,
          uniqueKey: text("unique_key"),
          onConflict: args.on_conflict as OnConflict,
          target: text("target"),
          onTargetFailure: args.on_target_failure as OnTargetFailure,
        });
        return { task: submitted.id, state: submitted.state, existing: submitted.existing };
      }
      case "submit_inexact":
        try {
          const params = { id: BigInt(text("number")) };
          const submitted = await client.submit({ agentId: text("agent"), action: text("action"), params });
          return { task: submitted.id, state: submitted.state };
        } catch (error) {
          if (error instanceof TypeError && error.message.startsWith("params.id: ")) return { refused: true };
          throw error;
        }
      case "submit_batch": {
        const { action, hold, labels, count, chain, handed } = args as {
          action: string;
          hold: boolean;
          labels?: Labels;
          count: number;
          chain?: boolean;
          handed?: boolean;
        };
        const after = (n: number) => ({
          ...(chain && n > 0 && { afterIndexes: [n - 1] }),
          ...(handed && n > 0 && { inputIndexes: { before: n - 1 } }),
        });
        const tasks = Array.from({ length: count }, (_, n) => ({ action, hold, labels, params: { n }, ...after(n) }));
        const batch = await client.submitBatch(tasks, { agentId: text("agent") });
        const errors = batch.outcomes.flatMap(({ error }) => (error ? [error] : []));
        return {
          batch: batch.id,
          tasks: batch.taskIds,
          accepted: batch.taskIds.length,
          refused: errors.map(({ code }) => code),
          retry_after_ms: errors.map(({ retryAfterMs }) => retryAfterMs ?? null),
        };
      }
      case "get":
        return outcomeOf(await client.get(text("task")));
      case "list": {
        const filters = {
          agentId: text("agent"),
          batchId: text("batch"),
          parentId: text("parent"),
          states: args.states as TaskState[],
          labels: text("selector"),
          concurrencyKey: text("concurrency_key"),
          idPrefix: text("id_prefix"),
        };
        const tasks: Task[] = [];
        for await (const task of client.list({ ...filters, pageSize: number("page_size") })) tasks.push(task);
        return { count: tasks.length, tasks: tasks.map(({ id }) => id), states: tasks.map(({ state }) => state) };
      }
      case "wait":
        try {
          return { ...outcomeOf(await client.wait(text("task"), { timeoutMs: number("ms") })), ended: true };
        } catch (error) {
          if (error instanceof TaskyardError && error.code === "deadline_exceeded") return { ended: false };
          throw error;
        }
      case "cancel":
        if (args.wait_ms !== undefined) {
          const stopping = await client.cancelAndWait(text("task"), number("wait_ms"));
          return { state: "cancelled", children_cancelled: null, stopping };
        }
        if (!args.children)
          return { state: await client.cancel(text("task")), children_cancelled: null, stopping: null };
        return {
          state: "cancelled",
          children_cancelled: await client.cancelWithChildren(text("task")),
          stopping: null,
        };
      case "pause":
        return { state: await client.pause(text("task")) };
      case "resume":
        return { state: await client.resume(text("task"), { tokenLimit: number("token_limit") }) };
      case "resolve":
        return { state: await client.resolve(text("task"), args.result) };
      case "get_batch": {
        const { ended, tasks, states } = await client.getBatch(text("batch"));
        return { ended, count: tasks.length, states };
      }
      case "cancel_batch":
        return { cancelled: await client.cancelBatch(text("batch")) };
      case "stats": {
        const { queue } = await client.stats();
        return { queued: queue?.totalQueued, paused: queue?.totalPaused ?? 0, agents: { ...queue?.agentCounts } };
      }
      case "watch": {
        const options = {
          taskIds: args.task === undefined ? [] : [text("task")],
          batchId: text("batch"),
          agentId: text("agent"),
          includeCurrent: args.include_current as boolean,
          untilEnded: args.until_ended as boolean,
          cursor: text("cursor"),
        };
        this.#watches.set(id, new OpenWatch(client, options));
        return this.#read(id, args);
      }
      case "read_output": {
        const chunks: string[] = [];
        const options = {
          after: (args.after_chunk as number | undefined) ?? 0,
          channels: args.channels as string[],
          follow: true,
          signal: AbortSignal.timeout(number("ms")),
        };
        for await (const { sequence, channel, kind, data } of client.output(text("task"), options)) {
          const said = kind === "text" ? data : kind === "json" ? JSON.stringify(data) : new TextDecoder().decode(data);
          chunks.push(`${sequence} ${channel} ${said}`);
        }
        return { chunks };
      }
      case "read_artifact": {
        const data = await client.artifacts.read(text("task"), text("name"));
        return { size: data.length, sha256: hashOf(data) };
      }
      case "list_steps": {
        const steps = await client.steps(text("task"));
        return { steps: steps.map(({ name, run, attempt }) => `${name} ${run} ${attempt}`) };
      }
      case "list_questions": {
        const questions: string[] = [];
        for await (const { taskId, questionId, question } of client.questions()) {
          if (taskId === text("task")) questions.push(`${questionId} ${question?.text}`);
        }
        return { questions };
      }
      case "answer":
        return { state: await client.answer(text("task"), text("question"), args.answer ?? null) };
      case "send_event":
        return { waiting: await client.sendEvent(text("name"), args.payload ?? null) };
      case "result": {
        const ended = await client.wait(text("task"), { timeoutMs: number("ms") });
        const { pad, ...value } = outputOf<JsonObject>(ended) ?? {};
        return { value, pad: String(pad).length };
      }
      case "watch_more":
        return this.#read(text("watch"), args);
      case "cut":
        await (await fetch(text("url"))).text();
        return {};
      case "sleep":
        await sleep(number("ms"));
        return {};
      case "host_start":
        this.#hosts.set(
          text("host"),
          new ObservedHost({
            ...connection,
            hostId: text("host"),
            slots: number("slots"),
            leaseSecs: number("lease_secs"),
          }),
        );
        return {};
      case "host_stop":
        this.#hosts.get(text("host"))?.drain();
        return this.#counts(text("host"), { ...args, left: true });
      case "host_wait":
        return this.#counts(text("host"), args);
      default:
        return (await onQueue(client, operation, args)) ?? workAlone(client, operation, args);
    }
  }

  async #read(id: string, args: JsonObject): Promise<Outcome> {
    const watch = this.#watches.get(id);
    if (!watch) throw new Error(`no watch ${id} is open`);
    try {
      return { ...(await watch.read(args.count as number, args.ms as number)), ...(args.keep && { watch: id }) };
    } finally {
      if (!args.keep) {
        watch.close();
        this.#watches.delete(id);
      }
    }
  }

  async #counts(hostId: string, args: JsonObject): Promise<Outcome> {
    const host = this.#hosts.get(hostId);
    if (!host) throw new Error(`no host ${hostId} was started`);
    const isReached = () =>
      host.begun >= Number(args.begun ?? 0) &&
      host.ended >= Number(args.ended ?? 0) &&
      host.stopped >= Number(args.stopped ?? 0) &&
      (host.left || !args.left);
    const end = Date.now() + Number(args.ms ?? 0);
    while (!isReached() && Date.now() < end) await sleep(10);
    const { begun, ended, stopped, left } = host;
    return { begun, ended, stopped, left };
  }
}

/** Params with a text of so many characters beside them. */
function withPad(params: JsonObject | undefined, pad: number | undefined): JsonObject | undefined {
  return pad === undefined ? params : { ...params, pad: "x".repeat(pad) };
}

function outcomeOf(task: Task): Outcome {
  const { progress } = task;
  return {
    task: task.id,
    agent: task.agentId,
    action: task.action,
    state: task.state,
    params: task.params,
    labels: task.labels,
    result: task.result ?? null,
    error_text: task.error ?? null,
    run: task.run,
    attempts: task.attempts.length,
    codes: task.attempts.map(({ code }) => code ?? null),
    progress: progress ? { fraction: progress.fraction ?? null, message: progress.message ?? null } : null,
    tokens: task.tokensUsed ?? null,
    token_limit: task.tokenLimit ?? null,
    run_timeout_ms: task.runTimeoutMs ?? null,
    parent: task.parentId ?? null,
    code: task.code ?? null,
    traceback: task.traceback ?? null,
    keys: task.concurrencyKeys,
    after: task.after,
    inputs: task.inputs,
    unique_key: task.uniqueKey ?? null,
    on_target_failure: task.onTargetFailure ?? null,
    ...payloadFields("input", task.input),
    ...payloadFields("output", task.output),
  };
}

/** The value with each `$step.key` in it replaced by that part of an earlier outcome. */
function resolved(value: JsonValue, outcomes: JsonObject): JsonValue {
  if (typeof value === "string" && value.startsWith("$")) {
    const found = value
      .slice(1)
      .split(".")
      .reduce<JsonValue | undefined>((part, key) => (part as JsonObject | undefined)?.[key], outcomes);
    if (found === undefined) throw new Error(`there is no ${value}`);
    return found;
  }
  if (Array.isArray(value)) return value.map((item) => resolved(item, outcomes));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolved(item, outcomes)]));
}

async function play(steps: Step[]): Promise<void> {
  const program = new Program();
  const outcomes: JsonObject = { run: JSON.parse(given.run) as JsonValue };
  for (const step of steps) {
    const line: JsonObject = { step: step.id };
    try {
      const args = resolved(step.with, outcomes) as JsonObject;
      line.outcome = JSON.parse(JSON.stringify(await program.perform(step.id, step.do, args))) as JsonObject;
    } catch (error) {
      if (error instanceof TaskyardError) {
        const { code, retryable, retryAfterMs, reason, details } = error;
        const retry = { retryable, retry_after_ms: retryAfterMs ?? null };
        line.outcome = { error: code, ...retry, message: reason, details: Object.keys(details).sort() };
      } else line.crashed = error instanceof Error ? (error.stack ?? String(error)) : String(error);
    }
    if (line.outcome) outcomes[step.id] = line.outcome;
    await new Promise((resolve) => process.stdout.write(`${JSON.stringify(line)}\n`, resolve));
  }
}

async function serve(): Promise<void> {
  const host = new Host({ ...connection, hostId: given["host-id"], slots: Number(given.slots), handleSignals: true });
  host.action("work", async (task) => {
    const { pad, asks, steps = [] } = task.params;
    const here = { language: "typescript", process: process.pid };
    const done: JsonValue[] = [];
    for (const name of steps as string[]) {
      done.push(await task.step(name, () => here));
    }
    const answer = asks === undefined ? undefined : await task.ask("go", "Go?");
    const handed = Object.entries(task.inputs).map(([name, input]) => [name, input.value()]);
    const worked = (await work(task)) as JsonObject;
    return { ...here, steps: done, answer, pad, ...worked, ...Object.fromEntries(handed) };
  });
  await host.run();
}

if (given.serve) await serve();
else {
  await play((JSON.parse(await readFile(given.scenario ?? "", "utf8")) as { steps: Step[] }).steps);
  // A scenario may leave watches and hosts open.
  process.exit(0);
}
