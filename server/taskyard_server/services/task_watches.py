"""WatchTasks: the current tasks if requested, then events and bookmarks, and at last the reason for the end.

Messages are built from encoded parts, since concatenated encodings merge into one message. An event is encoded once for
all watches, and once more for those who are shown no payloads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import grpc

from taskyard.v1 import task_pb2 as pb
from taskyard_server.access.grants import Access
from taskyard_server.conversion import requests
from taskyard_server.conversion.task_encoding import encode_current
from taskyard_server.core.errors import BadRequest, CursorExpired, NotFound, Unavailable
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.task import TERMINAL, Task, TaskState
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.event_feeds import MAX_SLICE_BYTES, MAX_SLICE_EVENTS, EventFilter, Watcher
from taskyard_server.engine.event_log import EventLogs
from taskyard_server.engine.fair_yield import A_DELIVERY
from taskyard_server.engine.pace import Pace
from taskyard_server.engine.recent_events import CommitMark
from taskyard_server.interceptors.callers import Call

from .watch_cursors import SealedCursors, WatchCursors

T = TypeVar("T")

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

BOOKMARK_INTERVAL_SECS: Final = 15.0
SECS_BETWEEN: Final = 0.02
"""The time between messages to one watcher, while the server is busy."""
SHORT_WAIT_SECS: Final = 0.01
"""Maximum time for which events wait for that, while it is half busy."""
MAX_TASK_IDS: Final = 10_000

BOOKMARK: Final = pb.WatchTasksResponse(bookmark=True).SerializeToString()


class TaskWatches:
    """All watches of tasks. A watch without events is sent a bookmark after `bookmark_secs`."""

    def __init__(self, engine: Engine, logs: EventLogs, bookmark_secs: float = BOOKMARK_INTERVAL_SECS) -> None:
        self._engine = engine
        self._logs = logs
        self._bookmark_secs = bookmark_secs
        self._open: set[Watcher] = set()
        self._sealed_cursors: SealedCursors = {}
        self._changed = asyncio.Event()

    async def watch(self, call: Call, request: pb.WatchTasksRequest, context: Context) -> None:
        """Write the encoded messages of one watch. Raises before the first message, or after a final `end` message.

        It writes to the context instead of yielding, since each layer of generators would add a cost to every message.
        """
        event_filter = _event_filter(request, call.access)
        cursors = WatchCursors(call, self._sealed_cursors)
        watcher = self._logs.watch(call.namespace, event_filter, cursors.read(request.cursor))
        self._open.add(watcher)
        try:
            await self._write_messages(watcher, cursors, call.namespace, event_filter, request, context)
        finally:
            self._leave(watcher)

    async def _write_messages(
        self,
        watcher: Watcher,
        cursors: WatchCursors,
        namespace: str,
        event_filter: EventFilter,
        request: pb.WatchTasksRequest,
        context: Context,
    ) -> None:
        failure: Exception | None = None
        is_resumable = False
        try:
            if request.until_ended:
                watcher.end_after(await self._live_tasks(watcher, namespace, event_filter))
            shown: AsyncIterator[bytes] | None = None
            if request.include_current:
                shown = self._current_events(watcher, namespace, event_filter)
            elif watcher.since is not None:
                shown = self._changes_since(watcher, namespace, event_filter, watcher.since)
            if shown is not None:
                async for events in _in_slices(shown):
                    await context.write(events)
            # A watch that fails earlier has not sent all current tasks and must be started anew.
            is_resumable = True
            await self._pass_shown(watcher, cursors, context)
            await context.write(BOOKMARK + cursors.field(watcher))
            await self._follow(watcher, cursors, context)
        except Exception as error:
            failure = error
        await context.write(_end(failure) + (cursors.field(watcher) if is_resumable else b""))
        if failure is not None:
            raise failure

    async def close(self, secs: float) -> None:
        """Let every watch send its pending events and end, within `secs`. Refuse new ones."""
        self._logs.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(secs):
                while self._open:
                    self._changed.clear()
                    await self._changed.wait()

    async def _pass_shown(self, watcher: Watcher, cursors: WatchCursors, context: Context) -> None:
        """Write events that came while tasks were shown, so that who resumes at the bookmark hears nothing twice."""
        secs = 0.0
        while not (watcher.forget_shown() or watcher.is_closing):
            if events := watcher.take():
                await context.write(events + cursors.field(watcher))
            else:
                # What tasks show is told to watches at the end of the turn, or by another commit a little later.
                await asyncio.sleep(secs)
                secs = SHORT_WAIT_SECS

    async def _follow(self, watcher: Watcher, cursors: WatchCursors, context: Context) -> None:
        """Write the events after the watcher's position, until all watched tasks have ended."""
        fair_yield = self._engine.fair_yield
        clock, pace = asyncio.get_running_loop().time, Pace(fair_yield.busyness, SECS_BETWEEN, SHORT_WAIT_SECS)
        while True:
            if watcher.is_behind:
                if (secs := pace.wait_secs(clock())) > 0 and not watcher.is_closing:
                    await asyncio.sleep(secs)
                if watcher.is_one_of_many:
                    await fair_yield.take(A_DELIVERY)
                events = watcher.take()
                if events:
                    pace.sent(clock())
                    await context.write(events + cursors.field(watcher))
                else:
                    await asyncio.sleep(0)
            elif watcher.tasks_ended:
                return
            elif watcher.is_closing:
                raise watcher.closing_reason
            elif not await watcher.wait(self._bookmark_secs):
                watcher.take()
                await context.write(BOOKMARK + cursors.field(watcher))

    async def _live_tasks(self, watcher: Watcher, namespace: str, event_filter: EventFilter) -> set[str]:
        """The watched tasks that have not ended. Tasks that are not retained have."""

        def live_id(task: Task, _: int) -> str | None:
            return None if task.state in TERMINAL else task.id

        return {task_id async for task_id in self._selected(watcher, namespace, event_filter, live_id)}

    async def _changes_since(
        self, watcher: Watcher, namespace: str, event_filter: EventFilter, since: CommitMark
    ) -> AsyncIterator[bytes]:
        """The current state of each watched task that changed after a commit, encoded."""
        shown = watcher.show()
        changes = self._engine.tasks.changed_since(namespace, since.number, since.ms, agents=event_filter.agents)
        position = self._position_of_tasks(watcher, namespace)
        async for tasks in changes:
            for task in tasks:
                if event_filter.concerns(task) and event_filter.allows(task.state):
                    shown.add(task, position)
                    yield encode_current(task, self._engine.now(), event_filter.is_bare(task))
            position = self._position_of_tasks(watcher, namespace)

    async def _current_events(
        self, watcher: Watcher, namespace: str, event_filter: EventFilter
    ) -> AsyncIterator[bytes]:
        """The current state of each task that matches the filter, encoded."""
        shown = watcher.show()

        def encode_allowed(task: Task, position: int) -> bytes | None:
            shown.add(task, position)
            if not event_filter.allows(task.state):
                return None
            return encode_current(task, self._engine.now(), event_filter.is_bare(task))

        if event_filter.task_ids is not None or event_filter.batch_id is not None:
            async for event in self._selected(watcher, namespace, event_filter, encode_allowed):
                yield event
            return
        task_filter = TaskFilter(
            agents=event_filter.agents,
            agent_id=event_filter.agent_id,
            states=event_filter.states,
            target=event_filter.target,
        )
        after: int | None = 0
        while after is not None:
            position = self._position_of_tasks(watcher, namespace)
            page = await self._engine.tasks.list_tasks(namespace, task_filter, after, MAX_SLICE_EVENTS, at_once=True)
            shown.add_listed(page.next_after, position)
            for task in page.tasks:
                yield encode_current(task, self._engine.now(), event_filter.is_bare(task))
            after = page.next_after

    def _position_of_tasks(self, watcher: Watcher, namespace: str) -> int:
        """The position in the log up to which tasks show what happened, if they are read now."""
        return watcher.end + self._engine.tasks.untold(namespace)

    async def _selected(
        self, watcher: Watcher, namespace: str, event_filter: EventFilter, show: Callable[[Task, int], T | None]
    ) -> AsyncIterator[T]:
        """The results of `show` on retained tasks that the filter selects by id or batch, where there are any.

        Each is read when it is yielded, and shown with the position that it is of, if it is in memory.
        """

        def show_concerned(position: int, task: Task) -> T | None:
            return show(task, position) if event_filter.concerns(task) else None

        task_ids = event_filter.task_ids
        if task_ids is None:
            try:
                assert event_filter.batch_id is not None
                task_ids = await self._engine.tasks.get_batch(
                    namespace,
                    event_filter.batch_id,
                    agents=event_filter.agents,
                    show=lambda batch: frozenset(batch.tasks),
                )
            except NotFound:
                return
        for task_id in sorted(task_ids):
            with contextlib.suppress(NotFound):
                show_it = partial(show_concerned, self._position_of_tasks(watcher, namespace))
                shown = await self._engine.tasks.get(namespace, task_id, agents=event_filter.agents, show=show_it)
                if shown is not None:
                    yield shown

    def _leave(self, watcher: Watcher) -> None:
        watcher.leave()
        self._open.discard(watcher)
        self._changed.set()


