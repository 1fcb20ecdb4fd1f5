"""What a listing of tasks selects."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypedDict

from taskyard.v1 import task_pb2 as pb

from .renamed import either
from .values import state_filter, timestamp_from


class TaskFilters(TypedDict, total=False):
    """Which tasks to list, and in which order. A filter that is left out matches all.

    Attributes:
        agent_id: Only tasks of this agent.
        states: Only tasks in these states.
        batch_id: Only tasks of this batch.
        target: Only tasks of this target.
        history: Whether to list all tasks that the server keeps, for days, except rejected ones. Default False.
        newest_first: Whether the youngest task comes first. Default False.
        created_from: Only tasks submitted at this time or later. It has a time zone.
        created_until: Only tasks submitted before this time. It has a time zone.
        page_size: Tasks per page, at most 1,000. Default 1,000.
        parent_id: Only tasks that the work of this task submitted.
        agent: The old name of `agent_id`.
    """

    agent_id: str | None
    states: Iterable[str]
    batch_id: str | None
    target: str | None
    history: bool
    newest_first: bool
    created_from: datetime | None
    created_until: datetime | None
    page_size: int | None
    parent_id: str | None
    agent: str | None


def list_request(filters: TaskFilters) -> pb.ListTasksRequest:
    """The request for the first page.

    Args:
        filters: What to list.

    Returns:
        The request.

    Raises:
        TypeError: A filter is unknown, or `states` is one state instead of several.
        ValueError: A time has no time zone.
    """
    if unknown := filters.keys() - TaskFilters.__annotations__.keys():
        raise TypeError(f"tasks are not listed by {', '.join(sorted(unknown))}")
    created_from, created_until = filters.get("created_from"), filters.get("created_until")
    return pb.ListTasksRequest(
        agent_id=either(filters.get("agent_id"), filters.get("agent"), "agent", "agent_id"),
        parent_id=filters.get("parent_id"),
        state=state_filter(filters.get("states", ())),
        batch_id=filters.get("batch_id"),
        target=filters.get("target"),
        history=filters.get("history") or None,
        newest_first=filters.get("newest_first") or None,
        created_from=None if created_from is None else timestamp_from(created_from),
        created_until=None if created_until is None else timestamp_from(created_until),
        page_size=filters.get("page_size"),
    )
