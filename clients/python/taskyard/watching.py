"""Watching tasks across broken connections (DESIGN, Watching).

Each message of a watch carries the cursor to resume from, so a new stream goes on just where the last one broke. Only
while the current tasks are being told there is no such place: they are then told anew, less those already told.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from taskyard.v1 import task_pb2 as pb

from .channel import answer_of
from .errors import CursorExpired, TaskyardError, Unavailable
from .retrying import BROKEN, Outage
from .tasks import STATE_OF_NUMBER, Task, TaskState
from .values import datetime_from

if TYPE_CHECKING:
    from taskyard.v1.task_pb2_grpc import TaskServiceAsyncStub

log = logging.getLogger(__name__)

QUIET_SECS: Final = 45.0
"""A stream that says nothing for so long is dead: a bookmark comes every 15 s."""


class EventKind(StrEnum):
    """What happened to a task. `current` is how it stood when the watch began, or began anew."""

    CURRENT = "current"
    SUBMITTED = "submitted"
    CHANGED = "changed"
    PROGRESSED = "progressed"
    EVICTED = "evicted"


KIND_OF_NUMBER: Final = {pb.TaskEvent.Kind.Value(kind.value): kind for kind in EventKind}


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """One thing that happened, and the task just after it, without `params`. `previous_state` is for `changed` only.

    A watch that is given this `cursor` goes on after this event; events that the server sent together with it may come
    again. None where there is no such place yet: begin anew with the current tasks.
    """

    kind: EventKind
    at: datetime
    task: Task
    previous_state: TaskState | None = None
    cursor: str | None = None


class Watch:
    """One watch, over as many streams as it takes. `patience_secs` is the longest outage that it bears.

    Its stream stands in `open_calls` while it is open: who cancels it there ends the watch as `ClientClosed`.
    """

    def __init__(
        self,
        stub: TaskServiceAsyncStub,
        metadata: tuple[tuple[str, str], ...],
        asked: pb.WatchTasksRequest,
        patience_secs: float,
        open_calls: set[Any],
        quiet_secs: float = QUIET_SECS,
    ) -> None:
        self._stub = stub
        self._metadata = metadata
        self._asked = asked
        self._outage = Outage(patience_secs)
        self._open_calls = open_calls
        self._quiet = quiet_secs
        self._cursor = asked.cursor or None
        self._telling = asked.include_current
        self._told: dict[str, int] = {}

    async def events(self) -> AsyncGenerator[TaskEvent, None]:
        """The events, until all watched tasks have ended if that was asked for, else without end.

        Raises what the server refuses the watch with, and `Unavailable` after an outage that was too long.
        """
        while True:
            call = self._stub.WatchTasks(self._request(), metadata=self._metadata)
            self._open_calls.add(call)
            try:
                while True:
                    message = await self._next(call)
                    for event in self._news(message):
                        yield event
                    if not message.HasField("end"):
                        self._outage.over()
                    elif message.end.reason == pb.WatchEnd.tasks_ended:
                        return
                    else:
                        raise _error_of(message.end)
            except CursorExpired as error:
                log.info("the watch begins anew: %s", error)
                self._cursor, self._telling = None, True
                await self._outage.bear(error)
            except BROKEN as error:
                log.info("the watch goes on over a new stream: %s", error)
                await self._outage.bear(error)
            finally:
                self._open_calls.discard(call)
                call.cancel()

    def _request(self) -> pb.WatchTasksRequest:
        request = pb.WatchTasksRequest()
        request.CopyFrom(self._asked)
        request.ClearField("cursor")
        request.ClearField("include_current")
        if self._telling:
            request.include_current = True
        elif self._cursor is not None:
            request.cursor = self._cursor
        return request

    async def _next(self, call: Any) -> pb.WatchTasksResponse:
        message = await answer_of(call.read(), self._quiet)
        if not isinstance(message, pb.WatchTasksResponse):
            raise Unavailable("the server ended the stream")
        return message

    def _news(self, message: pb.WatchTasksResponse) -> Iterator[TaskEvent]:
        """The events of a message that were not told yet; then the cursor moves on."""
        left = len(message.events)
        for event in message.events:
            left -= 1
            if event.kind == pb.TaskEvent.current:
                if self._is_told(event.task):
                    continue
                cursor = None
            else:
                self._all_told()
                cursor = self._cursor if left else message.cursor
            yield TaskEvent(
                kind=KIND_OF_NUMBER[event.kind],
                at=datetime_from(event.occurred_at),
                task=Task.from_message(event.task),
                previous_state=STATE_OF_NUMBER[event.previous_state] if event.HasField("previous_state") else None,
                cursor=cursor,
            )
        if message.bookmark:
            self._all_told()
        if message.cursor:
            self._cursor = message.cursor

    def _is_told(self, task: pb.Task) -> bool:
        """Whether a current task was told already as it stands, before the stream broke."""
        print_of_task = hash(task.SerializeToString(deterministic=True))
        is_told = self._told.get(task.task_id) == print_of_task
        self._told[task.task_id] = print_of_task
        return is_told

    def _all_told(self) -> None:
        """The current tasks are through: from here on the cursor is a place to resume from."""
        self._telling = False
        self._told.clear()


def _error_of(end: pb.WatchEnd) -> TaskyardError:
    """Why the server ends a watch, as what a stream that breaks raises."""
    reason = end.message or pb.WatchEnd.Reason.Name(end.reason)
    return CursorExpired(reason) if end.reason == pb.WatchEnd.cursor_expired else Unavailable(reason)
