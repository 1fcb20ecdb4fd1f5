"""Samples of the figures of each namespace over the last hour, one every ten seconds (docs/rules.md, Samples)."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from math import isnan, nan
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from taskyard_server.core.hosts import host_figures
from taskyard_server.engine.virtual_clock import VirtualClock
from taskyard_server.interceptors.callers import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from taskyard_server.core.hosts import Host
    from taskyard_server.core.stats import Counters
    from taskyard_server.engine.engine import Engine

INTERVAL_SECS: Final = 10.0
MAX_TICKS: Final = 360
MAX_SAMPLES: Final = 300_000
"""Maximum samples of all namespaces that differ from the one before; fifty megabytes."""

EARLY_SECS: Final = 0.1
"""A sleep may end a little before its time."""
SAME_SECS: Final = 1e-5
"""A time that is so little ahead is now, on a clock that stands still."""

_LAYOUT: Final = Struct("<13I2d")
_MOST: Final = 2**32 - 1


def secs_to_next(now: float) -> float:
    """How long it is to the next sample; the one of this moment was taken."""
    rest = INTERVAL_SECS - now % INTERVAL_SECS
    return rest if rest > EARLY_SECS else rest + INTERVAL_SECS


class SampledFigures(NamedTuple):
    """The figures of a sample of a namespace; those from `submitted` on count since the sample before.

    `avg_dispatch_latency_ms` is None where nothing was handed out, `queued_since` where nothing is queued.
    """

    queued: int
    inflight: int
    paused: int
    parked: int
    hosts_online: int
    submitted: int
    dispatched: int
    completed: int
    failed: int
    cancelled: int
    rejected: int
    retried: int
    leases_expired: int
    avg_dispatch_latency_ms: float | None
    queued_since: float | None

    def packed(self) -> bytes:
        """The figures as they are retained."""
        counts = [min(max(count, 0), _MOST) for count in self[:13]]
        return _LAYOUT.pack(*counts, *(nan if each is None else each for each in self[13:]))

    @classmethod
    def unpacked(cls, data: bytes) -> SampledFigures:
        """The same again."""
        *counts, latency, since = _LAYOUT.unpack(data)
        return cls._make((*counts, None if isnan(latency) else latency, None if isnan(since) else since))


class Sample(NamedTuple):
    """The figures of a namespace at one time, in seconds since the epoch."""

    at: float
    figures: SampledFigures


class _Counted(NamedTuple):
    """The counters of a namespace at one time."""

    submitted: int = 0
    dispatched: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    rejected: int = 0
    retried: int = 0
    leases_expired: int = 0
    latency_secs: float = 0.0


class _Ring:
    """The samples of one namespace, from the tick of the first entry to `last`.

    An entry holds for its tick and for those after it until the next one: an idle namespace has a single one.
    """

    __slots__ = ("before", "entries", "last")

    def __init__(self, before: _Counted) -> None:
        self.before = before
        self.entries: deque[tuple[int, bytes]] = deque()
        self.last = 0

    def trim(self, first: int) -> int:
        """Forget what is only of ticks before `first`; how many entries that were."""
        entries, forgotten = self.entries, 0
        while len(entries) > 1 and entries[1][0] <= first:
            entries.popleft()
            forgotten += 1
        return forgotten


class Samples:
    """Takes samples of each namespace, and retains those of an hour in memory.

    On a `VirtualClock` nothing runs: it takes them as the clock is moved and as they are asked for.
    """

    def __init__(self, engine: Engine, clock: VirtualClock | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._rings: dict[str, _Ring] = {}
        self._ticks: deque[float] = deque()
        self._last = 0
        self._count = 0
        self._next = engine.now() + INTERVAL_SECS
        if clock is not None:
            clock.before_move = self.catch_up

    def open(self) -> None:
        """Count from now on in the namespaces that were loaded."""
        for namespace in self._engine.admin.namespaces():
            self.begin(namespace)

    async def run(self) -> None:
        """Take a sample of each namespace every ten seconds, until cancelled."""
        while True:
            await asyncio.sleep(secs_to_next(self._engine.now()))
            await self.take()

    async def take(self) -> None:
        """Take a sample of each namespace. Others run in between: there may be many."""
        self._tick(self._engine.now())
        for namespace in self._namespaces():
            self._take_of(namespace, self._engine.now())
            await asyncio.sleep(0)
        self._forget_excess()

    def catch_up(self, until: float) -> None:
        """Take the samples that come due before `until`, on a clock that stands still: nothing happens in between."""
        taken = 0
        while self._next < until:
            if taken < 2:
                self._tick(self._next)
                for namespace in self._namespaces():
                    self._take_of(namespace, self._engine.now())
                taken += 1
            else:
                self._repeat(self._next)
            self._next += INTERVAL_SECS
            skipped = int((until - self._next) / INTERVAL_SECS) - MAX_TICKS
            if taken == 2 and skipped > 0:
                # Nobody will see these.
                self._next += skipped * INTERVAL_SECS
        self._forget_excess()

    def listed(self, namespace: str, after: float | None = None) -> list[Sample]:
        """The samples of a namespace that were taken after a time, oldest first; all of them if that is None."""
        if self._clock is not None:
            self.catch_up(self._clock() + SAME_SECS)
        ring = self._rings.get(namespace)
        if ring is None:
            return []
        ticks, oldest = list(self._ticks), self._last - len(self._ticks) + 1
        first = oldest + (0 if after is None else bisect_right(ticks, after))
        samples: list[Sample] = []
        end = ring.last + 1
        for begin, packed in reversed(ring.entries):
            if end <= first:
                break
            figures = SampledFigures.unpacked(packed)
            begin = max(begin, first)
            samples += [Sample(ticks[tick - oldest], figures) for tick in range(end - 1, begin - 1, -1)]
            end = begin
        return samples[::-1]

    def begin(self, namespace: str) -> None:
        """Begin anew with a namespace, whose counters may have counted elsewhere or before."""
        self._forget(namespace)
        self._rings[namespace] = _Ring(_counted(self._engine.admin.totals(namespace).counters))

    def leave(self, namespace: str) -> None:
        """Forget the samples of a namespace that another replica serves from now on."""
        self._forget(namespace)

    def deleted(self, namespace: str) -> None:
        """Forget the samples of a namespace that was deleted."""
        self._forget(namespace)

    def _namespaces(self) -> list[str]:
        return list(dict.fromkeys((DEFAULT_NAMESPACE, *self._engine.admin.namespaces())))

    def _repeat(self, at: float) -> None:
        """Take samples of a time at which all is as at the last one."""
        self._tick(at)
        for ring in self._rings.values():
            if ring.last == self._last - 1:
                ring.last = self._last
                self._count -= ring.trim(self._last - len(self._ticks) + 1)

    def _tick(self, at: float) -> None:
        self._last += 1
        self._ticks.append(at)
        if len(self._ticks) > MAX_TICKS:
            self._ticks.popleft()

    def _take_of(self, namespace: str, now: float) -> None:
        admin = self._engine.admin
        totals = admin.totals(namespace)
        ring = self._rings.get(namespace)
        if ring is None:
            # It is new: all that it has counted has happened since the sample before.
            ring = self._rings[namespace] = _Ring(_Counted())
        elif ring.last != self._last - 1:
            self._count -= len(ring.entries)
            ring.entries.clear()
        counted = _counted(totals.counters)
        counts = [count - before for count, before in zip(counted[:-1], ring.before[:-1], strict=True)]
        dispatched, latency_secs = counts[1], counted.latency_secs - ring.before.latency_secs
        figures = SampledFigures._make(
            (
                totals.queued,
                totals.inflight,
                totals.paused,
                totals.parked,
                admin.look_at_hosts(namespace, lambda hosts: self._online(hosts, now)),
                *counts,
                max(0.0, latency_secs) / dispatched * 1000 if dispatched > 0 else None,
                admin.queued_since(namespace),
            )
        )
        packed = figures.packed()
        ring.before, ring.last = counted, self._last
        if not ring.entries or ring.entries[-1][1] != packed:
            ring.entries.append((self._last, packed))
            self._count += 1
        self._count -= ring.trim(self._last - len(self._ticks) + 1)

    def _online(self, hosts: list[Host], now: float) -> int:
        return host_figures(hosts, now, self._engine.limits).online

    def _forget_excess(self) -> None:
        """Forget namespaces that are gone, and show fewer ticks while there are more samples than may be retained.

        One may have been deleted while the others were looked at.
        """
        for namespace in [name for name, ring in self._rings.items() if ring.entries and ring.last != self._last]:
            self._forget(namespace)
        while self._count > MAX_SAMPLES and len(self._ticks) > 1:
            self._ticks.popleft()
            first = self._last - len(self._ticks) + 1
            self._count -= sum(ring.trim(first) for ring in self._rings.values())

    def _forget(self, namespace: str) -> None:
        ring = self._rings.pop(namespace, None)
        if ring is not None:
            self._count -= len(ring.entries)


def _counted(counters: Counters) -> _Counted:
    return _Counted(
        counters.submitted,
        counters.dispatched,
        counters.completed,
        counters.failed,
        counters.cancelled,
        counters.rejected,
        counters.retried,
        counters.leases_expired,
        counters.dispatch_latency_secs,
    )
