"""Where the core and the model must agree after a step: every task, host and figure that either holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf

from taskyard_server.core.events import Event
from taskyard_server.core.figures.figures import add_to_totals, stats_of
from taskyard_server.core.hosts import Host
from taskyard_server.core.limits import Limits
from taskyard_server.core.offers import Offer
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.stats import Totals
from taskyard_server.core.task import Task

from .indexes import in_line, same
from .model import Model
from .model_events import Happened
from .model_records import FLYING, WAITING, tick_of
from .plain_values import AGENT_COUNTERS, COUNTERS, FIELDS, of_event, of_job, of_task, plain


def agree(core: Scheduler, model: Model, now: float, events: Sequence[Event], names: Mapping[Offer, int]) -> None:
    """Raise AssertionError, naming what differs. `events` are the core's, `names` the model's numbers of its offers."""
    world, tasks = model.world, list(core.tasks_after(0))
    _events_agree(events, world.happened)
    if [*map(of_task, tasks)] != [*map(of_job, world.tasks.values())]:
        _differ(tasks, model)
    asking = [job for job in world.tasks.values() if any(wait.kind == "answer" for wait in job.waits)]
    same("tasks with open questions", [task.id for task in core.parks.asking_after(0)], [job.id for job in asking])
    asked = sum(wait.kind == "answer" for job in asking for wait in job.waits)
    since = min((job.parked_at for job in asking if job.parked_at is not None), default=inf)
    same("open questions", core.parks.open_questions(), (asked, since))
    counters = core._life.counters
    for name in COUNTERS:
        same(f"counter {name}", getattr(counters, name), world.counts[name])
    same("sum of latencies", counters.dispatch_latency_secs, world.latency)
    sure, perhaps = model.limited_by(now)
    # Tokens that came since then are not known before the next command.
    is_behind = core._life.ready.keys.has_rates and core._life.ready.keys.now < now
    if core.limited_by not in (sure, perhaps) and not is_behind:
        same("limited_by", core.limited_by, sure)
    hosts = list(core.hosts)
    model.forget_vanished(now, [host.id for host in hosts])
    same("hosts", [*map(plain, hosts)], [*map(plain, world.hosts.values())])
    timeout, dead_after = core.limits.heartbeat_timeout_secs, core.limits.dead_heartbeat_threshold
    same("any host online", core._life.liveness.any_online(now), world.any_online(now))
    statuses = [model.status(now, host) for host in world.hosts.values()]
    same("status of hosts", [host.status(now, timeout, dead_after) for host in hosts], statuses)
    online = [host.lost_at is None and now - host.heard_at <= timeout for host in world.hosts.values()]
    same("hosts online", [host.online(now, timeout) for host in hosts], online)
    _offers_agree(hosts, model, names)
    _due(core, model, now)


def _events_agree(events: Sequence[Event], happened: Sequence[Happened]) -> None:
    for event, expected in zip(events, happened, strict=False):
        same("event", of_event(event), expected)
    same("number of events", len(events), len(happened))


def _offers_agree(hosts: Sequence[Host], model: Model, names: Mapping[Offer, int]) -> None:
    """Who waits for how much, and to which stream a lease belongs."""
    found = [
        (names[offer], offer.host.id, offer.room, offer.secs, offer.silence_limit_secs, offer.project)
        for host in hosts
        for offer in host.offers
    ]
    offers = model.world.offers
    expected = [(its.number, its.host, its.room, its.secs, its.silence_limit_secs, its.project) for its in offers]
    same("offers", sorted(found), sorted(expected))
    sessions = {host.id: names[host.stream] for host in hosts if host.stream is not None}
    same("streams", sessions, {offer.host: offer.number for offer in offers if offer.streamed})
    leases = [lease for host in hosts for lease in host.leases.values() if lease.stream is not None]
    belongs = {lease.task.id: names[lease.stream] for lease in leases}
    flying = model.world.flying()
    same("streams of leases", belongs, {job.id: job.stream for job in flying if job.stream is not None})


def _due(core: Scheduler, model: Model, now: float) -> None:
    """The core asks to be woken for the first thing that is due, or before that when the last runtime host is silent.

    From then on the tab executor may take more (docs/rules.md, Tab executor); it learns of that within a second. And it
    asks to be woken for a look at a host that may be dead by then, and need not be.
    """
    due, silence = core.next_due(), model.silent_from()
    life = core._life
    parts = (life.predecessors, life.children.ends, life.parks.ends, life.parks.events)
    if any(part.next_due() is not None for part in parts):
        same(
            "next_due while tasks are to be looked at for what they come after, end with, wait for or were sent",
            due is not None and due <= now,
            True,
        )
        return
    same("tasks that the core has not looked at", [job.id for job in model.world.relations.overdue()], [])
    same("tasks that wait for others", stats_of(core).after_others, model.world.relations.count())
    first = model.next_due()
    looks = [tick_of(at) / 8 for host in core.hosts for at in (host.silence_at, host.forget_at) if at is not None]
    keys = core._life.ready.keys.next_due()
    tasks = min([*looks, *[at for at in (first, keys) if at is not None]], default=None)
    if silence is not None and (tasks is None or silence < tasks):
        if model.world.any_online(now) and (due is None or due > silence + 1):
            raise AssertionError(
                f"next_due: the core has {due!r}, but the last runtime host is silent from {silence!r}"
            )
        if due is not None and silence <= due <= silence + 1 and (tasks is None or due <= tasks):
            return
    same("next_due", due, tasks)


def _differ(tasks: Sequence[Task], model: Model) -> None:
    same("tasks", [task.id for task in tasks], list(model.world.tasks))
    for task, job in zip(tasks, model.world.tasks.values(), strict=True):
        for name, found, expected in zip(FIELDS, of_task(task), of_job(job), strict=True):
            same(f"{name} of {task.id}", found, expected)


def figures_agree(core: Scheduler, model: Model) -> None:
    """The figures that are handed out, and the order in which tasks will be forgotten."""
    world, stats = model.world, stats_of(core)
    load = (world.queued(), len(world.flying()))
    same("queued and in flight", (stats.queued, stats.inflight), load)
    same("paused", stats.paused, sum(job.state == "paused" for job in world.tasks.values()))
    parked = sum(job.state == "parked" for job in world.tasks.values())
    same("parked", stats.parked, parked)
    same("agents of the stats", set(stats.agents), set(world.figures))
    queued = Counter(job.wish.agent for job in world.tasks.values() if job.state in WAITING)
    flying = Counter(job.wish.agent for job in world.flying())
    for name, its in stats.agents.items():
        found = {each: getattr(its, each) for each in AGENT_COUNTERS}
        same(f"counters of {name}", found, {each: world.figures[name][each] for each in found})
        same(f"load of {name}", (its.queued, its.inflight), (queued[name], flying[name]))
    dispatched = world.counts["dispatched"]
    same("average latency", stats.avg_dispatch_latency_ms, world.latency / dispatched * 1000 if dispatched else 0.0)
    same("leases", [lease.task.id for lease in core.leases_after(0)], [job.id for job in world.leases()])
    handed = [[each and each.id for each in lease.inputs] for lease in core.leases_after(0)]
    same("inputs of leases", handed, [[*job.inputs] for job in world.leases()])
    for host_id in world.hosts:
        its = world.leases(host_id)
        found = [lease.token for lease in core.leases_after(its[0].token if its else 0, host_id)]
        same(f"later leases of {host_id}", found, [job.token for job in its[1:]])
    same("order of the ended", [task.id for task in in_line(core._life.retention.ended)], world.ended)
    same("order of the rejected", [task.id for task in in_line(core._life.retention.rejected)], world.rejected)
    totals = Totals()
    add_to_totals(totals, core)
    add_to_totals(totals, core)
    same("put aside", sorted(task.id for task in core._life.retention.aside), sorted(world.relations.aside))
    named = core._life.children.named._of
    found = {parent.id: {name: each.id for name, each in its.items()} for parent, its in named.items()}
    same("children that are kept for their parents", found, world.relations.kept_children())
    retained = len(world.ended) + len(world.rejected) + len(world.relations.aside)
    found = (totals.queued, totals.inflight, totals.parked, totals.retained, totals.namespaces)
    same("totals of two namespaces", found, (*(2 * each for each in (*load, parked, retained)), 2))
    for name in COUNTERS:
        same(f"{name} of two namespaces", getattr(totals.counters, name), 2 * world.counts[name])


def within_limits_for_one_more(limits: Limits, before: Sequence[tuple[str, str]], agent: str) -> None:
    """Raise AssertionError if admission had to refuse a task. `before`: the states and agents of all other tasks."""
    queued = [name for state, name in before if state in WAITING]
    if len(queued) >= limits.max_queue_size or queued.count(agent) >= limits.max_per_agent:
        raise AssertionError(f"admitted over a limit: {len(queued)} queued, {queued.count(agent)} of {agent}")


def within_limits_in_flight(limits: Limits, after: Sequence[tuple[str, str]], agents: Sequence[str]) -> None:
    """Raise AssertionError if a task of one of these agents was handed out over a limit. `after`: as above, then."""
    flying = [name for state, name in after if state in FLYING]
    most = max(flying.count(agent) for agent in agents)
    if len(flying) > limits.max_inflight or most > limits.max_per_agent_inflight:
        raise AssertionError(f"handed out over a limit: {len(flying)} in flight, {most} of one agent")
