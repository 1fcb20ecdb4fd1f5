"""Notes of a page of the table of tasks, by which a filter passes over pages where nothing matches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskyard_server.core.task import IN_FLIGHT, TERMINAL

from .label_selectors import IN, PRESENT
from .task_filter import WITH_ERROR
from .task_pages import KEY, PAGE_BEGIN, PAGE_END, PARENT, TARGET

if TYPE_CHECKING:
    from taskyard_server.core.task import TaskState

    from .label_selectors import Requirement
    from .task_filter import TaskFilter
    from .task_pages import TaskPage


def may_hold(page: TaskPage, wanted: TaskFilter, in_flight: set[TaskPage]) -> bool:
    """True if a task that matches may be on a page; false if certainly none is.

    `in_flight` are the pages that have tasks in flight, if some in these states are wanted, but no queued ones.
    """
    has_marks = wanted.target is not None or wanted.parent_id is not None or wanted.concurrency_key is not None
    return (
        (wanted.id_prefix is None or _may_begin(page, wanted.id_prefix))
        and (wanted.agent_id is None or wanted.agent_id in page.agents)
        and (wanted.agents is None or any(agent in wanted.agents for agent in page.agents))
        and (not has_marks or _has_marks(page, wanted))
        and (wanted.labels is None or all(_may_meet(page, each) for each in wanted.labels.requirements))
        and (wanted.states is None or page in in_flight or _has_any_of(page, wanted.states - IN_FLIGHT))
        and ((wanted.ended_from is None and wanted.ended_until is None) or _has_any_of(page, TERMINAL))
        and (wanted.error is None or _has_any_of(page, WITH_ERROR))
        and ((wanted.created_from is None and wanted.created_until is None) or _was_created_in_time(page, wanted))
    )


def _may_begin(page: TaskPage, prefix: str) -> bool:
    """True if the ids of a page, in all of which its name stands, may begin with this text."""
    digits = prefix[PAGE_BEGIN:PAGE_END]
    return page.name.startswith(digits)


def _has_any_of(page: TaskPage, states: frozenset[TaskState]) -> bool:
    return any(page.count(state) > 0 for state in states)


def _has_marks(page: TaskPage, wanted: TaskFilter) -> bool:
    marks = page.marks
    return marks is not None and (
        (wanted.target is None or (TARGET, wanted.target) in marks)
        and (wanted.parent_id is None or (PARENT, wanted.parent_id) in marks)
        and (wanted.concurrency_key is None or (KEY, wanted.concurrency_key) in marks)
    )


def _may_meet(page: TaskPage, requirement: Requirement) -> bool:
    relation, key = requirement.relation, requirement.key
    if relation is IN:
        labels = page.labels
        return labels is not None and any((key, value) in labels for value in requirement.values)
    if relation is PRESENT:
        return page.label_keys is not None and key in page.label_keys
    # That a task lacks a label is not noted.
    return True


def _was_created_in_time(page: TaskPage, wanted: TaskFilter) -> bool:
    if not page.is_timely:
        return True
    tasks = page.tasks
    if not tasks:
        return False
    first, last = tasks[0], tasks[-1]
    return (wanted.created_from is None or last.created_at >= wanted.created_from) and (
        wanted.created_until is None or first.created_at < wanted.created_until
    )
