/** Reads over REST with the token and the namespace of the page: what is bytes, and no message. */
import { errorFromMessage, TaskyardError } from "@client/errors";
import type { Error as ErrorMessage } from "@v1/task_pb";
import { credential } from "./credential";
import { namespace } from "./route";

/** The answer to a GET. Throws a `TaskyardError` if the server refuses it. */
export async function read(path: string, more: Record<string, string> = {}): Promise<Response> {
  const headers = new Headers({ "taskyard-namespace": namespace.peek(), ...more });
  const token = credential.peek()?.token;
  if (token) headers.set("authorization", `Bearer ${token}`);
  const answer = await fetch(path, { headers });
  if (!answer.ok) throw await errorOf(answer);
  return answer;
}

async function errorOf(answer: Response): Promise<TaskyardError> {
  const text = await answer.text();
  try {
    return errorFromMessage(JSON.parse(text) as ErrorMessage);
  } catch {
    // The gateway itself answers so while there is no server behind it.
    return new TaskyardError("unavailable", text || `the answer is ${answer.status}`);
  }
}

/** Saves what a path answers as a file of this name. A browser holds a large blob in a file, but in a private window. */
export async function save(path: string, name: string): Promise<void> {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await (await read(path)).blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
