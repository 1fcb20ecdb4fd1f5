"""The tasks in memory that match a filter, found slice by slice, so that a search among very many holds nobody up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from taskyard_server.core.task import IN_FLIGHT, QUEUED

from .page_notes import may_hold
from .task_pages import PAGE_BITS, PAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from taskyard_server.core.scheduler import Scheduler
    from taskyard_server.core.task import Task

    from .task_filter import TaskFilter
    from .task_pages import TaskPage

MAX_LOOKED_AT: Final = 2_000
"""How many tasks a slice looks at, a page more at most."""
PASSED_PAGE: Final = 8
"""To pass by a page costs as much as to look at this many tasks."""


class Found(NamedTuple):
    """The find of a slice of a search: live tasks, to be read in this turn, and after which `seq` it goes on.

    `after` is None once there is nothing more.
    """

    tasks: list[Task]
    after: int | None


def search(scheduler: Scheduler, wanted: TaskFilter, after: int, limit: int, *, newest_first: bool = False) -> Found:
    """Up to `limit` tasks that match, of those that come after the one numbered `after`, all if it is 0, in order."""
    found: list[Task] = []
    life = scheduler.life
    if wanted.batch_id is not None:
        batch = life.tasks.batches.find(wanted.batch_id)
        if batch is None:
            return Found(found, None)
        tasks = batch.tasks.values()
        is_full = _add(found, reversed(tasks) if newest_first else tasks, wanted, after, limit, newest_first)
        return Found(found, found[-1].seq if is_full else None)
    in_flight: set[TaskPage] = set()
    states = wanted.states
    if states is not None and not states.isdisjoint(IN_FLIGHT) and QUEUED not in states:
        # Tasks in flight are few, and known by their leases.
        in_flight = {lease.task.page for host in scheduler.hosts for lease in host.leases.values()}
    is_of_agents = wanted.agent_id is not None or wanted.agents is not None
    looked_at = 0
    for page in life.tasks.pages(after, newest_first):
        if looked_at >= MAX_LOOKED_AT:
            # Before this page, as seen from where the search came.
            first = int(page.name, 16) << PAGE_BITS
            return Found(found, first + PAGE_SIZE if newest_first else first - 1)
        if is_of_agents and page.noted_agents is None:
            # To note them is to look at all of its tasks.
            looked_at += page.size
        if may_hold(page, wanted, in_flight):
            here = page.tasks[::-1] if newest_first else page.tasks
            if _add(found, here, wanted, after, limit, newest_first):
                return Found(found, found[-1].seq)
            looked_at += page.size
        else:
            looked_at += PASSED_PAGE
    return Found(found, None)


def _add(
    found: list[Task], tasks: Iterable[Task], wanted: TaskFilter, after: int, limit: int, newest_first: bool
) -> bool:
    """Add those that match and come after one to what was found; whether that is now as much as was asked for."""
    for task in tasks:
        if after and (task.seq >= after if newest_first else task.seq <= after):
            continue
        if wanted.matches(task):
            found.append(task)
            if len(found) >= limit:
                return True
    return False
