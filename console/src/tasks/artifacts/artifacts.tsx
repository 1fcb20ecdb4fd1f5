/** The artifacts of a task: what there is, downloads, and previews of text and images. */
import "./artifacts.css";
import type { Artifact, Task } from "@client/tasks";
import { useEffect, useState } from "preact/hooks";
import { act } from "../../acting";
import { Button } from "../../parts/button";
import { bytesOf } from "../../parts/figures";
import { Card } from "../../parts/page";
import { Ago } from "../../parts/time";
import { save } from "../../rest";
import { isShown, type Preview, pathOf, previewOf, TEXT_BYTES } from "./preview";
import { elementOf } from "./reference";

/** Nothing where there are none, or where they are not shown to the caller. */
export function Artifacts({ task }: { task: Task }) {
  if (!task.artifacts.length) return null;
  return (
    <Card title="Artifacts" flush>
      <ul class="artifacts">
        {task.artifacts.map((artifact) => (
          <Row key={`${artifact.name} ${artifact.sha256}`} taskId={task.id} artifact={artifact} />
        ))}
      </ul>
    </Card>
  );
}

function Row({ taskId, artifact }: { taskId: string; artifact: Artifact }) {
  const [preview, setPreview] = useState<Preview | undefined>();
  const { name, mediaType, sizeBytes, attempt, createdAt } = artifact;
  const image = preview && "image" in preview ? preview.image : undefined;
  useEffect(() => () => image && URL.revokeObjectURL(image), [image]);
  const show = async () => setPreview(preview ? undefined : await previewOf(taskId, artifact));
  return (
    <li id={elementOf(artifact)} tabIndex={-1}>
      <div class="row">
        <code class="artifact-name">{name}</code>
        <span class="dim">
          {mediaType}, {bytesOf(sizeBytes)}, {attempt ? `attempt ${attempt}` : "by the submitter"},{" "}
          <Ago at={createdAt} />
        </span>
        <span class="row artifact-deeds">
          {isShown(artifact) && (
            <Button label={preview ? `Hide ${name}` : `Show ${name}`} onPress={() => act("", show)}>
              {preview ? "Hide" : "Show"}
            </Button>
          )}
          <Button
            icon="download"
            label={`Download ${name}`}
            onPress={() => act(`${name} is downloaded`, () => save(pathOf(taskId, artifact), name))}
          >
            Download
          </Button>
        </span>
      </div>
      {image && <img class="artifact-image" src={image} alt={name} />}
      {preview && "text" in preview && (
        <>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
          <pre class="artifact-text" tabIndex={0} role="region" aria-label={`The text of ${name}`}>
            {preview.text}
          </pre>
          {preview.isCut && <p class="said-note dim">These are the first {bytesOf(TEXT_BYTES)}; a download has all.</p>}
        </>
      )}
    </li>
  );
}
