/** Lists of tasks and of open questions, page after page. */
import type { Client as Stub } from "@connectrpc/connect";
import type { ListOptions, QuestionsOptions } from "./client_options.js";
import type { ParkService } from "./gen/taskyard/v1/park_pb.js";
import type { TaskService } from "./gen/taskyard/v1/task_pb.js";
import { type OpenQuestion, openQuestionFrom } from "./questions.js";
import { selectorOf, type Task, taskFrom } from "./tasks.js";
import { timestampFrom } from "./values.js";

/** The tasks that match, see `Client.list`. */
export async function* listTasks(
  stub: Stub<typeof TaskService>,
  { agent, agentId = agent, states, signal, ...others }: ListOptions,
): AsyncGenerator<Task, void, undefined> {
  const filters = {
    ...others,
    agentId,
    state: states?.join(","),
    labels: selectorOf(others.labels),
    createdFrom: timestampFrom(others.createdFrom),
    createdUntil: timestampFrom(others.createdUntil),
    endedFrom: timestampFrom(others.endedFrom),
    endedUntil: timestampFrom(others.endedUntil),
  };
  for await (const { tasks } of pagesOf((pageToken) => stub.listTasks({ ...filters, pageToken }, { signal }))) {
    yield* tasks.map(taskFrom);
  }
}

/** The questions that are open, see `Client.questions`. */
export async function* listQuestions(
  stub: Stub<typeof ParkService>,
  { signal, ...filters }: QuestionsOptions,
): AsyncGenerator<OpenQuestion, void, undefined> {
  for await (const { questions } of pagesOf((pageToken) => stub.listQuestions({ ...filters, pageToken }, { signal }))) {
    yield* questions.map(openQuestionFrom);
  }
}

/** All pages of a list, each read when it is needed. `read` makes the call for the page of a token. */
export async function* pagesOf<P extends { nextPageToken?: string }>(
  read: (pageToken: string | undefined) => Promise<P>,
): AsyncGenerator<P, void, undefined> {
  let pageToken: string | undefined;
  do {
    const page = await read(pageToken);
    yield page;
    pageToken = page.nextPageToken;
  } while (pageToken);
}
