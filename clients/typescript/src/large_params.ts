/**
 * Submissions whose params are too large for a message (docs/rules.md, Artifacts).
 *
 * The task is submitted with a reference in their place and held, until they are an artifact of it. A repeat under the same
 * idempotency key goes on where the first one was.
 */
import type { Artifacts } from "./artifacts.js";
import type { Calls } from "./calls.js";
import { errorFrom, isBreak, TaskyardError } from "./errors.js";
import { type SubmitTaskRequest, type SubmitTaskResponse, Task_State } from "./gen/taskyard/v1/task_pb.js";
import { heldWithoutParams, noArtifact, paramsBytes, refusesParams } from "./params_artifact.js";
import { JSON_TYPE, PARAMS } from "./references.js";
import type { Hash } from "./sha256.js";
import type { Stubs } from "./stubs.js";
import { sizeOf, type Submitter } from "./submitting.js";

/** Up to this size, encoded, params are submitted as they are; a server may take fewer. */
const MAX_BYTES = 262_144;
/** How long the cancel of a task may take that cannot get its params. */
const CANCEL_MS = 5_000;

/** Throws the error of a refused batch, with what to do if the params of a task are too large. */
export function refusedBatch(thrown: unknown): never {
  const error = errorFrom(thrown);
  if (!refusesParams(error)) throw error;
  const { code, reason, details } = error;
  const advice = "submit this task by itself: `submit` makes an artifact of them";
  throw new TaskyardError(code, `${reason}; ${advice}`, { details, status: "INVALID_ARGUMENT", cause: error });
}

/** Submits tasks, whatever the size of their params. */
export class LargeParams {
  readonly #submitter: Submitter;
  readonly #calls: Calls;
  readonly #stubs: Pick<Stubs, "tasks">;
  readonly #artifacts: Artifacts;
  readonly #newHash: () => Hash;
  readonly #pending = new Set<Promise<unknown>>();

  constructor(
    submitter: Submitter,
    calls: Calls,
    stubs: Pick<Stubs, "tasks">,
    artifacts: Artifacts,
    newHash: () => Hash,
  ) {
    this.#submitter = submitter;
    this.#calls = calls;
    this.#stubs = stubs;
    this.#artifacts = artifacts;
    this.#newHash = newHash;
  }

  /**
   * Submits one task, which must have an idempotency key. `isRepeatable` tells that the caller knows the key: what an outage
   * leaves half is left to a repeat then, and cancelled otherwise.
   */
  async submit(request: SubmitTaskRequest, isRepeatable: boolean, signal?: AbortSignal): Promise<SubmitTaskResponse> {
    const size = sizeOf(request);
    if (size === undefined || size <= MAX_BYTES || paramsBytes(request) <= MAX_BYTES) {
      try {
        return await this.#submitter.submit(request, signal, size);
      } catch (error) {
        if (!refusesParams(errorFrom(error))) throw error;
      }
    }
    return this.#awaited(this.#submit(request, isRepeatable, signal));
  }

  /** Resolves once all tasks that were submitted so far are answered or given up. */
  async settled(): Promise<void> {
    while (this.#pending.size) await Promise.allSettled(this.#pending);
    await this.#submitter.settled();
  }

  async #submit(request: SubmitTaskRequest, isRepeatable: boolean, signal?: AbortSignal): Promise<SubmitTaskResponse> {
    const [held, data] = heldWithoutParams(request, this.#newHash());
    let taskId: string | undefined;
    try {
      const accepted = await this.#submitter.submit(held, signal);
      // A repeat, or the unique key is taken: it has its params.
      if (accepted.existing || accepted.state !== Task_State.pending) return accepted;
      taskId = accepted.taskId ?? "";
      const isHeld = await this.#attach(taskId, data, signal);
      if (isHeld && !request.hold) accepted.state = (await this.#release(taskId, signal)) ?? accepted.state;
      return accepted;
    } catch (thrown) {
      const error = errorFrom(thrown);
      const isBroken = isBreak(error);
      if (isBroken ? !isRepeatable : taskId !== undefined) {
        this.#awaited(this.#end(held, taskId)).catch(() => {});
      }
      throw error;
    }
  }

  /** Cancels a task that nobody can run without its params. One whose id was not told is found by its key. */
  async #end(held: SubmitTaskRequest, taskId: string | undefined): Promise<void> {
    const signal = AbortSignal.timeout(CANCEL_MS);
    const found = taskId === undefined ? await this.#submitter.submit(held, signal) : { taskId, existing: false };
    if (!found.existing) await this.#stubs.tasks.cancelTask({ taskId: found.taskId ?? "" }, { signal });
  }

  #awaited<T>(work: Promise<T>): Promise<T> {
    this.#pending.add(work);
    return work.finally(() => this.#pending.delete(work));
  }

  /** Attaches params. Returns false if an earlier try has let the task go. */
  async #attach(taskId: string, data: Uint8Array, signal: AbortSignal | undefined): Promise<boolean> {
    try {
      await this.#artifacts.attach(taskId, PARAMS, data, { mediaType: JSON_TYPE, ...(signal && { signal }) });
    } catch (thrown) {
      const error = errorFrom(thrown);
      if (error.code === "conflict" && !(await this.#isHeld(taskId, signal))) return false;
      if (error.code !== "conflict" && error.code !== "unimplemented") throw error;
      throw noArtifact(error);
    }
    return true;
  }

  /** Lets a task go that has its params. Returns its state, undefined if an earlier try has let it go. */
  async #release(taskId: string, signal: AbortSignal | undefined): Promise<Task_State | undefined> {
    try {
      return await this.#calls.repeated(async (isInDoubt, linked) => {
        // Later it could be a failure that is resumed.
        if (isInDoubt && !(await this.#isHeld(taskId, linked))) return undefined;
        return (await this.#stubs.tasks.resumeTask({ taskId }, { signal: linked })).status;
      }, signal);
    } catch (thrown) {
      const error = errorFrom(thrown);
      if (error.code === "conflict" && !(await this.#isHeld(taskId, signal))) return undefined;
      throw error;
    }
  }

  async #isHeld(taskId: string, signal: AbortSignal | undefined): Promise<boolean> {
    return (await this.#stubs.tasks.getTask({ taskId }, { signal })).hold ?? false;
  }
}
