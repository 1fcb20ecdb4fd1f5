/** One task: where it stands, how it came there, what it was given and what came of it. */
import { inputOf, outputOf, type Payload } from "@client/payloads";
import type { Task } from "@client/tasks";
import type { ExactJson } from "@client/values";
import type { ComponentChildren } from "preact";
import { OutputService } from "@v1/output_pb";
import { Button } from "../parts/button";
import { Copy, Id } from "../parts/copy";
import { Dialog, openDialog } from "../parts/dialog";
import { countOf } from "../parts/figures";
import { Card, Empty, Facts, Page } from "../parts/page";
import { State } from "../parts/state";
import { type Column, Table } from "../parts/table";
import { shortId, TaskText, whyText } from "../parts/task_text";
import { Ago, At, Lasting, lengthOf } from "../parts/time";
import { Tree } from "../parts/tree";
import { href } from "../route";
import { may } from "../session";
import { Artifacts } from "./artifacts/artifacts";
import { Reference, referredTo } from "./artifacts/reference";
import { asCurl, asGrpcurl, asPython } from "./copies";
import { Output } from "./output/output";
import { listAddress } from "./place";
import { Steps } from "./steps";
import { maySubmit, openSubmit } from "./submit_dialog";
import { ALL_DEEDS, begin, can, DEEDS } from "./task_actions";
import { TaskQuestions } from "./task_questions";
import { Timeline } from "./timeline";
import { TaskTree } from "./tree/task_tree";
import { useTask } from "./use_task";
import { isWaiting, Waits } from "./waits";

export function TaskView({ taskId }: { taskId: string }) {
  const { task, error, isGone } = useTask(taskId);
  const above = <a href={listAddress()}>← Tasks</a>;
  if (!task) {
    return (
      <Page title="Task" above={above}>
        {error && error.code !== "unavailable" ? (
          <Empty icon="search" title={isGone ? "Not found" : "The task could not be read"}>
            {isGone ? "There is no such task, or it ended so long ago that the server has forgotten it." : error.reason}
            <p>
              <Id of={taskId} />
            </p>
          </Empty>
        ) : (
          <div class="loading" role="status" aria-label="Loading" />
        )}
      </Page>
    );
  }
  return (
    <Page
      above={above}
      title={
        <span class="task-title">
          {task.action} <State of={task.state} />
        </span>
      }
      actions={<Actions task={task} isGone={isGone} />}
    >
      <div class="row task-ids">
        <Id of={task.id} />
        {isGone && <span class="warn-text">The server has forgotten it since.</span>}
      </div>
      {(task.error || task.reason) && <Failure task={task} />}
      {task.notice && <p class="banner tone-warn">{task.notice}</p>}
      <div class="task-grid">
        <div class="stack">
          {isWaiting(task) && !isGone && <Waits taskId={task.id} />}
          <TaskQuestions key={`questions of ${task.id}`} task={task} />
          <Card title="Time line">
            {task.progress && !task.completedAt && <ProgressNow task={task} />}
            <Timeline task={task} />
          </Card>
          <TaskTree key={`tree of ${task.id}`} task={task} />
          {task.attempts.length > 0 && <Attempts task={task} />}
          {may(OutputService.method.readOutput, task.agentId) && <Output key={task.id} task={task} />}
          <Steps key={`steps of ${task.id}`} task={task} />
          <Artifacts key={`artifacts of ${task.id}`} task={task} />
          <Values
            title="Params"
            task={task}
            of={task.input ?? task.params}
            value={() => inputOf<ExactJson>(task)}
            none="It was given none."
          />
          {(task.state === "done" || task.result !== undefined) && (
            <Values
              title="Result"
              task={task}
              of={task.output ?? task.result}
              value={() => outputOf<ExactJson>(task)}
              none="It ended without one."
            />
          )}
        </div>
        <div class="stack">
          <About task={task} />
          <Copies task={task} />
        </div>
      </div>
    </Page>
  );
}

