"""Targets, held and stopping leases, recounted from tasks and hosts; and that nothing of them is left when all is over.

`recount_targets` looks into the private structures of a `Scheduler`, as `indexes.recount` does.
"""

from __future__ import annotations

from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.targets import Target, TargetStatus
from taskyard_server.core.task import Task
from taskyard_server.core.timers import TimerOrder

from .indexes import ENDED, FLYING, recount_timer, same


def recount_targets(core: Scheduler) -> None:
    """Raise AssertionError, naming the structure, if it is not what tasks and hosts say."""
    life, tasks = core._life, list(core.tasks_after(0))
    leases = [lease for its in life.grants.stopping._by_host.values() for lease in its.values()]
    for host_id, its in life.grants.stopping._by_host.items():
        same(f"stopping leases of {host_id}", bool(its), True)
        same(f"keys of the stopping of {host_id}", list(its), [(each.task.id, each.token) for each in its.values()])
    same("stopping leases that live", [each.task.id for each in leases if each.task.lease is each], [])
    recount_timer("ends of stopping leases", life.grants.stopping._ends, {each: each.expires_at for each in leases})
    pending = [task for task in tasks if task.state == "pending" and not task.is_held]
    if life.predecessors.next_due() is None:
        due = [task for task in pending if not life.predecessors.holds_back(task)]
        recount_timer("dues", life.pending.delayed, {task: task.history.not_before for task in due})
    due = {host: host.drain_until for hosts in life.liveness._drains._due.values() for host in hosts}
    recount_timer("ends of drains", life.liveness._drains, due)
    same("hosts that drain and are gone", [host.id for host in due if core.hosts.find(host.id) is not host], [])
    named: dict[str, list[Task]] = {}
    for task in tasks:
        if task.options.target is not None:
            named.setdefault(task.options.target, []).append(task)
    for name in named.keys() | life.targets._targets.keys() | {each.task.options.target or "" for each in leases}:
        target = life.targets._targets.get(name, Target(name))
        _target(target, named.get(name, []), [each for each in leases if each.task.options.target == name])
        same(f"{name} is known", name in life.targets._targets, not target.is_over)
    same("blocked targets", life.targets.blocked, sum(bool(each.blockers) for each in life.targets._targets.values()))


def has_failed_and_blocks(task: Task) -> bool:
    """True if a task of a target has failed in a way that blocks it."""
    goes_on = task.options.extras.on_target_failure == "continue"
    return task.state == "failed" and task.started_at is not None and not goes_on


def _target(target: Target, tasks: list[Task], stopping: list[object]) -> None:
    name = target.name
    keepers = [task for task in tasks if task.keeps_target]
    running = [task for task in tasks if task.state in FLYING or task in keepers]
    waiting = [task for task in tasks if task.state == "queued" or (task.state == "pending" and task.token)]
    parked = [task for task in tasks if task.state == "pending" and not task.token]
    blockers = [task for task in tasks if task.state == "paused" or has_failed_and_blocks(task)]
    same(f"running of {name}", [] if target.running is None else [target.running], running)
    same(f"stopping of {name}", set(target.stopping), set(stopping))
    for what, found, expected in (
        ("waiting", target.waiting, waiting),
        ("aside", target.aside, parked),
        ("blockers", target.blockers.values(), blockers),
    ):
        same(f"{what} of {name}", sorted(task.id for task in found), [task.id for task in expected])
    free = not running and not stopping and not blockers
    head = waiting[0] if free and waiting and waiting[0].state == "queued" else None
    if keepers:
        head = keepers[0] if keepers[0].state == "queued" else None
    same(f"head of {name}", target.head and target.head.id, head and head.id)
    same(f"ready of {name}", [task.id for task in tasks if task.lane is not None], [head.id] if head else [])
    status = (
        TargetStatus.RUNNING
        if running
        else TargetStatus.BLOCKED
        if blockers
        else TargetStatus.STOPPING
        if stopping
        else TargetStatus.READY
        if head
        else TargetStatus.WAITING
    )
    same(f"how {name} stands", target.standing[0], status)


def nothing_stays(core: Scheduler, now: float) -> None:
    """Everything is cancelled, and hours pass: raise AssertionError if the core still keeps any of it."""
    life = core._life
    for task in [*core.tasks_after(0)]:
        if task.state not in ENDED or life.targets.blocks(task):
            core.cancel(now, task.id)
    while core.advance(now + 20_000):
        pass
    for what, kept in (
        ("tasks", [*core.tasks_after(0)]),
        ("agents", [*life.agents.by_id]),
        ("keys", [*life.tasks.by_key]),
        ("past keys", [None] * len(life.past_keys)),
        ("followers", [*life.predecessors._waiting, *life.predecessors.followers, *life.retention.aside]),
        ("children by name", [*life.children.named._of]),
        ("unique keys", [None] * len(life.unique_keys)),
        ("batches", [*life.tasks.batches._batches]),
        ("targets", [*life.targets._targets]),
        ("stopping leases", [*life.grants.stopping._by_host]),
        (
            "timers",
            [
                timers._due
                for order, timers, _ in life.timers._queues
                if timers._due and order not in (TimerOrder.FORGET_HOST, TimerOrder.HOST_REST)
            ],
        ),
        ("retained", [None] * len(life.retention)),
        ("parked", [*life.parks._timers._due, *life.parks._asking]),
        ("ends", [*life.parks.ends._awaited, *life.parks.ends._noted, *life.parks.ends._unended]),
    ):
        same(f"{what} that stay", kept, [])
    same("counts", (life.counts.queued, life.counts.inflight, life.counts.paused, life.counts.parked), (0,) * 4)
