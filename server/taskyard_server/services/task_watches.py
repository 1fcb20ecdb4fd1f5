"""What WatchTasks sends: the tasks as they stand if asked for, then events, bookmarks, and why it ended.

Messages are put together from encoded parts, since encoded messages that stand one after the other are one message. An
event is encoded once, however many watch it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import task_pb2 as pb
from taskyard_server.conversion import requests
from taskyard_server.conversion.task_encoding import encode_current
from taskyard_server.conversion.wire import nested, tag
from taskyard_server.core.errors import BadRequest, CursorExpired, NotFound, Unavailable
from taskyard_server.core.task import TERMINAL, Task, TaskState
from taskyard_server.engine.event_feeds import MAX_SLICE_BYTES, MAX_SLICE_EVENTS, EventFilter, Watcher
from taskyard_server.engine.event_log import EventLogs
from taskyard_server.engine.port import Engine, TaskFilter

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

QUIET_SECS: Final = 15.0
MAX_TASK_IDS: Final = 10_000

CURSOR: Final = tag(pb.WatchTasksResponse, "cursor")
BOOKMARK: Final = pb.WatchTasksResponse(bookmark=True).SerializeToString()


class TaskWatches:
    """All watches of tasks. `quiet_secs` is how long a watch is silent before it gets a bookmark."""

    def __init__(self, engine: Engine, logs: EventLogs, quiet_secs: float = QUIET_SECS) -> None:
        self._engine = engine
        self._logs = logs
        self._quiet_secs = quiet_secs
        self._open: set[Watcher] = set()
        self._changed = asyncio.Event()

    async def watch(self, namespace: str, request: pb.WatchTasksRequest, context: Context) -> None:
        """Write the messages of one watch, each encoded. What it raises comes before all of them, or after an `end`.

        A coroutine that writes, since each layer of generators would cost every message something.
        """
        wanted = _event_filter(request)
        watcher = self._logs.watch(namespace, wanted, request.cursor or None)
        self._open.add(watcher)
        try:
            await self._tell(watcher, namespace, wanted, request, context)
        finally:
            self._leave(watcher)

    async def _tell(
        self,
        watcher: Watcher,
        namespace: str,
        wanted: EventFilter,
        request: pb.WatchTasksRequest,
        context: Context,
    ) -> None:
        failure: Exception | None = None
        is_resumable = False
        try:
            if request.until_ended:
                watcher.end_after(await self._live_tasks(namespace, wanted))
            if request.include_current:
                async for events in self._current(namespace, wanted):
                    await context.write(events)
            # A watch that breaks before has not told all the current tasks, and can only begin anew.
            is_resumable = True
            await context.write(BOOKMARK + _cursor(watcher))
            await self._follow(watcher, context)
        except Exception as error:
            failure = error
        await context.write(_end(failure) + (_cursor(watcher) if is_resumable else b""))
        if failure is not None:
            raise failure

    async def close(self, secs: float) -> None:
        """Let every watch send what is there and end, within `secs`. New ones are refused."""
        self._logs.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(secs):
                while self._open:
                    self._changed.clear()
                    await self._changed.wait()

    async def _follow(self, watcher: Watcher, context: Context) -> None:
        """Write what happens from the watcher's place on, until all watched tasks have ended."""
        while True:
            if watcher.is_behind:
                events = watcher.take()
                if events:
                    await context.write(events + _cursor(watcher))
                else:
                    await asyncio.sleep(0)
            elif watcher.tasks_ended:
                return
            elif watcher.is_closing:
                raise Unavailable("the server shuts down")
            elif not await watcher.wait(self._quiet_secs):
                watcher.take()
                await context.write(BOOKMARK + _cursor(watcher))

    async def _live_tasks(self, namespace: str, wanted: EventFilter) -> set[str]:
        """Which watched tasks have not ended. One that is not retained has."""
        named = [task async for task in self._named(namespace, wanted)]
        return {task.id for task in named if task.state not in TERMINAL}

    async def _current(self, namespace: str, wanted: EventFilter) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        size = 0
        async for task in self._matching(namespace, wanted):
            parts.append(encode_current(task, self._engine.now()))
            size += len(parts[-1])
            if len(parts) == MAX_SLICE_EVENTS or size >= MAX_SLICE_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
        if parts:
            yield b"".join(parts)

    async def _matching(self, namespace: str, wanted: EventFilter) -> AsyncIterator[Task]:
        """The tasks as they stand that match the filter."""
        if wanted.task_ids is not None or wanted.batch_id is not None:
            async for task in self._named(namespace, wanted):
                if wanted.allows(task.state):
                    yield task
            return
        listed = TaskFilter(agent_id=wanted.agent_id, states=wanted.states, target=wanted.target)
        after: int | None = 0
        while after is not None:
            page = await self._engine.tasks.list_tasks(namespace, listed, after, MAX_SLICE_EVENTS)
            for task in page.tasks:
                yield task
            after = page.next_after

    async def _named(self, namespace: str, wanted: EventFilter) -> AsyncIterator[Task]:
        """The retained tasks that the filter names by their ids or their batch, each as it is when it is yielded."""
        task_ids = wanted.task_ids
        if task_ids is None:
            try:
                assert wanted.batch_id is not None
                task_ids = frozenset((await self._engine.tasks.get_batch(namespace, wanted.batch_id)).tasks)
            except NotFound:
                return
        for task_id in sorted(task_ids):
            with contextlib.suppress(NotFound):
                task = await self._engine.tasks.get(namespace, task_id)
                if wanted.concerns(task):
                    yield task

    def _leave(self, watcher: Watcher) -> None:
        watcher.leave()
        self._open.discard(watcher)
        self._changed.set()


def _event_filter(request: pb.WatchTasksRequest) -> EventFilter:
    """What a request wants to see, or a refusal that names the field."""
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
    )


def _cursor(watcher: Watcher) -> bytes:
    return nested(CURSOR, watcher.cursor.encode())


def _end(failure: Exception | None) -> bytes:
    """The last message of a watch."""
    match failure:
        case None:
            end = pb.WatchEnd(reason=pb.WatchEnd.tasks_ended, message="all watched tasks have ended")
        case Unavailable():
            end = pb.WatchEnd(reason=pb.WatchEnd.shutdown, message=failure.message)
        case CursorExpired():
            end = pb.WatchEnd(reason=pb.WatchEnd.cursor_expired, message=failure.message)
        case _:
            end = pb.WatchEnd(reason=pb.WatchEnd.internal, message="internal error")
    return pb.WatchTasksResponse(end=end).SerializeToString()
