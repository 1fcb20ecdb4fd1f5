"""Limits of concurrency keys by fractions and plain dicts, written from docs/rules.md alone (Concurrency keys).

It keeps the tokens of every key that was ever used, and knows nothing of units of time, nodes or strands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class RateLimit:
    """What holds for each key of a pattern; None is without a limit."""

    places: int | None = None
    rate: float | None = None
    burst: int = 1


@dataclass
class Tokens:
    """How many tokens there were at a time."""

    count: Fraction
    at: Fraction

    def now(self, now: float, limit: RateLimit) -> Fraction:
        assert limit.rate is not None
        return min(Fraction(limit.burst), self.count + Fraction(limit.rate) * (Fraction(now) - self.at))


class NaiveKeys:
    """The limits in force, the tokens of the used keys, and those of an unused key of each pattern with a rate."""

    def __init__(self) -> None:
        self.limits: dict[str, RateLimit] = {}
        self._used: dict[str, Tokens] = {}
        self._unused: dict[str, Tokens] = {}
        self._empty_at: float | None = None

    def pattern(self, name: str) -> str | None:
        """The pattern that counts for a key."""
        return pattern_of(name, self.limits)

    def tokens(self, now: float, name: str) -> Fraction | None:
        """The tokens of a key; None if it needs none."""
        pattern = self.pattern(name)
        if pattern is None or self.limits[pattern].rate is None:
            return None
        return self._used.get(name, self._unused[pattern]).now(now, self.limits[pattern])

    def is_full(self, now: float, name: str, flying: Counter[str]) -> bool:
        """True if a key has no place or no token; so many tasks of each key are in flight."""
        pattern = self.pattern(name)
        if pattern is None:
            return False
        places, tokens = self.limits[pattern].places, self.tokens(now, name)
        return (places is not None and flying[name] >= places) or (tokens is not None and tokens < 1)

    def full(self, now: float, waiting: Iterable[tuple[str, ...]], flying: Iterable[tuple[str, ...]]) -> set[str]:
        """The full keys of tasks that wait; these are the keys of each, and of each in flight."""
        count = Counter(name for names in flying for name in names)
        return {name for name in {name for names in waiting for name in names} if self.is_full(now, name, count)}

    def take(self, now: float, names: tuple[str, ...]) -> None:
        """A task of these keys was handed out."""
        for name in names:
            if (tokens := self.tokens(now, name)) is not None:
                self._used[name] = Tokens(tokens - 1, Fraction(now))

    def put(self, now: float, limits: dict[str, RateLimit]) -> None:
        """Used keys take their tokens along; one that is as full as an unused one counts as such."""
        before, unused, used = self.limits, self._unused, {}
        for name in self._used:
            tokens, old = self.tokens(now, name), self.pattern(name)
            if tokens is not None and old is not None and tokens != unused[old].now(now, before[old]):
                used[name] = tokens
        self.limits, self._unused, self._used = limits, {}, {}
        for pattern, limit in limits.items():
            if limit.rate is not None:
                self._unused[pattern] = self._fresh(
                    now, limit, pattern_of(pattern.removesuffix("*"), before), before, unused
                )
        for name, count in used.items():
            pattern = self.pattern(name)
            if pattern is not None and limits[pattern].rate is not None:
                self._used[name] = Tokens(min(Fraction(limits[pattern].burst), count), Fraction(now))

    def _fresh(
        self,
        now: float,
        limit: RateLimit,
        old: str | None,
        before: Mapping[str, RateLimit],
        unused: Mapping[str, Tokens],
    ) -> Tokens:
        """The tokens of an unused key of a new limit, in the place of an old one."""
        if old is not None and before[old].rate is not None:
            return Tokens(min(Fraction(limit.burst), unused[old].now(now, before[old])), Fraction(now))
        if self._empty_at is not None:
            return Tokens(Fraction(0), Fraction(self._empty_at))
        return Tokens(Fraction(limit.burst), Fraction(now))

    def restart(self, now: float) -> None:
        """All tokens are gone, and those of limits that come later count as gone now."""
        self._empty_at = now
        self._used.clear()
        self._unused = {pattern: Tokens(Fraction(0), Fraction(now)) for pattern in self._unused}


def pattern_of(name: str, patterns: Mapping[str, object]) -> str | None:
    fit = [each for each in patterns if each == name or (each.endswith("*") and name.startswith(each[:-1]))]
    return max(fit, key=lambda each: (len(each.removesuffix("*")), not each.endswith("*")), default=None)
