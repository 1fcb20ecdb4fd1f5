/**
 * Artifacts of the tasks of a host and of their inputs, under their leases; and params and results that are artifacts since
 * they are too large (docs/rules.md, Artifacts).
 */
import { createHash } from "node:crypto";
import { type Client as Stub, createClient } from "@connectrpc/connect";
import { checked, isMismatch, joined } from "./artifacts.js";
import type { Caller } from "./caller.js";
import { Calls } from "./calls.js";
import { type Connection, openConnection } from "./connection.js";
import { TaskyardError } from "./errors.js";
import { ArtifactService } from "./gen/taskyard/v1/artifact_pb.js";
import { ChildService } from "./gen/taskyard/v1/child_pb.js";
import { type Input, InputService } from "./gen/taskyard/v1/input_pb.js";
import type { TaskCompleted } from "./gen/taskyard/v1/runtime_host_pb.js";
import { StepService } from "./gen/taskyard/v1/step_pb.js";
import { HeldChildren } from "./held_children.js";
import { HeldSteps } from "./held_steps.js";
import type { HeldWaits } from "./held_waits.js";
import { TaskInput } from "./inputs.js";
import { inputFields, Payload, payloadFrom } from "./payloads.js";
import { JSON_TYPE, PARAMS, referenceIn, referenceTo, RESULT, resultReference } from "./references.js";
import type { LeaseName } from "./reports.js";
import { type Artifact, artifactFrom, stateOf, type Task } from "./tasks.js";
import { type ArtifactContent, type ArtifactOptions, upload } from "./uploading.js";
import { jsonOf, parseExactly, valueFrom } from "./values.js";

const newHash = () => createHash("sha256");

interface HostStubs {
  artifacts: Stub<typeof ArtifactService>;
  children: Stub<typeof ChildService>;
  inputs: Stub<typeof InputService>;
  steps: Stub<typeof StepService>;
}

/** Reaches the artifacts of the tasks of one host, by a connection of its own: that of a stream ends with the stream. */
export class HostArtifacts {
  readonly #hostId: string;
  readonly #calls: Calls;
  readonly #connection: Connection;
  readonly #stubs: HostStubs;

