/** Who has the work: agents by their share, hosts by their load. */
import { RuntimeHost_Status, type RuntimeHost } from "@v1/runtime_host_pb";
import type { AgentShare, PoolDemand } from "@v1/stats_pb";
import { api } from "../api";
import { countOf, Meter } from "../parts/figures";
import { Card, Empty, Loaded } from "../parts/page";
import { State, wordOf } from "../parts/state";
import { type Column, Table } from "../parts/table";
import { lengthOf } from "../parts/time";
import { useRead } from "../reading";
import { href } from "../route";

const MOST = 12;

export function AgentShares() {
  const read = useRead((signal) => api().stats.getFairness({}, { signal }), [], 5_000);
  return (
    <Card
      title="Agents by share"
      flush
      actions={<span class="dim now-note">of the time in flight, last 10 minutes</span>}
    >
      <Loaded from={read}>
        {({ agents }) => {
          const shown = [...agents].sort((a, b) => b.received - a.received || b.runnable - a.runnable);
          return (
            <>
              <Table
                label="Agents by share"
                columns={AGENT_COLUMNS}
                rows={shown.slice(0, MOST)}
                rowKey={(agent) => agent.agentId}
                empty={<Empty title="No agent has tasks" />}
              />
              <More of={shown.length} />
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}

const AGENT_COLUMNS: readonly Column<AgentShare>[] = [
  { title: "Agent", cell: (agent) => <a href={href(["tasks"], { agentId: agent.agentId })}>{agent.agentId}</a> },
  {
    title: "Share",
    cell: (agent) => (
      <span class="now-share">
        <Meter label={`Share of ${agent.agentId}, of 100`} value={Math.round(agent.received * 100)} max={100} />
        <span class="figure">{Math.round(agent.received * 100)} %</span>
      </span>
    ),
  },
  { title: "Entitled", right: true, wideOnly: true, cell: (agent) => `${Math.round(agent.entitled * 100)} %` },
  { title: "In flight", right: true, cell: (agent) => countOf(agent.inflight) },
  { title: "Runnable", right: true, cell: (agent) => countOf(agent.runnable) },
];

export function HostLoads() {
  const read = useRead((signal) => api().hosts.listHosts({}, { signal }), [], 5_000);
  const load = (host: RuntimeHost) => (host.slots ? host.leases / host.slots : 0);
  return (
    <Card title="Hosts by load" flush actions={<a href={href(["hosts"])}>All hosts</a>}>
      <Loaded from={read}>
        {({ hosts }) => {
          const shown = [...hosts].sort((a, b) => load(b) - load(a) || a.id.localeCompare(b.id));
          return (
            <>
              <Table
                label="Hosts by load"
                columns={HOST_COLUMNS}
                rows={shown.slice(0, MOST)}
                rowKey={(host) => host.id}
                empty={<Empty icon="server" title="No host is registered" />}
              />
              <More of={shown.length} />
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}

const HOST_COLUMNS: readonly Column<RuntimeHost>[] = [
  { title: "Host", cell: (host) => <a href={href(["hosts", host.id])}>{host.displayName || host.id}</a> },
  {
    title: "State",
    cell: (host) => <State of={host.draining ? "draining" : wordOf(RuntimeHost_Status, host.status)} />,
  },
  {
    title: "Load",
    cell: (host) =>
      host.slots ? (
        <span class="now-share">
          <Meter label={`Tasks at ${host.id}, of its slots`} value={host.leases} max={host.slots} />
          <span class="figure">
            {host.leases} / {host.slots}
          </span>
        </span>
      ) : (
        <span class="figure">{host.leases} held</span>
      ),
  },
  {
    title: "CPU",
    right: true,
    wideOnly: true,
    cell: (host) => (host.machine?.cpuPercent === undefined ? "" : `${Math.round(host.machine.cpuPercent)} %`),
  },
];

const POOL_COLUMNS: readonly Column<PoolDemand>[] = [
  { title: "Pool", cell: (pool) => pool.pool },
  { title: "Runnable", right: true, cell: (pool) => countOf(pool.runnable) },
  { title: "In flight", right: true, cell: (pool) => countOf(pool.inflight) },
  { title: "Hosts", right: true, cell: (pool) => countOf(pool.hosts) },
  {
    title: "Oldest",
    right: true,
    wideOnly: true,
    cell: (pool) => (pool.oldestSecs === undefined ? "" : lengthOf(pool.oldestSecs * 1_000)),
  },
];

/** What the configured pools have to do. Nothing where there is none. */
export function PoolDemands() {
  const read = useRead((signal) => api().stats.getDemand({}, { signal }), [], 5_000);
  if (!read.value?.pools.length) return null;
  return (
    <Card title="Pools" flush>
      <Table label="Pools" columns={POOL_COLUMNS} rows={read.value.pools} rowKey={(pool) => pool.pool} />
    </Card>
  );
}

function More({ of }: { of: number }) {
  return of > MOST ? <p class="dim now-more">and {countOf(of - MOST)} more</p> : null;
}
