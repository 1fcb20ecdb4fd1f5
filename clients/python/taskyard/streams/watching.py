"""Watching tasks across broken connections (docs/rules.md, Watching).

Each message of a watch carries the cursor to resume from, so that a new stream continues where the last one broke. Only
while the current tasks are sent there is no cursor yet: after a break they are sent again, and those that were already
shown are left out.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from taskyard.calls.retrying import BROKEN, Outage
from taskyard.connection.channel import answer_of
from taskyard.connection.credentials import Credentials, Renewal
from taskyard.connection.servers import Server, Servers
from taskyard.errors import CursorExpired, NotFound, TaskyardError, Unauthenticated, Unavailable
from taskyard.records.tasks import STATE_OF_NUMBER, Task, TaskState
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceStub
from taskyard.values.convert import datetime_from
from taskyard.values.payloads import Codec

log = logging.getLogger(__name__)

QUIET_SECS: Final = 45.0
"""A stream without a message for this long is dead: a bookmark comes every 15 s."""


class EventKind(StrEnum):
    """The kind of an event of a task."""

    CURRENT = "current"
    """The task as it was when the watch began, or began again."""
    SUBMITTED = "submitted"
    CHANGED = "changed"
    PROGRESSED = "progressed"
    EVICTED = "evicted"
    REPRIORITIZED = "reprioritized"


KIND_OF_NUMBER: Final = {pb.TaskEvent.Kind.Value(kind.value): kind for kind in EventKind}


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """One event of a task.

    Attributes:
        kind: What happened.
        at: When it happened.
        task: The task just after it, without `params`.
        previous_state: The state before it, for `changed` only.
        cursor: A watch with this cursor continues after this event; events that the server sent in one message with it
            may come again. None among the current tasks: then begin with `include_current` again.
    """

    kind: EventKind
    at: datetime
    task: Task
    previous_state: TaskState | None = None
    cursor: str | None = None


class Watch:
    """One watch, over one stream after the other.

    Args:
        servers: The servers to choose from.
        credentials: What is sent with every stream.
        request: The filters, and where to begin.
        patience_secs: The longest outage to sit out, in seconds.
        open_calls: Where its stream is listed while it is open. Cancelling it there ends the watch as `ClientClosed`.
        quiet_secs: A stream without a message for this long is replaced, in seconds.
        codec: Reads the outputs that are encoded. Default none.
        on_gap: Called with the reason when events may be missing, before the tasks are shown again. Default nothing.
        on_begun: Called once the current tasks were shown. Default nothing.
    """

    def __init__(
        self,
        servers: Servers,
        credentials: Credentials,
        request: pb.WatchTasksRequest,
        patience_secs: float,
        open_calls: set[Any],
        quiet_secs: float = QUIET_SECS,
        codec: Codec | None = None,
        on_gap: Callable[[str], None] | None = None,
        on_begun: Callable[[], None] | None = None,
    ) -> None:
        self._servers = servers
        self._credentials = credentials
        self._renewal = Renewal(credentials)
        self._filters = request
        self._outage = Outage(patience_secs, servers.notice)
        self._codec = codec
        self._on_gap = on_gap
        self._on_begun = on_begun
        self._open_calls = open_calls
        self._quiet = quiet_secs
        self._cursor = request.cursor or None
        self._sends_current = request.include_current
        """True if the current tasks are still being sent."""
        self._shown: dict[str, int] = {}
        """The hash of each current task that was shown."""
        self._ended: set[str] = set()
        """The tasks that were shown as ended, by a watch that ends with its tasks."""

    async def events(self) -> AsyncGenerator[TaskEvent, None]:
        """Read the events until all watched tasks have ended if the request says so, else without end.

        In the former case nothing follows the event by which a task has ended.

        Yields:
            The events.

        Raises:
            TaskyardError: The server refuses the watch; `Unavailable` after an outage that is longer than the patience.
        """
        while True:
            server = await answer_of(self._servers.pick())
            with server.used() as channel:
                sent = self._credentials.metadata()
                call = TaskServiceStub(channel).WatchTasks(self._next_request(), metadata=sent)
                self._open_calls.add(call)
                try:
                    while True:
                        message = await self._read(call, server)
                        self._renewal.worked()
                        for event in self._new_events(message):
                            yield event
                        if not message.HasField("end"):
                            self._outage.end()
                        elif message.end.reason == pb.WatchEnd.tasks_ended:
                            return
                        else:
                            raise _error_of(message.end)
                except CursorExpired as error:
                    log.info("the watch begins anew: %s", error)
                    if self._on_gap is not None:
                        self._on_gap(error.reason)
                    self._cursor, self._sends_current = None, True
                    await self._outage.wait(error)
                except Unauthenticated as error:
                    if not self._renewal.is_worth_it(sent):
                        raise
                    log.info("the watch goes on over a new stream: %s", error)
                    await self._outage.wait(error)
                except BROKEN as error:
                    log.info("the watch goes on over a new stream: %s", error)
                    self._servers.note(server, error)
                    await self._outage.wait(error)
                finally:
                    self._open_calls.discard(call)
                    call.cancel()

    def _next_request(self) -> pb.WatchTasksRequest:
        request = pb.WatchTasksRequest()
        request.CopyFrom(self._filters)
        request.ClearField("cursor")
        request.ClearField("include_current")
        if self._sends_current:
            request.include_current = True
        elif self._cursor is not None:
            request.cursor = self._cursor
        return request

    async def _read(self, call: Any, server: Server) -> pb.WatchTasksResponse:
        message = await answer_of(call.read(), server.error_of, self._quiet)
        if not isinstance(message, pb.WatchTasksResponse):
            raise Unavailable("the server ended the stream")
        return message

    def _new_events(self, message: pb.WatchTasksResponse) -> Iterator[TaskEvent]:
        """The events of a message that were not shown yet. Afterwards the cursor moves on."""
        left = len(message.events)
        for event in message.events:
            left -= 1
            kind = KIND_OF_NUMBER.get(event.kind)
            # A later server may send kinds that this client does not know.
            if kind is None:
                continue
            if kind is EventKind.CURRENT:
                if self._was_shown(event.task):
                    continue
                cursor = None
            else:
                self._end_current()
                cursor = self._cursor if left else message.cursor
            if self._filters.until_ended and self._was_ended(event.task):
                continue
            yield TaskEvent(
                kind=kind,
                at=datetime_from(event.occurred_at),
                task=Task.from_message(event.task, self._codec),
                previous_state=STATE_OF_NUMBER[event.previous_state] if event.HasField("previous_state") else None,
                cursor=cursor,
            )
        if message.bookmark:
            self._end_current()
        if message.cursor:
            self._cursor = message.cursor

    def _was_shown(self, task: pb.Task) -> bool:
        """True if a current task was shown in this very state, before the stream broke. Notes it as shown."""
        digest = hash(task.SerializeToString(deterministic=True))
        was_shown = self._shown.get(task.task_id) == digest
        self._shown[task.task_id] = digest
        return was_shown

    def _was_ended(self, task: pb.Task) -> bool:
        """True if a task was shown as ended before: what becomes of it then is no concern of this watch."""
        if task.task_id in self._ended:
            return True
        if STATE_OF_NUMBER[task.state].ended:
            self._ended.add(task.task_id)
        return False

    def _end_current(self) -> None:
        """All current tasks were sent. From here on the cursor says where to resume."""
        self._sends_current = False
        self._shown.clear()
        if self._on_begun is not None:
            self._on_begun()
            self._on_begun = None


def _error_of(end: pb.WatchEnd) -> TaskyardError:
    """The reason for which the server ends a watch, as the error that a broken stream raises."""
    reason = end.message or pb.WatchEnd.Reason.Name(end.reason)
    if end.reason == pb.WatchEnd.deleted:
        return NotFound(reason)
    return CursorExpired(reason) if end.reason == pb.WatchEnd.cursor_expired else Unavailable(reason)
