/** Saves a task's output as a file of text: over REST, with the token and the namespace of the page. */
import { errorFromMessage } from "@client/errors";
import type { Error as ErrorMessage } from "@v1/task_pb";
import { credential } from "../../credential";
import { namespace } from "../../route";

/** Saves what a channel says, or all of them if it is empty. Throws a `TaskyardError` if the server refuses it. */
export async function download(taskId: string, channel: string): Promise<void> {
  const headers = new Headers({ "taskyard-namespace": namespace.peek() });
  const token = credential.peek()?.token;
  if (token) headers.set("authorization", `Bearer ${token}`);
  const query = channel && `?${new URLSearchParams({ channels: channel })}`;
  const answer = await fetch(`/tasks/${encodeURIComponent(taskId)}/output/text${query}`, { headers });
  if (!answer.ok) throw errorFromMessage((await answer.json()) as ErrorMessage);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = `${[taskId, channel].filter(Boolean).join("-").replaceAll("/", "-")}.txt`;
  link.click();
  URL.revokeObjectURL(link.href);
}
