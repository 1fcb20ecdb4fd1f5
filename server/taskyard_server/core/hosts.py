"""Runtime hosts: who may be handed tasks, which tasks, and when they were last heard of.

The registry is the minimum that leases need (docs/rules.md, Registration). It hands out nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum, StrEnum, auto
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from .errors import NotFound
from .timers import Holder

if TYPE_CHECKING:
    from .leases import Lease
    from .limits import Limits
    from .offers import Offer


class Tabs(IntEnum):
    """Which tasks a host takes with regard to `tabId`."""

    ANY = auto()
    ONLY = auto()
    OR_PLAIN = auto()
    """Tasks with a tab, and those without one that ask for nothing else."""


class HostProfile(NamedTuple):
    """Properties that decide whether a host may run a task. Hosts of equal profile share the ready queue's look-up."""

    capabilities: frozenset[str] = frozenset()
    project: str | None = None
    actions: frozenset[str] | None = None
    tabs: Tabs = Tabs.ANY
    plain_actions: frozenset[str] | None = None
    """Of `OR_PLAIN`: the actions of the tasks without a tab that it takes; None for all."""

    def may_run(self, project: str | None, action: str, requires: frozenset[str], has_tab: bool) -> bool:
        """True if a task of this kind may be handed to such a host (docs/rules.md, Matching)."""
        return (
            requires <= self.capabilities
            and (self.project is None or self.project == project)
            and (self.actions is None or action in self.actions)
            and (has_tab or self.takes_plain(action, requires))
        )

    def takes_plain(self, action: str, requires: frozenset[str]) -> bool:
        """True if it takes such a task without a tab, as far as that is what counts."""
        if self.tabs is Tabs.OR_PLAIN:
            return not requires and (self.plain_actions is None or action in self.plain_actions)
        return self.tabs is Tabs.ANY

    def narrowed(self, project: str | None) -> HostProfile:
        """The same for the tasks of one project only; for none at all where the host's own project is another."""
        if project is None or project == self.project:
            return self
        if self.project is None:
            return self._replace(project=project)
        return self._replace(actions=frozenset())


RESERVED_HOST_PREFIX: Final = "taskyard:"
"""Ids of built-in hosts begin with this, and no other host's id does."""

TAB_EXECUTOR: Final = HostProfile(tabs=Tabs.ONLY)
"""The built-in executor, while runtime hosts are online (docs/rules.md, Tab executor)."""


class HostStatus(StrEnum):
    """The state of a host: if it lives, and has room (docs/rules.md, Liveness)."""

    ALIVE = "alive"
    IDLE = "idle"
    BUSY = "busy"
    DEAD = "dead"


class Host(Holder):
    """One registered host and the leases that it holds, by task id.

    `number` counts registrations; `machine` are bytes that the core keeps and never opens; `slots` is how many tasks
    the host says it runs at once, None if it did not say. `stream` is the offer of its stream, None while it has none;
    `instance` names the process that opened the stream, or the last one. `lost_at` is when it broke, if nothing was
    heard of the host since. `silence_at` is when a host that holds leases is looked at, lest it be dead.

    `losses` counts the times in a row at which it let leases of its stream run out, `rested_at` is when it did so last,
    and `rests_until` when it may be handed tasks over its stream again; None while it may.

    `claimed` are the live leases that it claimed under an id, by that id in the order of their grants, and `waiting`
    the offers of claims with an id that wait.
    """

    __slots__ = (
        "built_in",
        "claimed",
        "display_name",
        "drain_until",
        "draining",
        "forget_at",
        "id",
        "instance",
        "labels",
        "last_heartbeat_at",
        "leases",
        "losses",
        "lost_at",
        "machine",
        "number",
        "offers",
        "profile",
        "registered_at",
        "reported_status",
        "rested_at",
        "rests_until",
        "silence_at",
        "slots",
        "stream",
        "waiting",
    )

    def __init__(self, host_id: str, number: int, now: float) -> None:
        super().__init__()
        self.id = host_id
        self.number = number
        self.display_name = host_id
        self.profile = HostProfile()
        self.built_in = False
        self.slots: int | None = None
        self.labels: tuple[tuple[str, str], ...] = ()
        self.draining = False
        self.drain_until: float | None = None
        self.reported_status: HostStatus | None = None
        self.machine: bytes | None = None
        self.registered_at = now
        self.last_heartbeat_at = now
        self.leases: dict[str, Lease] = {}
        self.offers: list[Offer] = []
        self.instance: str | None = None
        self.stream: Offer | None = None
        self.lost_at: float | None = None
        self.silence_at: float | None = None
        self.forget_at: float | None = None
        self.losses = 0
        self.rested_at = -inf
        self.rests_until: float | None = None
        self.claimed: dict[str, dict[Lease, None]] = {}
        self.waiting: dict[str, Offer] = {}

    def kept(self) -> tuple[object, ...]:
        """The part that a store keeps, and that may change."""
        return (
            self.display_name,
            self.profile,
            self.slots,
            self.labels,
            self.built_in,
            self.draining,
            self.drain_until,
            self.instance,
        )

    def set_reported(self, reported_status: HostStatus | None, machine: bytes | None) -> None:
        """Its report of itself now; without figures of its machine, those it gave before stay."""
        self.reported_status = reported_status
        self.machine = self.machine if machine is None else machine

    def online(self, now: float, timeout_secs: float) -> bool:
        """True if it was heard of in time, and its stream did not break since (docs/rules.md, Liveness)."""
        return self.lost_at is None and now - self.last_heartbeat_at <= timeout_secs

    def is_dead(self, now: float, timeout_secs: float, dead_after: int) -> bool:
        """True if it was silent for over `dead_after` time-outs."""
        return now - self.last_heartbeat_at > timeout_secs * dead_after

    def is_lost(self, now: float, timeout_secs: float, dead_after: int) -> bool:
        """True if its stream broke, nothing was heard of it since, and it is not dead."""
        return self.lost_at is not None and not self.is_dead(now, timeout_secs, dead_after)

    def status(self, now: float, timeout_secs: float, dead_after: int) -> HostStatus:
        """Its own word, unless it is dead."""
        if self.is_dead(now, timeout_secs, dead_after):
            return HostStatus.DEAD
        if self.reported_status is not None:
            return self.reported_status
        if not self.leases:
            return HostStatus.IDLE
        return HostStatus.BUSY if self.slots is not None and len(self.leases) >= self.slots else HostStatus.ALIVE


