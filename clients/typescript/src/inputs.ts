/** The tasks whose results are handed on to another one, as its handler has them (docs/rules.md, Inputs). */
import type { JsonValue } from "@bufbuild/protobuf";
import type { HeldArtifacts } from "./held_artifacts.js";
import { outputOf, type Payload } from "./payloads.js";
import type { Artifact, TaskState } from "./tasks.js";

/** A task whose result is handed on to another one, as it stood when that was handed out. */
export class TaskInput {
  /** The id of the task. */
  readonly taskId: string;
  /** `done`, or another end where `afterPolicy` is `ended`. Undefined if the server has forgotten the task. */
  readonly state: TaskState | undefined;
  /** Why the task failed or was cancelled. */
  readonly error: string | undefined;
  /** The artifacts of the task. */
  readonly artifacts: readonly Artifact[];
  /** The value that its handler returned. Undefined without one. */
  readonly result: JsonValue | undefined;
  /** The value that its handler returned where `result` does not hold it exactly. */
  readonly output: Payload | undefined;
  readonly #held: HeldArtifacts;

  /** @internal */
  constructor(
    fields: Pick<TaskInput, "taskId" | "state" | "error" | "artifacts" | "result" | "output">,
    held: HeldArtifacts,
  ) {
    this.taskId = fields.taskId;
    this.state = fields.state;
    this.error = fields.error;
    this.artifacts = fields.artifacts;
    this.result = fields.result;
    this.output = fields.output;
    this.#held = held;
  }

  /**
   * What the task returned, whatever its size. `O` is its type, which is not checked.
   *
   * @returns The value, undefined if there is none. Integers that no `number` holds are `bigint`.
   * @throws TypeError for the payload of a codec, which is the `output`.
   */
  value<O = JsonValue>(): O | undefined {
    return outputOf<O>(this);
  }

  /**
   * Reads an artifact of the task.
   *
   * @param name The name of the artifact.
   * @returns Its bytes.
   * @throws TaskyardError `not_found`, `lease_lost`, `cancelled` once the `signal` of the running task has aborted.
   */
  readArtifact(name: string): Promise<Uint8Array> {
    return this.#held.read(name);
  }
}
