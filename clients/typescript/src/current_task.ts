/** The task whose handler is running: tasks that it submits name it as their parent. For Node. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { RunningTask } from "./running_task.js";

const storage = new AsyncLocalStorage<RunningTask>();

/**
 * The task whose handler is running here, also in what it calls and awaits.
 *
 * @returns The task, undefined outside of handlers.
 */
export function currentTask(): RunningTask | undefined {
  return storage.getStore();
}

/** Runs a function as a part of the handler of a task. */
export function runFor<T>(task: RunningTask, part: () => T): T {
  return storage.run(task, part);
}
