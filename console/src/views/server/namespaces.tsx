/** All namespaces, who owns each, and what is in them. */
import { useState } from "preact/hooks";
import { type Namespace, NamespaceService, type NamespaceTotals } from "@v1/namespace_pb";
import { act } from "../../acting";
import { api } from "../../api";
import { Button } from "../../parts/button";
import { FormDialog, openDialog } from "../../parts/dialog";
import { TextField } from "../../parts/fields";
import { countOf } from "../../parts/figures";
import { Card, Empty, Loaded } from "../../parts/page";
import { type Column, Table } from "../../parts/table";
import { Ago } from "../../parts/time";
import { useRead } from "../../reading";
import { go, href, route, setQuery } from "../../route";
import { may } from "../../session";
import { FilterBar } from "../filter_bar";
import { allPages } from "../paging";
import { LIMIT_FIELDS } from "./limit_names";

const LOOK_MS = 5_000;

export function Namespaces() {
  const read = useRead((signal) => readNamespaces(signal), [], LOOK_MS);
  const { q = "" } = route.value.query;
  return (
    <>
      <div class="bar">
        <FilterBar search={q} onSearch={(text) => setQuery({ q: text })} placeholder="Name or owner" />
        {may(NamespaceService.method.createNamespace) && (
          <Button icon="plus" kind="primary" onPress={() => openNew(read.refresh)}>
            New namespace
          </Button>
        )}
      </div>
      <Loaded from={read}>
        {(all) => {
          const text = q.toLowerCase();
          const shown = all.filter((each) => `${each.name} ${each.owner ?? ""}`.toLowerCase().includes(text));
          return (
            <Card flush>
              <Table
                label="Namespaces"
                columns={columnsFor(all.some((each) => each.term !== undefined))}
                rows={shown}
                rowKey={(each) => each.name ?? ""}
                onOpen={(each) => go(href(["server", "namespaces", each.name ?? ""]))}
                empty={<Empty icon="list" title="No namespace matches" />}
              />
            </Card>
          );
        }}
      </Loaded>
    </>
  );
}

function columnsFor(hasReplicas: boolean): Column<Namespace>[] {
  const total = (
    title: string,
    of: (totals: NamespaceTotals) => number | undefined,
    wideOnly = false,
  ): Column<Namespace> => ({
    title,
    right: true,
    wideOnly,
    sortBy: ({ totals }) => (totals && of(totals)) ?? -1,
    cell: ({ totals }) =>
      totals ? <span class="figure">{countOf(of(totals) ?? 0)}</span> : <span class="dim">–</span>,
  });
  const owner: Column<Namespace> = {
    title: "Owner",
    sortBy: (each) => each.owner ?? "",
    cell: (each) => each.owner ?? <span class="bad-text">nobody</span>,
  };
  return [
    {
      title: "Namespace",
      sortBy: (each) => each.name ?? "",
      cell: (each) => <a href={href(["server", "namespaces", each.name ?? ""])}>{each.name}</a>,
    },
    ...(hasReplicas ? [owner] : []),
    total("Queued", (totals) => totals.queued),
    total("In flight", (totals) => totals.inflight),
    total("Paused", (totals) => totals.paused, true),
    total("Parked", (totals) => totals.parked, true),
    total("Hosts", (totals) => totals.hosts),
    total("Schedules", (totals) => totals.schedules, true),
    {
      title: "Own limits",
      right: true,
      wideOnly: true,
      cell: (each) => ownLimits(each) || <span class="dim">{each.limits ? "none" : "–"}</span>,
    },
    { title: "Made", right: true, wideOnly: true, cell: (each) => <Ago at={each.createdAt} /> },
  ];
}

function ownLimits({ limits }: Namespace): number {
  return LIMIT_FIELDS.filter(({ name }) => limits?.[name] !== undefined).length;
}

function openNew(onDone: () => void): void {
  openDialog((close) => <NewDialog close={close} onDone={onDone} />);
}

function NewDialog({ close, onDone }: { close: () => void; onDone: () => void }) {
  const [name, setName] = useState("");
  const make = async () => {
    await api().namespaces.createNamespace({ namespace: name.trim() });
    await act(`The namespace ${name.trim()} is made`, async () => onDone());
  };
  return (
    <FormDialog title="New namespace" submit="Create" close={close} onSubmit={make}>
      <TextField
        label="Name"
        value={name}
        onChange={setName}
        hint="Up to 63 letters, digits, dots, dashes and underscores. Limits of its own can be set afterwards."
        required
        autofocus
      />
    </FormDialog>
  );
}

function readNamespaces(signal: AbortSignal): Promise<Namespace[]> {
  return allPages(async (pageToken) => {
    const { namespaces, nextPageToken } = await api().namespaces.listNamespaces({ pageToken }, { signal });
    return { items: namespaces, next: nextPageToken };
  });
}
