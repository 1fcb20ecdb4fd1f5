/** The artifacts of tasks as callers have them: read, attached to held tasks, and results that are artifacts. */
import type { Calls } from "./calls.js";
import type { GiveUp } from "./client_options.js";
import { errorFrom, TaskyardError } from "./errors.js";
import type { HttpBody } from "./gen/google/api/httpbody_pb.js";
import { Payload } from "./payloads.js";
import { RESULT, resultReference } from "./references.js";
import type { Hash } from "./sha256.js";
import { overStreams, type Resuming } from "./streaming.js";
import type { Stubs } from "./stubs.js";
import { type Artifact, artifactFrom, type Task } from "./tasks.js";
import { type ArtifactContent, type ArtifactOptions, upload } from "./uploading.js";

/** The errors of an artifact that has other bytes than its hash says. */
const MISMATCHES = new WeakSet<TaskyardError>();

/** The artifacts of the tasks of a namespace: `client.artifacts`. */
export class Artifacts {
  readonly #calls: Calls;
  readonly #stubs: Pick<Stubs, "artifacts" | "tasks">;
  readonly #newHash: () => Hash;

  /** @internal */
  constructor(calls: Calls, stubs: Pick<Stubs, "artifacts" | "tasks">, newHash: () => Hash) {
    this.#calls = calls;
    this.#stubs = stubs;
    this.#newHash = newHash;
  }

  /**
   * Reads an artifact, over broken connections, and checks its hash. One whose place another one takes meanwhile is read
   * anew.
   *
   * @param taskId The task.
   * @param name The name of the artifact.
   * @param options `signal`: gives the reading up.
   * @returns Its bytes.
   * @throws TaskyardError `not_found`; `unavailable` after an outage of more than `patienceMs`.
   */
  async read(taskId: string, name: string, options: GiveUp = {}): Promise<Uint8Array> {
    let parts: Uint8Array[] = [];
    const begin = async () => {
      parts = [];
      return async (data: Uint8Array) => void parts.push(data);
    };
    await this.copy(taskId, name, begin, options);
    return joined(parts);
  }

  /**
   * Streams the bytes of an artifact as they come, over broken connections. `break` ends the reading.
   *
   * @param taskId The task.
   * @param name The name of the artifact.
   * @param options `signal`: gives the reading up.
   * @throws TaskyardError `not_found`, also if it has gone meanwhile; `internal` after the last bytes if they do not have the
   *   hash of the artifact, since another one has taken its place; `unavailable` after an outage of more than `patienceMs`.
   */
  async *stream(taskId: string, name: string, options: GiveUp = {}): AsyncGenerator<Uint8Array, void, undefined> {
    yield* this.#stream(taskId, await this.#find(taskId, name, options), options);
  }

  /**
   * Gives a held task an artifact, which its host can read. Resume the task then.
   *
   * @param taskId The task.
   * @param name The name: letters, digits, `-`, `_` and `.`, at most 128 characters, not a `.` first. An artifact of this name
   *   is replaced.
   * @param content Its bytes, or what has them.
   * @param options Its `mediaType`. `signal`: gives the call up.
   * @returns The artifact.
   * @throws TaskyardError `not_found`, `conflict` if the task is not held or the server keeps no artifacts, `too_large`.
   */
  attach(
    taskId: string,
    name: string,
    content: ArtifactContent,
    options: GiveUp & ArtifactOptions = {},
  ): Promise<Artifact> {
    const { signal } = options;
    return upload(content, options, this.#newHash, (part) =>
      this.#stubs.artifacts.attachArtifact({ taskId, name, ...part }, { signal }),
    );
  }

  /** @internal Reads an artifact, anew if another one has taken its place. Each try has a writer of its own. */
  async copy(
    taskId: string,
    name: string,
    begin: () => Promise<(data: Uint8Array) => Promise<void>>,
    options: GiveUp,
  ): Promise<Artifact> {
    let [before, problem]: [string | undefined, unknown] = [undefined, undefined];
    for (;;) {
      const artifact = await this.#find(taskId, name, options);
      if (artifact.sha256 === before) throw problem;
      before = artifact.sha256;
      const write = await begin();
      try {
        for await (const data of this.#stream(taskId, artifact, options)) await write(data);
        return artifact;
      } catch (error) {
        if (!isMismatch(error)) throw error;
        problem = error;
      }
    }
  }

  /** @internal A task that has ended with its output, also where its result is an artifact. */
  async whole(task: Task, signal?: AbortSignal): Promise<Task> {
    const reference = resultReference(task);
    if (!reference) return task;
    const data = await this.read(task.id, RESULT, { ...(signal && { signal }) });
    return { ...task, output: new Payload(data, reference.encoding) };
  }

  async #find(taskId: string, name: string, { signal }: GiveUp): Promise<Artifact> {
    const task = await this.#stubs.tasks.getTask({ taskId }, { signal });
    const found = task.artifacts.find((each) => each.name === name);
    if (!found) throw new TaskyardError("not_found", "artifact not found", { status: "NOT_FOUND" });
    return artifactFrom(found);
  }

  async *#stream(taskId: string, { name, sha256 }: Artifact, options: GiveUp): AsyncGenerator<Uint8Array> {
    const [call, end] = this.#calls.begin(options.signal);
    const open = (offset: number, signal: AbortSignal) =>
      this.#stubs.artifacts.readArtifact({ taskId, name, offset }, { signal });
    const renew = () => this.#calls.renew();
    try {
      yield* checked(open, sha256, this.#newHash(), { patienceMs: this.#calls.patienceMs, signal: call.signal, renew });
    } finally {
      end();
    }
  }
}

/** The bytes of an artifact over one stream after the other; `open` opens one behind so many bytes. Checks the hash, if known. */
export async function* checked(
  open: (offset: number, signal: AbortSignal) => AsyncIterable<HttpBody>,
  sha256: string | undefined,
  hash: Hash,
  resuming: Resuming,
): AsyncGenerator<Uint8Array> {
  let offset = 0;
  try {
    for await (const { data } of overStreams(
      (signal) => open(offset, signal),
      () => false,
      resuming,
      true,
    )) {
      offset += data.length;
      hash.update(data);
      yield data;
    }
  } catch (thrown) {
    const error = errorFrom(thrown);
    // What was read so far was of another one.
    if (offset && (error.code === "not_found" || error.code === "out_of_range")) MISMATCHES.add(error);
    throw error;
  }
  if (sha256 !== undefined && hash.digest("hex") !== sha256) {
    const error = new TaskyardError("internal", "the artifact has other bytes than its hash says");
    MISMATCHES.add(error);
    throw error;
  }
}

/** Whether what was read of an artifact is not all of it, since another one has taken its place. */
export function isMismatch(error: unknown): boolean {
  return error instanceof TaskyardError && MISMATCHES.has(error);
}

/** The parts of a value in one. */
export function joined(parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
