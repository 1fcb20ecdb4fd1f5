/** Asks how the task that blocks a target is to go on, or with which result it is to end. */
import { useState } from "preact/hooks";
import { valueFrom } from "@client/values";
import type { Target } from "@v1/target_pb";
import { act } from "../../acting";
import { api } from "../../api";
import { FormDialog, openDialog } from "../../parts/dialog";
import { AreaField, jsonIn, TextField } from "../../parts/fields";

interface Props {
  target: Target;
  close: () => void;
  onDone: () => void;
}

export function openResume(target: Target, onDone: () => void): void {
  openDialog((close) => <ResumeDialog target={target} close={close} onDone={onDone} />);
}

export function openResolve(target: Target, onDone: () => void): void {
  openDialog((close) => <ResolveDialog target={target} close={close} onDone={onDone} />);
}

function ResumeDialog({ target, close, onDone }: Props) {
  const [limit, setLimit] = useState("");
  const taskId = target.taskId ?? "";
  const resume = async () => {
    const tokenLimit = limit.trim() ? Number(limit) : undefined;
    await api().targets.resumeTargetTask({ target: target.target, taskId, tokenLimit });
    await act(`The task of ${target.target} is queued again`, async () => onDone());
  };
  return (
    <FormDialog title={`Resume ${target.target}`} submit="Resume" close={close} onSubmit={resume}>
      <p>
        The task <code>{taskId}</code> is queued again, and its target goes on with it.
      </p>
      <TextField
        label="New limit of tokens"
        type="number"
        min={1}
        step={1}
        value={limit}
        onChange={setLimit}
        placeholder="as it is"
        hint="A task that failed over its budget needs a higher one."
      />
    </FormDialog>
  );
}

function ResolveDialog({ target, close, onDone }: Props) {
  const [text, setText] = useState("");
  const taskId = target.taskId ?? "";
  const resolve = async () => {
    const value = jsonIn(text);
    await api().tasks.resolveTask({ taskId, ...(value !== undefined && { result: valueFrom(value) }) });
    await act(`The task of ${target.target} is done`, async () => onDone());
  };
  return (
    <FormDialog title={`Resolve ${target.target}`} submit="Resolve" close={close} onSubmit={resolve}>
      <p>
        The task <code>{taskId}</code> ends as done, as if its work had succeeded, and its target goes on with the next
        one.
      </p>
      <AreaField label="Result as JSON" value={text} onChange={setText} placeholder="none" rows={5} autofocus />
    </FormDialog>
  );
}
