/** Text of the server in which the ids of tasks are links. */
import { href } from "../route";

const ID = /(tsk_[0-9a-z]+)/;

/** The end of an id, in which the ids of tasks differ. */
export function shortId(id: string): string {
  return id.slice(-6);
}

/** Why a task is in its state: its error, and the reason that somebody gave. Empty if there is neither. */
export function whyText({ error, reason }: { error?: string | undefined; reason?: string | undefined }): string {
  return [error, reason].filter(Boolean).join(": ");
}

export function TaskText({ text }: { text: string }) {
  return (
    <>
      {text.split(ID).map((part, at) =>
        at % 2 ? (
          <a key={at} class="mono" title={part} href={href(["tasks", part])}>
            …{shortId(part)}
          </a>
        ) : (
          part
        ),
      )}
    </>
  );
}
