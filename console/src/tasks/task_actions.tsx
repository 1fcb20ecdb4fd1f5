/** What can be done with tasks that are chosen one by one: who may, in which states, and how. */
import type { DescMethod } from "@bufbuild/protobuf";
import { errorFrom } from "@client/errors";
import type { Task, TaskState } from "@client/tasks";
import { valueFrom } from "@client/values";
import { TaskService } from "@v1/task_pb";
import { useState } from "preact/hooks";
import { act, notify } from "../acting";
import { api } from "../api";
import { FormDialog, openDialog } from "../parts/dialog";
import { AreaField, CheckField, jsonIn, TextField } from "../parts/fields";
import type { IconName } from "../parts/icon";
import { may } from "../session";

export type Deed = "cancel" | "pause" | "resume" | "resolve";

interface DeedKind {
  readonly name: string;
  readonly icon: IconName;
  readonly done: string;
  readonly method: DescMethod;
  readonly states: readonly TaskState[];
}

const { cancelTask, pauseTask, resumeTask, resolveTask } = TaskService.method;

export const DEEDS: Readonly<Record<Deed, DeedKind>> = {
  pause: { name: "Pause", icon: "pause", done: "paused", method: pauseTask, states: ["assigned", "running"] },
  resume: {
    name: "Resume",
    icon: "play",
    done: "resumed",
    method: resumeTask,
    states: ["paused", "failed", "pending"],
  },
  resolve: { name: "Resolve", icon: "check", done: "resolved", method: resolveTask, states: ["paused", "failed"] },
  cancel: {
    name: "Cancel",
    icon: "close",
    done: "cancelled",
    method: cancelTask,
    states: ["pending", "queued", "assigned", "running", "paused", "parked", "failed"],
  },
};

export const ALL_DEEDS = Object.keys(DEEDS) as Deed[];

/** Whether this can be done to a task as it stands, by this caller. */
export function can(deed: Deed, task: Task): boolean {
  const { method, states } = DEEDS[deed];
  if (!states.includes(task.state) || !may(method, task.agentId)) return false;
  if (deed === "resume" && task.state === "pending") return task.hold;
  // A failed task can be cancelled only while it blocks its target.
  return !(deed === "cancel" && task.state === "failed" && !task.target);
}

export interface DeedOptions {
  cancelChildren?: boolean;
  tokenLimit?: number;
  /** A JSON value. */
  result?: unknown;
  reason?: string;
}

async function perform(deed: Deed, taskId: string, options: DeedOptions): Promise<void> {
  const { tasks } = api();
  const { cancelChildren, tokenLimit, result } = options;
  const why = options.reason ? { reason: options.reason } : {};
  if (deed === "cancel") await tasks.cancelTask({ taskId, ...(cancelChildren && { cancelChildren }), ...why });
  else if (deed === "pause") await tasks.pauseTask({ taskId, ...why });
  else if (deed === "resume") await tasks.resumeTask({ taskId, ...(tokenLimit !== undefined && { tokenLimit }) });
  else await tasks.resolveTask({ taskId, ...(result !== undefined && { result: valueFrom(result) }), ...why });
}

/** Does something to tasks. All but what lets them run again asks first. */
export async function begin(deed: Deed, tasks: readonly Task[]): Promise<void> {
  const one = tasks.length === 1 ? tasks[0] : undefined;
  const isOverLimit = deed === "resume" && tasks.some((task) => (task.tokensUsed ?? 0) > (task.tokenLimit ?? Infinity));
  if (deed === "resume" && !isOverLimit) return all(deed, tasks, {});
  openDialog((close) => <DeedDialog deed={deed} tasks={tasks} one={one} close={close} />);
}

/** Does something to several tasks, a few at a time, and tells how many it was done to. */
async function all(deed: Deed, tasks: readonly Task[], options: DeedOptions): Promise<void> {
  const { done } = DEEDS[deed];
  if (tasks.length === 1) {
    await act(`The task is ${done}`, () => perform(deed, tasks[0]!.id, options));
    return;
  }
  const left = [...tasks];
  const refused: string[] = [];
  const worker = async () => {
    for (let task = left.shift(); task; task = left.shift()) {
      await perform(deed, task.id, options).catch((thrown) => refused.push(errorFrom(thrown).reason));
    }
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  const count = tasks.length - refused.length;
  if (count) notify(`${count} of ${tasks.length} tasks ${done}`);
  if (refused.length) notify(`${refused.length} refused: ${refused[0]}`, "bad");
}

/** Why something is done, for others. */
export function ReasonField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return <TextField label="Reason" value={value} onChange={onChange} hint="why; the task shows it" />;
}

interface DialogProps {
  deed: Deed;
  tasks: readonly Task[];
  one: Task | undefined;
  close: () => void;
}

function DeedDialog({ deed, tasks, one, close }: DialogProps) {
  const [children, setChildren] = useState(false);
  const [limit, setLimit] = useState("");
  const [result, setResult] = useState("");
  const [reason, setReason] = useState("");
  const { name, done } = DEEDS[deed];
  const what = one ? `the task ${one.action}` : `${tasks.length} tasks`;
  const submit = async () => {
    const options: DeedOptions = {
      ...(children && { cancelChildren: true }),
      ...(limit && { tokenLimit: Number(limit) }),
      ...(result.trim() && { result: jsonIn(result) }),
      ...(reason && { reason }),
    };
    if (!one) return all(deed, tasks, options);
    await perform(deed, one.id, options);
    notify(`The task is ${done}`);
  };
  return (
    <FormDialog
      title={`${name} ${what}`}
      submit={deed === "cancel" ? `Cancel ${one ? "the task" : `${tasks.length} tasks`}` : name}
      danger={deed === "cancel"}
      onSubmit={submit}
      close={close}
    >
      {one && <code class="dim">{one.id}</code>}
      {deed === "cancel" && (
        <>
          <p>What runs is told to stop. A cancelled task cannot be resumed.</p>
          <CheckField label="Also what its work has submitted" value={children} onChange={setChildren} />
        </>
      )}
      {deed === "pause" && <p>What runs is told to stop. It begins again once it is resumed.</p>}
      {deed === "resume" && (
        <TextField
          label="Token limit"
          type="number"
          min={0}
          value={limit}
          onChange={setLimit}
          hint="it has used more than its limit; the new one must be above that"
          required
        />
      )}
      {deed === "resolve" && (
        <AreaField
          label="Result"
          value={result}
          onChange={setResult}
          hint="any JSON value; empty for none. The task ends as done."
          placeholder='{"ok": true}'
        />
      )}
      {deed !== "resume" && <ReasonField value={reason} onChange={setReason} />}
    </FormDialog>
  );
}
