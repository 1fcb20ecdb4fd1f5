/** Why a task waits, as the server explains it. */
import type { Task } from "@client/tasks";
import { api } from "../api";
import { countOf } from "../parts/figures";
import { Card, Loaded } from "../parts/page";
import { shortId, TaskText } from "../parts/task_text";
import { Ago } from "../parts/time";
import { useRead } from "../reading";
import { href } from "../route";

const WAITING = ["pending", "queued", "paused", "parked"];

export function isWaiting(task: Task): boolean {
  return WAITING.includes(task.state);
}

export function Waits({ taskId }: { taskId: string }) {
  const read = useRead((signal) => api().tasks.explainTask({ taskId }, { signal }), [taskId], 2_000);
  return (
    <Card title="Why it waits">
      <Loaded from={read}>
        {({ runnable, reasons, ahead, overShare }) => (
          <ul class="reasons">
            {reasons.map(({ message, until, taskIds }, at) => (
              <li key={at} class="tone-warn">
                <span class="dot" />
                <span>
                  <TaskText text={message ?? ""} />
                  {until && (
                    <span class="dim">
                      {" "}
                      (<Ago at={until} />)
                    </span>
                  )}
                  {taskIds
                    .filter((id) => !message?.includes(id))
                    .map((id) => (
                      <a key={id} class="mono" href={href(["tasks", id])}>
                        {" "}
                        {shortId(id)}
                      </a>
                    ))}
                </span>
              </li>
            ))}
            {runnable && (
              <li class="tone-good">
                <span class="dot" />
                <span>Nothing keeps it: the next claim that fits can have it.</span>
              </li>
            )}
            {ahead !== undefined && ahead > 0 && (
              <li class="tone-calm">
                <span class="dot" />
                <span>{countOf(ahead)} tasks come first in claim order.</span>
              </li>
            )}
            {overShare && (
              <li class="tone-calm">
                <span class="dot" />
                <span>Its agent has more in flight than its share; others go before.</span>
              </li>
            )}
          </ul>
        )}
      </Loaded>
    </Card>
  );
}
