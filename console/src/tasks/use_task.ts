/** One task as it changes. */
import { errorFrom, type TaskyardError } from "@client/errors";
import { type Task, taskFrom } from "@client/tasks";
import { useEffect, useState } from "preact/hooks";
import { api, watchTasks } from "../api";
import { generation } from "../connection";
import { isShown } from "../reading";

export interface OneTask {
  readonly task: Task | undefined;
  readonly error: TaskyardError | undefined;
  /** Whether the server has forgotten it since the page read it. */
  readonly isGone: boolean;
}

/**
 * Reads a task, and again at each change: events leave out params and tracebacks. Its progress and its artifacts are
 * taken from the events.
 * Nothing is watched while the page is hidden.
 */
export function useTask(taskId: string): OneTask {
  const [state, setState] = useState<OneTask>({ task: undefined, error: undefined, isGone: false });
  useEffect(() => {
    if (!isShown.value) return;
    const end = new AbortController();
    const { signal } = end;
    let isStale = false;
    let isReading = false;
    const read = async () => {
      isStale = true;
      if (isReading) return;
      isReading = true;
      try {
        while (isStale && !signal.aborted) {
          isStale = false;
          const task = taskFrom(await api().tasks.getTask({ taskId }, { signal }));
          if (!signal.aborted) setState({ task, error: undefined, isGone: false });
        }
      } catch (thrown) {
        const error = errorFrom(thrown);
        const isGone = error.code === "not_found";
        if (!signal.aborted) setState(({ task }) => ({ task, error, isGone }));
      }
      isReading = false;
    };
    const follow = async () => {
      for await (const { kind, task } of watchTasks({ taskIds: [taskId], signal })) {
        if (signal.aborted) return;
        const isProgress = kind === "progressed";
        if (isProgress)
          setState((before) => ({ ...before, ...(before.task && { task: { ...before.task, ...progressOf(task) } }) }));
        // What is being read now may be from before the event.
        if (!isProgress || isReading) void read();
      }
    };
    void read();
    // What the watch is refused with, the reading is, too.
    follow().catch(() => {});
    return () => end.abort();
  }, [taskId, generation.value, isShown.value]);
  return state;
}

function progressOf({ progress, tokensUsed, artifacts }: Task): Partial<Task> {
  return {
    ...(progress && { progress }),
    ...(tokensUsed !== undefined && { tokensUsed }),
    ...(artifacts.length && { artifacts }),
  };
}
