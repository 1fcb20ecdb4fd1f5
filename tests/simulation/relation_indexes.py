"""What comes after, ends with or is named by what, and who has which unique key, recounted from the tasks alone."""

from __future__ import annotations

from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import Task

from .indexes import ENDED, same


def recount_relations(core: Scheduler) -> None:
    """Raise AssertionError, naming the structure, if it is not what the tasks say."""
    tasks, life = list(core.tasks_after(0)), core._life
    predecessors, known = life.predecessors, {task.id: task for task in tasks}
    waiting = {
        task: [known[each] for each in task.options.extras.predecessors if each in known]
        for task in tasks
        if task.state == "pending" and task.options.extras.predecessors and not task.token
    }
    same("tasks that come after others", predecessors._waiting, waiting)
    inputs = {
        task: tuple([known.get(task_id) for _, task_id in task.options.extras.inputs])
        for task in tasks
        if task.options.extras.inputs and task.state not in ("done", "cancelled", "rejected")
    }
    same("inputs", predecessors.inputs, inputs)
    same("inputs that are gone", [task.id for task, its in inputs.items() if None in its], [])
    followers: dict[Task, dict[Task, None]] = {}
    for task, its in waiting.items():
        for each in its:
            followers.setdefault(each, {})[task] = None
    for task, handed in inputs.items():
        for one in handed:
            if one is not None:
                followers.setdefault(one, {})[task] = None
    same("followers", predecessors.followers, followers)
    same(
        "followers that are older", [task for task, its in waiting.items() for each in its if each.seq >= task.seq], []
    )
    ending = _recount_parent_ends(core, tasks)
    needed = ending | {each for its in _recount_children(core, tasks).values() for each in its.values()}
    for_nobody = [task.id for task in life.retention.aside if task not in followers and task not in needed]
    same("put aside for nobody", for_nobody, [])
    if predecessors.next_due() is None:
        clear = {task for task in waiting if not predecessors.holds_back(task)}
        same("tasks whose predecessors have ended", set(predecessors._clear), clear)
    unique: dict[tuple[str, str], set[str]] = {}
    for task in tasks:
        key = task.options.extras.unique_key
        if key is not None and task.state not in ENDED:
            unique.setdefault((task.agent.id, key), set()).add(task.id)
    found = {name: {task.id for task in its} for name, its in life.unique_keys._live.items()}
    same("unique keys", found, unique)


def _recount_parent_ends(core: Scheduler, tasks: list[Task]) -> set[Task]:
    """Check what ends with what. The parents whose ends have to be followed."""
    known = {task.id: task for task in tasks}
    bound: dict[str, set[Task]] = {}
    ending: dict[Task, set[Task]] = {}
    for task in tasks:
        parent_id = task.options.parent_id
        if parent_id is None or task.options.extras.on_parent_end != "cancel" or task.state in ENDED:
            continue
        parent = known.get(parent_id)
        if parent is not None and parent.state in ENDED:
            ending.setdefault(parent, set()).add(task)
        else:
            bound.setdefault(parent_id, set()).add(task)
    ends = core._life.children.ends
    same("what ends with its parent", {name: {*its} for name, its in ends.bound.items()}, bound)
    same("what is to end with its parent", {parent: {*its} for parent, its in ends.ending.items()}, ending)
    return {*ending}


def _recount_children(core: Scheduler, tasks: list[Task]) -> dict[Task, dict[str, Task]]:
    """Check which children tasks have by name, but for failed ones that keep none any more. They by their parents."""
    known = {task.seq: task for task in tasks}
    children: dict[Task, dict[str, Task]] = {}
    for parent in tasks:
        its = [known[seq] for seq in parent.history.children if seq in known]
        same(f"children of {parent.id}", [each.options.parent_id for each in its], [parent.id] * len(its))
        if its and parent.state not in ("done", "cancelled", "rejected"):
            children[parent] = {each.options.extras.child_name or "": each for each in its}
    named = core._life.children.named._of
    for parent in [parent for parent in children if parent.state == "failed" and parent not in named]:
        del children[parent]
    same("children by name", named, children)
    return children
