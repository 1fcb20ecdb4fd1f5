"""Filters of listings and criteria of operations on many tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypedDict

from taskyard.renamed import either
from taskyard.v1 import task_pb2 as pb
from taskyard.values.convert import state_filter, timestamp_from
from taskyard.values.task_fields import shown


class TaskCriteria(TypedDict, total=False):
    """Which tasks are meant. A criterion that is left out matches all.

    Attributes:
        agent_id: Only tasks of this agent.
        states: Only tasks in these states. "live" means all that have not ended, also those between two attempts.
        batch_id: Only tasks of this batch.
        target: Only tasks of this target.
        created_from: Only tasks submitted at this time or later. It has a time zone.
        created_until: Only tasks submitted before this time. It has a time zone.
        parent_id: Only tasks that the work of this task submitted.
        labels: Only tasks that have all of these labels, as a dict as it is submitted; or whose labels match a text of
            requirements separated by commas, such as `site=shop,env!=dev,team in (a,b),!old` (docs/rules.md, Label
            selectors).
        action: Only tasks with this action.
        host_id: Only tasks that this host holds, or held last.
        concurrency_key: Only tasks with this concurrency key.
        ended_from: Only tasks that ended at this time or later. It has a time zone.
        ended_until: Only tasks that ended before this time. It has a time zone.
        error: Only tasks whose error holds this text, whatever its case.
        id_prefix: Only tasks whose id begins with this text, 4 to 64 characters.
    """

    agent_id: str | None
    states: Iterable[str]
    batch_id: str | None
    target: str | None
    created_from: datetime | None
    created_until: datetime | None
    parent_id: str | None
    labels: str | Mapping[str, str] | None
    action: str | None
    host_id: str | None
    concurrency_key: str | None
    ended_from: datetime | None
    ended_until: datetime | None
    error: str | None
    id_prefix: str | None


class TaskFilters(TaskCriteria, total=False):
    """Which tasks to list: all `TaskCriteria`, and how they are listed.

    Attributes:
        history: Whether to list all tasks that the server keeps, for days, except rejected ones. Default False.
        newest_first: Whether the youngest task comes first. Default False.
        page_size: Tasks per page, at most 1,000. Default 1,000.
        agent: The old name of `agent_id`.
    """

    history: bool
    newest_first: bool
    page_size: int | None
    agent: str | None


TIMES: Final = ("created_from", "created_until", "ended_from", "ended_until")


def list_request(filters: TaskFilters) -> pb.ListTasksRequest:
    """The request for the first page.

    Args:
        filters: What to list.

    Returns:
        The request.

    Raises:
        TypeError: A filter is unknown or of another type, or `states` is one state instead of several.
        ValueError: A time has no time zone.
    """
    if unknown := filters.keys() - TaskFilters.__annotations__.keys() - TaskCriteria.__annotations__.keys():
        raise TypeError(f"tasks are not listed by {', '.join(sorted(unknown))}")
    criteria = _fields(filters)
    criteria["agent_id"] = either(filters.get("agent_id"), filters.get("agent"), "agent", "agent_id")
    return pb.ListTasksRequest(
        **criteria,
        history=filters.get("history") or None,
        newest_first=filters.get("newest_first") or None,
        page_size=filters.get("page_size"),
    )


def task_filter(criteria: TaskCriteria) -> pb.TaskFilter:
    """The filter of an operation on many tasks.

    Args:
        criteria: Which tasks are meant.

    Returns:
        The filter.

    Raises:
        TypeError: A criterion is unknown or of another type, or `states` is one state instead of several.
        ValueError: A time has no time zone.
    """
    if unknown := criteria.keys() - TaskCriteria.__annotations__.keys():
        raise TypeError(f"tasks are not selected by {', '.join(sorted(unknown))}")
    fields = _fields(criteria)
    if criteria.get("states") is not None and fields["state"] is None:
        # The server refuses it: no states must not mean tasks in any state.
        fields["state"] = ""
    return pb.TaskFilter(**fields)


def _fields(criteria: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that both requests have. They are named alike, but for the states."""
    values: dict[str, Any] = {name: criteria.get(name) for name in TaskCriteria.__annotations__}
    if isinstance(values["labels"], Mapping):
        values["labels"] = (
            ",".join([f"{_quoted(key)}={_quoted(text)}" for key, text in values["labels"].items()]) or None
        )
    for name, value in values.items():
        kind, what = (datetime, "a datetime with a time zone") if name in TIMES else (str, "a text")
        if name != "states" and value is not None and not isinstance(value, kind):
            raise TypeError(f"{name}: is {what}, not {shown(value)}")
    values["state"] = state_filter(values.pop("states") or ())
    return values | {name: None if values[name] is None else timestamp_from(values[name]) for name in TIMES}


def _quoted(text: str) -> str:
    """A key or a value of a label selector."""
    if not isinstance(text, str):
        raise TypeError(f"labels: is a text or a dict of texts, {shown(text)} is none")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