  constructor(caller: Caller, hostId: string) {
    const [transport, connection] = openConnection(caller);
    this.#hostId = hostId;
    this.#calls = new Calls(transport, { namespace: caller.namespace }, undefined, caller.credentials);
    this.#connection = connection;
    this.#stubs = {
      artifacts: createClient(ArtifactService, this.#calls),
      children: createClient(ChildService, this.#calls),
      inputs: createClient(InputService, this.#calls),
      steps: createClient(StepService, this.#calls),
    };
  }

  /** Those of a task under a lease. What goes on ends when `signal` aborts. */
  of(lease: LeaseName, task: Task, signal: AbortSignal): HeldArtifacts {
    return new HeldArtifacts(this.#stubs, this.#calls, { hostId: this.#hostId, ...lease }, task.artifacts, signal);
  }

  /** Ends what goes on, and the connection. */
  close(): void {
    this.#calls.close();
    this.#connection.close();
  }
}

/** The artifacts of a task that a host has under a lease, or of an input or a child of it. */
export class HeldArtifacts {
  readonly #stubs: HostStubs;
  readonly #calls: Calls;
  readonly #lease: LeaseName & { hostId: string };
  readonly #signal: AbortSignal;
  readonly #input: string;
  /** The hashes of all artifacts by their names. */
  readonly #sums: Map<string, string>;

  constructor(
    stubs: HostStubs,
    calls: Calls,
    lease: LeaseName & { hostId: string },
    artifacts: readonly Artifact[],
    signal: AbortSignal,
    input = "",
  ) {
    this.#stubs = stubs;
    this.#calls = calls;
    this.#lease = lease;
    this.#signal = signal;
    this.#input = input;
    this.#sums = new Map(artifacts.map(({ name, sha256 }) => [name, sha256]));
  }

  /** Puts an artifact, see `RunningTask.putArtifact`, or one of a child that is held. */
  async put(name: string, content: ArtifactContent, options: ArtifactOptions = {}, child = ""): Promise<Artifact> {
    const artifact = await upload(content, options, newHash, (part) =>
      this.#stubs.artifacts.uploadArtifact({ ...this.#lease, name, child, ...part }, { signal: this.#signal }),
    );
    if (!child) this.#sums.set(name, artifact.sha256);
    return artifact;
  }

  /** Reads an artifact, anew where this task has put another one in its place meanwhile. */
  async read(name: string): Promise<Uint8Array> {
    const { patienceMs } = this.#calls;
    const open = (offset: number, signal: AbortSignal) =>
      this.#stubs.artifacts.fetchArtifact({ ...this.#lease, name, offset, input: this.#input }, { signal });
    const renew = () => this.#calls.renew();
    for (;;) {
      const sum = this.#sums.get(name);
      const parts: Uint8Array[] = [];
      try {
        const resuming = { patienceMs, signal: this.#signal, renew };
        for await (const data of checked(open, sum, newHash(), resuming)) parts.push(data);
        return joined(parts);
      } catch (error) {
        if (!isMismatch(error) || this.#sums.get(name) === sum) throw error;
      }
    }
  }

  /** Puts the params of the task in their place, if they are an artifact. */
  async fill(task: Task): Promise<void> {
    const reference = referenceIn(task.params, PARAMS, task.artifacts);
    if (!reference) return;
    const data = await this.read(PARAMS);
    if (newHash().update(data).digest("hex") !== reference.sha256) {
      throw new TaskyardError("bad_request", "params: the artifact has other bytes than its hash says");
    }
    task.params = {};
    const text = reference.encoding ? undefined : new TextDecoder("utf-8", { fatal: true }).decode(data);
    const { params } = text === undefined ? {} : inputFields(parseExactly(text));
    if (params) task.params = params;
    else task.input = new Payload(data, reference.encoding);
  }

  /** An input or a child of the task, with its result where that did not come along, or is an artifact. */
  async input(name: string, message: Input): Promise<TaskInput> {
    const named = { ...this.#lease, name };
    const handed = message.omitted ? await this.#stubs.inputs.fetchInput(named, { signal: this.#signal }) : message;
    const fields = {
      taskId: handed.taskId ?? "",
      state: handed.state ? stateOf(handed.state) : undefined,
      error: handed.error,
      artifacts: handed.artifacts.map(artifactFrom),
      result: jsonOf(handed.result),
      output: payloadFrom(handed.output),
    };
    const held = new HeldArtifacts(this.#stubs, this.#calls, this.#lease, fields.artifacts, this.#signal, name);
    const reference = resultReference(fields);
    if (reference) fields.output = new Payload(await held.read(RESULT), reference.encoding);
    return new TaskInput(fields, held);
  }

  /** The steps of the task, see `HeldSteps`. */
  steps(task: Task, maxPayloadBytes: () => number, flush: () => Promise<void>): HeldSteps {
    return new HeldSteps(this.#stubs.steps, this.#lease, task, this, this.#signal, maxPayloadBytes, flush);
  }

  /** The children of the task. What is asked of them keeps it from being parked. */
  children(steps: HeldSteps, waits: HeldWaits): HeldChildren {
    return new HeldChildren(this.#stubs.children, this.#lease, this, this.#signal, steps, waits);
  }

  /** What is sent in the place of a result that is too large: it is the artifact with this name now. */
  async shrunk(
    name: string,
    { result, output }: Pick<TaskCompleted, "result" | "output">,
  ): Promise<Pick<TaskCompleted, "result">> {
    const data = output?.data ?? new TextEncoder().encode(JSON.stringify(jsonOf(result)));
    const artifact = await this.put(name, data, { mediaType: JSON_TYPE });
    const href = `/tasks/${this.#lease.taskId}/artifacts/${name}`;
    return { result: valueFrom(referenceTo(artifact, output?.encoding, href)) };
  }
}
