"""How the machines of hosts stood over the last hour (scheduler-daemon, Machine Snapshots)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from .engine.port import Engine

KEPT_SECS: Final = 3600.0
MOST_KEPT: Final = 100_000
MOST_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One machine at one moment. `machine` are the bytes that the host reported; `number` counts snapshots."""

    number: int
    at: float
    namespace: str
    host_id: str
    machine: bytes


class Snapshots:
    """Takes a snapshot of each online host that reports figures, and keeps the newest: an hour's, within bounds."""

    def __init__(self, engine: Engine, interval_secs: Callable[[], float]) -> None:
        self._engine = engine
        self._interval_secs = interval_secs
        self._kept: deque[Snapshot] = deque()
        self._bytes = 0
        self._last = 0

    async def run(self) -> None:
        """Take them every so often, until cancelled."""
        while True:
            await asyncio.sleep(self._interval_secs())
            await self.take()

    async def take(self) -> None:
        """Take one of every host."""
        now, timeout = self._engine.now(), self._engine.limits.heartbeat_timeout_secs
        for namespace in self._engine.namespaces():
            for host in await self._engine.list_hosts(namespace, 0):
                if host.machine is not None and host.online(now, timeout):
                    self._last += 1
                    self._bytes += len(host.machine)
                    self._kept.append(Snapshot(self._last, now, namespace, host.id, host.machine))
        kept = self._kept
        while kept and (kept[0].at <= now - KEPT_SECS or len(kept) > MOST_KEPT or self._bytes > MOST_BYTES):
            self._bytes -= len(kept.popleft().machine)

    def newest_first(self, namespace: str, host_id: str | None, before: int) -> Iterator[Snapshot]:
        """Those of a namespace, perhaps of one host; with `before`, only those taken before that number."""
        for snapshot in reversed(self._kept):
            if (
                snapshot.namespace == namespace
                and host_id in (None, snapshot.host_id)
                and (not before or snapshot.number < before)
            ):
                yield snapshot
