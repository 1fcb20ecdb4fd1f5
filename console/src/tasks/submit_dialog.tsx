/** Submitting a task, from nothing or from an earlier one. */
import { create } from "@bufbuild/protobuf";
import { inputFields, inputOf } from "@client/payloads";
import type { Task } from "@client/tasks";
import { exactText, randomKey, timestampFrom, withoutTags } from "@client/values";
import { RetryPolicySchema, SubmitTaskRequestSchema, TaskService } from "@v1/task_pb";
import { useState } from "preact/hooks";
import { notify } from "../acting";
import { api } from "../api";
import { FormDialog, openDialog } from "../parts/dialog";
import { AreaField, CheckField, jsonIn, SelectField, TextField } from "../parts/fields";
import { go, href } from "../route";
import { may, ownAgent } from "../session";

export function maySubmit(): boolean {
  return may(TaskService.method.submitTask);
}

/** Opens the form; `like` fills it in with an earlier task. */
export function openSubmit(like?: Task): void {
  openDialog((close) => <SubmitDialog like={like} close={close} />);
}

const LAST_AGENT = "taskyard.agent";

const EMPTY = {
  agentId: "",
  action: "",
  params: "",
  priority: "",
  target: "",
  labels: "",
  deadlineSecs: "",
  delaySecs: "",
  project: "",
  requires: "",
  concurrencyKeys: "",
  after: "",
  inputs: "",
  uniqueKey: "",
  attempts: "",
  runTimeoutSecs: "",
  tokenLimit: "",
  tabId: "",
  ref: "",
  selector: "",
  callbackUrl: "",
  onTargetFailure: "",
  hold: false,
};

type Form = typeof EMPTY;

