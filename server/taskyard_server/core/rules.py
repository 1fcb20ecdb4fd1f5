"""Limits of concurrency keys and weights of agents by pattern: those of the configuration, and those set by calls.

One that was set stands in the place of the configured one of the same pattern, until it is deleted. `Keys` and
`ReadyQueue` do what the rules in force say (docs/rules.md, Concurrency keys, Weights).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from .changes import Rule
from .errors import NOT_YET, BadRequest, NotFound, Unavailable
from .queue.keys import KeyLimit

if TYPE_CHECKING:
    from .agents import Agents
    from .changes import Changes
    from .queue.ready_queue import ReadyQueue
    from .readers import ReaderRules

MAX_SET: Final = 1000
"""This many patterns of limits may be set by calls, and this many of weights."""


class ConfiguredRules(NamedTuple):
    """The configured rules, by pattern."""

    limits: Mapping[str, KeyLimit] = {}
    weights: Mapping[str, int] = {}


NO_RULES: Final = ConfiguredRules()


class LimitInForce(NamedTuple):
    """The limit of a pattern, and whether it comes from the configuration."""

    pattern: str
    limit: KeyLimit
    configured: bool


class WeightInForce(NamedTuple):
    """The weight of a pattern, and whether it comes from the configuration."""

    pattern: str
    weight: int
    configured: bool


class Rules:
    """The rules of one namespace."""

    def __init__(self, ready: ReadyQueue, agents: Agents, readers: ReaderRules, changes: Changes | None) -> None:
        self._ready = ready
        self._agents = agents
        self._readers = readers
        self._changes = changes
        self._configured = NO_RULES
        self._limits: dict[str, Rule] = {}
        self._weights: dict[str, Rule] = {}
        self._last_number = 0

    def configure(self, now: float, configured: ConfiguredRules) -> None:
        """Put the rules of the configuration in force, below those that were set."""
        self._configured = configured
        self.apply(now)

    def apply(self, now: float) -> None:
        """Let what stands here hold."""
        self._apply_limits(now)
        self._apply_weights()

    def limits(self) -> list[LimitInForce]:
        """The limits in force, by pattern."""
        found = {pattern: LimitInForce(pattern, limit, True) for pattern, limit in self._configured.limits.items()}
        for pattern, rule in self._limits.items():
            if rule.limit is not None:
                found[pattern] = LimitInForce(pattern, rule.limit, False)
        return [found[pattern] for pattern in sorted(found)]

    def weights(self) -> list[WeightInForce]:
        """The weights in force, by pattern."""
        found = {pattern: WeightInForce(pattern, weight, True) for pattern, weight in self._configured.weights.items()}
        for pattern, rule in self._weights.items():
            found[pattern] = WeightInForce(pattern, rule.weight, False)
        return [found[pattern] for pattern in sorted(found)]

    def put_limit(self, now: float, pattern: str, limit: KeyLimit) -> LimitInForce:
        """Set the limit of a pattern. Raises `BadRequest` for one pattern too many."""
        self._set(self._limits, pattern, limit, 0)
        self._apply_limits(now)
        return LimitInForce(pattern, limit, False)

    def put_weight(self, pattern: str, weight: int) -> WeightInForce:
        """Set the weight of a pattern. Raises `BadRequest` for one pattern too many."""
        self._set(self._weights, pattern, None, weight)
        self._apply_weights()
        return WeightInForce(pattern, weight, False)

    def delete_limit(self, now: float, pattern: str) -> LimitInForce | None:
        """Delete the limit that was set for a pattern; returns the configured one. Raises `NotFound`."""
        self._delete(self._limits, pattern, "limit")
        self._apply_limits(now)
        limit = self._configured.limits.get(pattern)
        return None if limit is None else LimitInForce(pattern, limit, True)

    def delete_weight(self, pattern: str) -> WeightInForce | None:
        """Delete the weight that was set for a pattern; returns the configured one. Raises `NotFound`."""
        self._delete(self._weights, pattern, "weight")
        self._apply_weights()
        weight = self._configured.weights.get(pattern)
        return None if weight is None else WeightInForce(pattern, weight, True)

    def restore(self, rule: Rule) -> None:
        """Take a stored rule, which `apply` puts in force."""
        self._last_number = max(self._last_number, rule.number)
        (self._weights if rule.limit is None else self._limits)[rule.pattern] = rule

    def all(self) -> list[Rule]:
        """Those that were set."""
        return [*self._limits.values(), *self._weights.values()]

    def _set(self, rules: dict[str, Rule], pattern: str, limit: KeyLimit | None, weight: int) -> None:
        if not self._readers.allows_extras:
            raise Unavailable(f"limits of keys and weights: {NOT_YET}")
        rule = rules.get(pattern)
        if rule is None:
            if len(rules) >= MAX_SET:
                raise BadRequest(f"pattern: at most {MAX_SET:,} may be set")
            self._last_number += 1
            rule = rules[pattern] = Rule(self._last_number, pattern, limit, weight)
        else:
            rule.limit, rule.weight = limit, weight
        if self._changes is not None:
            self._changes.rules[rule] = None

    def _delete(self, rules: dict[str, Rule], pattern: str, kind: str) -> None:
        rule = rules.pop(pattern, None)
        if rule is None:
            raise NotFound(f"no {kind} was set for {pattern}")
        if self._changes is not None:
            self._changes.rule_gone(rule)

    def _apply_limits(self, now: float) -> None:
        in_force = {each.pattern: each.limit for each in self.limits()}
        self._ready.keys.set_limits(now, in_force)

    def _apply_weights(self) -> None:
        in_force = {each.pattern: each.weight for each in self.weights()}
        self._ready.set_weights(in_force, self._agents.by_id.values())
