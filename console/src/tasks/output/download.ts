/** Saves a task's output as a file of text. */
import { save } from "../../rest";

/** Saves what a channel says, or all of them if it is empty. Throws a `TaskyardError` if the server refuses it. */
export async function download(taskId: string, channel: string): Promise<void> {
  const query = channel && `?${new URLSearchParams({ channels: channel })}`;
  const name = `${[taskId, channel].filter(Boolean).join("-").replaceAll("/", "-")}.txt`;
  await save(`/tasks/${encodeURIComponent(taskId)}/output/text${query}`, name);
}
