/** Uploads of artifacts: in parts of one size, the last of which brings the hash of the whole (docs/rules.md, Artifacts). */
import { TaskyardError } from "./errors.js";
import type { Artifact as ArtifactMessage } from "./gen/taskyard/v1/artifact_pb.js";
import type { Hash } from "./sha256.js";
import { type Artifact, artifactFrom } from "./tasks.js";

export const PART_BYTES = 1_048_576;
/** How often an upload begins, where the server has less of it than it said. */
const MAX_TRIES = 5;

/**
 * What an artifact consists of: bytes, a `Blob`, or a function that opens what has the bytes, anew when it is called again.
 * In Node a file is `() => createReadStream(path)`.
 */
export type ArtifactContent = Uint8Array | Blob | (() => AsyncIterable<Uint8Array>);

/** How an artifact is put or attached. */
export interface ArtifactOptions {
  /** Its media type, such as `image/png`. Default: that of the `Blob`, else `application/octet-stream`. */
  mediaType?: string;
}

/** What a request carries of an artifact. */
export interface Part {
  offset: number;
  sizeBytes: number;
  sha256: string;
  content: { contentType: string; data: Uint8Array<ArrayBuffer> };
}

/** Uploads an artifact. `send` sends a part, and repeats it while the server is unavailable. */
export async function upload(
  content: ArtifactContent,
  { mediaType }: ArtifactOptions,
  newHash: () => Hash,
  send: (part: Part) => Promise<{ artifact?: ArtifactMessage }>,
): Promise<Artifact> {
  const contentType = mediaType || (content instanceof Blob ? content.type : "");
  const sizeBytes = content instanceof Blob ? content.size : content instanceof Uint8Array ? content.length : 0;
  for (let left = MAX_TRIES - 1; ; left--) {
    const hash = newHash();
    let [offset, artifact]: [number, ArtifactMessage | undefined] = [0, undefined];
    try {
      for await (const { data, isLast } of partsOf(content)) {
        hash.update(data);
        const sha256 = isLast ? hash.digest("hex") : "";
        ({ artifact } = await send({ offset, sizeBytes, sha256, content: { contentType, data } }));
        offset += data.length;
      }
      if (artifact) return artifactFrom(artifact);
      throw new TaskyardError("internal", "the server has all of the artifact, and does not show it");
    } catch (error) {
      if (!left || !hasLostSome(error)) throw error;
    }
  }
}

/** Whether the server has less of an upload than it said: it was started anew, or another one goes on. */
function hasLostSome(error: unknown): boolean {
  return error instanceof TaskyardError && error.code === "bad_request" && error.reason.startsWith("offset:");
}

/** All parts but the last have the same size. There is at least one, which may be empty. */
async function* partsOf(content: ArtifactContent) {
  let data = new Uint8Array(PART_BYTES);
  let filled = 0;
  for await (const bytes of bytesOf(content)) {
    for (let at = 0; at < bytes.length; ) {
      if (filled === PART_BYTES) {
        yield { data, isLast: false };
        [data, filled] = [new Uint8Array(PART_BYTES), 0];
      }
      const taken = bytes.subarray(at, at + PART_BYTES - filled);
      data.set(taken, filled);
      filled += taken.length;
      at += taken.length;
    }
  }
  yield { data: data.subarray(0, filled), isLast: true };
}

async function* bytesOf(content: ArtifactContent): AsyncGenerator<Uint8Array> {
  if (typeof content === "function") yield* content();
  else if (content instanceof Uint8Array) yield content;
  else {
    // Not its stream: some browsers cannot iterate over one.
    for (let at = 0; at < content.size; at += PART_BYTES) {
      yield new Uint8Array(await content.slice(at, at + PART_BYTES).arrayBuffer());
    }
  }
}
