"""The end of a process, and the tasks in flight (docs/rules.md, Drain and shutdown)."""

from __future__ import annotations

from .hosts import Hosts
from .leases import StopReason
from .lifecycle import Lifecycle
from .task import CANCELLED, IN_FLIGHT, PAUSED, TERMINAL


def end_all(life: Lifecycle, now: float) -> None:
    """Pause what is in flight and cancel what waits."""
    for task in [task for task in life.tasks.after(0) if task.state not in TERMINAL]:
        if task.state in IN_FLIGHT:
            life.pause(now, task, StopReason.SHUTDOWN)
        elif task.state is not PAUSED:
            life.finish(now, task, CANCELLED, None, "scheduler shutdown")


def pause_inflight(life: Lifecycle, hosts: Hosts, now: float, built_in_only: bool) -> None:
    """Pause what is in flight, or of this what built-in hosts run."""
    for host in hosts.built_in() if built_in_only else list(hosts):
        for lease in list(host.leases.values()):
            life.pause(now, lease.task, StopReason.SHUTDOWN)
