/** One task. */
import { Page } from "../parts/page";

export function TaskView({ taskId }: { taskId: string }) {
  return <Page title={taskId}>{null}</Page>;
}
