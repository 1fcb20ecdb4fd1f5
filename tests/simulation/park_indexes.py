"""What parked tasks wait for, recounted from the tasks of a `Scheduler` alone."""

from __future__ import annotations

from taskyard_server.core.runs.events import SentEvents
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import Task

from .indexes import ENDED, recount_timer, same


def recount_parks(core: Scheduler) -> None:
    """Raise AssertionError, naming the structure, if it is not what the tasks say."""
    tasks = list(core.tasks_after(0))
    parks, parked = core._life.parks, [task for task in tasks if task.state == "parked"]
    live = {task.id for task in tasks if task.state not in ENDED}
    same("count of parked", core._life.counts.parked, len(parked))
    same("parked tasks that hold anything", [task.id for task in parked if task.lease or task.lane], [])
    waiting: set[Task] = set()
    awaited: dict[str, set[Task]] = {}
    untils: dict[Task, float] = {}
    for task in parked:
        park = task.history.park
        assert park is not None, f"{task.id} is parked, and waits for nothing"
        its = [live & {*wait.about} for wait in park.waits if wait.kind == "ends"]
        if its:
            waiting.add(task)
            found = parks._unended.get(task, [])
            same(f"sets that {task.id} waits for", (len(found), all(found)), (len(its), all(its)))
            # Of one that had ended and was resumed no note is taken, until the last of the others ends.
            not_noted = [each for noted, ids in zip(found, its, strict=True) for each in noted ^ ids]
            resumed = [each for each in not_noted if each in live and core.get(each).history.run > 1]
            same(f"tasks that {task.id} waits for", not_noted, resumed)
        for each in {each for ids in parks._unended.get(task, ()) for each in ids}:
            awaited.setdefault(each, set()).add(task)
        times = [wait.until for wait in park.waits if wait.until is not None]
        if times:
            untils[task] = min(times)
    same("tasks that wait for others to end", {*parks._unended}, waiting)
    same("parked tasks by what they wait for", {name: {*its} for name, its in parks._awaited.items()}, awaited)
    same("parked tasks that are looked at at once", [task for task in parks._overdue if task not in parked], [])
    recount_timer("parked tasks", parks._timers, untils | parks._overdue)
    _recount_events(parks.events, parked)
    asking = [task for task in tasks if (park := task.history.park) and any(w.kind == "answer" for w in park.waits)]
    same("tasks with open questions", list(parks.asking_after(0)), asking)
    rest = [task for task in tasks if isinstance(task._history, bytes)]
    same("tasks whose history is packed", rest, parked)
    open_ones = [task.id for task in tasks if task.state in ENDED and (park := task.history.park) and park.waits]
    same("ended tasks with open waits", open_ones, [])


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
