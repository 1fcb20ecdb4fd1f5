/** One namespace: what is in it, the limits in force, and which of them are its own. */
import { useState } from "preact/hooks";
import { type Namespace, NamespaceLimitsSchema, NamespaceService } from "@v1/namespace_pb";
import { act } from "../../acting";
import { api } from "../../api";
import { Button } from "../../parts/button";
import { FormDialog, openDialog } from "../../parts/dialog";
import { CheckField, TextField } from "../../parts/fields";
import { countOf } from "../../parts/figures";
import { Card, Facts, Loaded, Page } from "../../parts/page";
import { type Column, Table } from "../../parts/table";
import { At } from "../../parts/time";
import { useRead } from "../../reading";
import { go, href } from "../../route";
import { may } from "../../session";
import { Tile, Tiles } from "../tiles";
import { LIMIT_FIELDS, type LimitField, type LimitName, limitsOf, textsOf } from "./limit_names";

const LOOK_MS = 5_000;

export function NamespacePage({ name }: { name: string }) {
  const read = useRead(
    async (signal) => (await api().namespaces.getNamespace({ namespace: name }, { signal })).namespace!,
    [name],
    LOOK_MS,
  );
  const known = read.value;
  return (
    <Page
      above={<a href={href(["server", "namespaces"])}>Namespaces</a>}
      title={name}
      actions={
        <>
          <a class="button" href={href(["now"], {}, name)}>
            Go there
          </a>
          {known && may(NamespaceService.method.deleteNamespace) && (
            <Button icon="trash" kind="danger" onPress={() => openDelete(name)}>
              Delete
            </Button>
          )}
        </>
      }
    >
      <Loaded from={read}>{(namespace) => <Content namespace={namespace} onDone={read.refresh} />}</Loaded>
    </Page>
  );
}

function Content({ namespace, onDone }: { namespace: Namespace; onDone: () => void }) {
  const { totals } = namespace;
  const edit = may(NamespaceService.method.updateNamespace) && (
    <Button onPress={() => openLimits(namespace, onDone)}>Edit limits</Button>
  );
  return (
    <>
      {totals && (
        <Tiles>
          <Tile label="Queued" value={totals.queued ?? 0} />
          <Tile label="In flight" value={totals.inflight ?? 0} />
          <Tile label="Paused" value={totals.paused ?? 0} />
          <Tile label="Parked" value={totals.parked ?? 0} />
          <Tile label="Ended in memory" value={totals.retained ?? 0} />
          <Tile label="Hosts" value={totals.hosts ?? 0} />
          <Tile label="Schedules" value={totals.schedules ?? 0} />
        </Tiles>
      )}
      <Card>
        <Facts
          rows={[
            ["Made", <At key="made" at={namespace.createdAt} />],
            ["Owner", namespace.owner],
            ["Term", namespace.term?.toString()],
          ]}
        />
      </Card>
      <Card title="Limits" flush actions={edit}>
        <Table label="Limits" columns={columnsFor(namespace)} rows={LIMIT_FIELDS} rowKey={(field) => field.name} />
      </Card>
    </>
  );
}

function columnsFor({ limits, effectiveLimits }: Namespace): Column<LimitField>[] {
  return [
    { title: "Limit", wrap: true, cell: (field) => field.label },
    {
      title: "In force",
      right: true,
      cell: ({ name, unit }) => {
        const value = effectiveLimits?.[name];
        return value === undefined ? (
          <span class="dim">–</span>
        ) : (
          <span class="figure">{`${countOf(value)} ${unit}`}</span>
        );
      },
    },
    {
      title: "From",
      right: true,
      cell: ({ name }) =>
        limits?.[name] === undefined ? <span class="dim">the server</span> : <span class="tag accent">its own</span>,
    },
  ];
}

function openLimits(namespace: Namespace, onDone: () => void): void {
  openDialog((close) => <LimitsDialog namespace={namespace} close={close} onDone={onDone} />);
}

function LimitsDialog({ namespace, close, onDone }: { namespace: Namespace; close: () => void; onDone: () => void }) {
  const [before] = useState(() => textsOf(namespace.limits));
  const [texts, setTexts] = useState(before);
  const { name = "", effectiveLimits } = namespace;
  const save = async () => {
    const { limits, changed } = limitsOf(texts, before);
    const paths = changed.map((each) => `limits.${NamespaceLimitsSchema.field[each].name}`);
    if (paths.length) await api().namespaces.updateNamespace({ namespace: name, limits, updateMask: { paths } });
    await act(paths.length ? `The limits of ${name} are changed` : "Nothing was changed", async () => onDone());
  };
  const set = (limit: LimitName) => (value: string) => setTexts((now) => ({ ...now, [limit]: value }));
  return (
    <FormDialog wide title={`Limits of ${name}`} submit="Save" close={close} onSubmit={save}>
      <p class="dim">
        An empty one is the server's. Tasks that were accepted or are in flight stay, even above a limit.
      </p>
      <div class="pair">
        {LIMIT_FIELDS.map(({ name: limit, label, unit }) => (
          <TextField
            key={limit}
            label={`${label} (${unit})`}
            type="number"
            min={0}
            step="any"
            value={texts[limit]}
            onChange={set(limit)}
            placeholder={before[limit] ? "the server's" : String(effectiveLimits?.[limit] ?? "")}
          />
        ))}
      </div>
    </FormDialog>
  );
}

function openDelete(name: string): void {
  openDialog((close) => <DeleteDialog name={name} close={close} />);
}

function DeleteDialog({ name, close }: { name: string; close: () => void }) {
  const [typed, setTyped] = useState("");
  const [force, setForce] = useState(false);
  const remove = async () => {
    await api().namespaces.deleteNamespace({ namespace: name, force });
    await act(`The namespace ${name} is deleted`, async () => go(href(["server", "namespaces"])));
  };
  return (
    <FormDialog
      title={`Delete ${name}?`}
      submit="Delete everything in it"
      danger
      disabled={typed !== name}
      close={close}
      onSubmit={remove}
    >
      <p>
        Everything in it goes: tasks, history, schedules, triggers, hosts, figures, its own limits. This cannot be taken
        back.
      </p>
      <TextField label={`Type ${name} to confirm`} value={typed} onChange={setTyped} required autofocus />
      <CheckField label="Even with live tasks, hosts that are online, or schedules" value={force} onChange={setForce} />
    </FormDialog>
  );
}