function formOf(task: Task | undefined): Form {
  const agentId = ownAgent.value ?? sessionStorage.getItem(LAST_AGENT) ?? "";
  if (!task) return { ...EMPTY, agentId };
  const text = (value: number | undefined) => (value === undefined ? "" : String(value));
  return {
    ...EMPTY,
    agentId: task.agentId,
    action: task.action,
    params: paramsOf(task),
    priority: task.priority ? String(task.priority) : "",
    target: task.target ?? "",
    labels: Object.entries(task.labels ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(", "),
    project: task.project ?? "",
    requires: (task.requires ?? []).join(", "),
    concurrencyKeys: (task.concurrencyKeys ?? []).join(", "),
    attempts: text(task.retryPolicy?.maxAttempts),
    runTimeoutSecs: text(task.runTimeoutMs === undefined ? undefined : task.runTimeoutMs / 1_000),
    tokenLimit: text(task.tokenLimit),
    tabId: task.tabId ?? "",
    ref: task.ref ?? "",
    selector: task.selector ?? "",
    callbackUrl: task.callbackUrl ?? "",
    onTargetFailure: task.onTargetFailure ?? "",
  };
}

/** The params of a task as text. Empty for bytes of a codec, which go along as they are. */
function paramsOf(task: Task): string {
  if (task.input?.encoding || (!task.input && !Object.keys(task.params).length)) return "";
  const text = withoutTags(exactText(inputOf(task)));
  return task.input ? text : JSON.stringify(JSON.parse(text), null, 2);
}

function wordsIn(text: string): string[] {
  return text
    .split(/[,\n]/)
    .map((word) => word.trim())
    .filter(Boolean);
}

function labelsIn(text: string): Record<string, string> {
  return Object.fromEntries(
    wordsIn(text).map((pair) => {
      const at = pair.indexOf("=");
      return at < 0 ? [pair, ""] : [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
    }),
  );
}

/** The params as they are sent: beside an object of its own where a number would lose digits. */
function paramsIn(text: string, like: Task | undefined) {
  const params = jsonIn(text);
  if (params === undefined) return inputFields(like?.input?.encoding ? like.input : undefined);
  if (params === null || typeof params !== "object" || Array.isArray(params)) {
    throw new TypeError('The params must be a JSON object, such as {"url": "https://example.com"}');
  }
  return inputFields(params);
}

function requestOf(form: Form, idempotencyKey: string, like: Task | undefined) {
  const number = (text: string, factor = 1) => (text.trim() ? Math.round(Number(text) * factor) : undefined);
  const text = (value: string) => value.trim() || undefined;
  const inSecs = (secs: string) =>
    secs.trim() ? timestampFrom(new Date(Date.now() + Number(secs) * 1_000)) : undefined;
  const attempts = number(form.attempts);
  return create(SubmitTaskRequestSchema, {
    agentId: form.agentId.trim(),
    action: form.action.trim(),
    ...paramsIn(form.params, like),
    priority: number(form.priority),
    target: text(form.target),
    labels: labelsIn(form.labels),
    deadline: inSecs(form.deadlineSecs),
    notBefore: inSecs(form.delaySecs),
    project: text(form.project),
    requires: wordsIn(form.requires),
    concurrencyKeys: wordsIn(form.concurrencyKeys),
    after: wordsIn(form.after),
    inputs: labelsIn(form.inputs),
    uniqueKey: text(form.uniqueKey),
    retryPolicy: attempts === undefined ? undefined : create(RetryPolicySchema, { maxAttempts: attempts }),
    runTimeoutMs: number(form.runTimeoutSecs, 1_000),
    tokenLimit: number(form.tokenLimit),
    tabId: text(form.tabId),
    ref: text(form.ref),
    selector: text(form.selector),
    callbackUrl: text(form.callbackUrl),
    onTargetFailure: text(form.onTargetFailure),
    hold: form.hold || undefined,
    idempotencyKey,
  });
}

function SubmitDialog({ like, close }: { like: Task | undefined; close: () => void }) {
  const [form, setForm] = useState(() => formOf(like));
  // One key for all presses of the button: after a lost answer the second makes no second task.
  const [key] = useState(randomKey);
  const submit = async () => {
    const { taskId = "", existing } = await api().tasks.submitTask(requestOf(form, key, like));
    sessionStorage.setItem(LAST_AGENT, form.agentId.trim());
    notify(existing ? "A task had the unique key already" : "The task is submitted");
    go(href(["tasks", taskId]));
  };
  const field = (name: { [K in keyof Form]: Form[K] extends string ? K : never }[keyof Form]) => ({
    value: form[name],
    onChange: (value: string) => setForm((before) => ({ ...before, [name]: value })),
  });
  return (
    <FormDialog title="Submit a task" submit="Submit" onSubmit={submit} close={close} wide>
      <div class="pair">
        <TextField label="Agent" required autofocus={!form.agentId} {...field("agentId")} />
        <TextField label="Action" required autofocus={Boolean(form.agentId)} placeholder="crawl" {...field("action")} />
      </div>
      <AreaField
        label="Params"
        placeholder={'{"url": "https://example.com"}'}
        hint={like?.input?.encoding ? `its input of the codec ${like.input.encoding} goes along` : "a JSON object"}
        {...field("params")}
      />
      <div class="pair">
        <TextField label="Target" hint="tasks of one target run one at a time" {...field("target")} />
        <TextField label="Labels" placeholder="site=shop, env=prod" {...field("labels")} />
      </div>
      <details>
        <summary>More</summary>
        <div class="pair">
          <TextField label="Priority" type="number" hint="lower is claimed first" {...field("priority")} />
          <TextField label="Deadline in seconds" type="number" min={0} step="any" {...field("deadlineSecs")} />
          <TextField label="Due in seconds" type="number" min={0} step="any" {...field("delaySecs")} />
          <TextField label="Attempts" type="number" min={1} {...field("attempts")} />
          <TextField label="Run timeout in seconds" type="number" min={0} step="any" {...field("runTimeoutSecs")} />
          <TextField label="Token limit" type="number" min={0} {...field("tokenLimit")} />
          <TextField label="Concurrency keys" placeholder="site:shop" {...field("concurrencyKeys")} />
          <TextField label="Unique key" {...field("uniqueKey")} />
          <TextField label="Comes after tasks" hint="ids, separated by commas" {...field("after")} />
          <TextField
            label="Is handed the results of"
            placeholder="page=tsk_01a2, image=tsk_01a3"
            {...field("inputs")}
          />
          <TextField label="Needs capabilities" placeholder="gpu, eu" {...field("requires")} />
          <TextField label="Project" {...field("project")} />
          <TextField label="Callback URL" type="url" {...field("callbackUrl")} />
          <TextField label="Tab" {...field("tabId")} />
          <TextField label="Element" {...field("ref")} />
          <TextField label="Selector of the element" placeholder="#btn" {...field("selector")} />
          <SelectField
            label="If it fails, its target"
            options={[
              ["", "as the settings say"],
              ["block", "waits"],
              ["continue", "goes on"],
            ]}
            {...field("onTargetFailure")}
          />
        </div>
        <CheckField
          label="Hold it until it is resumed"
          value={form.hold}
          onChange={(hold) => setForm((before) => ({ ...before, hold }))}
        />
      </details>
    </FormDialog>
  );
}
