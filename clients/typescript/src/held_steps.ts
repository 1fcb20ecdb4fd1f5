/** The steps of a task under its lease: those of earlier attempts are found by their names, others are recorded. */
import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Client as Stub } from "@connectrpc/connect";
import type { TaskyardError } from "./errors.js";
import { type StepService, StepSchema } from "./gen/taskyard/v1/step_pb.js";
import type { HeldArtifacts } from "./held_artifacts.js";
import { checkName, refused } from "./new_waits.js";
import { bytesOf, Output, outputFields, outputOf, Payload } from "./payloads.js";
import { referenceIn } from "./references.js";
import type { LeaseName } from "./reports.js";
import { stepFrom, type TaskStep } from "./steps.js";
import type { Task } from "./tasks.js";

/** The step whose work goes on here, and the run that it is of. */
const within = new AsyncLocalStorage<{ run: HeldSteps; name: string }>();

/** The steps of a task that a host has under a lease. */
export class HeldSteps {
  readonly #stub: Stub<typeof StepService>;
  readonly #lease: LeaseName & { hostId: string };
  readonly #task: Task;
  readonly #artifacts: HeldArtifacts;
  readonly #signal: AbortSignal;
  /** How large a result, or the params of a child, may be; 0 if the server has not told. */
  readonly maxPayloadBytes: () => number;
  readonly #flush: () => Promise<void>;
  /** The names of this run. */
  readonly #used = new Set<string>();
  #recorded: Promise<Map<string, TaskStep>> | undefined;
  #underWay = 0;
  /** Called when no step is under way any more. */
  whenQuiet = () => {};

  /** `flush` resolves once the server keeps what the task has said. */
  constructor(
    stub: Stub<typeof StepService>,
    lease: LeaseName & { hostId: string },
    task: Task,
    artifacts: HeldArtifacts,
    signal: AbortSignal,
    maxPayloadBytes: () => number,
    flush: () => Promise<void>,
  ) {
    this.#stub = stub;
    this.#lease = lease;
    this.#task = task;
    this.#artifacts = artifacts;
    this.#signal = signal;
    this.maxPayloadBytes = maxPayloadBytes;
    this.#flush = flush;
  }

  /** Whether a step is done, recorded or looked for just now, or a child submitted or fetched. */
  get areUnderWay(): boolean {
    return this.#underWay > 0;
  }

  /** The name of the step of this run whose work goes on here; undefined outside of them. */
  get here(): string | undefined {
    const store = within.getStore();
    return store?.run === this ? store.name : undefined;
  }

  /** Does a step, see `RunningTask.step`. */
  do(name: string, work: () => unknown): Promise<unknown> {
    return this.during(() => this.#do(name, work));
  }

  /** The step of a kind and name that earlier attempts and runs have left behind; undefined if there is none. */
  find(kind: TaskStep["kind"], name: string): Promise<TaskStep | undefined> {
    return this.during(async () => (await this.#earlier()).get(keyOf(kind, name)));
  }

  /** Does a part of the run while which it is not parked. */
  async during<T>(part: () => Promise<T>): Promise<T> {
    this.#underWay += 1;
    try {
      return await part();
    } finally {
      this.#underWay -= 1;
      if (!this.#underWay) this.whenQuiet();
    }
  }

  async #do(name: string, work: () => unknown): Promise<unknown> {
    checkName(`step '${name}'`, name);
    this.#signal.throwIfAborted();
    if (this.#used.has(name)) throw failed(name, "this run has it already: each step needs a name of its own");
    this.#used.add(name);
    let done: [unknown, ReturnType<typeof outputFields>, number];
    try {
      const found = (await this.#earlier()).get(keyOf("work", name));
      if (found) return await this.#valueOf(found);
      const began = performance.now();
      const value = await within.run({ run: this, name }, work);
      const durationMs = Math.ceil(performance.now() - began);
      done = [...encoded(name, value), durationMs];
    } catch (error) {
      // Nothing was sent, so that it may be tried again.
      this.#used.delete(name);
      throw error;
    }
    const [value, fields, durationMs] = done;
    await this.#record(name, fields, durationMs);
    return value;
  }

  /** The steps of earlier attempts and runs by kind and name. They are fetched once, and only if there are any. */
  async #earlier(): Promise<Map<string, TaskStep>> {
    if (!this.#task.steps) return new Map();
    this.#recorded ??= this.#stub
      .fetchSteps(this.#lease, { signal: this.#signal })
      .then(({ steps }) => new Map(steps.map(stepFrom).map((each) => [keyOf(each.kind, each.name), each])));
    try {
      return await this.#recorded;
    } catch (error) {
      this.#recorded = undefined;
      throw error;
    }
  }

  /** The value of a recorded step, also where that is an artifact. */
  async #valueOf(step: TaskStep): Promise<unknown> {
    const { artifacts } = this.#task;
    const name = artifactOf(step.name);
    const reference = step.output ? undefined : referenceIn(step.result, name, artifacts);
    // A step may return what looks like a reference.
    if (!reference || !artifacts.some((each) => each.name === name && each.sha256 === reference.sha256)) {
      return plain(step);
    }
    return plain({ output: new Payload(await this.#artifacts.read(name), reference.encoding) });
  }

  /** Resolves once the server keeps a step. A result that is too large becomes an artifact. */
  async #record(name: string, fields: ReturnType<typeof outputFields>, durationMs: number): Promise<void> {
    // No later run says what this step has said.
    await this.#flush();
    const most = this.maxPayloadBytes();
    const call = (sent: typeof fields) =>
      this.#stub.recordStep({ ...this.#lease, name, ...sent, durationMs }, { signal: this.#signal });
    if (!most || bytesOf(fields) <= most) {
      try {
        await call(fields);
        return;
      } catch (error) {
        // There is no room for it among the other steps either. One step too many stays so.
        const { code, reason } = error as TaskyardError;
        if (code !== "too_large" || reason.startsWith("name:")) throw error;
      }
    }
    let reference: typeof fields;
    try {
      reference = await this.#artifacts.shrunk(artifactOf(name), fields);
    } catch (error) {
      if (this.#signal.aborted || (error as TaskyardError).code === "lease_lost") throw error;
      throw failed(name, `its result is too large, and cannot be an artifact: ${error}`, "bad_result", error);
    }
    await call(reference);
  }
}

/** The name of the artifact that the result of a step is. */
function artifactOf(name: string): string {
  return `step-${createHash("sha256").update(name).digest("hex").slice(0, 16)}.json`;
}

/** What a later run finds in the place of a value, and what is sent of it. */
function encoded(name: string, value: unknown): [unknown, ReturnType<typeof outputFields>] {
  try {
    const fields = outputFields(value instanceof Output ? value.value : value);
    // Invalid Unicode is something else once it was sent.
    const sent = fromBinary(StepSchema, toBinary(StepSchema, create(StepSchema, fields)));
    return [plain(stepFrom(sent)), fields];
  } catch (error) {
    throw failed(name, `its result is not JSON: ${error}`, "bad_result", error);
  }
}

/** The value of a step. That of a codec stays a payload. */
function plain(step: Pick<TaskStep, "result" | "output">): unknown {
  return step.output?.encoding ? step.output : outputOf<unknown>(step);
}

function keyOf(kind: TaskStep["kind"], name: string): string {
  return `${kind} ${name}`;
}

function failed(name: string, reason: string, code?: string, cause?: unknown): Error {
  return refused(`step '${name}'`, reason, code, cause);
}
