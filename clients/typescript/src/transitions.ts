/** Calls that bring a task to a state, in which the same call is a conflict. */
import type { Client as Stub } from "@connectrpc/connect";
import type { Calls } from "./calls.js";
import type { GiveUp } from "./client_options.js";
import { errorFrom } from "./errors.js";
import type { Stopping_Outcome, Task_State, TaskService } from "./gen/taskyard/v1/task_pb.js";
import { type Stopping, stoppingOf } from "./queueing.js";
import { stateOf, type TaskState } from "./tasks.js";
import { checkCount } from "./values.js";

type Tasks = Stub<typeof TaskService>;

/** Makes a call that brings a task to a state, in which the same call is a conflict. */
export function transition(
  calls: Calls,
  tasks: Tasks,
  call: (signal: AbortSignal | undefined) => Promise<{ status?: Task_State }>,
  taskId: string,
  state: TaskState,
  { signal }: GiveUp,
): Promise<TaskState> {
  return calls.repeated(async (isInDoubt, linked) => {
    try {
      return stateOf((await call(linked)).status);
    } catch (thrown) {
      const error = errorFrom(thrown);
      // A try before this one may have succeeded, and its answer was lost.
      const isOwnDoing = error.code === "conflict" && isInDoubt;
      if (isOwnDoing && stateOf((await tasks.getTask({ taskId }, { signal })).state) === state) return state;
      throw error;
    }
  }, signal);
}

/** Makes a call that stops a task, and waits for its host. */
export async function stop(
  calls: Calls,
  tasks: Tasks,
  call: (
    request: { taskId: string; waitMs: number; reason: string | undefined },
    options: { signal: AbortSignal | undefined; timeoutMs: number },
  ) => Promise<{ status?: Task_State; stopping?: Stopping_Outcome }>,
  request: { taskId: string; waitMs: number; reason: string | undefined },
  state: TaskState,
  options: GiveUp,
): Promise<Stopping> {
  checkCount("waitMs", request.waitMs);
  const timeoutMs = calls.timeoutMs + request.waitMs;
  let stopping: Stopping = "waiting";
  const once = async (signal: AbortSignal | undefined) => {
    const answer = await call(request, { signal, timeoutMs });
    stopping = stoppingOf(answer.stopping);
    return answer;
  };
  await transition(calls, tasks, once, request.taskId, state, options);
  return stopping;
}
