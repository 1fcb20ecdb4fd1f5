/** What the configured pools of hosts have to do, as autoscalers are told. */
import type { PoolDemand } from "@v1/stats_pb";
import { api } from "../../api";
import { countOf } from "../../parts/figures";
import { Card, Empty, Loaded } from "../../parts/page";
import { type Column, Table } from "../../parts/table";
import { lengthOf } from "../../parts/time";
import { useRead } from "../../reading";

const LOOK_MS = 3_000;

export function Demand() {
  const read = useRead((signal) => api().stats.getDemand({}, { signal }), [], LOOK_MS);
  return (
    <Card title="Demand of the pools" flush>
      <Loaded from={read}>
        {({ pools }) => (
          <Table
            label="Demand of the pools"
            columns={COLUMNS}
            rows={pools}
            rowKey={(pool) => pool.pool}
            empty={
              <Empty icon="server" title="No pool is configured">
                <code>scheduler.pools</code> names sets of hosts, so that an autoscaler knows how many of each are
                needed.
              </Empty>
            }
          />
        )}
      </Loaded>
    </Card>
  );
}

const count = (title: string, of: (pool: PoolDemand) => number, wideOnly = false): Column<PoolDemand> => ({
  title,
  right: true,
  wideOnly,
  sortBy: of,
  cell: (pool) => <span class="figure">{countOf(of(pool))}</span>,
});

const COLUMNS: Column<PoolDemand>[] = [
  { title: "Pool", sortBy: (pool) => pool.pool, cell: (pool) => pool.pool },
  count("Could run", (pool) => pool.runnable),
  count("In flight", (pool) => pool.inflight),
  {
    title: "Oldest waits",
    right: true,
    wideOnly: true,
    sortBy: (pool) => pool.oldestSecs ?? 0,
    cell: (pool) => (pool.oldestSecs === undefined ? <span class="dim">–</span> : lengthOf(pool.oldestSecs * 1_000)),
  },
  count("Hosts", (pool) => pool.hosts),
  count("Free credit", (pool) => pool.freeCredit, true),
];
