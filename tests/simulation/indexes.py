"""Everything that the core derives from its tasks, recounted from the tasks alone.

`recount` looks into the private structures of a `Scheduler` and compares each with what a walk over all tasks finds:
the table, agents, ready queue, deadlines, leases of hosts, retention, batches, and the counts. It knows how the core
stores things, and takes no figure of the core's for granted. Who waits for tasks is recounted in `offer_indexes`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from math import floor

from taskyard_server.core.agents import Agent
from taskyard_server.core.queue.lane import MIN_ENTRIES_TO_COMPACT, Lane, Rows
from taskyard_server.core.queue.lane_order import BLOCK
from taskyard_server.core.queue.strands import Strand
from taskyard_server.core.retention import RetainedTasks
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import Task
from taskyard_server.core.timers import Holder, Looks, TimerQueue

from .page_indexes import recount_pages

FORM_OF_AN_ID = re.compile("tsk_[0-9a-f]{32}")
ENDED = {"done", "failed", "cancelled", "rejected"}
FLYING = {"assigned", "running"}
WAITING = {"pending", "queued"}
TICKING = {"pending", "queued", "assigned", "running", "parked"}


def same(what: str, found: object, expected: object) -> None:
    """Fail, naming what differs."""
    if found != expected:
        raise AssertionError(f"{what}: the core has {found!r}, expected {expected!r}")


def recount(core: Scheduler) -> None:
    """Raise AssertionError, naming the structure, if any index or count of the core is not what its tasks say."""
    tasks = list(core.tasks_after(0))
    _table(core, tasks)
    _agents(core, tasks)
    _ready(core, tasks)
    _timers(core, tasks)
    _leases(core, tasks)
    _kept("ended", core._life.retention.ended, [task for task in tasks if is_kept(core, task)])
    _kept("rejected", core._life.retention.rejected, [task for task in tasks if task.state == "rejected"])
    _batches(core, tasks)
    _families(core, tasks)
    keyed = [((task.agent.id, task.options.key.key), task.id) for task in tasks if _has_key(task)]
    keyed += [((task.agent.id, bound.key), task.id) for task in tasks for bound in task.history.bound]
    same("keys", sorted((key, task.id) for key, task in core._life.tasks.by_key.items()), sorted(keyed))
    _past_keys(core)
    same("count of queued", core._life.counts.queued, sum(task.state in WAITING for task in tasks))
    same("count of paused", core._life.counts.paused, sum(task.state == "paused" for task in tasks))
    same("count in flight", core._life.counts.inflight, sum(task.state in FLYING for task in tasks))


def bounded(core: Scheduler, task: Task, kinds_before: Collection[Hashable], *, new_agent: bool) -> None:
    """Check what a task that was just accepted leaves behind: callers make up kinds and agents, so both are swept."""
    buckets = core._life.ready._buckets
    if task.lane is None:
        return
    bucket = task.lane.bucket
    if bucket.kind not in kinds_before:
        waiting = sum(other.waiting > 0 or other.strands > 0 for other in buckets.values() if other is not bucket)
        same(
            f"{len(buckets)} buckets, {waiting} in use", len(buckets) <= 2 * waiting + MIN_ENTRIES_TO_COMPACT + 1, True
        )
    if new_agent:
        same(
            f"{bucket.lanes} lanes, {bucket.waiting} in use",
            bucket.lanes <= 2 * bucket.waiting + MIN_ENTRIES_TO_COMPACT,
            True,
        )


def _families(core: Scheduler, tasks: list[Task]) -> None:
    """Live tasks stand below their parents; what has ended stands there only where something stands below it."""
    children = core._life.children
    found = {name: parent for parent, below in children._below.items() for name in below}
    same("parents", children._parents, found)
    live = {name: task for below in children._below.values() for name, task in below.items() if task is not None}
    same("live children", live, {task.id: task for task in tasks if task.options.parent_id and task.state not in ENDED})
    same("ended ones with nothing below", [name for name in found if name not in live | children._below], [])
    same("parents of nobody", [parent for parent, below in children._below.items() if not below], [])


def _past_keys(core: Scheduler) -> None:
    past = core._life.past_keys._by_name
    same("keys that are of the past, too", past.keys() & core._life.tasks.by_key.keys(), set())
    same("names of past keys", [key.name for key in past.values()], [*past])
    recount_timer("past keys", core._life.past_keys._due, {key: key.until for key in past.values()})


def is_claimable(core: Scheduler, task: Task) -> bool:
    """True if it waits for a host only."""
    target = task.options.target
    return task.state == "queued" and (target is None or core._life.targets._targets[target].head is task)


def is_kept(core: Scheduler, task: Task) -> bool:
    """True if it has ended and may be forgotten with time."""
    is_aside = task in core._life.retention.aside
    return task.state in ENDED and task.state != "rejected" and not core._life.targets.blocks(task) and not is_aside


def _has_key(task: Task) -> bool:
    return task.options.key is not None and task.state != "rejected"


def _ids(tasks: Iterable[Task]) -> list[str]:
    return [task.id for task in tasks]


def _once(what: str, things: Collection[Hashable]) -> None:
    """Fail if anything stands there twice."""
    if len(set(things)) < len(things):
        same(f"{what} twice", [thing for thing, count in Counter(things).items() if count > 1], [])


def _table(core: Scheduler, tasks: list[Task]) -> None:
    orders = [task.seq for task in tasks]
    same("order of the table", orders, sorted(set(orders)))
    same("order of the ids", _ids(tasks), sorted(_ids(tasks)))
    same("ids of another form", [task.id for task in tasks if not FORM_OF_AN_ID.fullmatch(task.id)], [])
    recount_pages(core, same)
    for task in tasks:
        if core.get(task.id) is not task:
            raise AssertionError(f"the table leads from {task.id} to another task")


def _agents(core: Scheduler, tasks: list[Task]) -> None:
    owned: dict[str, list[Task]] = {}
    for task in tasks:
        owned.setdefault(task.agent.id, []).append(task)
    same("agents", set(core._life.agents.by_id), set(owned))
    for name, agent in core._life.agents.by_id.items():
        its = owned[name]
        same(f"tasks of another {name}", [task.id for task in its if task.agent is not agent], [])
        states = Counter(str(task.state) for task in its)
        same(f"tasks of {name}", agent.tasks, len(its))
        same(f"queued of {name}", agent.queued, states["pending"] + states["queued"])
        same(f"in flight of {name}", agent.inflight, states["assigned"] + states["running"])
        same(f"rank of {name}", agent.rank, _rank(core, agent))
    _once("ranks", [agent.rank for agent in core._life.agents.by_id.values()])


def _rank(core: Scheduler, agent: Agent) -> int:
    """In flight, of the weight where there are weights; what it has passed; when it was served. Limits stand above."""
    place, weights = agent.rank & (1 << 48) - 1, core._life.ready.weights
    if not weights.in_force:
        return agent.inflight << 48 | place
    at_limit = agent.inflight >= core.limits.max_per_agent_inflight
    return at_limit << 224 | (agent.inflight * 2**21 // agent.weight) << 144 | agent.passed << 48 | place


def _ready(core: Scheduler, tasks: list[Task]) -> None:
    ready = core._life.ready
    found: list[Task] = []
    lanes: set[Lane] = set()
    for kind, bucket in ready._buckets.items():
        same("kind of a bucket", bucket.kind, kind)
        entries = [lane.entry for lane in bucket.order]
        same("order of a bucket", entries, sorted(set(entries), reverse=True))
        blocks = [len(block) for block in bucket.order._blocks]
        same("blocks of a bucket", (all(blocks) or blocks == [0], max(blocks) <= BLOCK), (True, True))
        lanes.update(bucket.order)
        same("lanes of a bucket", bucket.lanes, len(entries))
        same("waiting lanes of a bucket", bucket.waiting, sum(lane.is_waiting for lane in bucket.order))
        for lane in bucket.order:
            same("bucket of a lane", (lane.bucket is bucket, lane.agent.lane_in(bucket) is lane), (True, True))
            found += _lane(core, lane)
    busy = sum(bucket.waiting > 0 or bucket.strands > 0 for bucket in ready._buckets.values())
    same("buckets in use", ready._busy_buckets, busy)
    known = {lane for agent in core._life.agents.by_id.values() for lane in agent.lanes}
    alone = {lane for lane in known - lanes if lane.is_empty or lane.is_waiting}
    same("lanes of agents that stand in no bucket", alone, set())
    for strand in {task.lane for task in tasks if isinstance(task.lane, Strand)}:
        found += _lane(core, strand)
    queued = [task for task in tasks if is_claimable(core, task)]
    same("ready queue", sorted(_ids(found)), sorted(_ids(queued)))
    same("tasks with a lane", _ids(task for task in tasks if task.lane is not None), _ids(queued))
    for profile, buckets in ready._eligible.items():
        fit = [bucket for bucket in ready._buckets.values() if profile.may_run(*bucket.kind[:4])]
        same("buckets of a profile", sorted(map(id, buckets)), sorted(map(id, fit)))


def _lane(core: Scheduler, lane: Rows) -> list[Task]:
    """The ready tasks of a lane or a strand."""
    same("rows of a lane", [row.priority for row in lane.rows()], sorted({row.priority for row in lane.rows()})[::-1])
    places: list[Task] = []
    live: list[Task] = []
    for row in lane.rows():
        same("places that were given up", row.tasks[: row.first], [None] * row.first)
        of_row = [task for task in row.tasks[row.first :] if task is not None]
        same("places of a row", (len(of_row), bool(of_row)), (len(row.tasks) - row.first, True))
        same("last of a row", row.last, row.tasks[-1].seq)
        # A place that its task has left for another priority is held by none.
        same("order of a row", [task.seq for task in of_row], sorted({task.seq for task in of_row}))
        live += [task for task in of_row if lane._holds(task, row)]
        places += of_row
    tasks = live
    same("size of a lane", (lane.size, lane._slots), (len(live), len(places)))
    same("places of tasks that left are few", len(places) - len(live) <= len(live) + MIN_ENTRIES_TO_COMPACT, True)
    for task in live:
        same("owner of a lane", task.agent is lane.agent, True)
        options = task.options
        kind = (options.project, task.action, options.requires, task.tab_id is not None, options.trigger_id is not None)
        same("kind of a task", kind, lane.bucket.kind)
    if live:
        same("head of a lane is live", lane.head().lane is lane, True)
        same("agent of a lane is known", core._life.agents.by_id.get(lane.agent.id) is lane.agent, True)
    if isinstance(lane, Lane) and lane.is_waiting and not 0 < lane.entry <= lane.agent.rank:
        raise AssertionError(f"lane of {lane.agent.id} waits behind its rank")
    return tasks


def is_heap(what: str, heap: list[object]) -> None:
    """Fail, naming the entries that come before their parents."""
    bad = [at for at in range(1, len(heap)) if heap[at] < heap[(at - 1) // 2]]
    same(f"places in the heap of {what} that are out of order", bad, [])


def _timers(core: Scheduler, tasks: list[Task]) -> None:
    deadlines = {task: task.deadline for task in tasks if task.state in TICKING and task.deadline is not None}
    same("claimable tasks with no deadline", [*_ids(t for t in tasks if t.lane and t.deadline is None)], [])
    its = core._life.deadlines
    recount_looks("deadlines", its.pages, its._due, {task: (task.page, at) for task, at in deadlines.items()})
    timeouts = core._life.attempts.timeouts
    running = {task.lease for task in tasks if task.state == "running" and task.options.run_timeout_secs is not None}
    same("leases with a run timeout", timeouts._ends.keys() == running, True)
    recount_timer("run timeouts", timeouts._timers, timeouts._ends)


def recount_looks(
    what: str, looks: Looks[Holder], found: TimerQueue, due: Mapping[Hashable, tuple[Holder, float]]
) -> None:
    """Fail unless each thing is looked for no later than it is due, or was found to be."""
    holders = {holder for items in looks.holders._due.values() for holder in items}
    recount_timer(f"holders of {what}", looks.holders, {holder: holder.look_at for holder in holders})
    known = {item for items in found._due.values() for item in items}
    late = [item for item, (holder, at) in due.items() if item not in known and not holder.look_at <= at]
    same(f"{what} that nobody looks for", late, [])


def recount_timer(what: str, timers: TimerQueue, due: Mapping[Hashable, float]) -> None:
    """Fail unless the timers hold just these items at these times, and little more."""
    entries = [(item, tick) for tick, items in timers._due.items() for item in items]
    same(f"number of {what}", len(entries), len(due))
    same(f"items of {what}", {item for item, _ in entries} == due.keys(), True)
    same(f"ticks of {what}", [tick for _, tick in entries], [floor(8 * due[item]) + 1 for item, _ in entries])
    same(f"empty ticks of {what}", [tick for tick, items in timers._due.items() if not items], [])
    is_heap(what, timers._ticks)
    same(f"stale ticks of {what} are few", len(timers._ticks) <= 2 * len(timers._due) + 64, True)
    same(f"ticks of {what} without a place in the heap", set(timers._due) - set(timers._ticks), set())


def _leases(core: Scheduler, tasks: list[Task]) -> None:
    flying = [task for task in tasks if task.state in FLYING]
    same("tasks with a lease", _ids(task for task in tasks if task.lease is not None), _ids(flying))
    numbers = [host.number for host in core.hosts]
    same("numbers of hosts", numbers, sorted(set(numbers)))
    held = [(task_id, lease) for host in core.hosts for task_id, lease in host.leases.items()]
    same("leases of hosts", sorted(task_id for task_id, _ in held), sorted(_ids(flying)))
    for task_id, lease in held:
        same(f"lease of {task_id}", (lease.task.id, lease.task.lease is lease), (task_id, True))
        same(f"token of {task_id}", lease.token, lease.task.token)
        same(f"holder of {task_id}", core.hosts.get(lease.host.id) is lease.host, True)
        same(f"place of the lease of {task_id}", lease.host.leases.get(task_id) is lease, True)


def _kept(what: str, kept: RetainedTasks, tasks: list[Task]) -> None:
    entries = in_line(kept)
    same(f"retention of {what}", sorted(_ids(entries)), sorted(_ids(tasks)))
    times = [task.completed_at for task in entries]
    same(f"order of the retention of {what}", times, sorted(times))
    same(f"length of the retention of {what}", len(kept), len(tasks))


def _batches(core: Scheduler, tasks: list[Task]) -> None:
    batches: dict[str, list[Task]] = {}
    for task in tasks:
        if task.options.batch_id is not None:
            batches.setdefault(task.options.batch_id, []).append(task)
    same("batches", set(core._life.tasks.batches._batches), set(batches))
    for batch_id, its in batches.items():
        batch = core.batch(batch_id)
        same("id of a batch", batch.id, batch_id)
        same(f"tasks of {batch_id}", list(batch.tasks), _ids(its))
        same(f"states of {batch_id}", batch.states(), Counter(task.state for task in its))
        same(f"end of {batch_id}", batch.ended(), all(task.state in ENDED for task in its))
        same(f"owner of {batch_id}", {task.agent.id for task in its}, {batch.agent_id})


def in_line(kept: RetainedTasks) -> list[Task]:
    """The retained tasks, oldest first, without the places that tasks left behind."""
    left, tasks = dict(kept._stale), []
    for task in kept._entries:
        if left.get(task):
            left[task] -= 1
        else:
            tasks.append(task)
    same("retained tasks", (len(kept), [task.retained for task in tasks]), (len(tasks), [True] * len(tasks)))
    same("places left behind", sum(left.values()), 0)
    same("the first place is no such", [*kept._entries][:1], tasks[:1])
    return tasks
