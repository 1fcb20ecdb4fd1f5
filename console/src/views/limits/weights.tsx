/** Weights of agents by pattern, and how what is in flight is shared by them. */
import { useState } from "preact/hooks";
import { AgentService, type AgentWeight } from "@v1/agent_pb";
import type { AgentShare } from "@v1/stats_pb";
import { act } from "../../acting";
import { api } from "../../api";
import { Button } from "../../parts/button";
import { ask, FormDialog, openDialog } from "../../parts/dialog";
import { TextField } from "../../parts/fields";
import { countOf } from "../../parts/figures";
import { Card, Empty, Loaded } from "../../parts/page";
import { type Column, Table } from "../../parts/table";
import { useRead } from "../../reading";
import { href } from "../../route";
import { may } from "../../session";
import { allPages } from "../paging";
import { ShareBar } from "./share_bar";

const LOOK_MS = 5_000;
const SHARES_MS = 2_000;

export function Weights() {
  const weights = useRead((signal) => api().agents.listAgentWeights({}, { signal }), [], LOOK_MS);
  const shares = useRead((signal) => readShares(signal), [], SHARES_MS);
  return (
    <>
      <Card
        title="Weights by pattern"
        flush
        actions={
          may(AgentService.method.putAgentWeight) && (
            <Button icon="plus" kind="primary" onPress={() => openWeight(undefined, weights.refresh)}>
              New weight
            </Button>
          )
        }
      >
        <Loaded from={weights}>{({ weights: all }) => <Patterns weights={all} onDone={weights.refresh} />}</Loaded>
      </Card>
      <Card title="Shares of the agents" flush>
        <Loaded from={shares}>{(all) => <Shares shares={all} />}</Loaded>
      </Card>
    </>
  );
}

function Patterns({ weights, onDone }: { weights: AgentWeight[]; onDone: () => void }) {
  const columns: Column<AgentWeight>[] = [
    { title: "Pattern", sortBy: (weight) => weight.pattern, cell: (weight) => <code>{weight.pattern}</code> },
    {
      title: "Weight",
      right: true,
      sortBy: (weight) => weight.weight,
      cell: (weight) => <span class="figure">{weight.weight}</span>,
    },
    {
      title: "Set by",
      wideOnly: true,
      cell: (weight) => <span class="dim">{weight.configured ? "the configuration" : "a call"}</span>,
    },
  ];
  if (may(AgentService.method.putAgentWeight))
    columns.push({
      title: "Actions",
      right: true,
      cell: (weight) => (
        <span class="row-actions">
          <Button onPress={() => openWeight(weight, onDone)}>Edit</Button>
          {!weight.configured && may(AgentService.method.deleteAgentWeight) && (
            <Button
              icon="trash"
              label={`Delete the weight of ${weight.pattern}`}
              onPress={() => deleteWeight(weight, onDone)}
            />
          )}
        </span>
      ),
    });
  return (
    <Table
      label="Weights by pattern"
      columns={columns}
      rows={weights}
      rowKey={(weight) => weight.pattern}
      empty={
        <Empty icon="gauge" title="All agents have the same weight">
          An agent with the weight 3 is entitled to three times as much of what is in flight as one with the weight 1.
        </Empty>
      }
    />
  );
}

function Shares({ shares }: { shares: AgentShare[] }) {
  const columns: Column<AgentShare>[] = [
    {
      title: "Agent",
      sortBy: (share) => share.agentId,
      cell: (share) => <a href={href(["tasks"], { agentId: share.agentId })}>{share.agentId}</a>,
    },
    {
      title: "Weight",
      right: true,
      sortBy: (share) => share.weight,
      cell: (share) => <span class="figure">{share.weight}</span>,
    },
    {
      title: "Received / entitled",
      sortBy: (share) => share.received,
      cell: (share) => <ShareBar received={share.received} entitled={share.entitled} />,
    },
    {
      title: "In flight",
      right: true,
      sortBy: (share) => share.inflight,
      cell: (share) => <span class="figure">{countOf(share.inflight)}</span>,
    },
    {
      title: "Could run",
      right: true,
      wideOnly: true,
      sortBy: (share) => share.runnable,
      cell: (share) => <span class="figure">{countOf(share.runnable)}</span>,
    },
  ];
  return (
    <Table
      label="Shares of the agents"
      columns={columns}
      rows={shares}
      rowKey={(share) => share.agentId}
      empty={<Empty icon="gauge" title="No agent has anything to do" />}
    />
  );
}

function openWeight(weight: AgentWeight | undefined, onDone: () => void): void {
  openDialog((close) => <WeightDialog weight={weight} close={close} onDone={onDone} />);
}

function WeightDialog({
  weight,
  close,
  onDone,
}: {
  weight: AgentWeight | undefined;
  close: () => void;
  onDone: () => void;
}) {
  const [pattern, setPattern] = useState(weight?.pattern ?? "");
  const [value, setValue] = useState(weight?.weight.toString() ?? "2");
  const put = async () => {
    await api().agents.putAgentWeight({ pattern: pattern.trim(), weight: Number(value) });
    await act(`The weight of ${pattern.trim()} holds`, async () => onDone());
  };
  return (
    <FormDialog title={weight ? `Weight of ${weight.pattern}` : "New weight"} submit="Set" close={close} onSubmit={put}>
      <TextField
        label="Pattern"
        value={pattern}
        onChange={setPattern}
        placeholder="team-a/*"
        hint="An agent, or the beginning of names with * at its end."
        disabled={Boolean(weight)}
        required
        autofocus={!weight}
      />
      <TextField
        label="Weight"
        type="number"
        min={1}
        max={1_000}
        step={1}
        value={value}
        onChange={setValue}
        hint="1 to 1,000. Agents that no pattern matches have 1."
        required
      />
      {weight?.configured && (
        <p class="dim">It stands in the place of the one of the configuration until it is deleted.</p>
      )}
    </FormDialog>
  );
}

function deleteWeight(weight: AgentWeight, onDone: () => void): void {
  ask({
    title: `Delete the weight of ${weight.pattern}?`,
    text: "The one of the configuration for this pattern holds again, if there is one.",
    submit: "Delete",
    danger: true,
    onSubmit: async () => {
      await api().agents.deleteAgentWeight({ pattern: weight.pattern });
      await act(`The weight of ${weight.pattern} is deleted`, async () => onDone());
    },
  });
}

function readShares(signal: AbortSignal): Promise<AgentShare[]> {
  return allPages(async (pageToken) => {
    const { agents, nextPageToken } = await api().stats.getFairness({ pageToken }, { signal });
    return { items: agents, next: nextPageToken };
  });
}
