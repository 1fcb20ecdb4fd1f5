"""Why a task waits is told right: lifting all reasons makes it runnable, lifting all but any one does not.

A reason is lifted in a twin of the model's world: a limit is raised, a hold is released, a host comes. What it means to
be runnable the twin says by itself, from docs/rules.md alone (Claim order, Why a task waits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from math import inf
from typing import Final

from taskyard_server.core.figures.explain import Explanation, WaitReason, explain
from taskyard_server.core.scheduler import Scheduler
from tests.core.queue.naive_keys import RateLimit

from .indexes import same
from .model import Model
from .model_families import Families
from .model_parks import Parks
from .model_records import Host, Job, Machine, Offer, may_run
from .model_relations import Relations
from .world import World

COMES: Final = "the host that comes"


def explained(core: Scheduler, model: Model, now: float, task_id: str) -> list[str]:
    """Raise AssertionError if a waiting task is explained wrong. Returns the kinds of its reasons."""
    explanation = explain(core, now, core.get(task_id))
    reasons = explanation.reasons
    kinds = [reason.kind.value for reason in reasons]
    job = model.world.tasks[task_id]
    if job.state == "parked":
        _parked(model.world, job, explanation)
        return [f"parked for {kind}" for kind in kinds]
    same(f"runnable as {task_id} is", explanation.runnable, is_runnable(model.world, now, task_id))
    if not explanation.runnable:
        same(f"runnable once {kinds} of {task_id} are lifted", lifted(model.world, now, task_id, reasons), True)
    for reason in reasons:
        others = [other for other in reasons if other is not reason]
        what = f"runnable once all of {kinds} but {reason.kind.value} of {task_id} are lifted"
        same(what, lifted(model.world, now, task_id, others), False)
    return kinds


def _parked(world: World, job: Job, told: Explanation) -> None:
    """What a parked task waits for has no limit to be lifted: it is told as it is."""
    found = [(reason.kind.value, reason.name, reason.until, list(reason.task_ids)) for reason in told.reasons]
    expected = [(wait.kind, wait.name, wait.until, world.parks.live(wait)) for wait in job.waits]
    same(f"what {job.id} is parked for", found, expected)
    same(f"runnable and place of {job.id}, which is parked", (told.runnable, told.ahead), (False, None))


def lifted(world: World, now: float, task_id: str, reasons: Sequence[WaitReason]) -> bool:
    """True if a task is runnable once these reasons are lifted, and nothing else has changed."""
    world = twin(world)
    job = world.tasks[task_id]
    # Where a task comes to its target, that is to be free by then.
    for reason in sorted(reasons, key=lambda reason: list(LIFTS).index(reason.kind.value)):
        LIFTS[reason.kind.value](world, now, job, reason)
    return is_runnable(world, now, task_id)


def is_runnable(world: World, now: float, task_id: str) -> bool:
    """True if a host that is live and has room would get a task, were it the first of all."""
    job, limits = world.tasks[task_id], world.limits
    return (
        job.state == "queued"
        and (job.target is None or job.is_head)
        and not world.draining
        and len(world.flying()) < limits["max_inflight"]
        and len(world.flying(job.wish.agent)) < limits["max_per_agent_inflight"]
        and bool(world.without_full_keys(now, [job]))
        and any(_takes(world, now, offer, job) for offer in world.offers)
    )


def _takes(world: World, now: float, offer: Offer, job: Job) -> bool:
    host = world.hosts[offer.host]
    if offer.room <= 0 or host.draining or offer.project not in (None, job.wish.project):
        return False
    if offer.silence_limit_secs is not None:
        silent_secs = now - host.heard_at
        if host.rests_until is not None or silent_secs > offer.silence_limit_secs or world.is_dead(now, host):
            return False
    return may_run(world.as_it_is(now, host.machine), job.wish)


def twin(world: World) -> World:
    """The same world, in which something may be changed."""
    made = copy(world)
    made.limits = dict(world.limits)
    made.tasks = {task_id: copy(job) for task_id, job in world.tasks.items()}
    made.agents = {name: replace(agent, counts=agent.counts.copy()) for name, agent in world.agents.items()}
    made.hosts, made.offers, made.stopping = dict(world.hosts), list(world.offers), list(world.stopping)
    made.ended, made.counts = list(world.ended), world.counts.copy()
    made.happened, made.stops = [], []
    made.families, made.relations = Families(made.tasks), Relations(made)
    made.parks = Parks(made)
    made.relations.aside += world.relations.aside
    made.keys = deepcopy(world.keys)
    return made


def _free_target(world: World, now: float, job: Job, _: WaitReason) -> None:
    """All others of its target are of none, whatever they do."""
    for other in world.tasks.values():
        if other is not job and other.target == job.target:
            other.wish = replace(other.wish, target=None)
            other.blocks = other.is_head = False
    world.stopping = [lease for lease in world.stopping if lease.job.wish.target != job.target]
    world.settle(now, job.target)


def _release(world: World, now: float, job: Job, _: WaitReason) -> None:
    job.held = False
    _go_on(world, now, job)


def _come_due(world: World, now: float, job: Job, _: WaitReason) -> None:
    job.due = None
    _go_on(world, now, job)


def _end_others(world: World, now: float, job: Job, _: WaitReason) -> None:
    job.after = ()
    _go_on(world, now, job)


def _go_on(world: World, now: float, job: Job) -> None:
    if not job.held and (job.due is None or job.due <= now) and not world.relations.waits(job):
        world.come_due(now, job)


def _resume(world: World, now: float, job: Job, _: WaitReason) -> None:
    world.resume(now, job)


def _raise(limit: str) -> Callable[[World, float, Job, WaitReason], None]:
    def lift(world: World, now: float, job: Job, reason: WaitReason) -> None:
        del now, job
        same(f"limit {limit} of a reason", reason.limit, world.limits[limit])
        world.limits[limit] = inf

    return lift


def _give_places(world: World, now: float, job: Job, reason: WaitReason) -> None:
    """A limit for this key alone, which leaves it any number of places."""
    del now, job
    limit = _limit_of(world, reason)
    same(f"places of {reason.name}", reason.limit, limit.places)
    world.keys.limits[reason.name or ""] = replace(limit, places=None)


def _give_tokens(world: World, now: float, job: Job, reason: WaitReason) -> None:
    """A limit for this key alone, without a rate. The time that was told is when it has a token."""
    del job
    limit, name, until = _limit_of(world, reason), reason.name or "", reason.until or 0.0
    same(f"rate of {name}", reason.limit, limit.rate)
    same(f"tokens of {name} just before they come", (world.keys.tokens(until - 1e-3, name) or 0) < 1, True)
    same(f"tokens of {name} when they come", (world.keys.tokens(until + 1e-3, name) or 0) >= 1 or until < now, True)
    world.keys.limits[name] = replace(limit, rate=None)


def _limit_of(world: World, reason: WaitReason) -> RateLimit:
    """The limit of a key, which has one of its own from now on, and the tokens that it had."""
    keys, name = world.keys, reason.name or ""
    pattern = keys.pattern(name)
    assert pattern is not None, f"{name} has no limit"
    limit = keys.limits[pattern]
    if limit.rate is not None:
        keys._unused[name] = keys._used.get(name, keys._unused[pattern])
    keys.limits[name] = limit
    return limit


def _open(world: World, now: float, job: Job, reason: WaitReason) -> None:
    del now, job, reason
    world.draining = False


def _bring_host(world: World, now: float, job: Job, _: WaitReason) -> None:
    """A host that may run it, and nothing else than it must for that, waits for tasks."""
    wish = job.wish
    machine = Machine(wish.requires, wish.project, frozenset({wish.action}))
    world.hosts[COMES] = Host(COMES, machine, COMES, now, now)
    world.offers.append(Offer(world.number(), COMES, 1, 60.0, world.number()))


LIFTS: Final[dict[str, Callable[[World, float, Job, WaitReason], None]]] = {
    "target": _free_target,
    "paused": _resume,
    "held": _release,
    "after": _end_others,
    "not_due": _come_due,
    "agent_limit": _raise("max_per_agent_inflight"),
    "max_inflight": _raise("max_inflight"),
    "key_inflight": _give_places,
    "key_rate": _give_tokens,
    "draining": _open,
    "no_host": _bring_host,
    "no_action": _bring_host,
    "no_credit": _bring_host,
    "deadlock": _bring_host,
}
