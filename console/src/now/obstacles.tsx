/** What holds work back, and which key to raise or what else ends it. */
import type { ComponentChildren } from "preact";
import { AdminService } from "@v1/admin_pb";
import { LimitService } from "@v1/limit_pb";
import { RuntimeHostService } from "@v1/runtime_host_pb";
import type { GetStatsResponse } from "@v1/stats_pb";
import { countOf } from "../parts/figures";
import { Icon } from "../parts/icon";
import { Card } from "../parts/page";
import { TaskText } from "../parts/task_text";
import { TargetService } from "@v1/target_pb";
import { href } from "../route";
import { may } from "../session";

interface Obstacle {
  readonly what: ComponentChildren;
  /** What ends it. */
  readonly remedy: ComponentChildren;
  /** Undefined where the caller may not go. */
  readonly to: string | undefined;
  readonly tone: "warn" | "bad" | "calm";
}

const MOST = 5;

export function Obstacles({ stats }: { stats: GetStatsResponse }) {
  const found = obstacles(stats);
  return (
    <Card title="What holds work back">
      {found.length ? (
        <ul class="obstacles">
          {found.map((each, at) => (
            <li key={at} class={`tone-${each.tone}`}>
              <span class="dot" />
              {each.to ? <a href={each.to}>{each.what}</a> : <b>{each.what}</b>}
              <span class="dim">{each.remedy}</span>
            </li>
          ))}
        </ul>
      ) : (
        <p class="nothing">
          <Icon name="check" />
          Nothing: tasks are handed out as they come.
        </p>
      )}
    </Card>
  );
}

function obstacles({ queue, hosts, config }: GetStatsResponse): Obstacle[] {
  const found: Obstacle[] = [];
  if (!queue || !config) return found;
  const add = (tone: Obstacle["tone"], to: string | undefined, what: ComponentChildren, remedy: ComponentChildren) =>
    found.push({ tone, to, what, remedy });
  const queued = queue.totalQueued;
  const toHosts = to("hosts");
  // The others wait for something else, too.
  const forHosts = queued - (queue.targets?.waiting ?? 0) - (queue.keys?.waiting ?? 0) - (queue.afterOthers ?? 0);
  const lost = hosts?.lost ? `; ${countOf(hosts.lost)} lost, may come back` : "";
  if (forHosts > 0 && !hosts?.online)
    add(
      "bad",
      toHosts,
      "No host is online",
      `${countOf(forHosts)} ${forHosts === 1 ? "waits" : "wait"} for one${lost}`,
    );
  else if (forHosts > 0 && hosts?.freeCredit === 0)
    add("warn", toHosts, "All hosts are full", "more slots or hosts take more");
  const limit = queue.limitedBy;
  if (limit && limit !== "limits") {
    const most = limit === "maxInflight" ? config.maxInflight : config.maxPerAgentFlight;
    const whose = limit === "maxInflight" ? "the namespace" : "an agent";
    add(
      "warn",
      to("server"),
      `${countOf(most)} tasks of ${whose} in flight`,
      <>
        raise <code>scheduler.{limit}</code>
      </>,
    );
  }
  if (queued >= config.maxQueueSize * 0.8) {
    const share = `${countOf(queued)} of ${countOf(config.maxQueueSize)} places taken`;
    add(
      "bad",
      to("server"),
      `The queue is nearly full: ${share}`,
      <>
        raise <code>scheduler.maxQueueSize</code>
      </>,
    );
  }
  for (const [key, waiting] of largest(queue.keys?.keys)) {
    const remedy = <>{countOf(waiting)} wait; raise its limit</>;
    add(
      "warn",
      to("limits"),
      <>
        Key <code>{key}</code>
      </>,
      remedy,
    );
  }
  for (const [target, waitsFor] of Object.entries(queue.targets?.waitsFor ?? {}).slice(0, MOST)) {
    add(
      "warn",
      to("targets"),
      <>
        Target <code>{target}</code>
      </>,
      <TaskText text={`waits for ${waitsFor}`} />,
    );
  }
  for (const [notice, waiting] of largest(queue.noticed?.notices)) {
    add("bad", toHosts, capitalized(notice), `${countOf(waiting)} wait`);
  }
  if (queue.afterOthers)
    add(
      "calm",
      href(["tasks"], { state: "pending" }),
      `${countOf(queue.afterOthers)} come after others`,
      "they wait for these to end",
    );
  if (queue.totalPaused)
    add(
      "calm",
      href(["tasks"], { state: "paused" }),
      `${countOf(queue.totalPaused)} paused`,
      "until resumed, resolved or cancelled",
    );
  if (queue.totalParked)
    add(
      "calm",
      href(["tasks"], { state: "parked" }),
      `${countOf(queue.totalParked)} parked`,
      "they wait for answers, times or other tasks",
    );
  return found;
}

/** The address of a view, if the caller may see it. */
function to(view: keyof typeof NEEDS): string | undefined {
  return may(NEEDS[view]) ? href([view]) : undefined;
}

const NEEDS = {
  hosts: RuntimeHostService.method.listHosts,
  limits: LimitService.method.listLimits,
  server: AdminService.method.getConfig,
  targets: TargetService.method.listTargets,
};

function largest(counts: Record<string, number> = {}): [string, number][] {
  return Object.entries(counts)
    .sort((a, b) => b[1] - a[1])
    .slice(0, MOST);
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
