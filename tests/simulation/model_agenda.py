"""What time brings about in the model: ends of deadlines, leases, stops, silences, drains, due tasks, parks, lives."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, inf
from typing import NamedTuple

from .model_records import Host, Job, PastKey, Sent, StoppingLeases, tick_of
from .world import World


class Due(NamedTuple):
    """Something that time brings about, to a task, host, ended lease or key. `rank` orders those of one tick."""

    tick: int
    rank: int
    thing: Job | Host | StoppingLeases | PastKey | Sent

    def touches(self, world: World) -> set[str]:
        """The tasks that are told of first if this is done."""
        if isinstance(self.thing, Job):
            return {self.thing.id}
        if self.rank in (REST, LIFE):
            return set()
        return {job.id for job in world.leases(self.thing.id)} if isinstance(self.thing, Host) else set()


DEADLINE, RUN_TIMEOUT, LEASE_END, SILENCE, DRAIN, DUE, PARK, STOPPING, KEY, LIFE, REST = range(11)


def agenda(world: World, looks: Mapping[str, float]) -> list[Due]:
    """Everything that time will bring about."""
    after = world.dead_after()
    timers = [Due(tick_of(job.deadline), DEADLINE, job) for job in world.ticking() if job.deadline is not None]
    timers += [Due(tick_of(job.lease_end()), LEASE_END, job) for job in world.flying()]
    timers += [Due(tick_of(job.run_until), RUN_TIMEOUT, job) for job in world.flying() if job.run_until is not None]
    for host in world.mortals():
        silent = min(host.heard_at + after, looks.get(host.id, inf))
        timers.append(Due(tick_of(silent), SILENCE, host))
    for host in world.hosts.values():
        if host.drain_until is not None:
            timers.append(Due(tick_of(host.drain_until), DRAIN, host))
        if host.rests_until is not None:
            timers.append(Due(tick_of(host.rests_until), REST, host))
    pending = [job for job in world.tasks.values() if job.due is not None and not job.held]
    timers += [Due(tick_of(job.due), DUE, job) for job in pending if not world.relations.waits(job)]
    parked = [(job, at) for job in world.tasks.values() if (at := world.parks.due(job)) is not None]
    timers += [Due(tick_of(at), PARK, job) for job, at in parked]
    timers += [Due(tick_of(lease.until), STOPPING, lease) for lease in world.stopping]
    timers += [Due(tick_of(event.until), LIFE, event) for event in world.parks.events.kept() if not event.is_over]
    return timers + [Due(tick_of(past.until), KEY, past) for past in world.past_keys]


def first_due(world: World, now: float, looks: Mapping[str, float]) -> list[Due]:
    """What is to be done next: one of these. A look at a host that lives comes to nothing."""
    timers = [
        due
        for due in agenda(world, looks)
        if due.tick <= floor(8 * now)
        and not (due.rank == SILENCE and not world.is_dead(now, due.thing))
        # Whether one that came after others waits for its time alone the core has to notice first.
        and not (due.rank == DUE and world.relations.follows(due.thing) and due.thing.id not in world.relations.armed)
    ]
    first = min((due[:2] for due in timers), default=None)
    return [due for due in timers if due[:2] == first]


def name_of(due: Due) -> object:
    if due.rank == REST:
        return ("rest", due.thing.id)
    if isinstance(due.thing, Sent):
        return ("event", due.thing.number)
    return due.thing.key if isinstance(due.thing, StoppingLeases | PastKey) else due.thing.id


def bring_about(world: World, now: float, due: Due) -> None:
    thing = due.thing
    if isinstance(thing, StoppingLeases):
        world.stopped(now, [thing])
    elif isinstance(thing, PastKey):
        world.past_keys.remove(thing)
    elif isinstance(thing, Sent):
        thing.is_over = True
    elif isinstance(thing, Host) and due.rank == REST:
        thing.rests_until = None
    elif isinstance(thing, Host) and due.rank == DRAIN:
        thing.drain_until = None
        for job in world.leases(thing.id):
            world.pause(now, job, "paused")
    elif isinstance(thing, Host):
        world.bury(now, thing)
    elif due.rank == DEADLINE:
        world.expire(now, thing)
    elif due.rank == RUN_TIMEOUT:
        error = f"run timeout of {round(thing.wish.run_timeout * 1000)} ms exceeded"
        world.fail(now, thing, error, code="timed_out", stop="timed_out")
    elif due.rank == LEASE_END:
        world.lose(now, thing, "lease expired")
    elif due.rank == PARK:
        world.parks.come_due(now, thing)
    else:
        world.come_due(now, thing)
