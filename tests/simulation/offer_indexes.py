"""Who waits for tasks, recounted: offers and groups, which of them sleep, and the timers of leases and silences.

`recount_offers` looks into the private structures of a `Scheduler`, as `indexes.recount` does, and compares each with
what a walk over all hosts, offers, buckets and tasks finds. `nothing_left` is the rule that they exist for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import inf

from taskyard_server.core.hosts import TAB_EXECUTOR, Host, HostProfile
from taskyard_server.core.offers import Offer, OfferGroup
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import Task

from .indexes import is_claimable, is_heap, recount_looks, recount_timer, same


def recount_offers(core: Scheduler, now: float) -> None:
    """Raise AssertionError, naming the structure, if it is not what hosts, offers and tasks say."""
    life, hosts = core._life, list(core.hosts)
    groups = list(life.offers)
    _crews_of_offers(core, hosts, groups)
    for group in groups:
        _group(group, now, core)
        _sleeps_rightly(core, group)
    same("groups that the ready queue knows", sorted(map(id, life.ready._groups)), sorted(map(id, groups)))
    same("groups that are awake and gone", life.offers._awake.keys() - set(groups), set())
    for bucket in life.ready._buckets.values():
        fit = {group for group in groups if group.profile.may_run(*bucket.kind[:4])}
        same("groups of a bucket", (bucket.groups.keys() - fit, fit - bucket.groups.keys()), (set(), set()))
    known = set(life.ready._buckets.values())
    for group in groups:
        fit = {bucket for bucket in known if group in bucket.groups}
        same("buckets of a group", (group.buckets.keys() - fit, fit - group.buckets.keys()), (set(), set()))
    same("fresh buckets that are gone", life.ready._woken.keys() - known, set())
    _sessions(hosts)
    _claim_ids(hosts)
    _lease_times(core, hosts)
    _silences(core, hosts)
    resting = {host: host.rests_until for host in hosts if host.rests_until is not None}
    recount_timer("rests of hosts", core._life.liveness.rests._ends, resting)


def _crews_of_offers(core: Scheduler, hosts: list[Host], groups: list[OfferGroup]) -> None:
    """Each offer of a host stands in one group, that of its profile, and no other offer does."""
    offers = [offer for host in hosts for offer in host.offers]
    same("offers that stand twice", [id(offer) for offer, count in Counter(offers).items() if count > 1], [])
    enlisted = [offer for group in groups for offer in group.offers]
    same("offers in groups", sorted(map(id, enlisted)), sorted(map(id, offers)))
    same("profiles of groups", core._life.offers._groups, {group.profile: group for group in groups})
    same("turns of offers that are equal", len({offer.last_grant for offer in offers}), len(offers))
    for host in hosts:
        for offer in host.offers:
            same(f"host of an offer of {host.id}", offer.host is host, True)
            same(f"group of an offer of {host.id}", offer in offer.group.offers, True)
            fit = [profile.narrowed(offer.project) for profile in _profiles(host)]
            same(f"profile of an offer of {host.id} is one of {fit}", offer.group.profile in fit, True)


def _profiles(host: Host) -> list[HostProfile]:
    """What the host may run; which of two it is for a built-in one shows at the next hand-out."""
    return [TAB_EXECUTOR, host.profile] if host.built_in else [host.profile]


def _group(group: OfferGroup, now: float, core: Scheduler) -> None:
    entries = Counter({offer for place, offer in group.heap if offer.group is group and offer.rank == place})
    waiting = [offer for offer in group.offers if offer.rank is not None]
    same("offers that a group holds for waiting", group.waiting, len(waiting))
    same("offers that stand in the heap of a group", entries, Counter(waiting))
    is_heap("places of a group", [place for place, _ in group.heap])
    same("a group has offers", bool(group.offers), True)
    for offer in group.offers:
        could = offer.room > 0 and not offer.host.draining and not _rests(offer)
        if could and not (is_silent(core, offer, now) and offer.rank is None):
            same(f"place of an offer of {offer.host.id}", offer.rank, _place(offer))
        elif not could:
            same(f"place of an offer of {offer.host.id} without room", offer.rank, None)


def _place(offer: Offer) -> tuple[float, int]:
    leases = len(offer.host.leases)
    return leases / (offer.host.slots or leases + offer.room), offer.last_grant


def _sleeps_rightly(core: Scheduler, group: OfferGroup) -> None:
    """Whoever waits in a group that sleeps could be handed nothing, even if nothing else were in flight."""
    ready = core._life.ready
    if group in core._life.offers._awake or any(bucket in ready._woken for bucket in group.buckets):
        return
    if any(offer.rank is not None for offer in group.offers):
        same("tasks that a sleeping group could be handed", list(_takeable(core, group.profile)), [])


def nothing_left(core: Scheduler, now: float) -> None:
    """After a hand-out: raise AssertionError if anyone who waits could be handed a task."""
    if core._admission.is_closed or core.view.inflight >= core.limits.max_inflight:
        return
    online = core._life.liveness.any_online(now)
    for host in core.hosts:
        for offer in host.offers:
            if offer.room > 0 and not host.draining and not _rests(offer) and not is_silent(core, offer, now):
                profile = (TAB_EXECUTOR if host.built_in and online else host.profile).narrowed(offer.project)
                left = list(_takeable(core, profile))
                if left:
                    raise AssertionError(f"{host.id} waits for {offer.room}, and {left} wait for a host")


def _takeable(core: Scheduler, profile: HostProfile) -> Iterable[str]:
    limit = core.limits.max_per_agent_inflight
    for task in core.tasks_after(0):
        fits = is_claimable(core, task) and task.agent.inflight < limit and profile.may_run(*_kind(task))
        if fits and not has_full_key(core, task):
            yield task.id


def has_full_key(core: Scheduler, task: Task) -> bool:
    """True if a key of the task had no room when the core looked last; `key_indexes` recounts that."""
    keys = core._life.ready.keys
    known = [keys.find(name) for name in task.options.extras.concurrency_keys]
    return any(key is not None and key.opens_at > keys.now for key in known)


def _kind(task: Task) -> tuple[str | None, str, frozenset[str], bool]:
    return (task.options.project, task.action, task.options.requires, task.tab_id is not None)


def is_silent(core: Scheduler, offer: Offer, now: float) -> bool:
    """True if nothing is handed to a stream since nothing was heard of its host."""
    silence, limits = now - offer.host.last_heartbeat_at, core.limits
    dead_after = limits.heartbeat_timeout_secs * limits.dead_heartbeat_threshold
    return offer.silence_limit_secs is not None and silence > min(offer.silence_limit_secs, dead_after)


def _sessions(hosts: list[Host]) -> None:
    for host in hosts:
        streams = [offer for offer in host.offers if offer.streamed]
        same(f"streams of {host.id}", streams, [] if host.stream is None else [host.stream])
        same(f"who opened the stream of {host.id} is known", bool(streams) <= (host.instance is not None), True)


def _rests(offer: Offer) -> bool:
    return offer.streamed and offer.host.rests_until is not None


def _claim_ids(hosts: list[Host]) -> None:
    """Leases and waiting claims stand under their ids, and under no id stands nothing."""
    for host in hosts:
        claimed: dict[str, list[int]] = {}
        for lease in sorted(host.leases.values(), key=lambda lease: lease.token):
            if lease.claim_id is not None:
                claimed.setdefault(lease.claim_id, []).append(lease.token)
        found = {claim_id: [lease.token for lease in leases] for claim_id, leases in host.claimed.items()}
        same(f"claims of {host.id} by id", found, claimed)
        waiting = {offer.claim_id: offer for offer in host.offers if offer.claim_id is not None}
        same(f"waiting claims of {host.id} by id", host.waiting, waiting)


def _lease_times(core: Scheduler, hosts: list[Host]) -> None:
    """A lease of a stream that stands waits for no adoption; one that is assigned has to start in time."""
    leases = [lease for host in hosts for lease in host.leases.values()]
    for lease in leases:
        streamed, stands = lease.stream is not None, lease.stream is lease.host.stream
        task = lease.task.id
        same(f"{task} has to be adopted", lease.adopt_by < inf, streamed and not stands)
        same(f"{task} has to be started", lease.start_by < inf, streamed and lease.task.state == "assigned")
        same(f"end of the lease of {task}", lease.due, min(lease.expires_at, lease.start_by, lease.adopt_by))
    grants = core._life.grants
    due = {lease: (lease.host, lease.due) for lease in leases}
    recount_looks("ends of leases", grants.holders, grants._ends, due)


def _silences(core: Scheduler, hosts: list[Host]) -> None:
    """A host that holds leases is looked at before its silence would be death."""
    listened = {host: host.silence_at for host in hosts if host.silence_at is not None}
    recount_timer("silences", core._life.liveness._silences, listened)
    dead_after = core.limits.heartbeat_timeout_secs * core.limits.dead_heartbeat_threshold
    mortals = {host for host in hosts if host.leases and not host.built_in}
    same("hosts with leases that nobody looks at", {host.id for host in mortals - listened.keys()}, set())
    late = {host.id for host, at in listened.items() if at > host.last_heartbeat_at + dead_after}
    same("hosts that are looked at too late", late, set())