function Actions({ task, isGone }: { task: Task; isGone: boolean }) {
  return (
    <>
      {!isGone &&
        ALL_DEEDS.filter((deed) => can(deed, task)).map((deed) => (
          <Button
            key={deed}
            icon={DEEDS[deed].icon}
            kind={deed === "cancel" ? "danger" : "plain"}
            onPress={() => begin(deed, [task])}
          >
            {DEEDS[deed].name}
          </Button>
        ))}
      {maySubmit() && !referredTo(task.params, task) && (
        <Button icon="refresh" onPress={() => openSubmit(task)}>
          Submit again
        </Button>
      )}
    </>
  );
}

function Failure({ task }: { task: Task }) {
  const show = () =>
    openDialog((close) => (
      <Dialog
        title="Traceback"
        wide
        close={close}
        footer={
          <Copy text={task.traceback ?? ""} label="Copy">
            Copy
          </Copy>
        }
      >
        <pre class="traceback">{task.traceback}</pre>
      </Dialog>
    ));
  return (
    <div
      class={`banner ${task.state === "failed" || task.state === "rejected" ? "tone-bad" : "tone-warn"}`}
      role="note"
    >
      <span class="grow">
        <TaskText text={whyText(task)} />
        {task.code && <code class="tag">{task.code}</code>}
      </span>
      {task.traceback && <Button onPress={show}>Traceback</Button>}
    </div>
  );
}

function ProgressNow({ task }: { task: Task }) {
  const { fraction, message, details } = task.progress!;
  return (
    <div class="progress-now">
      {fraction !== undefined && <progress class="long" aria-label="Progress" max={1} value={fraction} />}
      <span>
        {fraction !== undefined && `${Math.round(fraction * 100)} % `}
        {message}
      </span>
      {details && <Tree value={details} depth={0} name="details" />}
    </div>
  );
}

const ATTEMPT_COLUMNS: readonly Column<Task["attempts"][number]>[] = [
  { title: "No.", cell: ({ number }) => number },
  { title: "Host", cell: ({ hostId }) => hostId && <a href={href(["hosts", hostId])}>{hostId}</a> },
  { title: "Began", cell: ({ startedAt }) => <Ago at={startedAt} /> },
  {
    title: "Duration",
    right: true,
    cell: ({ startedAt, endedAt }) => startedAt && <Lasting from={startedAt} to={endedAt} />,
  },
  {
    title: "Why it failed",
    wrap: true,
    cell: ({ error, code }) => (
      <>
        {error} {code && <code class="tag">{code}</code>}
      </>
    ),
  },
];

function Attempts({ task }: { task: Task }) {
  const title = task.run > 1 ? `Attempts of run ${task.run}` : "Attempts";
  return (
    <Card title={title} flush>
      <Table label={title} columns={ATTEMPT_COLUMNS} rows={task.attempts} rowKey={({ number }) => String(number)} />
    </Card>
  );
}

interface ValuesProps {
  title: string;
  task: Task;
  of: Payload | object | ExactJson | undefined;
  value: () => ExactJson | undefined;
  none: string;
}

/** Params or a result as a tree, below the artifact that has them; bytes of a codec that is unknown here by number. */
function Values({ title, task, of, value, none }: ValuesProps) {
  let content: ComponentChildren;
  let text = "";
  try {
    const shown = value();
    const isNone = shown === undefined || (typeof of === "object" && of !== null && !Object.keys(of).length);
    text = isNone ? "" : JSON.stringify(shown, (_, each) => (typeof each === "bigint" ? Number(each) : each), 2);
    const artifact = referredTo(shown, task);
    content = isNone ? (
      <p class="dim">{none}</p>
    ) : (
      <>
        {artifact && <Reference to={artifact} />}
        <Tree value={shown} depth={artifact ? 0 : 2} />
      </>
    );
  } catch {
    const { data, encoding } = of as Payload;
    content = (
      <p class="dim">
        {countOf(data.length)} bytes of the codec {encoding}.
      </p>
    );
  }
  return (
    <Card title={title} actions={text && <Copy text={text} label={`Copy the ${title.toLowerCase()} as JSON`} />}>
      {content}
    </Card>
  );
}

