"""Snapshots of the machines of hosts and server over the last hour (docs/rules.md, Machine figures)."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from taskyard.hosting.machine import MachineFigures
from taskyard.v1.runtime_host_pb2 import Machine
from taskyard_server.core.errors import NotOwner, Unavailable
from taskyard_server.core.hosts import Host, HostStatus, host_figures
from taskyard_server.core.limits import Limits
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import DEFAULT_NAMESPACE

MAX_AGE_SECS: Final = 3600.0
MAX_SNAPSHOTS: Final = 100_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of all machine figures that are retained."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """How many tasks a namespace had at one moment."""

    inflight: int
    queued: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One machine at one moment. `number` counts snapshots.

    `machine` holds the bytes that the host reported. Where `host_id` is None, it holds the figures of the server, and
    `tasks` those of the namespace.
    """

    number: int
    at: float
    namespace: str
    host_id: str | None
    machine: bytes
    tasks: TaskCounts | None = None


@dataclass(frozen=True, slots=True)
class HostCounts:
    """Runtime hosts that are online, open streams of hosts, hosts by status. The built-in executor does not count."""

    online: int = 0
    streams: int = 0
    by_status: Mapping[HostStatus, int] = field(default_factory=dict)


class Snapshots:
    """Takes snapshots of the server and of each online host that reports figures, and retains those of an hour."""

    def __init__(self, engine: Engine, interval_secs: Callable[[], float]) -> None:
        self._engine = engine
        self._interval_secs = interval_secs
        self._figures = MachineFigures()
        self._machine: Machine | None = None
        self._snapshots: deque[Snapshot] = deque()
        self._bytes = 0
        self._last = 0

    @property
    def machine(self) -> Machine | None:
        """The figures of the server's machine in the newest snapshot, None before the first."""
        return self._machine

    async def run(self) -> None:
        """Take snapshots now and once per interval, until cancelled."""
        while True:
            # While the store does not answer there is no snapshot.
            with contextlib.suppress(Unavailable):
                await self.take()
            await asyncio.sleep(self._interval_secs())

    async def take(self) -> None:
        """Take one snapshot of each host, and one of the server for the default namespace and each one in use."""
        now, limits = self._engine.now(), self._engine.limits
        timeout = limits.heartbeat_timeout_secs
        machine = self._machine = self._figures.look(0)
        by_status: Counter[HostStatus] = Counter()

        def look(listed: list[Host]) -> tuple[list[HostStatus], list[tuple[str, bytes]], HostCounts]:
            """The status of each host, the figures of those that are online and report some, and the counts."""
            hosts = _runtime_hosts(listed)
            statuses = [host.status(now, timeout, limits.dead_heartbeat_threshold) for host in hosts]
            machines = [
                (host.id, host.machine) for host in hosts if host.machine is not None and host.online(now, timeout)
            ]
            return statuses, machines, _count(hosts, now, limits)

        for namespace in dict.fromkeys((DEFAULT_NAMESPACE, *self._engine.admin.namespaces())):
            try:
                statuses, machines, counts = await self._engine.hosts.list_hosts(namespace, 0, show=look)
            except NotOwner:
                continue
            by_status.update(statuses)
            for host_id, reported in machines:
                self._add(now, namespace, host_id, reported)
            self._take_own(now, namespace, machine, counts)
        if by_status:
            log.debug("heartbeats_collected", **{status.value: by_status[status] for status in HostStatus})
        snapshots = self._snapshots
        while snapshots and (
            snapshots[0].at <= now - MAX_AGE_SECS or len(snapshots) > MAX_SNAPSHOTS or self._bytes > MAX_BYTES
        ):
            self._bytes -= len(snapshots.popleft().machine)

    async def count_hosts(self) -> HostCounts:
        """Count the hosts of all namespaces, by visiting each of them."""
        now, limits = self._engine.now(), self._engine.limits
        timeout, dead_after = limits.heartbeat_timeout_secs, limits.dead_heartbeat_threshold
        by_status: Counter[HostStatus] = Counter()

        def look(listed: list[Host]) -> HostCounts:
            hosts = _runtime_hosts(listed)
            by_status.update([host.status(now, timeout, dead_after) for host in hosts])
            return _count(hosts, now, limits)

        admin = self._engine.admin
        counts = [admin.look_at_hosts(namespace, look) for namespace in admin.namespaces()]
        return HostCounts(sum(each.online for each in counts), sum(each.streams for each in counts), by_status)

    def newest_first(self, namespace: str, host_id: str | None, before: int, own: bool | None) -> Iterator[Snapshot]:
        """The snapshots of a namespace that match, newest first.

        `host_id` selects one host, a true `own` the server, a false one all hosts, and `before` those with a smaller
        number; None, and 0 for `before`, select all.
        """
        for snapshot in reversed(self._snapshots):
            if (
                snapshot.namespace == namespace
                and host_id in (None, snapshot.host_id)
                and own in (None, snapshot.host_id is None)
                and (not before or snapshot.number < before)
            ):
                yield snapshot

    def deleted(self, namespace: str) -> None:
        """Forget the snapshots of a namespace that was deleted."""
        self._snapshots = deque(each for each in self._snapshots if each.namespace != namespace)
        self._bytes = sum(len(each.machine) for each in self._snapshots)

    def _take_own(self, now: float, namespace: str, machine: Machine, hosts: HostCounts) -> None:
        totals = self._engine.admin.totals(namespace)
        own = Machine()
        own.CopyFrom(machine)
        own.active_workers, own.sessions = hosts.online, hosts.streams
        self._add(now, namespace, None, own.SerializeToString(), TaskCounts(totals.inflight, totals.queued))

    def _add(
        self, now: float, namespace: str, host_id: str | None, machine: bytes, tasks: TaskCounts | None = None
    ) -> None:
        self._last += 1
        self._bytes += len(machine)
        self._snapshots.append(Snapshot(self._last, now, namespace, host_id, machine, tasks))


def _runtime_hosts(hosts: list[Host]) -> list[Host]:
    return [host for host in hosts if not host.built_in]


def _count(hosts: list[Host], now: float, limits: Limits) -> HostCounts:
    found = host_figures(hosts, now, limits)
    return HostCounts(found.online, found.streams)
