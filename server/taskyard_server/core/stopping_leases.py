"""Leases that ended while their host may still work: their target stays taken (docs/rules.md, Stopping leases).

A stopping lease is here until its host reports that nothing runs under it any more, or until `expires_at`, by when the
host has stopped by itself. This file does not know targets; `Grants` frees them. Leases of tasks without a target are
here only while a call waits for them, and are in no store.

A command that ends leases may be followed (docs/rules.md, Waiting for a stop): the leases under which its tasks ran
become stopping leases, also without a target, until their hosts say that nothing runs, or their time is over. Nothing
is done for commands that nobody waits for, but for one thing: the last lease of a task without a target that was paused
is remembered, since the task may be cancelled by somebody who waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from .changes import Changes
from .leases import Lease
from .timers import TimerQueue

if TYPE_CHECKING:
    from .task import Task

MIN_LEASES_TO_PRUNE: Final = 64


class StopOutcome(StrEnum):
    """The answer to whether anything of a task may still run; the values are the documented ones."""

    RELEASED = "released"
    PRESUMED = "presumed"
    NOT_RUNNING = "not_running"
    WAITING = "waiting"


class StopWait:
    """One call that waits for `leases`. `told` is called once, when the last of them is over."""

    __slots__ = ("is_presumed", "leases", "told")

    def __init__(self, told: Callable[[StopOutcome], None]) -> None:
        self.told = told
        self.leases: dict[Lease, None] = {}
        self.is_presumed = False

    def is_over(self, lease: Lease, is_presumed: bool) -> None:
        """One of them is over: its host said so, or its time is."""
        self.is_presumed = self.is_presumed or is_presumed
        self.leases.pop(lease, None)
        if not self.leases:
            self.told(StopOutcome.PRESUMED if self.is_presumed else StopOutcome.RELEASED)


class StoppingLeases:
    """The stopping leases of one namespace by host, task and token. `ends` holds each until its `expires_at`.

    `waits` are the calls that wait for some of them.
    """

    def __init__(self, ends: TimerQueue[Lease], changes: Changes | None) -> None:
        self._ends = ends
        self._changes = changes
        self._by_host: dict[str, dict[tuple[str, int], Lease]] = {}
        self.waits: dict[Lease, list[StopWait]] = {}

    def add(self, lease: Lease) -> None:
        """Add a lease that has ended while its host may still work."""
        self.restore(lease)
        if self._changes is not None and lease.task.options.target is not None:
            self._changes.stopping[lease] = None

    def restore(self, lease: Lease) -> None:
        """Add a lease that a store has already."""
        self._by_host.setdefault(lease.host.id, {})[lease.task.id, lease.token] = lease
        self._ends.add(lease.expires_at, lease)

    def remove(self, lease: Lease, is_presumed: bool) -> bool:
        """Remove a lease, since its host said so, or as `is_presumed`; whether it was there."""
        leases = self._by_host.get(lease.host.id, {})
        if leases.pop((lease.task.id, lease.token), None) is None:
            return False
        self._ends.remove(lease.expires_at, lease)
        if not leases:
            del self._by_host[lease.host.id]
        if self._changes is not None and lease.task.options.target is not None:
            self._changes.stopping_lease_gone(lease)
        if self.waits:
            for wait in self.waits.pop(lease, ()):
                wait.is_over(lease, is_presumed)
        return True

    def find(self, host_id: str, task_id: str, token: int) -> Lease | None:
        """The stopping lease of this host, task and token, or None."""
        return self._by_host.get(host_id, {}).get((task_id, token))

    def of_task(self, task: Task) -> list[Lease]:
        """The stopping leases of one task. This looks at all, for commands that somebody waits for."""
        return [lease for leases in self._by_host.values() for lease in leases.values() if lease.task.id == task.id]

    def of(self, host_id: str) -> list[Lease]:
        """The stopping leases of one host."""
        return list(self._by_host.get(host_id, {}).values())


class StopWaits:
    """The calls that wait, by lease."""

    def __init__(self, stopping: StoppingLeases) -> None:
        self._stopping = stopping
        self._paused: dict[str, Lease] = {}
        self._prune_above = MIN_LEASES_TO_PRUNE

    def leases_of(self, tasks: Iterable[Task]) -> list[Lease]:
        """The leases under which a host works on these tasks, or may still. Call it before the command."""
        leases: list[Lease] = []
        for task in tasks:
            if task.lease is not None:
                leases.append(task.lease)
            leases.extend(self._stopping.of_task(task))
            paused = self._paused.get(task.id)
            if paused is not None and paused is not task.lease:
                leases.append(paused)
        return leases

    def follow(self, now: float, leases: Iterable[Lease], told: Callable[[StopOutcome], None]) -> StopWait | None:
        """Follow leases that a command has just ended; None if nothing runs under any, and nobody is told."""
        stopping, wait = self._stopping, StopWait(told)
        for lease in leases:
            is_known = stopping.find(lease.host.id, lease.task.id, lease.token) is lease
            if is_known or (lease.task.options.target is None and lease.expires_at > now):
                if not is_known:
                    stopping.add(lease)
                wait.leases[lease] = None
                stopping.waits.setdefault(lease, []).append(wait)
            elif lease.task.options.target is None:
                # Its time was over when the command came.
                wait.is_presumed = True
        if not wait.leases:
            if not wait.is_presumed:
                return None
            told(StopOutcome.PRESUMED)
        return wait

    def forget(self, wait: StopWait) -> None:
        """Nobody waits any more."""
        waits = self._stopping.waits
        for lease in wait.leases:
            others = waits.get(lease)
            if others is not None and wait in others:
                others.remove(wait)
                if not others:
                    del waits[lease]

    def was_paused(self, now: float, lease: Lease | None) -> None:
        """Remember the lease of a task that was paused, if its host may still work and no target waits for it."""
        if lease is None or lease.task.options.target is not None or lease.expires_at <= now:
            return
        self._paused[lease.task.id] = lease
        if len(self._paused) > self._prune_above:
            self._paused = {task_id: each for task_id, each in self._paused.items() if each.expires_at > now}
            self._prune_above = 2 * len(self._paused) + MIN_LEASES_TO_PRUNE

    def has_stopped(self, host_id: str, task_id: str, token: int) -> None:
        """A host says that nothing runs under a lease that no target waits for."""
        paused = self._paused.get(task_id)
        if paused is not None and paused.token == token and paused.host.id == host_id:
            del self._paused[task_id]
