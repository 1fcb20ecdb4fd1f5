/** References in the place of values that are too large, and are artifacts of the task (docs/rules.md, Artifacts). */
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Artifact, Task } from "./tasks.js";

/** The names of the artifacts that params and results become. */
export const PARAMS = "params.json";
export const RESULT = "result.json";
export const JSON_TYPE = "application/json";

/** A value that is an artifact. */
export interface Reference {
  sha256: string;
  /** The name of the codec that made its bytes. Undefined: they are JSON in UTF-8. */
  encoding: string | undefined;
}

/** What stands in the place of a value. */
export function referenceTo(
  artifact: Pick<Artifact, "name" | "sizeBytes" | "sha256">,
  encoding?: string,
  href?: string,
) {
  const { name, sizeBytes, sha256 } = artifact;
  return { $artifact: { name, sizeBytes, sha256, ...(encoding && { encoding }), ...(href && { href }) } };
}

/** The reference that the result of a task is. A handler may return what only looks like one. */
export function resultReference(
  task: Pick<Task, "artifacts"> & { result?: JsonValue | undefined; output?: unknown },
): Reference | undefined {
  const reference = task.output ? undefined : referenceIn(task.result, RESULT, task.artifacts);
  const isOf = (each: Artifact) => each.name === RESULT && each.sha256 === reference?.sha256;
  return task.artifacts.some(isOf) ? reference : undefined;
}

/** The reference that a value is to the artifact of this name; undefined if it is none, or the task has no such artifact. */
export function referenceIn(
  value: JsonValue | undefined,
  name: string,
  artifacts: readonly Artifact[],
): Reference | undefined {
  if (typeof value !== "object" || value === null || Object.keys(value).join() !== "$artifact") return undefined;
  const told = (value as { $artifact: JsonValue }).$artifact as Partial<JsonObject> | null;
  if (told?.name !== name || typeof told.sha256 !== "string") return undefined;
  if (!artifacts.some((each) => each.name === name)) return undefined;
  return { sha256: told.sha256, encoding: typeof told.encoding === "string" ? told.encoding : undefined };
}
