"""Which kinds of tasks no live host may run, and for how long that has been so (docs/rules.md, Why a task waits).

It is looked at now and then, by the buckets of the ready queue and the profiles of hosts: tasks and hosts cost nothing
in between. A notice goes when it is seen that a host may run the kind, at once where that host registers.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from taskyard_server.core.stats import NOTHING_NOTICED, Noticed

from .lost_hosts import lost_hosts, lost_text

if TYPE_CHECKING:
    from taskyard_server.core.agents import Agents
    from taskyard_server.core.children import Children
    from taskyard_server.core.hosts import Host, HostProfile, Hosts
    from taskyard_server.core.liveness import Liveness
    from taskyard_server.core.queue.bucket import Bucket, Kind
    from taskyard_server.core.queue.ready_queue import ReadyQueue

MAX_NOTICES: Final = 100
"""This many are told in the figures, those of most tasks."""
MAX_TEXT_LENGTH: Final = 500
DEADLOCK_SHARE: Final = 0.5
"""Of the time after which there is a notice: of hosts that stand still it comes sooner, since nobody has to be lost."""
STANDING: Final = (
    "deadlock: all slots of the hosts that may run the action {action} are held by tasks that have children waiting: "
    "where they wait for these, none ends (docs/use/faq.md)"
)
MAX_MATCHES = 20_000
"""This many matches of a kind and a profile are made in one look, which take some milliseconds. Tests lower it."""


class Notices:
    """The owner of what `Bucket` says of notices. `profile_of` answers what a host may run at a time."""

    def __init__(
        self,
        ready: ReadyQueue,
        children: Children,
        liveness: Liveness,
        hosts: Hosts,
        profile_of: Callable[[float, Host], HostProfile],
    ) -> None:
        self._ready = ready
        self._children = children
        self._liveness = liveness
        self._hosts = hosts
        self._profile_of = profile_of
        # True for those that are in a deadlock.
        self._noticed: dict[Bucket, bool] = {}
        # The buckets that are left of a look, the next one last.
        self._left: list[Bucket] = []

    def look(self, now: float, after_secs: float) -> list[str]:
        """See which kinds no live host may run, for `after_secs` at least. Returns the notices that are new.

        Half of that is enough for a deadlock.
        """
        # Of hosts that are part of the server nobody is told.
        told: dict[HostProfile, bool] = {}
        moving: set[HostProfile] = set()
        for host in self._hosts:
            if self._liveness.is_live(now, host):
                profile = self._profile_of(now, host)
                told[profile] = told.get(profile, False) or not host.built_in
                if profile not in moving and not stands_still(self._children, host):
                    moving.add(profile)
        profiles = list(told)
        lost = list(lost_hosts(self._liveness, self._hosts, now, self._profile_of))
        any_action = [profile for profile in profiles if profile.actions is None]
        by_action: dict[str, list[HostProfile]] = {}
        for profile in profiles:
            for action in profile.actions or ():
                by_action.setdefault(action, []).append(profile)
        if not self._left:
            self._left = list(self._ready)
            present = dict.fromkeys(self._left)
            self._noticed = {bucket: stands for bucket, stands in self._noticed.items() if bucket in present}
        matches, new = 0, []
        while self._left and matches <= MAX_MATCHES:
            bucket = self._left.pop()
            offering = [*any_action, *by_action.get(bucket.kind[1], ())]
            matches += len(offering) + 1
            able = [profile for profile in offering if profile.may_run(*bucket.kind[:4])]
            if not moving.isdisjoint(able):
                self._clear(bucket)
            elif self._is_noticed(now, bucket, after_secs * (DEADLOCK_SHARE if able else 1)):
                matches += len(lost)
                lost_ones = [host for host in lost if host.profile.may_run(*bucket.kind[:4])]
                lacking = notice_text(bucket.kind, [profile for profile in offering if told[profile]])
                text = (STANDING.format(action=bucket.kind[1]) if able else lacking) + lost_text(now, lost_ones, False)
                if bucket.notice is None:
                    new.append(text)
                bucket.notice = text
                self._noticed[bucket] = bool(able)
        return new

    def host_came(self, profile: HostProfile) -> None:
        """A host has registered: what it may run is noticed no longer."""
        for bucket in list(self._noticed):
            if profile.may_run(*bucket.kind[:4]):
                self._clear(bucket)

    def noticed(self, agents: Agents) -> Noticed:
        """The tasks of these agents that have a notice."""
        if not self._noticed:
            return NOTHING_NOTICED
        counts: dict[str, int] = {}
        deadlocked = 0
        for agent in agents.by_id.values():
            for lane in agent.lanes:
                notice = lane.bucket.notice
                if notice is not None and (count := lane.count):
                    counts[notice] = counts.get(notice, 0) + count
                    deadlocked += count if self._noticed.get(lane.bucket) else 0
        most = nlargest(MAX_NOTICES, counts.items(), key=_count)
        return Noticed(sum(counts.values()), dict(most), deadlocked)

    def _is_noticed(self, now: float, bucket: Bucket, after_secs: float) -> bool:
        """True if it has been so for long enough that no host may run a kind of which there are tasks, or were."""
        if bucket.unserved_since is None:
            bucket.unserved_since = now
        return now - bucket.unserved_since >= after_secs and (
            bucket.waiting + bucket.strands > 0 or bucket.notice is not None
        )

    def _clear(self, bucket: Bucket) -> None:
        bucket.unserved_since = bucket.notice = None
        self._noticed.pop(bucket, None)


def stands_still(children: Children, host: Host) -> bool:
    """True if a host is full, and something waits below each task that it holds."""
    return (
        bool(host.leases)
        and not any(offer.room > 0 for offer in host.offers)
        and all(children.any_queued_below(task_id) for task_id in host.leases)
    )


def notice_text(kind: Kind, offering: list[HostProfile]) -> str:
    """Why no live host may run a kind; `offering` are the profiles of those that offer its action."""
    project, action, requires, _, _ = kind
    if not offering:
        text = f"no live host offers the action {action}"
    elif not any(requires <= profile.capabilities for profile in offering):
        text = f"no live host that offers the action {action} has the capabilities {', '.join(sorted(requires))}"
    elif not any(requires <= each.capabilities and each.project in (None, project) for each in offering):
        of = "without a project" if project is None else f"of the project {project}"
        text = f"no live host that may run the action {action} takes tasks {of}"
    else:
        text = f"no live host that may run the action {action} takes tasks without a tab"
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[: MAX_TEXT_LENGTH - 3]}..."


def _count(notice: tuple[str, int]) -> int:
    return notice[1]
