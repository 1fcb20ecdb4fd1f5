/** Params and results that are artifacts, since they are too large: what stands in their place. */
import type { Artifact, Task } from "@client/tasks";
import { bytesOf } from "../../parts/figures";

/** The artifact that a value refers to. A handler may return what only looks so: then the task has no such artifact. */
export function referredTo(value: unknown, { artifacts }: Task): Artifact | undefined {
  const told = (value as { $artifact?: Partial<Artifact> | null } | null | undefined)?.$artifact;
  return artifacts.find(({ name, sha256 }) => name === told?.name && sha256 === told.sha256);
}

/** The id of the element that shows an artifact. */
export function elementOf({ name }: Artifact): string {
  return `artifact-${name}`;
}

export function Reference({ to }: { to: Artifact }) {
  return (
    <p>
      It is the artifact{" "}
      <button type="button" class="link" onClick={() => document.getElementById(elementOf(to))?.focus()}>
        {to.name}
      </button>
      , {bytesOf(to.sizeBytes)}.
    </p>
  );
}
