"""Hosts whose streams broke, as those are told of them whose tasks wait for hosts (docs/rules.md, Liveness)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from taskyard_server.core.hosts import Host, HostProfile, Hosts
    from taskyard_server.core.liveness import Liveness


class LostHost(NamedTuple):
    """A host that may come back, since when it is lost, and what it could run."""

    id: str
    lost_at: float
    profile: HostProfile


def lost_hosts(
    liveness: Liveness, hosts: Hosts, now: float, profile_of: Callable[[float, Host], HostProfile]
) -> Iterable[LostHost]:
    """The hosts that may come back, but for those that wait for tasks with a claim."""
    for host in hosts:
        if host.lost_at is not None and liveness.is_lost(now, host) and not liveness.is_live(now, host):
            yield LostHost(host.id, host.lost_at, profile_of(now, host))


def lost_text(now: float, lost: list[LostHost], by_name: bool) -> str:
    """Words about lost hosts that may run a task, as the end of a sentence; empty if there is none."""
    if not lost:
        return ""
    secs = max(0, int(now - max([host.lost_at for host in lost])))
    if len(lost) > 1:
        return f"; {len(lost)} hosts that may run it were lost, the last {secs} s ago, and may come back"
    whose = f"the host {lost[0].id}" if by_name else "a host"
    return f"; {whose} that may run it was lost {secs} s ago, and may come back"
