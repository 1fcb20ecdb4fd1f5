/** What is done to all tasks that match: counted first, then at work on the server, with its progress. */
import { create } from "@bufbuild/protobuf";
import { randomKey, valueFrom } from "@client/values";
import { type Operation, Operation_Status_Value, OperationService } from "@v1/operation_pb";
import { TaskFilterSchema } from "@v1/task_pb";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { Button } from "../parts/button";
import { Dialog, FormDialog, openDialog } from "../parts/dialog";
import { AreaField, jsonIn, SelectField, TextField } from "../parts/fields";
import { countOf } from "../parts/figures";
import { wordOf } from "../parts/state";
import { useRead } from "../reading";
import { may } from "../session";
import { messageOf, type Query } from "./filter";
import { ReasonField } from "./task_actions";

const { cancelTasks, pauseTasks, resumeTasks, resolveTasks, reprioritizeTasks } = OperationService.method;

const KINDS = [
  ["cancel", "Cancel", cancelTasks],
  ["pause", "Pause", pauseTasks],
  ["resume", "Resume", resumeTasks],
  ["resolve", "Resolve", resolveTasks],
  ["reprioritize", "Change the priority", reprioritizeTasks],
] as const;

type Kind = (typeof KINDS)[number][0];

/** Whether the caller may do anything to many tasks at once. */
export function mayDoMany(): boolean {
  return KINDS.some(([, , method]) => may(method));
}

export function openMany(query: Query): void {
  openDialog((close) => <ManyDialog query={query} close={close} />);
}

interface Wanted {
  readonly kind: Kind;
  readonly tokenLimit: string;
  readonly priority: string;
  readonly result: string;
  readonly reason: string;
}

async function start(
  query: Query,
  { kind, ...wanted }: Wanted,
  dryRun: boolean,
  signal?: AbortSignal,
): Promise<Operation> {
  const { operations } = api();
  const filter = create(TaskFilterSchema, messageOf(query));
  const isAll = Object.keys(messageOf(query)).length === 0;
  const common = {
    filter,
    ...(isAll && { all: true }),
    ...(dryRun ? { dryRun } : { operationId: randomKey() }),
  };
  const options = signal ? { signal } : {};
  const why = wanted.reason ? { reason: wanted.reason } : {};
  const answer = await {
    cancel: () => operations.cancelTasks({ ...common, ...why }, options),
    pause: () => operations.pauseTasks({ ...common, ...why }, options),
    resume: () =>
      operations.resumeTasks(
        { ...common, ...(wanted.tokenLimit && { tokenLimit: Number(wanted.tokenLimit) }) },
        options,
      ),
    resolve: () => {
      const result = jsonIn(dryRun ? "" : wanted.result);
      return operations.resolveTasks(
        { ...common, ...(result !== undefined && { result: valueFrom(result) }), ...why },
        options,
      );
    },
    reprioritize: () => operations.reprioritizeTasks({ ...common, priority: Number(wanted.priority) || 0 }, options),
  }[kind]();
  return answer.operation!;
}

function ManyDialog({ query, close }: { query: Query; close: () => void }) {
  const offered = KINDS.filter(([, , method]) => may(method));
  const [wanted, setWanted] = useState<Wanted>({
    kind: offered[0]![0],
    tokenLimit: "",
    priority: "0",
    result: "",
    reason: "",
  });
  const { kind } = wanted;
  const counted = useRead(
    async (signal) => ({ kind, matched: (await start(query, wanted, true, signal)).matched }),
    [kind],
  );
  const matched = counted.value?.kind === kind ? counted.value.matched : undefined;
  const name = offered.find(([each]) => each === kind)![1];
  const submit = async () => {
    const operation = await start(query, wanted, false);
    openDialog((closeNext) => <ProgressDialog first={operation} name={name} close={closeNext} />);
  };
  return (
    <FormDialog
      title="All tasks that match"
      submit={matched === undefined ? name : `${name}: ${countOf(matched)} tasks`}
      danger={kind === "cancel"}
      disabled={!matched}
      onSubmit={submit}
      close={close}
    >
      <SelectField
        label="What to do"
        value={kind}
        options={offered.map(([value, text]) => [value, text] as const)}
        onChange={(value) => setWanted({ ...wanted, kind: value as Kind })}
      />
      {kind === "resume" && (
        <TextField
          label="New token limit"
          type="number"
          min={0}
          value={wanted.tokenLimit}
          onChange={(tokenLimit) => setWanted({ ...wanted, tokenLimit })}
          hint="empty: each keeps its own"
        />
      )}
      {kind === "reprioritize" && (
        <TextField
          label="Priority"
          type="number"
          value={wanted.priority}
          onChange={(priority) => setWanted({ ...wanted, priority })}
          hint="a lower number is claimed first"
          required
        />
      )}
      {kind === "resolve" && (
        <AreaField
          label="Result"
          rows={3}
          value={wanted.result}
          onChange={(result) => setWanted({ ...wanted, result })}
          hint="any JSON value; empty for none"
        />
      )}
      {(kind === "cancel" || kind === "pause" || kind === "resolve") && (
        <ReasonField value={wanted.reason} onChange={(reason) => setWanted({ ...wanted, reason })} />
      )}
      <p role="status">
        {counted.error && <span class="bad-text">{counted.error.reason}</span>}
        {!counted.error && matched === undefined && <span class="dim">Counting…</span>}
        {matched !== undefined && (
          <>
            <b>{countOf(matched)}</b> tasks match the filters and are in a state in which this can be done.
          </>
        )}
      </p>
    </FormDialog>
  );
}

/** How far an operation is, until it has ended. It goes on when the dialog is closed. */
function ProgressDialog({ first, name, close }: { first: Operation; name: string; close: () => void }) {
  const [operation, setOperation] = useState(first);
  const { operationId } = first;
  const isAtWork = !operation.endedAt;
  const read = useRead(
    async (signal) => (await api().operations.getOperation({ operationId }, { signal })).operation,
    [operationId],
    isAtWork ? 400 : undefined,
  );
  useEffect(() => {
    if (read.value) setOperation(read.value);
  }, [read.value]);
  const treated = operation.done + operation.failed + operation.skipped;
  const status = wordOf(Operation_Status_Value, operation.status);
  const cancel = () => api().operations.cancelOperation({ operationId });
  return (
    <Dialog
      title={name}
      close={close}
      footer={
        <>
          {isAtWork && may(OperationService.method.cancelOperation) && (
            <Button kind="danger" onPress={cancel}>
              Stop
            </Button>
          )}
          <Button kind="primary" onPress={close}>
            {isAtWork ? "Go on in the background" : "Close"}
          </Button>
        </>
      }
    >
      <div class="stack" role="status">
        <progress
          class="long"
          aria-label="Progress"
          max={Math.max(1, operation.matched)}
          value={isAtWork ? treated : operation.matched || 1}
        />
        <p>
          <b>{countOf(operation.done)}</b> of {countOf(operation.matched)} done
          {operation.skipped > 0 && `, ${countOf(operation.skipped)} skipped`}
          {operation.failed > 0 && `, ${countOf(operation.failed)} refused`}
          {status === "waiting" && "; it waits for room in the queue"}
          {status === "cancelled" && "; it was stopped"}
        </p>
        {operation.firstError && <p class="bad-text">{operation.firstError}</p>}
      </div>
    </Dialog>
  );
}
