"""The pages of the table of tasks, recounted from the tasks alone: what stands on them, and what they say of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from taskyard_server.core.search.page_notes import may_hold
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.search.task_pages import TaskPage

if TYPE_CHECKING:
    from taskyard_server.core.scheduler import Scheduler
    from taskyard_server.core.task import Task

NOT_COUNTED = {"queued", "assigned", "running", "done"}


def recount_pages(core: Scheduler, same: Callable[[str, object, object], None]) -> None:
    """Raise AssertionError, naming the page, if one says anything else than its tasks do."""
    table = core._life.tasks
    same("names of pages", table._names, sorted(table._pages))
    for name, page in table._pages.items():
        tasks = page.tasks
        same(f"page {name}", {task.id[16:24] for task in tasks} | {page.name}, {name})
        same(f"whether page {name} is needed", bool(tasks) or page is table._open, True)
        same(f"size of page {name}", page.size, len(tasks))
        same(f"tasks of page {name} by their ids", [page.find(task.id) for task in tasks], tasks)
        same(f"pages of the tasks of page {name}", {task.page for task in tasks} - {page}, set())
        states = Counter(task.state for task in tasks)
        same(f"done tasks of page {name}", page.done, states["done"])
        same(f"states of page {name}", page.others, {each: n for each, n in states.items() if each not in NOT_COUNTED})
        for task in tasks:
            if (wanted := _passed_by(page, task)) is not None:
                raise AssertionError(f"page {name} says that {task.id} cannot be there: {wanted}")


def _passed_by(page: TaskPage, task: Task) -> TaskFilter | None:
    """A filter that the task matches and for which its page would be passed by; None if there is none."""
    options = task.options
    filters = [
        TaskFilter(agent_id=task.agent_id, states=frozenset({task.state}), created_from=task.created_at),
        TaskFilter(target=options.target, parent_id=options.parent_id, created_until=task.created_at + 1),
    ]
    if task.error is not None:
        filters.append(TaskFilter(error=task.error.casefold()))
    if task.completed_at is not None:
        filters.append(TaskFilter(ended_from=task.completed_at))
    return next((each for each in filters if not (each.matches(task) and may_hold(page, each, {page}))), None)
