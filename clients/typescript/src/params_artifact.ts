/**
 * Params that are too large for a message, and become an artifact (docs/rules.md, Artifacts).
 *
 * Their task is submitted with a reference in their place and held, until they are an artifact of it.
 */
import { clone, fromJson, type JsonObject, toBinary } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import { TaskyardError } from "./errors.js";
import { PayloadSchema, type SubmitTaskRequest, SubmitTaskRequestSchema } from "./gen/taskyard/v1/task_pb.js";
import { PARAMS, referenceTo } from "./references.js";
import type { Hash } from "./sha256.js";

/** How the error begins of a task whose params the server does not take. */
const REFUSED = /^(tasks\[\d+\]\.|child\.)?(params|input):/;

/** The size of the params and the input, encoded. */
export function paramsBytes({ params, input }: SubmitTaskRequest): number {
  const bytes = params ? toBinary(StructSchema, fromJson(StructSchema, params)).length : 0;
  return bytes + (input ? toBinary(PayloadSchema, input).length : 0);
}

/** Whether a task was refused since its params are too large. */
export function refusesParams(error: TaskyardError): boolean {
  return error.code === "too_large" && REFUSED.test(error.reason);
}

/** The task, held and with a reference to its params, and these. */
export function heldWithoutParams(request: SubmitTaskRequest, hash: Hash): [SubmitTaskRequest, Uint8Array] {
  const { params, input } = request;
  const data = input?.data ?? new TextEncoder().encode(JSON.stringify(params, sorted));
  hash.update(data);
  const artifact = { name: PARAMS, sizeBytes: data.length, sha256: hash.digest("hex") };
  const held = clone(SubmitTaskRequestSchema, { ...request, params: undefined, input: undefined });
  held.params = referenceTo(artifact, input?.encoding);
  held.hold = true;
  return [held, data];
}

/** The error of params that cannot become an artifact, since that was refused. */
export function noArtifact(error: TaskyardError): TaskyardError {
  const reason = `params: are so large that they would be an artifact, but ${error.reason}`;
  return new TaskyardError("too_large", reason, { cause: error });
}

/** The same text for a repeat by another program, whatever the order of the keys. */
function sorted(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value as JsonObject).sort(([one], [other]) => (one < other ? -1 : 1)));
}