function About({ task }: { task: Task }) {
  const to = (query: Record<string, string>, text: string) => <a href={href(["tasks"], query)}>{text}</a>;
  const tokens = task.tokensUsed !== undefined || task.tokenLimit !== undefined;
  const policy = task.retryPolicy;
  return (
    <Card title="About">
      <Facts
        rows={[
          ["Agent", to({ agentId: task.agentId }, task.agentId)],
          ["Host", task.hostId && <a href={href(["hosts", task.hostId])}>{task.hostId}</a>],
          ["Target", task.target && to({ target: task.target }, task.target)],
          ["If it fails, its target", task.onTargetFailure],
          ["Submitted", <At key="at" at={task.createdAt} />],
          ["Duration", task.latencyMs !== undefined && lengthOf(task.latencyMs)],
          ["Priority", task.priority !== 0 && task.priority],
          ["Run", task.run > 1 && task.run],
          [
            "Tokens",
            tokens &&
              `${countOf(task.tokensUsed ?? 0)} of ${task.tokenLimit === undefined ? "any number" : countOf(task.tokenLimit)}`,
          ],
          ["Attempts at most", policy?.maxAttempts],
          ["Run timeout", task.runTimeoutMs !== undefined && lengthOf(task.runTimeoutMs)],
          ["Labels", <Labels key="labels" of={task.labels ?? {}} />],
          ["Needs", task.requires?.join(", ")],
          ["Project", task.project],
          [
            "Concurrency keys",
            task.concurrencyKeys?.map((key) => <div key={key}>{to({ concurrencyKey: key }, key)}</div>),
          ],
          ["Batch", task.batchId && to({ batchId: task.batchId }, task.batchId)],
          [
            "Submitted by",
            task.parentId && (
              <a class="mono" href={href(["tasks", task.parentId])}>
                {shortId(task.parentId)}
              </a>
            ),
          ],
          ["When that ends", task.onParentEnd && (task.onParentEnd === "cancel" ? "it is cancelled" : "it goes on")],
          [
            "Comes after",
            task.after?.map((id) => (
              <div key={id}>
                <a class="mono" href={href(["tasks", id])}>
                  {shortId(id)}
                </a>
              </div>
            )),
          ],
          [
            "Inputs",
            Object.entries(task.inputs ?? {}).map(([name, id]) => (
              <div key={name}>
                {name}{" "}
                <a class="mono" href={href(["tasks", id])}>
                  {shortId(id)}
                </a>
              </div>
            )),
          ],
          ["Unique key", task.uniqueKey],
          ["Idempotency key", task.idempotencyKey && <code>{task.idempotencyKey}</code>],
          ["Tab", task.tabId],
          ["Element", task.ref],
          ["Selector", task.selector],
          ["Callback", task.callbackUrl],
          ["Trace", task.traceparent && <code>{task.traceparent.split("-")[1]}</code>],
        ].map(([name, value]) => [name as string, Array.isArray(value) && !value.length ? undefined : value] as const)}
      />
    </Card>
  );
}

function Labels({ of }: { of: Readonly<Record<string, string>> }) {
  const entries = Object.entries(of);
  if (!entries.length) return <span class="dim">none</span>;
  return (
    <span class="tags wraps">
      {entries.map(([key, value]) => (
        <a key={key} class="tag" href={href(["tasks"], { labels: `"${key}"="${value}"` })}>
          {value ? `${key}=${value}` : key}
        </a>
      ))}
    </span>
  );
}

function Copies({ task }: { task: Task }) {
  // Another task would refer to an artifact that it does not have.
  if (referredTo(task.params, task)) return null;
  return (
    <Card title="Submit the same from elsewhere">
      <div class="row">
        <Copy label="Copy as curl" text={() => asCurl(task)}>
          curl
        </Copy>
        <Copy label="Copy as grpcurl" text={() => asGrpcurl(task)}>
          grpcurl
        </Copy>
        <Copy label="Copy as Python" text={() => asPython(task)}>
          Python
        </Copy>
      </div>
    </Card>
  );
}