class HostFigures(NamedTuple):
    """How many hosts there are, are online, are lost and have a stream, and how many more tasks those take now."""

    registered: int
    online: int
    lost: int
    streams: int
    free_credit: int


def host_figures(hosts: Iterable[Host], now: float, limits: Limits) -> HostFigures:
    """The figures of hosts, in one pass: there may be thousands. Those that are part of the server do not count."""
    timeout_secs, dead_after = limits.heartbeat_timeout_secs, limits.dead_heartbeat_threshold
    registered = online = lost = streams = free_credit = 0
    for host in hosts:
        if host.built_in:
            continue
        registered += 1
        if host.online(now, timeout_secs):
            online += 1
        elif host.is_lost(now, timeout_secs, dead_after):
            lost += 1
        if host.stream is not None:
            streams += 1
            if not host.draining:
                free_credit += host.stream.room
    return HostFigures(registered, online, lost, streams, free_credit)


class Hosts:
    """The registry."""

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}
        self._built_in: set[str] = set()
        self._last_number = 0

    def register(
        self,
        now: float,
        host_id: str,
        display_name: str | None,
        profile: HostProfile,
        *,
        slots: int | None = None,
        labels: tuple[tuple[str, str], ...] = (),
        built_in: bool = False,
    ) -> Host:
        """Make or replace a host; `registered_at` and its leases stay (docs/rules.md, Registration)."""
        host = self._hosts.get(host_id)
        if host is None:
            self._last_number += 1
            host = self._hosts[host_id] = Host(host_id, self._last_number, now)
        host.display_name = display_name or host_id
        host.profile = profile
        host.slots = slots
        host.labels = labels
        host.built_in = built_in
        host.draining = False
        host.reported_status = None
        if built_in:
            self._built_in.add(host_id)
        return host

    @property
    def last_number(self) -> int:
        """The number of the last host that registered."""
        return self._last_number

    def restore(self, host: Host) -> None:
        """Add a stored host, after those with lower numbers."""
        self._hosts[host.id] = host
        self._last_number = max(self._last_number, host.number)

    def continue_after(self, number: int) -> None:
        """Let numbers go on after this one."""
        self._last_number = max(self._last_number, number)

    def get(self, host_id: str) -> Host:
        """The host; raises `NotFound` for one that is not registered."""
        host = self._hosts.get(host_id)
        if host is None:
            raise NotFound("runtime host not found")
        return host

    def find(self, host_id: str) -> Host | None:
        """The host, or None."""
        return self._hosts.get(host_id)

    def built_in(self) -> list[Host]:
        """The hosts that are part of the server."""
        return [self._hosts[host_id] for host_id in self._built_in]

    def remove(self, host: Host) -> None:
        """Forget a host whose leases were ended."""
        del self._hosts[host.id]
        self._built_in.discard(host.id)

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts.values())
