"""Where the core and the model must agree after a step: every task, host and figure that either holds."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.stats import Totals
from taskyard_server.core.task import Task

from .indexes import same
from .model import FLYING, Model
from .plain import AGENT_COUNTERS, COUNTERS, FIELDS, of_job, of_task, plain
from .watch import Moved


def agree(core: Scheduler, model: Model, now: float, moved: Sequence[Moved], tasks: Sequence[Task]) -> None:
    """Raise AssertionError, naming what differs. `moved` and `tasks` are the core's."""
    same("transitions", sorted((at, task.id, state) for at, task, state in moved), sorted(model.happened))
    if [*map(of_task, tasks)] != [*map(of_job, model.tasks.values())]:
        _differ(tasks, model)
    counters = core._life.counters
    for name in COUNTERS:
        same(f"counter {name}", getattr(counters, name), model.counts[name])
    same("sum of latencies", counters.dispatch_latency_secs, model.latency)
    same("limited_by", core.limited_by, model.limited_by())
    same("hosts", [*map(plain, core.hosts)], [*map(plain, model.hosts.values())])
    timeout, dead_after = core.limits.heartbeat_timeout_secs, core.limits.dead_heartbeat_threshold
    same("any host online", core.hosts.any_online(now, timeout), model.any_online(now))
    statuses = [model.status(now, host) for host in model.hosts.values()]
    same("status of hosts", [host.status(now, timeout, dead_after) for host in core.hosts], statuses)
    online = [now - host.heard_at <= timeout for host in model.hosts.values()]
    same("hosts online", [host.online(now, timeout) for host in core.hosts], online)
    _due(core.next_due(), model, now)


def _due(due: float | None, model: Model, now: float) -> None:
    """The core asks to be woken for the first task that is due, or before that when the last runtime host is silent.

    From then on the tab executor may take more (DESIGN, The tab executor); it learns of that within a second.
    """
    tasks, silence = model.next_due(), model.silent_from()
    if silence is not None and (tasks is None or silence < tasks):
        if model.any_online(now) and (due is None or due > silence + 1):
            raise AssertionError(
                f"next_due: the core has {due!r}, but the last runtime host is silent from {silence!r}"
            )
        if due is not None and silence <= due <= silence + 1 and (tasks is None or due <= tasks):
            return
    same("next_due", due, tasks)


def _differ(tasks: Sequence[Task], model: Model) -> None:
    same("tasks", [task.id for task in tasks], list(model.tasks))
    for task, job in zip(tasks, model.tasks.values(), strict=True):
        for name, found, expected in zip(FIELDS, of_task(task), of_job(job), strict=True):
            same(f"{name} of {task.id}", found, expected)


def figures_agree(core: Scheduler, model: Model) -> None:
    """The figures that are handed out, and the order in which tasks will be forgotten."""
    stats, load = core.stats(), (model.queued(), len(model.flying()))
    same("queued and in flight", (stats.queued, stats.inflight), load)
    same("agents of the stats", set(stats.agents), set(model.agents))
    for name, its in stats.agents.items():
        found = {each: getattr(its, each) for each in AGENT_COUNTERS}
        same(f"counters of {name}", found, {each: model.agents[name].counts[each] for each in found})
        same(f"load of {name}", (its.queued, its.inflight), (model.queued(name), len(model.flying(name))))
    dispatched = model.counts["dispatched"]
    same("average latency", stats.avg_dispatch_latency_ms, model.latency / dispatched * 1000 if dispatched else 0.0)
    same("leases", [lease.task.id for lease in core.leases_after(0)], [job.id for job in model.leases()])
    for host_id in model.hosts:
        its = model.leases(host_id)
        found = [lease.number for lease in core.leases_after(its[0].grant if its else 0, host_id)]
        same(f"later leases of {host_id}", found, [job.grant for job in its[1:]])
    same("order of the ended", [task.id for _, task in core._life.ended._ended], model.ended)
    same("order of the rejected", [task.id for _, task in core._life.rejected._ended], model.rejected)
    totals = Totals()
    core.add_to(totals)
    core.add_to(totals)
    found = (totals.queued, totals.inflight, totals.retained, totals.namespaces)
    retained = len(model.ended) + len(model.rejected)
    same("totals of two namespaces", found, (*(2 * each for each in (*load, retained)), 2))
    for name in COUNTERS:
        same(f"{name} of two namespaces", getattr(totals.counters, name), 2 * model.counts[name])


def within_limits_for_one_more(limits: Limits, before: Sequence[tuple[str, str]], agent: str) -> None:
    """Raise AssertionError if admission had to refuse a task. `before`: the states and agents of all other tasks."""
    queued = [name for state, name in before if state == "queued"]
    if len(queued) >= limits.max_queue_size or queued.count(agent) >= limits.max_per_agent:
        raise AssertionError(f"admitted over a limit: {len(queued)} queued, {queued.count(agent)} of {agent}")


def within_limits_in_flight(limits: Limits, after: Sequence[tuple[str, str]], agents: Sequence[str]) -> None:
    """Raise AssertionError if a task of one of these agents was handed out over a limit. `after`: as above, then."""
    flying = [name for state, name in after if state in FLYING]
    most = max(flying.count(agent) for agent in agents)
    if len(flying) > limits.max_inflight or most > limits.max_per_agent_inflight:
        raise AssertionError(f"handed out over a limit: {len(flying)} in flight, {most} of one agent")
