"""The end of a process or of a namespace, and the tasks that are left (docs/rules.md, Drain and shutdown)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .leases import StopReason
from .limits import MAX_LEASE_SECS
from .task import CANCELLED, IN_FLIGHT, PAUSED, TERMINAL, Task

if TYPE_CHECKING:
    from .scheduler import Scheduler


def end_all(scheduler: Scheduler, now: float) -> None:
    """Pause what is in flight and cancel what waits: the scheduler does not outlive its process."""
    life = scheduler.life
    for task in [task for task in life.tasks.after(0) if task.state not in TERMINAL]:
        if task.state in IN_FLIGHT:
            life.pause(now, task, StopReason.SHUTDOWN)
        elif task.state is not PAUSED:
            life.finish(now, task, CANCELLED, None, "scheduler shutdown")


def pause_inflight(scheduler: Scheduler, now: float, built_in_only: bool) -> None:
    """Pause what is in flight, or what built-in hosts run: it ends with its process, while the scheduler stays."""
    for host in scheduler.hosts.built_in() if built_in_only else list(scheduler.hosts):
        for lease in list(host.leases.values()):
            scheduler.life.pause(now, lease.task, StopReason.SHUTDOWN)


def end_each(scheduler: Scheduler, now: float, tasks: Sequence[Task]) -> None:
    """Cancel these tasks, of a namespace that nobody uses any more, and what blocks a target among them."""
    for task in tasks:
        if task.state not in TERMINAL or scheduler.targets.blocks(task):
            scheduler.life.finish(now, task, CANCELLED, None, None)


def evict_some(scheduler: Scheduler, now: float, count: int) -> bool:
    """Let up to this many ended tasks go; False once there is nothing left, of targets neither."""
    life, limits = scheduler.life, scheduler.limits
    if limits.result_ttl_secs or limits.idempotency_secs:
        scheduler.reconfigure(replace(limits, result_ttl_secs=0.0, idempotency_secs=0.0))
    # By then the leases are over, too, that targets wait for.
    if life.agenda.advance(now + MAX_LEASE_SECS, count):
        return True
    life.targets.forget_all()
    return False
