/** Limits of concurrency keys: what holds for which pattern, and the keys in use. */
import { useState } from "preact/hooks";
import { type KeyUsage, type Limit, LimitService } from "@v1/limit_pb";
import { act } from "../../acting";
import { api } from "../../api";
import { Button } from "../../parts/button";
import { ask, FormDialog, openDialog } from "../../parts/dialog";
import { TextField } from "../../parts/fields";
import { countOf, Meter } from "../../parts/figures";
import { Card, Empty, Loaded } from "../../parts/page";
import { type Column, Table } from "../../parts/table";
import { useRead } from "../../reading";
import { href } from "../../route";
import { may } from "../../session";

const LOOK_MS = 2_000;

export function KeyLimits() {
  const read = useRead((signal) => api().limits.listLimits({}, { signal }), [], LOOK_MS);
  const mayPut = may(LimitService.method.putLimit);
  return (
    <>
      <Card
        title="Limits by pattern"
        flush
        actions={
          mayPut && (
            <Button icon="plus" kind="primary" onPress={() => openLimit(undefined, read.refresh)}>
              New limit
            </Button>
          )
        }
      >
        <Loaded from={read}>{({ limits }) => <Patterns limits={limits} onDone={read.refresh} />}</Loaded>
      </Card>
      <Card title="Keys in use" flush>
        <Loaded from={read}>
          {({ limits, keys, nextPageToken }) => (
            <>
              <Keys keys={keys} limits={limits} />
              {nextPageToken && <p class="table-note dim">The first {keys.length} keys by name are shown.</p>}
            </>
          )}
        </Loaded>
      </Card>
    </>
  );
}

function Patterns({ limits, onDone }: { limits: Limit[]; onDone: () => void }) {
  const columns: Column<Limit>[] = [
    { title: "Pattern", sortBy: (limit) => limit.pattern, cell: (limit) => <code>{limit.pattern}</code> },
    {
      title: "In flight",
      right: true,
      sortBy: (limit) => limit.maxInflight ?? Number.POSITIVE_INFINITY,
      cell: (limit) => <Bound of={limit.maxInflight} />,
    },
    {
      title: "Per second",
      right: true,
      sortBy: (limit) => limit.perSecond ?? Number.POSITIVE_INFINITY,
      cell: (limit) => <Bound of={limit.perSecond} />,
    },
    {
      title: "At once",
      right: true,
      wideOnly: true,
      cell: (limit) => (limit.burst === undefined ? <span class="dim">–</span> : <Bound of={limit.burst} />),
    },
    {
      title: "Set by",
      wideOnly: true,
      cell: (limit) => <span class="dim">{limit.configured ? "the configuration" : "a call"}</span>,
    },
  ];
  if (may(LimitService.method.putLimit))
    columns.push({ title: "Actions", right: true, cell: (limit) => <LimitActions limit={limit} onDone={onDone} /> });
  return (
    <Table
      label="Limits by pattern"
      columns={columns}
      rows={limits}
      rowKey={(limit) => limit.pattern}
      empty={
        <Empty icon="gauge" title="No key has a limit">
          A limit bounds how many tasks with a concurrency key are in flight, or begin per second.
        </Empty>
      }
    />
  );
}

function LimitActions({ limit, onDone }: { limit: Limit; onDone: () => void }) {
  return (
    <span class="row-actions">
      <Button onPress={() => openLimit(limit, onDone)}>Edit</Button>
      {!limit.configured && may(LimitService.method.deleteLimit) && (
        <Button
          icon="trash"
          label={`Delete the limit of ${limit.pattern}`}
          onPress={() => deleteLimit(limit, onDone)}
        />
      )}
    </span>
  );
}

function Bound({ of }: { of: number | undefined }) {
  return of === undefined ? <span class="dim">any</span> : <span class="figure">{of < 1 ? of : countOf(of)}</span>;
}

