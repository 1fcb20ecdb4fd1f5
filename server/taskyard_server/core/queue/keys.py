"""Concurrency keys: how many tasks of each are in flight, their limits, and when a full one has room again.

A limit belongs to a pattern, and holds for each key that matches it by itself (docs/rules.md, Concurrency keys). A key
is full while it has no place, or no token: `opens_at` says until when. The tasks that wait for it are in its `nodes`,
which are those of `strands.py`.

A key is known while tasks of it wait or are in flight, and until nothing tells it from one that nobody has used: the
tokens of such a key are those of the `idle` bucket of its rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush, nlargest, nsmallest
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from taskyard_server.core.patterns import PatternTable

from .token_bucket import TokenBucket

if TYPE_CHECKING:
    from .bucket import Bucket
    from .strands import Node, Strand

MIN_KEYS_TO_SWEEP: Final = 64
MOST: Final = 1_000_000
"""The greatest number in a limit."""
LEAST_PER_SECOND: Final = 0.000_001
"""One in eleven days."""


class KeyLimit(NamedTuple):
    """The limit of each key of a pattern: tasks in flight, hand-outs a second, and how many of these at once."""

    max_inflight: int | None = None
    per_second: float | None = None
    burst: int | None = None


class KeyUsage(NamedTuple):
    """A key in use. `waiting` are its tasks that could be claimed but for this key or another one of theirs.

    `tokens` are the hand-outs that it could have at once, None without a rate.
    """

    key: str
    pattern: str | None
    inflight: int
    waiting: int
    tokens: float | None


class PatternUsage(NamedTuple):
    """The keys in use that the limit of a pattern holds for, their tasks in flight, and those that wait, per key."""

    keys: int = 0
    inflight: int = 0
    waiting: int = 0

    def plus(self, other: PatternUsage) -> PatternUsage:
        """The sum of both."""
        return PatternUsage(self.keys + other.keys, self.inflight + other.inflight, self.waiting + other.waiting)


class KeyWaits(NamedTuple):
    """How many tasks wait for keys, and how many at each of the keys where most do."""

    waiting: int
    keys: dict[str, int]


NO_USAGE: Final = PatternUsage()


class KeyRule:
    """A limit in force. `idle` are the tokens of a key that nobody has used, None without a rate."""

    __slots__ = ("idle", "limit", "pattern")

    def __init__(self, pattern: str, limit: KeyLimit, idle: TokenBucket | None) -> None:
        self.pattern = pattern
        self.limit = limit
        self.idle = idle


class Key:
    """A key in use: `waiting` tasks of it are claimable but for keys, `inflight` are assigned or running.

    `opens_at` is when it has a place and a token: 0 or past while it has, `inf` while a task has to end first. `due` is
    the time for which it is noted to open, 0 if it is not. `shared` are the strands that have other keys, too.
    """

    __slots__ = ("due", "inflight", "max_inflight", "name", "nodes", "opens_at", "rule", "shared", "tokens", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.rule: KeyRule | None = None
        self.max_inflight: int | None = None
        self.tokens: TokenBucket | None = None
        self.inflight = 0
        self.waiting = 0
        self.opens_at = 0.0
        self.due = 0.0
        self.nodes: dict[Bucket, Node] = {}
        self.shared: dict[Strand, None] = {}


class Keys:
    """The keys in use by name, and the limits. `now` is the latest time that it was told, which only rates need.

    `on_open` is called with a key that has room again, if tasks wait at it.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.on_open: Callable[[Key], None]
        self._by_name: dict[str, Key] = {}
        self._rules: PatternTable[KeyRule] = PatternTable({})
        self.has_rates = False
        self._dues: list[tuple[float, str]] = []
        self._sweep_at = MIN_KEYS_TO_SWEEP
        # When buckets began empty, if it is not the first time that this namespace is served.
        self._empty_at: float | None = None

    def set_limits(self, now: float, limits: Mapping[str, KeyLimit]) -> None:
        """Put these limits in force, by pattern; no other holds any more.

        A key takes along the tokens that it has, as far as there is room for them. One that nobody has used has those
        of a key of its new pattern that nobody has used.
        """
        self.now = max(self.now, now)
        before = self._rules
        rules = PatternTable({pattern: self._rule(pattern, limit, before) for pattern, limit in limits.items()})
        self._rules = rules
        self.has_rates = any(rule.idle is not None for _, rule in rules.items())
        self._dues = []
        for key in self._by_name.values():
            key.due = 0.0
            self._apply(key)
            self._settle(key)
            if key.nodes:
                self._open_or_note(key)

    def begin_empty(self, now: float) -> None:
        """Another server may have used up all tokens: every bucket is empty as of now."""
        self.now = max(self.now, now)
        self._empty_at = now
        for _, rule in self._rules.items():
            if rule.idle is not None:
                rule.idle.empty(now)
        for key in self._by_name.values():
            if key.tokens is not None:
                key.tokens.empty(now)
                self._settle(key)

    def of(self, name: str) -> Key:
        """The key of this name."""
        return self._by_name.get(name) or self._add(name)

    def find(self, name: str) -> Key | None:
        """The key of this name, if it is known; what is not known is not full."""
        return self._by_name.get(name)

    def seen(self, now: float, name: str) -> Key:
        """The key of this name as it stands, for those who look on; one that is not known is as an unused one."""
        self.look(now)
        key = self._by_name.get(name)
        if key is None:
            key = Key(name)
            if len(self._rules):
                self._apply(key)
                self._settle(key)
        return key

    def room(self, key: Key) -> float:
        """The number of tasks that a key has places and tokens for; `inf` without a limit."""
        places = inf if key.max_inflight is None else float(max(0, key.max_inflight - key.inflight))
        return places if key.tokens is None else min(places, float(key.tokens.whole(self.now)))

    def look(self, now: float) -> None:
        """Let the keys that tasks wait for open whose tokens have come."""
        if not self.has_rates or now <= self.now:
            return
        self.now = now
        dues = self._dues
        while dues and dues[0][0] <= now:
            at, name = heappop(dues)
            key = self._by_name.get(name)
            if key is not None and key.due == at:
                key.due = 0.0
                if key.nodes:
                    self._open_or_note(key)

    def next_due(self) -> float | None:
        """When a key opens by time that tasks wait for; None if none does."""
        return self._dues[0][0] if self._dues else None

    def took(self, key: Key) -> None:
        """A task of the key was handed out."""
        key.inflight += 1
        if key.tokens is not None:
            key.tokens.take(self.now)
            self._settle(key)
            if key.nodes and key.opens_at > self.now:
                self.note_due(key)
        elif key.max_inflight is not None and key.inflight >= key.max_inflight:
            key.opens_at = inf

    def release(self, now: float, names: Iterable[str]) -> None:
        """A task of these keys left flight."""
        if self.has_rates:
            self.look(now)
        for name in names:
            key = self._by_name[name]
            key.inflight -= 1
            if key.opens_at == inf:
                self._settle(key)
                if key.nodes:
                    self._open_or_note(key)

    def restore(self, names: Iterable[str]) -> None:
        """A task of these keys that was stored is in flight."""
        for name in names:
            key = self.of(name)
            key.inflight += 1
            self._settle(key)

    def note_due(self, key: Key) -> None:
        """Tasks wait at a full key: let it open when its token comes."""
        if key.opens_at != inf and key.due != key.opens_at:
            key.due = key.opens_at
            heappush(self._dues, (key.opens_at, key.name))

    # Figures

    def usage(self, now: float, after: str, limit: int) -> list[KeyUsage]:
        """Up to `limit` keys in use by name, those after this one."""
        self.look(now)
        used = [key.name for key in self._by_name.values() if key.name > after and (key.inflight or key.waiting)]
        return [self._usage(self._by_name[name]) for name in nsmallest(limit, used)]

    def usage_by_pattern(self, now: float) -> dict[str, PatternUsage]:
        """The usage of each pattern of a limit whose keys are in use."""
        self.look(now)
        found: dict[str, PatternUsage] = {}
        for key in self._by_name.values():
            if key.rule is not None and (key.inflight or key.waiting):
                usage = self._usage(key)
                its = found.get(key.rule.pattern, NO_USAGE)
                found[key.rule.pattern] = its.plus(PatternUsage(1, usage.inflight, usage.waiting))
        return found

    def waits(self, now: float, limit: int) -> KeyWaits:
        """How many tasks wait for keys, and the full keys where most do, up to `limit`."""
        self.look(now)
        if not len(self._rules):
            return KeyWaits(0, {})
        total = 0
        shared: dict[Strand, None] = {}
        full: list[tuple[int, str]] = []
        for key in self._by_name.values():
            if key.waiting and key.opens_at > self.now:
                full.append((key.waiting, key.name))
                total += key.waiting - sum([strand.size for strand in key.shared])
                shared.update(key.shared)
        total += sum([strand.size for strand in shared])
        return KeyWaits(total, {name: waiting for waiting, name in nlargest(limit, full)})

    def _usage(self, key: Key) -> KeyUsage:
        waiting = key.waiting
        if key.opens_at <= self.now:
            waiting = sum([strand.size for strand in key.shared if self.full_key(strand) is not None])
        return KeyUsage(
            key.name,
            None if key.rule is None else key.rule.pattern,
            key.inflight,
            waiting,
            None if key.tokens is None else key.tokens.tokens(self.now),
        )

    def full_key(self, strand: Strand) -> Key | None:
        """A full key of a strand, None while all have room."""
        for key in strand.keys:
            if key.opens_at > self.now:
                return key
        return None

    # Rules and keys that come and go

    def _rule(self, pattern: str, limit: KeyLimit, before: PatternTable[KeyRule]) -> KeyRule:
        if limit.per_second is None:
            return KeyRule(pattern, limit, None)
        idle = TokenBucket(self.now, limit.per_second, limit.burst)
        known = before.match(pattern.removesuffix("*"))
        if known is not None and known[1].idle is not None:
            idle.fill_from(self.now, known[1].idle)
        elif self._empty_at is not None:
            idle.empty(self._empty_at)
        return KeyRule(pattern, limit, idle)

    def _apply(self, key: Key) -> None:
        """Let the limit hold for the key that belongs to it now."""
        rule, tokens = key.rule, key.tokens
        found = self._rules.match(key.name)
        key.rule = None if found is None else found[1]
        key.max_inflight = None if key.rule is None else key.rule.limit.max_inflight
        key.tokens = None
        if key.rule is not None and key.rule.idle is not None:
            key.tokens = key.rule.idle.copy()
            if rule is None or rule.idle is None or tokens is None:
                return
            if not tokens.is_level_with(self.now, rule.idle):
                key.tokens.fill_from(self.now, tokens)

    def _add(self, name: str) -> Key:
        if len(self._by_name) >= self._sweep_at:
            self._sweep()
        key = self._by_name[name] = Key(name)
        if len(self._rules):
            self._apply(key)
            self._settle(key)
        return key

    def _sweep(self) -> None:
        """Forget the keys that nothing tells from those that nobody has used: callers make them up."""
        self._by_name = {name: key for name, key in self._by_name.items() if self._is_in_use(key)}
        self._sweep_at = 2 * len(self._by_name) + MIN_KEYS_TO_SWEEP

    def _is_in_use(self, key: Key) -> bool:
        if key.inflight or key.waiting:
            return True
        if key.tokens is None or key.rule is None or key.rule.idle is None:
            return False
        return not key.tokens.is_level_with(self.now, key.rule.idle)

    def _settle(self, key: Key) -> None:
        if key.max_inflight is not None and key.inflight >= key.max_inflight:
            key.opens_at = inf
        elif key.tokens is not None:
            key.opens_at = key.tokens.due(self.now)
        else:
            key.opens_at = 0.0

    def _open_or_note(self, key: Key) -> None:
        if key.opens_at <= self.now:
            self.on_open(key)
        else:
            self.note_due(key)
