/** Now: what the namespace does at this moment, and how the last hour went. */
import type { ComponentChildren } from "preact";
import { RuntimeHostService } from "@v1/runtime_host_pb";
import type { Sample } from "@v1/sample_pb";
import { StatsService } from "@v1/stats_pb";
import { Chart } from "../parts/chart";
import { countOf, Meter, Sparkline } from "../parts/figures";
import { Card, Loaded, Page } from "../parts/page";
import type { Tone } from "../parts/state";
import { lengthOf, now } from "../parts/time";
import { href } from "../route";
import { may } from "../session";
import { ratesOf, SPAN_MS, timeOf, usePresent, useSamples } from "./figures";
import { Obstacles } from "./obstacles";
import { AgentShares, HostLoads, PoolDemands } from "./shares";
import "./now.css";

export function Now() {
  const { stats, rates } = usePresent();
  const samples = useSamples();
  const recent = samples.slice(-60);
  return (
    <Page title="Now" actions={<span class="dim">the last hour, live</span>}>
      <Loaded from={stats}>
        {(value) => (
          <>
            <div class="now-tiles">
              <Tile
                name="Queued"
                tone="wait"
                figure={value.queue?.totalQueued}
                to={href(["tasks"], { state: "queued,pending" })}
                line={recent.map((each) => each.queued)}
              >
                {oldest(samples)}
              </Tile>
              <Tile
                name="In flight"
                tone="busy"
                figure={value.queue?.totalInflight}
                to={href(["tasks"], { state: "assigned,running" })}
                line={recent.map((each) => each.inflight)}
              >
                <Meter
                  label="Tasks in flight"
                  value={value.queue?.totalInflight ?? 0}
                  max={value.config?.maxInflight ?? 0}
                />
                <span>of {countOf(value.config?.maxInflight ?? 0)}</span>
              </Tile>
              <Tile
                name="Done per second"
                tone="good"
                figure={rates?.completed}
                to={href(["tasks"], { state: "done" })}
                line={ratesOf(recent, (each) => each.completed)}
              >
                {latency(samples)}
              </Tile>
              <Tile
                name="Failed per second"
                tone="bad"
                figure={rates?.failed}
                to={href(["tasks"], { state: "failed" })}
                line={ratesOf(recent, (each) => each.failed)}
              >
                {countOf(value.metrics?.tasksFailed ?? 0)} since the server started
              </Tile>
            </div>
            {may(StatsService.method.listSamples) && <Charts samples={samples} />}
            <div class="grid">
              <Obstacles stats={value} />
              <div class="stack">
                {may(StatsService.method.getFairness) && <AgentShares />}
                {may(RuntimeHostService.method.listHosts) && <HostLoads />}
                {may(StatsService.method.getDemand) && <PoolDemands />}
              </div>
            </div>
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** A server that has just begun shows at least so much. */
const LEAST_MS = 600_000;

function Charts({ samples }: { samples: readonly Sample[] }) {
  const times = samples.map(timeOf);
  const end = Math.max(now.value, times.at(-1) ?? 0);
  const common = {
    times,
    span: [Math.max(end - SPAN_MS, Math.min(end - LEAST_MS, times[0] ?? end)), end] as const,
    gapMs: 25_000,
  };
  return (
    <div class="grid">
      <Card title="Tasks">
        <Chart
          label="Tasks over the last hour"
          series={[
            { name: "Queued", tone: "wait", values: samples.map((each) => each.queued) },
            { name: "In flight", tone: "busy", values: samples.map((each) => each.inflight) },
          ]}
          {...common}
        />
      </Card>
      <Card title="Per second">
        <Chart
          label="Tasks per second over the last hour"
          series={[
            { name: "Submitted", tone: "calm", values: ratesOf(samples, (each) => each.submitted) },
            { name: "Done", tone: "good", values: ratesOf(samples, (each) => each.completed) },
            { name: "Failed", tone: "bad", values: ratesOf(samples, (each) => each.failed) },
          ]}
          {...common}
        />
      </Card>
    </div>
  );
}

interface TileProps {
  name: string;
  tone: Tone;
  figure: number | undefined;
  line: readonly number[];
  to: string;
  children: ComponentChildren;
}

function Tile({ name, tone, figure, line, to, children }: TileProps) {
  return (
    <section class={`card now-tile tone-${tone}`} aria-label={name}>
      <div class="now-tile-head">
        <a href={to}>{name}</a>
        {line.length > 1 && <Sparkline label={`${name}, the last ten minutes`} values={line} width={84} height={26} />}
      </div>
      <p class="now-tile-figure">{figure === undefined ? "–" : countOf(figure)}</p>
      <div class="now-tile-foot">{children}</div>
    </section>
  );
}

function oldest(samples: readonly Sample[]): string {
  const secs = samples.at(-1)?.oldestQueuedSecs;
  return secs === undefined ? "tasks that wait" : `the oldest for ${lengthOf(secs * 1_000)}`;
}

function latency(samples: readonly Sample[]): string {
  const ms = samples.at(-1)?.avgDispatchLatencyMs;
  return ms === undefined ? "over the last 10 s" : `handed out after ${lengthOf(ms)}`;
}
