/** Questions: what parked tasks ask, to be answered. */
import type { OpenQuestion } from "@v1/park_pb";
import { api } from "../api";
import { Card, Empty, Loaded, Page } from "../parts/page";
import { shortId } from "../parts/task_text";
import { Ago } from "../parts/time";
import { useRead } from "../reading";
import { href } from "../route";
import { Asked } from "../tasks/answer_form";
import { allPages } from "./paging";

const LOOK_MS = 2_000;
const MOST_COUNTED = 100;

export function Questions() {
  const read = useRead(readQuestions, [], LOOK_MS);
  return (
    <Page title="Questions">
      <Loaded from={read}>
        {(questions) =>
          questions.length ? (
            <div class="stack">
              {questions.map((each) => (
                <OneQuestion key={`${each.taskId} ${each.questionId}`} of={each} onAnswered={read.refresh} />
              ))}
            </div>
          ) : (
            <Empty icon="question" title="No task asks anything">
              A parked task may ask people or agents. What is open stands here.
            </Empty>
          )
        }
      </Loaded>
    </Page>
  );
}

function OneQuestion({ of, onAnswered }: { of: OpenQuestion; onAnswered: () => void }) {
  const { taskId = "", agentId = "", questionId = "", action, question, since, until } = of;
  return (
    <Card
      title={
        <>
          {questionId}{" "}
          <a href={href(["tasks", taskId])}>
            {action} <code class="dim">{shortId(taskId)}</code>
          </a>
        </>
      }
      actions={
        <span class="dim">
          {agentId}, asked <Ago at={since} />
          {until && (
            <>
              , ends <Ago at={until} />
            </>
          )}
        </span>
      }
    >
      <Asked {...{ taskId, agentId, questionId, question, onAnswered }} />
    </Card>
  );
}

/** How many questions are open, as far as they are counted. */
export async function openQuestions(signal: AbortSignal): Promise<string> {
  const { questions, nextPageToken } = await api().parks.listQuestions({ pageSize: MOST_COUNTED }, { signal });
  return questions.length ? `${questions.length}${nextPageToken ? "+" : ""}` : "";
}

function readQuestions(signal: AbortSignal): Promise<OpenQuestion[]> {
  return allPages(async (pageToken) => {
    const { questions, nextPageToken } = await api().parks.listQuestions({ pageToken }, { signal });
    return { items: questions, next: nextPageToken };
  });
}
