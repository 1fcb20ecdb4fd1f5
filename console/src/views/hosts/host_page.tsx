/** One host: what it can do, what it holds, how its machine did over the last hour, and how to send it away. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Lease } from "@v1/lease_pb";
import { type RuntimeHost, RuntimeHostService } from "@v1/runtime_host_pb";
import { act } from "../../acting";
import { api } from "../../api";
import { Button } from "../../parts/button";
import { Id } from "../../parts/copy";
import { ask } from "../../parts/dialog";
import { Card, Empty, Facts, Loaded, Page } from "../../parts/page";
import { Table } from "../../parts/table";
import { Ago, At, lengthOf, now } from "../../parts/time";
import { Tree } from "../../parts/tree";
import { useRead } from "../../reading";
import { go, href } from "../../route";
import { may } from "../../session";
import { Chips, labelTexts } from "../chips";
import { allPages } from "../paging";
import { openDrain } from "./drain_dialog";
import { CourseChart } from "./course_chart";
import { coursesOf } from "./snapshots";
import { StatusPills } from "./status";

const LOOK_MS = 2_000;
const MEASURE_MS = 20_000;

export function HostPage({ id }: { id: string }) {
  const host = useRead(async (signal) => ({ found: await findHost(id, signal) }), [id], LOOK_MS);
  const leases = useRead((signal) => readLeases(id, signal), [id], LOOK_MS);
  const course = useRead(
    async (signal) => {
      const { snapshots } = await api().stats.listSnapshots({ hostId: id, pageSize: 1_000 }, { signal });
      return coursesOf(snapshots).get(id);
    },
    [id],
    MEASURE_MS,
  );
  const found = host.value?.found;
  return (
    <Page
      above={<a href={href(["hosts"])}>Hosts</a>}
      title={found?.displayName ?? id}
      actions={found && <Actions host={found} onDone={host.refresh} />}
    >
      <Loaded from={host}>
        {({ found: known }) =>
          known ? (
            <div class="columns">
              <Card title="Host">
                <Description host={known} />
              </Card>
              <Card title="Machine">
                <CourseChart course={course.value} machine={known.machine} />
              </Card>
              <Card title="Tasks it holds" flush class="full">
                <Loaded from={leases}>{(all) => <Leases leases={all} />}</Loaded>
              </Card>
            </div>
          ) : (
            <Empty icon="server" title="There is no such host">
              It never registered in this namespace, or was deregistered or forgotten since.
            </Empty>
          )
        }
      </Loaded>
    </Page>
  );
}

function Actions({ host, onDone }: { host: RuntimeHost; onDone: () => void }) {
  const { method } = RuntimeHostService;
  return (
    <>
      {may(method.drainHost) && (
        <Button icon="pause" onPress={() => openDrain(host, onDone)}>
          Drain
        </Button>
      )}
      {may(method.deregisterHost) && (
        <Button icon="trash" kind="danger" onPress={() => deregister(host)}>
          Deregister
        </Button>
      )}
    </>
  );
}

function deregister(host: RuntimeHost): void {
  ask({
    title: `Deregister ${host.displayName}?`,
    text: (
      <>
        It is removed, and its stream ends.{" "}
        {host.leases ? `The ${tasks(host.leases)} that it holds go back to the queue at once. ` : ""}
        Where its program still runs, it registers again by itself.
      </>
    ),
    submit: "Deregister",
    danger: true,
    onSubmit: async () => {
      await api().hosts.deregisterHost({ hostId: host.id });
      await act(`${host.displayName} is deregistered`, async () => go(href(["hosts"])));
    },
  });
}

function Description({ host }: { host: RuntimeHost }) {
  const rows = [
    ["Status", <StatusPills key="status" host={host} />],
    ["Id", <Id key="id" of={host.id} />],
    ["Tasks", host.slots ? `${host.leases} of ${host.slots} slots` : String(host.leases)],
    ["Capabilities", <Chips key="can" of={host.capabilities} />],
    ["Actions", host.actions.length ? <Chips key="actions" of={host.actions} /> : "any"],
    ["Project", host.project ?? "any"],
    ["Labels", Object.keys(host.labels).length > 0 && <Chips key="labels" of={labelTexts(host.labels)} />],
    [
      "Connected by",
      host.instance ? <Id key="instance" of={host.instance} short={12} /> : "plain calls, without a stream",
    ],
    ["Registered", <At key="registered" at={host.registeredAt} />],
    ["Last seen", <Ago key="heard" at={host.lastHeartbeatAt} />],
    ["Tasks of its", <TaskLinks key="links" id={host.id} />],
  ] as const;
  return (
    <>
      <Facts rows={rows} />
      {host.machine?.context && (
        <details class="unfold">
          <summary>What it says of itself</summary>
          <Tree value={host.machine.context} />
        </details>
      )}
    </>
  );
}

function TaskLinks({ id }: { id: string }) {
  return (
    <span class="links">
      <a href={href(["tasks"], { hostId: id })}>all that it held last</a>
      <a href={href(["tasks"], { hostId: id, state: "failed" })}>failed</a>
    </span>
  );
}

function Leases({ leases }: { leases: Lease[] }) {
  return (
    <Table
      label="Leases of this host"
      rows={leases}
      rowKey={(lease) => lease.taskId ?? ""}
      onOpen={(lease) => go(href(["tasks", lease.taskId ?? ""]))}
      empty={<Empty icon="list" title="It holds no task" />}
      columns={[
        { title: "Task", cell: (lease) => <Id of={lease.taskId ?? ""} href={href(["tasks", lease.taskId ?? ""])} /> },
        {
          title: "Claimed",
          sortBy: (lease) => (lease.claimedAt ? timestampMs(lease.claimedAt) : 0),
          cell: (lease) => <Ago at={lease.claimedAt} />,
        },
        {
          title: "Lease ends in",
          sortBy: (lease) => (lease.expiresAt ? timestampMs(lease.expiresAt) : 0),
          cell: (lease) => <Remaining lease={lease} />,
        },
        { title: "Fencing token", right: true, wideOnly: true, cell: (lease) => <code>{lease.fencingToken}</code> },
      ]}
    />
  );
}

/** How long a lease still holds unless it is renewed. */
function Remaining({ lease }: { lease: Lease }) {
  const left = (lease.expiresAt ? timestampMs(lease.expiresAt) : 0) - now.value;
  return <span class={`figure ${left <= 0 ? "bad-text" : ""}`}>{left > 0 ? lengthOf(left) : "is over"}</span>;
}

/** The host. The API has no call for one of them. */
async function findHost(id: string, signal: AbortSignal): Promise<RuntimeHost | undefined> {
  const all = await allPages(async (pageToken) => {
    const { hosts, nextPageToken } = await api().hosts.listHosts({ pageToken }, { signal });
    return { items: hosts, next: nextPageToken };
  });
  return all.find((host) => host.id === id);
}

function readLeases(hostId: string, signal: AbortSignal): Promise<Lease[]> {
  return allPages(async (pageToken) => {
    const { leases, nextPageToken } = await api().leases.listLeases({ hostId, pageToken }, { signal });
    return { items: leases, next: nextPageToken };
  });
}

function tasks(count: number): string {
  return count === 1 ? "one task" : `${count} tasks`;
}
