/** Artifacts in files, for Node. */
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Client } from "./client.js";
import type { GiveUp } from "./client_options.js";
import type { Artifact } from "./tasks.js";
import { randomKey } from "./values.js";

/**
 * Saves an artifact of a task in a file, which is there only once it is whole, over broken connections.
 *
 * @param client The client.
 * @param taskId The task.
 * @param name The name of the artifact.
 * @param path The file. One that is there already is replaced.
 * @param options `signal`: gives the call up.
 * @returns The artifact.
 * @throws TaskyardError as `client.artifacts.read`, and the error of the file if it cannot be written.
 */
export async function saveArtifact(
  client: Client,
  taskId: string,
  name: string,
  path: string,
  options: GiveUp = {},
): Promise<Artifact> {
  const beside = join(dirname(path), `.${basename(path)}.${randomKey()}`);
  let file: FileHandle | undefined;
  const begin = async () => {
    await file?.close();
    const opened = await open(beside, "w");
    file = opened;
    return (data: Uint8Array) => opened.writeFile(data);
  };
  try {
    const artifact = await client.artifacts.copy(taskId, name, begin, options);
    await file!.close();
    file = undefined;
    await rename(beside, path);
    return artifact;
  } catch (error) {
    await file?.close();
    await rm(beside, { force: true });
    throw error;
  }
}
