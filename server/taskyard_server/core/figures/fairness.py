"""How the agents share what is in flight, and how they should by their weights (docs/rules.md, Weights).

What an agent received is the time that its tasks were in flight in the last ten minutes. It is added up by minutes, as
leases end, with the figures of the agent; of those that live it is counted when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from taskyard_server.core.slot_time import MINUTE, MINUTES

if TYPE_CHECKING:
    from taskyard_server.core.agents import Agent, Agents
    from taskyard_server.core.hosts import Host
    from taskyard_server.core.queue.ready_queue import ReadyQueue
    from taskyard_server.core.scheduler import Scheduler


class AgentShare(NamedTuple):
    """The share of an agent, due and received, as parts of 1; its tasks in flight, and those claimable now."""

    agent_id: str
    weight: int
    inflight: int
    runnable: int
    entitled: float
    received: float


def shares_of(scheduler: Scheduler, now: float) -> list[AgentShare]:
    """The agents with tasks in flight or queued, and those that received anything lately, by name."""
    life = scheduler.life
    received = _received(life.agents, scheduler.hosts, now)
    in_all = sum(received.values())
    agents = {name: agent for name, agent in life.agents.by_id.items() if agent.inflight or agent.queued}
    runnable = {
        name: _runnable(life.ready, agent, life.limits.max_per_agent_inflight) for name, agent in agents.items()
    }
    entitled = _entitled(agents, runnable)
    shares = []
    for name in sorted(agents.keys() | received.keys()):
        agent = life.agents.by_id.get(name)
        shares.append(
            AgentShare(
                name,
                life.ready.weights.of(name),
                0 if agent is None else agent.inflight,
                runnable.get(name, 0),
                entitled.get(name, 0.0),
                received.get(name, 0.0) / in_all if in_all else 0.0,
            )
        )
    return shares


def _received(agents: Agents, hosts: Iterable[Host], now: float) -> dict[str, float]:
    """The seconds of each agent that received any."""
    received: dict[str, float] = {}
    for name, figures in agents.figures:
        received[name] = figures.total(now)
    since = now // MINUTE * MINUTE - MINUTES * MINUTE
    for host in hosts:
        for lease in host.leases.values():
            name = lease.task.agent.figures.name
            received[name] = received.get(name, 0.0) + now - max(lease.claimed_at, since)
    return {name: secs for name, secs in received.items() if secs > 0}


def _runnable(ready: ReadyQueue, agent: Agent, max_inflight: int) -> int:
    """The tasks of an agent that could be claimed now: an agent at its limit has none."""
    if agent.inflight >= max_inflight:
        return 0
    count = 0
    for lane in agent.lanes:
        if lane.bucket.triggered and ready.holds_triggered:
            continue
        count += lane.size
        if lane.keyed is not None:
            strands = lane.keyed.strands.values()
            count += sum([strand.size for strand in strands if strand.size and ready.keys.full_key(strand) is None])
    return count


def _entitled(agents: dict[str, Agent], runnable: dict[str, int]) -> dict[str, float]:
    """The weighted max-min shares of what is in flight: none gets more than it has and could be handed."""
    wants = {name: agent.inflight + runnable[name] for name, agent in agents.items() if agent.inflight + runnable[name]}
    places = float(sum([agent.inflight for agent in agents.values()]))
    weight = sum([agents[name].weight for name in wants])
    if not places:
        return {name: agents[name].weight / weight for name in wants}
    left, entitled = places, {}
    for name in sorted(wants, key=lambda name: wants[name] / agents[name].weight):
        its = agents[name].weight
        given = min(float(wants[name]), left * its / weight)
        entitled[name] = given / places
        left -= given
        weight -= its
    return entitled
