"""Weights of agents, and the shares that they lead to (docs/rules.md, Weights)."""

from __future__ import annotations

from dataclasses import dataclass

from taskyard.v1 import agent_pb2, stats_pb2


@dataclass(frozen=True, slots=True)
class AgentWeight:
    """The weight of each agent that matches a pattern.

    Attributes:
        pattern: An agent, or the beginning of names with a `*` at its end, such as `team-a/*`. Of several that match an
            agent the longest alone holds.
        weight: The weight, 1 to 1,000. Agents that no pattern matches have 1.
        configured: Whether it comes from the configuration; otherwise a call has set it.
    """

    pattern: str
    weight: int
    configured: bool = False

    @classmethod
    def from_message(cls, message: agent_pb2.AgentWeight) -> AgentWeight:
        """Convert a message.

        Args:
            message: The weight as the server sends it.

        Returns:
            The weight.
        """
        return cls(message.pattern, message.weight, message.configured)


@dataclass(frozen=True, slots=True)
class AgentShare:
    """The share of one agent, due and received.

    Attributes:
        agent_id: The agent.
        weight: Its weight.
        inflight: Its tasks in flight.
        runnable: Its tasks that could be claimed now.
        entitled: The share of all that is in flight that its weight entitles it to, 0 to 1.
        received: The share of the time in flight that it had in the last 10 minutes, 0 to 1.
    """

    agent_id: str
    weight: int
    inflight: int
    runnable: int
    entitled: float
    received: float

    @classmethod
    def from_message(cls, message: stats_pb2.AgentShare) -> AgentShare:
        """Convert a message.

        Args:
            message: The share as the server sends it.

        Returns:
            The share.
        """
        return cls(
            agent_id=message.agent_id,
            weight=message.weight,
            inflight=message.inflight,
            runnable=message.runnable,
            entitled=message.entitled,
            received=message.received,
        )
