"""The port for rules by pattern: limits of concurrency keys, and weights of agents; and how agents share what there is.

What is set stands in the place of what the configuration says, and is kept where there is a store.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from taskyard_server.core.figures.fairness import AgentShare
from taskyard_server.core.queue.keys import KeyLimit, KeyUsage, PatternUsage
from taskyard_server.core.rules import LimitInForce, WeightInForce

SET_BY_CALLS: Final = "(set by calls)"


class LimitsInForce(NamedTuple):
    """The limits of a namespace by pattern, and some of the keys in use by name."""

    limits: Sequence[LimitInForce]
    keys: Sequence[KeyUsage]


class RulePort(Protocol):
    """Commands on rules (docs/rules.md, Concurrency keys, Weights)."""

    async def list_limits(self, namespace: str, after: str, limit: int) -> LimitsInForce:
        """All limits, and up to `limit` of the keys in use with names after this one."""

    def usage_by_pattern(self) -> Mapping[str, PatternUsage]:
        """The usage of the keys of each configured pattern, and of `SET_BY_CALLS`, over all namespaces: for figures.

        Patterns that calls have set are summed up: there may be many of them.
        """

    async def put_limit(self, namespace: str, pattern: str, limit: KeyLimit) -> LimitInForce:
        """Set the limit of a pattern. Raises `BadRequest` for one pattern too many."""

    async def delete_limit(self, namespace: str, pattern: str) -> LimitInForce | None:
        """Delete the limit that was set for a pattern; returns the configured one. Raises `NotFound`."""

    async def list_weights(self, namespace: str) -> Sequence[WeightInForce]:
        """All weights."""

    async def put_weight(self, namespace: str, pattern: str, weight: int) -> WeightInForce:
        """Set the weight of a pattern. Raises `BadRequest` for one pattern too many."""

    async def delete_weight(self, namespace: str, pattern: str) -> WeightInForce | None:
        """Delete the weight that was set for a pattern; returns the configured one. Raises `NotFound`."""

    async def fairness(self, namespace: str) -> Sequence[AgentShare]:
        """What each agent is entitled to and gets, by name."""