async def _in_slices(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Encoded events, joined to messages."""
    parts: list[bytes] = []
    size = 0
    async for event in events:
        parts.append(event)
        size += len(event)
        if len(parts) == MAX_SLICE_EVENTS or size >= MAX_SLICE_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def _event_filter(request: pb.WatchTasksRequest, access: Access) -> EventFilter:
    """The event filter of a request by a caller of this access. Raises `BadRequest` with the name of the field."""
    task_ids = frozenset(filter(None, request.task_ids))
    if len(task_ids) > MAX_TASK_IDS:
        raise BadRequest(f"taskIds: must have at most {MAX_TASK_IDS} entries")
    if request.until_ended and not (task_ids or request.batch_id):
        raise BadRequest("untilEnded: needs taskIds or batchId")
    if request.include_current and request.cursor:
        raise BadRequest("includeCurrent: cannot be given together with cursor")
    return EventFilter(
        task_ids=task_ids or None,
        batch_id=request.batch_id or None,
        agent_id=request.agent_id or None,
        target=request.target or None,
        states=requests.states(request.state, TaskState),
        ends=request.until_ended,
        agents=access.agents,
        # Those who see only their own agents' tasks see their payloads, too.
        payloads=access.payloads if access.agents is None else None,
    )


def _end(failure: Exception | None) -> bytes:
    """The last message of a watch."""
    match failure:
        case None:
            end = pb.WatchEnd(reason=pb.WatchEnd.tasks_ended, message="all watched tasks have ended")
        case Unavailable():
            end = pb.WatchEnd(reason=pb.WatchEnd.shutdown, message=failure.message)
        case NotFound():
            end = pb.WatchEnd(reason=pb.WatchEnd.deleted, message=failure.message)
        case CursorExpired():
            end = pb.WatchEnd(reason=pb.WatchEnd.cursor_expired, message=failure.message)
        case _:
            end = pb.WatchEnd(reason=pb.WatchEnd.internal, message="internal error")
    return pb.WatchTasksResponse(end=end).SerializeToString()
