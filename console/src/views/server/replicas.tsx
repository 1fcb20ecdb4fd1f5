/** The servers that share one store: which live, how much each owns, and which give their namespaces up. */
import { type Replica, AdminService } from "@v1/admin_pb";
import { act } from "../../acting";
import { api } from "../../api";
import { Button } from "../../parts/button";
import { Id } from "../../parts/copy";
import { ask } from "../../parts/dialog";
import { countOf } from "../../parts/figures";
import { Card, Empty, Loaded } from "../../parts/page";
import { State } from "../../parts/state";
import { type Column, Table } from "../../parts/table";
import { Ago } from "../../parts/time";
import { useRead } from "../../reading";
import { may } from "../../session";

const LOOK_MS = 3_000;

export function Replicas() {
  const read = useRead((signal) => api().admin.listReplicas({}, { signal }), [], LOOK_MS);
  return (
    <Loaded from={read}>
      {({ replicas, formatLevel }) => (
        <Card flush title={replicas.length > 0 && "Replicas"}>
          <Table
            label="Replicas"
            columns={columnsFor(read.refresh)}
            rows={replicas}
            rowKey={(replica) => replica.instance}
            empty={
              <Empty icon="server" title="This server shares its store with no others">
                Replicas on one PostgreSQL take over from each other; <code>make up-replicas</code> runs three.
              </Empty>
            }
          />
          {formatLevel !== undefined && (
            <p class="table-note dim">
              Records are written in format {formatLevel}, the newest that all living replicas know.
            </p>
          )}
        </Card>
      )}
    </Loaded>
  );
}

function columnsFor(onDone: () => void): Column<Replica>[] {
  const columns: Column<Replica>[] = [
    {
      title: "Replica",
      sortBy: (replica) => replica.name,
      cell: (replica) => (
        <span class="two-lines">
          <span>
            {replica.name} {replica.answering && <span class="tag accent">answers you</span>}
          </span>
          <small class="dim">
            <Id of={replica.instance} short={12} />
          </small>
        </span>
      ),
    },
    { title: "State", sortBy: stateOf, cell: (replica) => <State of={stateOf(replica)} /> },
    {
      title: "Namespaces",
      right: true,
      sortBy: (replica) => replica.namespaces,
      cell: (replica) => <span class="figure">{countOf(replica.namespaces)}</span>,
    },
    { title: "Address", wideOnly: true, cell: (replica) => <code>{replica.address ?? "–"}</code> },
    { title: "Version", wideOnly: true, cell: (replica) => `${replica.version} (format ${replica.formatLevel})` },
    { title: "Began", right: true, wideOnly: true, cell: (replica) => <Ago at={replica.startedAt} /> },
    {
      title: "Last seen",
      right: true,
      cell: (replica) => <Ago at={replica.diedAt ?? replica.renewedAt} />,
    },
  ];
  if (!may(AdminService.method.drainReplica)) return columns;
  const actions: Column<Replica> = {
    title: "Actions",
    right: true,
    cell: (replica) =>
      !replica.diedAt && (
        <span class="row-actions">
          {replica.draining ? (
            <Button icon="play" onPress={() => resume(replica, onDone)}>
              Resume
            </Button>
          ) : (
            <Button icon="pause" onPress={() => drain(replica, onDone)}>
              Drain
            </Button>
          )}
        </span>
      ),
  };
  return [...columns, actions];
}

function stateOf(replica: Replica): string {
  if (replica.diedAt) return "dead";
  return replica.draining ? "draining" : "serving";
}

function drain({ name, instance }: Replica, onDone: () => void): void {
  ask({
    title: `Drain ${name}?`,
    text: "It gives its namespaces to the others and takes none, until it is resumed or its process ends. It serves on.",
    submit: "Drain",
    onSubmit: async () => {
      await api().admin.drainReplica({ replica: instance });
      await act(`${name} gives its namespaces up`, async () => onDone());
    },
  });
}

async function resume({ name, instance }: Replica, onDone: () => void): Promise<void> {
  if (await act(`${name} takes namespaces again`, () => api().admin.resumeReplica({ replica: instance }))) onDone();
}
