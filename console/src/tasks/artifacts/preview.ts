/** What of an artifact can be shown in the page: images that a browser draws, and text. Nothing of it is ever run. */
import type { Artifact } from "@client/tasks";
import { read } from "../../rest";
import { indented } from "./indented";

/** No more of a text is shown. */
export const TEXT_BYTES = 262_144;
/** Larger images are for a download. */
const IMAGE_BYTES = 5 * 1024 * 1024;
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const TEXTS = /^(text\/|application\/(json|xml|yaml|x-yaml|toml|javascript|x-ndjson|sql)\b|[^;]*\+(json|xml))/;
const JSONS = /[/+]json\b/;

export type Preview = { readonly image: string } | { readonly text: string; readonly isCut: boolean };

/** Whether there is a preview of it. */
export function isShown({ mediaType, sizeBytes }: Artifact): boolean {
  return TEXTS.test(mediaType) || (IMAGES.has(mediaType) && sizeBytes <= IMAGE_BYTES);
}

/** Where REST has an artifact. */
export function pathOf(taskId: string, { name }: Artifact): string {
  return `/tasks/${encodeURIComponent(taskId)}/artifacts/${encodeURIComponent(name)}`;
}

/** Reads what is shown of it. Throws a `TaskyardError` if the server refuses it. */
export async function previewOf(taskId: string, artifact: Artifact): Promise<Preview> {
  const path = pathOf(taskId, artifact);
  if (IMAGES.has(artifact.mediaType)) {
    const bytes = await (await read(path)).arrayBuffer();
    return { image: URL.createObjectURL(new Blob([bytes], { type: artifact.mediaType })) };
  }
  const isCut = artifact.sizeBytes > TEXT_BYTES;
  const answer = await read(path, isCut ? { range: `bytes=0-${TEXT_BYTES - 1}` } : {});
  // As a stream, so that a character which is cut off is left out.
  const text = new TextDecoder().decode(await answer.arrayBuffer(), { stream: true });
  return { text: !isCut && JSONS.test(artifact.mediaType) ? indented(text) : text, isCut };
}
