"""Limits of keys and weights of agents in the embedded engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from taskyard_server.core.figures.fairness import AgentShare, shares_of
from taskyard_server.core.queue.keys import NO_USAGE, KeyLimit, PatternUsage
from taskyard_server.core.rules import LimitInForce, Rules, WeightInForce
from taskyard_server.core.scheduler import Scheduler

from .views import SET_BY_CALLS, LimitsInForce

if TYPE_CHECKING:
    from .namespaces import Namespaces


class RuleCommands:
    """Commands on rules (docs/rules.md, Concurrency keys, Weights)."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now
        self._barrier = namespaces.barrier

    async def list_limits(self, namespace: str, after: str, limit: int) -> LimitsInForce:
        """All limits, and up to `limit` of the keys in use with names after this one."""
        state = self._namespaces.find(namespace)
        if state is None:
            return LimitsInForce(self._of_none().limits(), [])
        scheduler, now = state.scheduler, self._now()
        return await self._barrier.give(
            state, lambda: LimitsInForce(scheduler.rules.limits(), scheduler.keys.usage(now, after, limit))
        )

    def usage_by_pattern(self) -> Mapping[str, PatternUsage]:
        """The usage of the keys of each configured pattern, and of `SET_BY_CALLS`, over all namespaces: for figures.

        Patterns that calls have set are summed up: there may be many of them.
        """
        now, configured = self._now(), self._namespaces.rules.limits
        total = dict.fromkeys([*configured, SET_BY_CALLS], NO_USAGE)
        for state in self._namespaces:
            for pattern, usage in state.scheduler.keys.usage_by_pattern(now).items():
                name = pattern if pattern in configured else SET_BY_CALLS
                total[name] = total[name].plus(usage)
        return total

    async def put_limit(self, namespace: str, pattern: str, limit: KeyLimit) -> LimitInForce:
        """Set the limit of a pattern. Raises `BadRequest` for one pattern too many."""
        state = self._namespaces.get_or_create(namespace)
        rules = state.scheduler.rules
        return await self._barrier.give(state, lambda: rules.put_limit(self._now(), pattern, limit))

    async def delete_limit(self, namespace: str, pattern: str) -> LimitInForce | None:
        """Delete the limit that was set for a pattern; returns the configured one. Raises `NotFound`."""
        state = self._namespaces.get_for_command(namespace, "limit")
        rules = state.scheduler.rules
        return await self._barrier.give(state, lambda: rules.delete_limit(self._now(), pattern))

    async def list_weights(self, namespace: str) -> Sequence[WeightInForce]:
        """All weights."""
        state = self._namespaces.find(namespace)
        if state is None:
            return self._of_none().weights()
        return await self._barrier.give(state, state.scheduler.rules.weights)

    async def put_weight(self, namespace: str, pattern: str, weight: int) -> WeightInForce:
        """Set the weight of a pattern. Raises `BadRequest` for one pattern too many."""
        state = self._namespaces.get_or_create(namespace)
        rules = state.scheduler.rules
        return await self._barrier.give(state, lambda: rules.put_weight(pattern, weight))

    async def delete_weight(self, namespace: str, pattern: str) -> WeightInForce | None:
        """Delete the weight that was set for a pattern; returns the configured one. Raises `NotFound`."""
        state = self._namespaces.get_for_command(namespace, "weight")
        rules = state.scheduler.rules
        return await self._barrier.give(state, lambda: rules.delete_weight(pattern))

    async def fairness(self, namespace: str) -> Sequence[AgentShare]:
        """The share of each agent, due and received, by name."""
        state = self._namespaces.find(namespace)
        if state is None:
            return []
        scheduler, now = state.scheduler, self._now()
        return await self._barrier.give(state, lambda: shares_of(scheduler, now))

    def _of_none(self) -> Rules:
        """The rules of a namespace in which nothing ever was."""
        rules = Scheduler(self._namespaces.limits, lambda: 0).rules
        rules.configure(self._now(), self._namespaces.rules)
        return rules
