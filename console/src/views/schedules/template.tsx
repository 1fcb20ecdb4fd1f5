/** The task that a schedule submits each time. */
import type { TaskTemplate } from "@v1/schedule_pb";
import { Facts } from "../../parts/page";
import { lengthOf } from "../../parts/time";
import { Tree } from "../../parts/tree";
import { href } from "../../route";
import { Chips, labelTexts } from "../chips";

export function Template({ task }: { task: TaskTemplate }) {
  const { target } = task;
  const secs = (value: number | undefined) => (value === undefined ? undefined : lengthOf(value * 1_000));
  return (
    <>
      <Facts
        rows={[
          ["Action", task.action],
          ["Agent", task.agentId],
          ["Target", target && <a href={href(["tasks"], { target })}>{target}</a>],
          ["Project", task.project],
          ["Requires", task.requires.length > 0 && <Chips of={task.requires} />],
          ["Labels", Object.keys(task.labels).length > 0 && <Chips of={labelTexts(task.labels)} />],
          ["Concurrency keys", task.concurrencyKeys.length > 0 && <Chips of={task.concurrencyKeys} />],
          ["Priority", task.priority?.toString()],
          ["Deadline", secs(task.deadlineSecs)],
          ["Run timeout", task.runTimeoutMs === undefined ? undefined : lengthOf(task.runTimeoutMs)],
          ["Attempts", task.retryPolicy?.maxAttempts?.toString()],
          ["Tokens", task.tokenLimit?.toString()],
          ["Tab", task.tabId],
          ["Selector", task.selector],
          ["Element", task.ref],
          ["Callback", task.callbackUrl],
        ]}
      />
      {task.params && (
        <details class="unfold" open>
          <summary>Params</summary>
          <Tree value={task.params} />
        </details>
      )}
    </>
  );
}
