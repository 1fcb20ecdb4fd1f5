/** The children of a task under its lease: submitted once by their names, and fetched with what became of them. */
import { createHash } from "node:crypto";
import { create, toBinary } from "@bufbuild/protobuf";
import type { Client as Stub } from "@connectrpc/connect";
import { Child, type Family, type NewChild } from "./children.js";
import type { TaskyardError } from "./errors.js";
import type { ChildService } from "./gen/taskyard/v1/child_pb.js";
import { InputSchema } from "./gen/taskyard/v1/input_pb.js";
import { type SubmitTaskRequest, SubmitTaskRequestSchema } from "./gen/taskyard/v1/task_pb.js";
import type { HeldArtifacts } from "./held_artifacts.js";
import type { HeldSteps } from "./held_steps.js";
import type { HeldWaits } from "./held_waits.js";
import type { TaskInput } from "./inputs.js";
import { refused } from "./new_waits.js";
import { heldWithoutParams, noArtifact, paramsBytes, refusesParams } from "./params_artifact.js";
import { JSON_TYPE, PARAMS } from "./references.js";
import type { LeaseName } from "./reports.js";
import { fieldsOf, type NewTask } from "./tasks.js";

/** The children of a task that a host has under a lease. */
export class HeldChildren {
  readonly #stub: Stub<typeof ChildService>;
  readonly #lease: LeaseName & { hostId: string };
  readonly #artifacts: HeldArtifacts;
  readonly #signal: AbortSignal;
  readonly #steps: HeldSteps;
  readonly #waits: HeldWaits;
  /** How often this run has waited for each child, by its name. */
  readonly #waited = new Map<string, number>();

  constructor(
    stub: Stub<typeof ChildService>,
    lease: LeaseName & { hostId: string },
    artifacts: HeldArtifacts,
    signal: AbortSignal,
    steps: HeldSteps,
    waits: HeldWaits,
  ) {
    this.#stub = stub;
    this.#lease = lease;
    this.#artifacts = artifacts;
    this.#signal = signal;
    this.#steps = steps;
    this.#waits = waits;
  }

  /** Submits a child, or finds the one that has the name, see `RunningTask.child`. `join` is that of the task. */
  submit<O>(name: string, child: NewChild, join: Family["join"]): Promise<Child<O>> {
    return this.#during(async () => {
      const taskId = await this.#submit(name, requestOf(name, child));
      return new Child<O>(name, taskId, {
        find: (each) => this.#find(each),
        waitOf: (each) => this.#waitOf(each),
        join,
      });
    });
  }

  async #submit(name: string, request: SubmitTaskRequest): Promise<string> {
    const most = this.#steps.maxPayloadBytes();
    if (!most || paramsBytes(request) <= most) {
      try {
        return (await this.#send(name, request)).taskId ?? "";
      } catch (error) {
        if (!most || !refusesParams(error as TaskyardError)) throw error;
      }
    }
    return this.#submitLarge(name, request);
  }

  /** Submits a child held, attaches its params, and lets it go. A run that was cut off is repeated by the next one. */
  async #submitLarge(name: string, request: SubmitTaskRequest): Promise<string> {
    const [held, data] = heldWithoutParams(request, createHash("sha256"));
    const made = await this.#send(name, held);
    const taskId = made.taskId ?? "";
    if (!made.held) return taskId;
    try {
      await this.#artifacts.put(PARAMS, data, { mediaType: JSON_TYPE }, name);
    } catch (thrown) {
      const error = thrown as TaskyardError;
      if (error.code !== "conflict") throw error;
      if ((await this.#send(name, held)).held) throw noArtifact(error);
      // Another part of the handler was faster.
      return taskId;
    }
    if (!request.hold) await this.#send(name, { ...held, hold: false });
    return taskId;
  }

  #send(name: string, child: SubmitTaskRequest) {
    return this.#stub.submitChild({ ...this.#lease, name, child }, { signal: this.#signal });
  }

  /** The name of another wait for a child: several parts of a handler may wait for it, or one again. */
  #waitOf(name: string): string {
    const count = (this.#waited.get(name) ?? 0) + 1;
    this.#waited.set(name, count);
    return count > 1 ? `child ${name} ${count}` : `child ${name}`;
  }

  /** How a child stands, with its result whole. */
  #find(name: string): Promise<TaskInput> {
    return this.#during(async () => {
      const { child } = await this.#stub.fetchChild({ ...this.#lease, name }, { signal: this.#signal });
      return this.#artifacts.input(name, child ?? create(InputSchema));
    });
  }

  /** What is called meanwhile keeps the task from being parked, as a step does. */
  async #during<T>(call: () => Promise<T>): Promise<T> {
    if (this.#waits.parked) return this.#waits.refuse();
    this.#signal.throwIfAborted();
    return this.#steps.during(call);
  }
}

/** The child as a task. Throws `NotRetryable` for one that cannot be sent. */
function requestOf(name: string, child: NewChild): SubmitTaskRequest {
  try {
    // Its name is its key. One that a program gives all the same is the server's to refuse.
    const { idempotencyKey } = child as NewTask;
    const request = create(SubmitTaskRequestSchema, { ...fieldsOf(child), idempotencyKey });
    toBinary(SubmitTaskRequestSchema, request);
    return request;
  } catch (error) {
    throw refused(`child '${name}'`, (error as Error).message, undefined, error);
  }
}
