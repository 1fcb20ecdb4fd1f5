"""What parked tasks wait for, recounted from the tasks of a `Scheduler` alone."""

from __future__ import annotations

from taskyard_server.core.runs.awaited_ends import EARLIER, AwaitedEnds
from taskyard_server.core.runs.events import SentEvents
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import Task

from .indexes import ENDED, recount_timer, same


def recount_parks(core: Scheduler) -> None:
    """Raise AssertionError, naming the structure, if it is not what the tasks say."""
    tasks = list(core.tasks_after(0))
    parks, parked = core._life.parks, [task for task in tasks if task.state == "parked"]
    same("count of parked", core._life.counts.parked, len(parked))
    same("parked tasks that hold anything", [task.id for task in parked if task.lease or task.lane], [])
    untils: dict[Task, float] = {}
    for task in parked:
        park = task.history.park
        assert park is not None, f"{task.id} is parked, and waits for nothing"
        times = [wait.until for wait in park.waits if wait.until is not None]
        if times:
            untils[task] = min(times)
    recount_timer("parked tasks", parks._timers, untils)
    _recount_ends(parks.ends, tasks, parked)
    _recount_events(parks.events, parked)
    asking = [task for task in tasks if (park := task.history.park) and any(w.kind == "answer" for w in park.waits)]
    same("tasks with open questions", list(parks.asking_after(0)), asking)
    rest = [task for task in tasks if isinstance(task._history, bytes)]
    same("tasks whose history is packed", rest, parked)
    open_ones = [task.id for task in tasks if task.state in ENDED and (park := task.history.park) and park.waits]
    same("ended tasks with open waits", open_ones, [])


def _recount_ends(ends: AwaitedEnds, tasks: list[Task], parked: list[Task]) -> None:
    live = {task.id for task in tasks if task.state not in ENDED}
    resumed = {task.id for task in tasks if task.history.run > 1}
    waiting: list[Task] = []
    told: dict[str, set[Task]] = {}
    for task in parked:
        park = task.history.park
        assert park is not None
        its = [{*wait.about} for wait in park.waits if wait.kind == "ends"]
        found = ends._unended.get(task, [])
        same(f"sets that {task.id} waits for", (len(found), all(found)), (len(its), True))
        for about, untold in zip(its, found, strict=True):
            same(f"strangers that {task.id} waits for", untold - about - {EARLIER}, set())
            # Of one that had ended and was resumed no note is taken, until the last of the others ends.
            same(f"tasks that {task.id} does not wait for", (about - untold) & live - resumed, set())
        waiting += [task] * bool(its)
        for each in {each for untold in found for each in untold}:
            told.setdefault(each, set()).add(task)
    same("tasks that wait for others to end", {*ends._unended}, {*waiting})
    awaited = {each: its for each, its in told.items() if each in live}
    same("parked tasks by what they wait for", {each: {*its} for each, its in ends._awaited.items()}, awaited)
    noted = {each: its for each, its in told.items() if each not in live}
    same("parked tasks by what has ended", {each: {*its.waiting} for each, its in ends._noted.items()}, noted)
    for each in [each for each in ends._noted.values() if each.is_in_order]:
        orders = [task.seq for task in each.waiting]
        same("order of those that have their turns", orders, sorted(orders, reverse=True))


def _recount_events(events: SentEvents, parked: list[Task]) -> None:
    kept = events.all()
    same("bytes of events", events._bytes, sum(len(each.payload) for each in kept))
    same("events by name", [each for its in events._by_name.values() for each in its.values() if each not in kept], [])
    same("last event", events.last_number >= max((each.number for each in kept), default=0), True)
    due: dict[int, set[str]] = {}
    waiting: dict[str, set[str]] = {}
    for task in parked:
        park = task.history.park
        assert park is not None
        for name in {name for wait in park.waits if wait.kind == "event" for name in wait.about}:
            last = dict(park.heard).get(name, 0)
            its = [each for each in kept if each.name == name and each.number > last and each.is_for(task, park.since)]
            if its:
                due.setdefault(min(each.number for each in its), set()).add(task.id)
            else:
                waiting.setdefault(name, set()).add(task.id)
    same("events that are due", {each.number: {task.id for task in each.due} for each in events._due}, due)
    same("tasks with an event that nobody knows", [each for each in kept if each.due and each not in events._due], [])
    same(
        "tasks that wait for events",
        {name: {task.id for task in its} for name, its in events._waiting.items()},
        waiting,
    )
    timed = {each: each.until for each in kept if not each.has_ended}
    recount_timer("events", events._timers, timed)