function Keys({ keys, limits }: { keys: KeyUsage[]; limits: Limit[] }) {
  const bounds = new Map(limits.map((limit) => [limit.pattern, limit]));
  const limitOf = (key: KeyUsage) => (key.pattern === undefined ? undefined : bounds.get(key.pattern));
  const columns: Column<KeyUsage>[] = [
    {
      title: "Key",
      sortBy: (key) => key.key,
      cell: (key) => <a href={href(["tasks"], { concurrencyKey: key.key })}>{key.key}</a>,
    },
    {
      title: "In flight",
      sortBy: (key) => key.inflight,
      cell: (key) => <Usage key={key.key} name={key.key} used={key.inflight} most={limitOf(key)?.maxInflight} />,
    },
    {
      title: "Wait",
      right: true,
      sortBy: (key) => key.waiting,
      cell: (key) => <span class={`figure ${key.waiting ? "warn-text" : "dim"}`}>{countOf(key.waiting)}</span>,
    },
    {
      title: "Burst left",
      wideOnly: true,
      sortBy: (key) => key.tokens ?? Number.POSITIVE_INFINITY,
      cell: (key) =>
        key.tokens === undefined ? (
          <span class="dim">any</span>
        ) : (
          <span class={`figure ${key.tokens < 1 ? "warn-text" : ""}`}>
            {Math.floor(key.tokens * 10) / 10}
            <span class="dim"> / {limitOf(key)?.burst}</span>
          </span>
        ),
    },
    {
      title: "Limit",
      wideOnly: true,
      cell: (key) => (key.pattern === undefined ? <span class="dim">none</span> : <code>{key.pattern}</code>),
    },
  ];
  return (
    <Table
      label="Keys in use"
      columns={columns}
      rows={keys}
      rowKey={(key) => key.key}
      empty={<Empty icon="key" title="No task with a concurrency key is in flight or waits" />}
    />
  );
}

function Usage({ name, used, most }: { name: string; used: number; most: number | undefined }) {
  return (
    <span class="measured">
      {most !== undefined && <Meter label={name} value={used} max={most} />}
      <span class="figure">
        {countOf(used)}
        {most !== undefined && <span class="dim"> / {countOf(most)}</span>}
      </span>
    </span>
  );
}

function openLimit(limit: Limit | undefined, onDone: () => void): void {
  openDialog((close) => <LimitDialog limit={limit} close={close} onDone={onDone} />);
}

function LimitDialog({ limit, close, onDone }: { limit: Limit | undefined; close: () => void; onDone: () => void }) {
  const [pattern, setPattern] = useState(limit?.pattern ?? "");
  const [maxInflight, setMaxInflight] = useState(limit?.maxInflight?.toString() ?? "");
  const [perSecond, setPerSecond] = useState(limit?.perSecond?.toString() ?? "");
  const [burst, setBurst] = useState(limit?.burst?.toString() ?? "");
  const number = (text: string) => (text.trim() ? Number(text) : undefined);
  const put = async () => {
    await api().limits.putLimit({
      pattern: pattern.trim(),
      maxInflight: number(maxInflight),
      perSecond: number(perSecond),
      burst: perSecond.trim() ? number(burst) : undefined,
    });
    await act(`The limit of ${pattern.trim()} holds`, async () => onDone());
  };
  return (
    <FormDialog title={limit ? `Limit of ${limit.pattern}` : "New limit"} submit="Set" close={close} onSubmit={put}>
      <TextField
        label="Pattern"
        value={pattern}
        onChange={setPattern}
        placeholder="site:*"
        hint="A key, or the beginning of keys with * at its end. Of several that match, the longest holds."
        disabled={Boolean(limit)}
        required
        autofocus={!limit}
      />
      <TextField
        label="Tasks in flight"
        type="number"
        min={0}
        step={1}
        value={maxInflight}
        onChange={setMaxInflight}
        placeholder="any number"
        hint="For each key that matches, by itself."
      />
      <div class="pair">
        <TextField
          label="Tasks per second"
          type="number"
          min={0}
          step="any"
          value={perSecond}
          onChange={setPerSecond}
          placeholder="any rate"
        />
        <TextField
          label="At once after a pause"
          type="number"
          min={1}
          step={1}
          value={burst}
          onChange={setBurst}
          placeholder="as per second"
          disabled={!perSecond.trim()}
        />
      </div>
      {limit?.configured && (
        <p class="dim">It stands in the place of the one of the configuration until it is deleted.</p>
      )}
    </FormDialog>
  );
}

function deleteLimit(limit: Limit, onDone: () => void): void {
  ask({
    title: `Delete the limit of ${limit.pattern}?`,
    text: "The one of the configuration for this pattern holds again, if there is one.",
    submit: "Delete",
    danger: true,
    onSubmit: async () => {
      await api().limits.deleteLimit({ pattern: limit.pattern });
      await act(`The limit of ${limit.pattern} is deleted`, async () => onDone());
    },
  });
}
