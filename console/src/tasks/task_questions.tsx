/** The questions that a parked task asks, with the forms of their answers. Nothing where it asks none. */
import type { Task } from "@client/tasks";
import { Wait_Kind } from "@v1/wait_pb";
import { api } from "../api";
import { Card } from "../parts/page";
import { Ago } from "../parts/time";
import { useRead } from "../reading";
import { Asked } from "./answer_form";

export function TaskQuestions({ task: { id, agentId, state } }: { task: Task }) {
  const isParked = state === "parked";
  const read = useRead(
    async (signal) => (isParked ? (await api().tasks.getTask({ taskId: id }, { signal })).park?.waits : undefined),
    [id, state],
  );
  const asked = read.value?.filter(({ kind }) => kind === Wait_Kind.answer) ?? [];
  if (!isParked || !asked.length) return null;
  return (
    <>
      {asked.map(({ name = "", question, until }) => (
        <Card
          key={name}
          title={`It asks: ${name}`}
          actions={
            until && (
              <span class="dim">
                ends <Ago at={until} />
              </span>
            )
          }
        >
          <Asked taskId={id} agentId={agentId} questionId={name} question={question} onAnswered={read.refresh} />
        </Card>
      ))}
    </>
  );
}
