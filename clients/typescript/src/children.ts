/** Children as a handler has them: tasks that it submits by name, and what became of them (docs/rules.md, Children). */
import type { JsonValue } from "@bufbuild/protobuf";
import type { TaskInput } from "./inputs.js";
import type { JoinOptions } from "./new_waits.js";
import { hasEnded, type NewSingleTask, type TaskState } from "./tasks.js";

type Given = "agentId" | "agent" | "parentId";
type Keys = "idempotencyKey" | "uniqueKey" | "uniqueWhile" | "onConflict";

/** A child to submit. It has the agent of its parent, and its name is its key. `onParentEnd` is `cancel` unless given. */
export interface NewChild extends Omit<NewSingleTask, Given | Keys | "afterIndexes" | "inputIndexes"> {}

/** A child did not end as `done`. */
export class ChildFailed extends Error {
  override readonly name = "ChildFailed";
  /** Its name among the children of the task. */
  readonly childName: string;
  /** Its id. */
  readonly id: string;
  /** Its state, `failed` or `cancelled`. */
  readonly state: TaskState;
  /** Why, as the child has it. */
  readonly reason: string;

  /** @internal */
  constructor(childName: string, id: string, state: TaskState, reason: string) {
    super(`the child '${childName}' (${id}) is ${state}: ${reason}`);
    this.childName = childName;
    this.id = id;
    this.state = state;
    this.reason = reason;
  }
}

/** What a child has to find out of its parent: how it stands, and to wait for its end, under a name of that wait. */
export interface Family {
  find(name: string): Promise<TaskInput>;
  waitOf(name: string): string;
  join(ids: string[], options: JoinOptions): Promise<void>;
}

/** A child of a running task, which `task.child` returns. `O` is the type of its result, which is not checked. */
export class Child<O = JsonValue> {
  /** Its name among the children of the task. */
  readonly name: string;
  /** Its id. */
  readonly id: string;
  readonly #family: Family;

  /** @internal */
  constructor(name: string, id: string, family: Family) {
    this.name = name;
    this.id = id;
    this.#family = family;
  }

  /**
   * Its result, whatever its size. Until it has ended, the task is parked, as `task.join` parks it. Several parts of a handler
   * may wait for it, and once it has not ended in time it may be awaited again.
   *
   * @param options `timeoutMs`: how long it may take at most, in milliseconds, default as long as it takes.
   * @returns The value, undefined if there is none. Integers that no `number` holds are `bigint`; the payload of a codec is
   *   a `Payload`.
   * @throws Parked if it has not ended yet.
   * @throws ChildFailed if it failed or was cancelled.
   * @throws TaskyardError `deadline_exceeded` if it has not ended in time, `lease_lost`.
   * @throws NotRetryable and TaskStopped as `task.join`.
   */
  result(options: Pick<JoinOptions, "timeoutMs"> = {}): Promise<O | undefined> {
    const done = this.#result(options);
    // One that is left behind must not end the process by its rejection.
    done.catch(() => {});
    return done;
  }

  async #result(options: Pick<JoinOptions, "timeoutMs">): Promise<O | undefined> {
    // It is taken before all else, so that each run has the same.
    const name = this.#family.waitOf(this.name);
    let found = await this.#family.find(this.name);
    if (!found.state || !hasEnded(found.state)) {
      await this.#family.join([this.id], { ...options, name });
      found = await this.#family.find(this.name);
    }
    const { state = "pending", error, output } = found;
    if (state !== "done") throw new ChildFailed(this.name, this.id, state, error ?? "no reason given");
    return output?.encoding ? (output as O) : found.value<O>();
  }
}
