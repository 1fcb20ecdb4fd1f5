/** Hosts: who is alive, how full each is, and how its machine does. One of them, where the address names it. */
import { useMemo } from "preact/hooks";
import { RuntimeHost_Status, type RuntimeHost } from "@v1/runtime_host_pb";
import { api } from "../api";
import { Meter, Sparkline } from "../parts/figures";
import { Card, Empty, Loaded, Page } from "../parts/page";
import { type Column, Table } from "../parts/table";
import { Ago } from "../parts/time";
import { useRead } from "../reading";
import { go, href, route, setQuery } from "../route";
import { Chips } from "./chips";
import { FilterBar } from "./filter_bar";
import { HostPage } from "./hosts/host_page";
import { type Course, coursesOf, memoryText, snapshotReader } from "./hosts/snapshots";
import { StatusPills, statusOf } from "./hosts/status";
import { allPages } from "./paging";
import { Tile, Tiles } from "./tiles";

const LOOK_MS = 2_000;
const MEASURE_MS = 20_000;
const STATUSES = ["alive", "idle", "busy", "dead", "draining"] as const;

export function Hosts() {
  const [id] = route.value.rest;
  return id ? <HostPage key={id} id={id} /> : <HostList />;
}

function HostList() {
  const hosts = useRead((signal) => readHosts(signal), [], LOOK_MS);
  const readSnapshots = useMemo(snapshotReader, []);
  const courses = useRead(async (signal) => coursesOf(await readSnapshots(signal)), [], MEASURE_MS);
  return (
    <Page title="Hosts">
      <Loaded from={hosts}>{(all) => <Overview hosts={all} courses={courses.value ?? new Map()} />}</Loaded>
    </Page>
  );
}

function Overview({ hosts, courses }: { hosts: RuntimeHost[]; courses: Map<string, Course> }) {
  if (!hosts.length)
    return (
      <Empty icon="server" title="No host has registered here">
        A host runs tasks. <code>taskyard host run examples.host:host</code> starts one.
      </Empty>
    );
  const { q = "", status = "" } = route.value.query;
  const shown = hosts.filter((host) => isMeant(host, q) && (!status || fits(host, status)));
  const count = (name: string) => hosts.filter((host) => fits(host, name)).length;
  const slots = hosts.reduce((sum, host) => sum + (host.online ? (host.slots ?? 0) : 0), 0);
  const leases = hosts.reduce((sum, host) => sum + host.leases, 0);
  return (
    <>
      <Tiles>
        <Tile label="Online" value={hosts.filter((host) => host.online).length} of={hosts.length} />
        <Tile label="Tasks held" value={leases} of={slots || undefined} />
        <Tile label="Draining" value={count("draining")} tone={count("draining") ? "warn" : undefined} />
        <Tile label="Dead" value={count("dead")} tone={count("dead") ? "bad" : undefined} />
      </Tiles>
      <FilterBar
        search={q}
        onSearch={(text) => setQuery({ q: text })}
        placeholder="Name, capability, project, label"
        choice={status}
        onChoice={(name) => setQuery({ status: name })}
        choices={STATUSES.map((name) => ({ name, count: count(name) })).filter(
          (each) => each.count || each.name === status,
        )}
        label="Status"
      />
      <Card flush>
        <Table
          label="Hosts"
          columns={columnsFor(courses)}
          rows={shown}
          rowKey={(host) => host.id}
          onOpen={(host) => go(href(["hosts", host.id]))}
          empty={<Empty icon="search" title="No host matches" />}
        />
      </Card>
    </>
  );
}

function columnsFor(courses: Map<string, Course>): Column<RuntimeHost>[] {
  return [
    {
      title: "Host",
      sortBy: (host) => host.displayName,
      cell: (host) => (
        <span class="two-lines">
          <a href={href(["hosts", host.id])}>{host.displayName}</a>
          {host.displayName !== host.id && <small class="dim">{host.id}</small>}
        </span>
      ),
    },
    { title: "Status", sortBy: (host) => statusOf(host), cell: (host) => <StatusPills host={host} /> },
    {
      title: "Tasks",
      sortBy: (host) => host.leases / (host.slots || Number.POSITIVE_INFINITY),
      cell: (host) => <Load host={host} />,
    },
    {
      title: "Processor",
      sortBy: (host) => host.machine?.cpuPercent ?? -1,
      wideOnly: true,
      cell: (host) => (
        <Measured
          label={`Processor of ${host.displayName} over the last hour, in percent`}
          values={courses.get(host.id)?.cpuPercent}
          max={100}
          now={host.machine?.cpuPercent === undefined ? undefined : `${Math.round(host.machine.cpuPercent)} %`}
        />
      ),
    },
    {
      title: "Memory",
      sortBy: (host) => host.machine?.memoryMb ?? -1,
      wideOnly: true,
      cell: (host) => (
        <Measured
          label={`Memory of ${host.displayName} over the last hour`}
          values={courses.get(host.id)?.memoryMb}
          now={host.machine?.memoryMb === undefined ? undefined : memoryText(host.machine.memoryMb)}
        />
      ),
    },
    { title: "Capabilities", wideOnly: true, cell: (host) => <Chips of={capabilitiesOf(host)} most={4} /> },
    {
      title: "Last seen",
      sortBy: (host) => -Number(host.lastHeartbeatAt?.seconds ?? 0),
      right: true,
      cell: (host) => <Ago at={host.lastHeartbeatAt} />,
    },
  ];
}

function Load({ host }: { host: RuntimeHost }) {
  if (!host.slots) return <span class="figure">{host.leases}</span>;
  return (
    <span class="measured">
      <Meter label={`Slots in use of ${host.displayName}`} value={host.leases} max={host.slots} />
      <span class="figure">
        {host.leases}
        <span class="dim"> / {host.slots}</span>
      </span>
    </span>
  );
}

interface MeasuredProps {
  label: string;
  values: (number | undefined)[] | undefined;
  max?: number;
  now: string | undefined;
}

function Measured({ label, values = [], max, now }: MeasuredProps) {
  const known = values.filter((value) => value !== undefined);
  if (now === undefined) return <span class="dim">–</span>;
  return (
    <span class="measured">
      {known.length > 1 && <Sparkline label={label} values={known} max={max} width={72} height={20} />}
      <span class="figure">{now}</span>
    </span>
  );
}

function capabilitiesOf(host: RuntimeHost): string[] {
  return host.project === undefined ? host.capabilities : [`project ${host.project}`, ...host.capabilities];
}

function fits(host: RuntimeHost, status: string): boolean {
  return status === "draining" ? Boolean(host.draining) : host.status === RuntimeHost_Status[status as "alive"];
}

function isMeant(host: RuntimeHost, search: string): boolean {
  const labels = Object.entries(host.labels).map(([name, value]) => `${name}=${value}`);
  const text = [host.id, host.displayName, host.project ?? "", ...host.capabilities, ...labels].join(" ").toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function readHosts(signal: AbortSignal): Promise<RuntimeHost[]> {
  return allPages(async (pageToken) => {
    const { hosts, nextPageToken } = await api().hosts.listHosts({ pageToken }, { signal });
    return { items: hosts, next: nextPageToken };
  });
}
