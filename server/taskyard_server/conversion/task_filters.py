"""The filters of messages about many tasks converted to those of the core: of listings, and of operations."""

from __future__ import annotations

from typing import Final, TypeAlias

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import task_pb2 as pb
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.names import Names
from taskyard_server.core.search.label_selectors import parse_selector
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.task import TaskState

from .requests import MAX_NAME_CHARS, bound, states

Filtered: TypeAlias = pb.ListTasksRequest | pb.TaskFilter

ADDED_NAMES: Final = ("labels", "action", "host_id", "concurrency_key", "error", "id_prefix")
LEAST_ID_CHARS: Final = 4
MOST_ID_CHARS: Final = 64
ADDED_TIMES: Final = ("ended_from", "ended_until")


def task_filter(
    message: Filtered, agents: Names | None = None, prefix: str = "", payloads: Names | None = None
) -> TaskFilter:
    """The tasks that a message means, of those that its caller may see, which are those of `agents`.

    It finds none by contents that its caller is not shown; `payloads` are the agents whose contents are shown
    (docs/operate/security.md, Payloads). An empty text is none. `prefix` is the path of the message within the request.
    Raises `BadRequest`.
    """
    return TaskFilter(
        agents=agents,
        payloads=payloads if message.error else None,
        agent_id=message.agent_id or None,
        states=states(message.state, TaskState, prefix),
        batch_id=message.batch_id or None,
        target=message.target or None,
        parent_id=message.parent_id or None,
        created_from=bound(message, "created_from", f"{prefix}createdFrom"),
        created_until=bound(message, "created_until", f"{prefix}createdUntil"),
        labels=parse_selector(message.labels, f"{prefix}labels"),
        action=message.action or None,
        host_id=message.host_id or None,
        concurrency_key=message.concurrency_key or None,
        ended_from=bound(message, "ended_from", f"{prefix}endedFrom"),
        ended_until=bound(message, "ended_until", f"{prefix}endedUntil"),
        error=_text(message.error, f"{prefix}error"),
        id_prefix=_id_prefix(message.id_prefix, f"{prefix}idPrefix"),
    )


def listing_criteria(request: pb.ListTasksRequest) -> list[object]:
    """The scope of a page token of this listing. Tokens of earlier versions go on: what was added is last, if set."""
    criteria: list[object] = [
        request.agent_id,
        request.state,
        request.batch_id,
        request.target,
        request.history,
        request.newest_first,
        _mark(request, "created_from"),
        _mark(request, "created_until"),
    ]
    if request.parent_id:
        criteria.append(request.parent_id)
    criteria += [(field, getattr(request, field)) for field in ADDED_NAMES if getattr(request, field)]
    return criteria + [(field, _mark(request, field)) for field in ADDED_TIMES if request.HasField(field)]


def _mark(request: Message, field: str) -> float | None:
    """The form of a bound in page tokens, as it was in earlier versions; None if absent."""
    time: Timestamp = getattr(request, field)
    return (time.seconds * 1_000_000 - time.nanos // -1000 - 0.5) / 1e6 if request.HasField(field) else None


def _id_prefix(value: str, field: str) -> str | None:
    if value and not LEAST_ID_CHARS <= len(value) <= MOST_ID_CHARS:
        raise BadRequest(f"{field}: must be {LEAST_ID_CHARS} to {MOST_ID_CHARS} characters")
    return value or None


def _text(value: str, field: str) -> str | None:
    if len(value) > MAX_NAME_CHARS:
        raise BadRequest(f"{field}: must be at most {MAX_NAME_CHARS} characters")
    return value.casefold() or None
