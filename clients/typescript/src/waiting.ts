/** Waits for the end of a task, by as many calls as that takes. */
import type { Client as Stub } from "@connectrpc/connect";
import type { Calls } from "./calls.js";
import type { GiveUp } from "./client_options.js";
import { errorFrom, TaskyardError } from "./errors.js";
import type { TaskService } from "./gen/taskyard/v1/task_pb.js";
import { TaskLost } from "./outcomes.js";
import { MAX_TIMER_MS } from "./retrying.js";
import { stateOf, type Task, taskFrom } from "./tasks.js";

/** The longest wait of one WaitTask call. Proxies end calls that are idle for a minute. */
const MAX_WAIT_MS = 20_000;

/** How much later than the caller's timeout the server's last answer may come. */
const WAIT_GRACE_MS = 2_000;

/**
 * Waits until a task has ended, see `Client.wait`. `isKnown` tells whether the server knew the task before; `whole` fetches
 * what the task has elsewhere.
 */
export async function waitUntilEnded(
  calls: Calls,
  tasks: Stub<typeof TaskService>,
  taskId: string,
  options: GiveUp & { timeoutMs?: number },
  isKnown: boolean,
  whole: (task: Task, signal: AbortSignal) => Promise<Task>,
): Promise<Task> {
  const timeoutMs = options.timeoutMs ?? Number.POSITIVE_INFINITY;
  if (Number.isNaN(timeoutMs)) throw new RangeError("timeoutMs: must be a number");
  const until = performance.now() + timeoutMs;
  const late = (state: string) =>
    new TaskyardError("deadline_exceeded", `${taskId} ${state}, it has not ended in time`);
  const [call, end] = calls.begin(options.signal);
  const timer =
    timeoutMs + WAIT_GRACE_MS > MAX_TIMER_MS
      ? undefined
      : setTimeout(() => call.abort(late("was not reached")), timeoutMs + WAIT_GRACE_MS);
  try {
    for (let wasKnown = isKnown; ; wasKnown = true) {
      const waitMs = Math.round(Math.min(Math.max(until - performance.now(), 0), MAX_WAIT_MS));
      const callOptions = { signal: call.signal, timeoutMs: calls.timeoutMs + waitMs };
      const waiting = tasks.waitTask({ taskId, timeoutMs: waitMs }, callOptions);
      const { task, ended } = await waiting.catch((thrown: unknown) => {
        const error = errorFrom(thrown);
        throw wasKnown && error.code === "not_found" ? new TaskLost(taskId, error) : error;
      });
      if (ended && task) return await whole(taskFrom(task), call.signal);
      if (performance.now() >= until) throw late(`is ${stateOf(task?.state)}`);
    }
  } finally {
    clearTimeout(timer);
    end();
  }
}
