"""How tasks end, for many at once: by a few watches, not by a call for each task.

Every watch has a fixed set of tasks, and ends once they have. What is expected while a watch is being opened goes into
the next one, so that their number stays far below that of the tasks; once there are several, the next one takes over
what is left of them.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Final

from taskyard.errors import ClientClosed, NotFound, TaskyardError
from taskyard.records.tasks import Task, TaskState

from .watching import TaskEvent

log = logging.getLogger(__name__)

MAX_IDS: Final = 10_000
"""The most tasks of one watch, as the server says."""
MAX_WATCHES: Final = 8
"""With this many the next one takes over what is left of the small ones."""
GATHER_SECS: Final = 0.01
"""How long further tasks may join the next watch."""
OPENING_SECS: Final = 2.0
"""The longest wait for a watch to begin before the next one is opened beside it."""
MAX_READS: Final = 20
"""The most tasks that are read at the same time."""

Expected = asyncio.Future[Task]


class _Watching:
    """One watch. `left` has the tasks that have not ended, `begun` is set once it shows what happens."""

    def __init__(self, task_ids: Iterable[str]) -> None:
        self.left = set(task_ids)
        self.begun = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Completions:
    """The ends of tasks that somebody waits for.

    Args:
        watch: Opens a watch of these tasks, which tells how each has ended and then ends. It calls what it is given
            once it has shown those that had ended before.
        get: Reads one task.
    """

    def __init__(
        self,
        watch: Callable[[list[str], Callable[[], None]], AsyncGenerator[TaskEvent, None]],
        get: Callable[[str], Awaitable[Task]],
    ) -> None:
        self._watch = watch
        self._get = get
        self._expected: dict[str, list[Expected]] = {}
        self._new: dict[str, None] = {}
        self._watchings: set[_Watching] = set()
        self._opener: asyncio.Task[None] | None = None
        self._reads: set[asyncio.Task[None]] = set()
        self._reading = asyncio.Semaphore(MAX_READS)
        self._is_closed = False

    def expect(self, task_id: str) -> Expected:
        """Wait for the end of a task.

        Args:
            task_id: The task.

        Returns:
            A future of the ended task. It raises `NotFound` if the server does not know the task, other errors if it
            cannot be watched.

        Raises:
            ClientClosed: The client is closed.
        """
        if self._is_closed:
            raise ClientClosed("the client is closed")
        future: Expected = asyncio.get_running_loop().create_future()
        futures = self._expected.setdefault(task_id, [])
        futures.append(future)
        if len(futures) == 1:
            self._expect_anew(task_id)
        return future

    def forget(self, task_id: str, future: Expected) -> None:
        """Wait no longer.

        Args:
            task_id: The task.
            future: What `expect` has returned for it.
        """
        future.cancel()
        futures = self._expected.get(task_id, [])
        if future in futures:
            futures.remove(future)
        if not futures:
            self._expected.pop(task_id, None)
            self._new.pop(task_id, None)
            for watching in tuple(self._watchings):
                if task_id in watching.left:
                    self._leave(watching, task_id)

    async def close(self) -> None:
        """End all watches. Futures that are left raise `ClientClosed`."""
        self._is_closed = True
        tasks = [self._opener, *self._reads, *(watching.task for watching in self._watchings)]
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for task_id in tuple(self._expected):
            self._settle(task_id, ClientClosed("the client was closed"))

    def _expect_anew(self, task_id: str) -> None:
        self._new[task_id] = None
        if self._opener is None or self._opener.done():
            self._opener = asyncio.create_task(self._open_watches())

    async def _open_watches(self) -> None:
        while self._new:
            task_ids = list(self._new)[:MAX_IDS]
            for task_id in task_ids:
                del self._new[task_id]
            replaced = self._small(MAX_IDS - len(task_ids))
            task_ids += [task_id for watching in replaced for task_id in watching.left]
            watching = _Watching(dict.fromkeys(task_ids))
            self._watchings.add(watching)
            watching.task = asyncio.create_task(self._follow(watching))
            # What is expected meanwhile shares the next watch.
            await asyncio.sleep(GATHER_SECS)
            try:
                async with asyncio.timeout(OPENING_SECS):
                    await watching.begun.wait()
            except TimeoutError:
                continue
            for each in replaced:
                self._end(each)

    def _small(self, room: int) -> list[_Watching]:
        """The watches whose tasks the next one takes over."""
        if len(self._watchings) < MAX_WATCHES:
            return []
        found = []
        for watching in sorted(self._watchings, key=lambda each: len(each.left)):
            room -= len(watching.left)
            if room < 0:
                break
            if watching.begun.is_set():
                found.append(watching)
        return found

    async def _follow(self, watching: _Watching) -> None:
        try:
            events = self._watch(sorted(watching.left), watching.begun.set)
            async with aclosing(events):
                async for event in events:
                    if event.task.state.ended:
                        self._take(watching, event.task)
            # Those that it has not shown are not retained: their server has a history of them, or knows them no longer.
            for task_id in sorted(watching.left):
                self._leave(watching, task_id)
                self._read(task_id, None)
        except TaskyardError as error:
            for task_id in watching.left:
                if not any(task_id in other.left for other in self._watchings if other is not watching):
                    self._settle(task_id, error)
        finally:
            watching.begun.set()
            self._watchings.discard(watching)

    def _take(self, watching: _Watching, task: Task) -> None:
        watching.left.discard(task.id)
        if task.state is TaskState.FAILED:
            # Events do not carry the traceback.
            self._read(task.id, task)
        else:
            self._settle(task.id, task)

    def _leave(self, watching: _Watching, task_id: str) -> None:
        watching.left.discard(task_id)
        if not watching.left and watching.task is not asyncio.current_task():
            self._end(watching)

    def _end(self, watching: _Watching) -> None:
        watching.left.clear()
        if watching.task is not None:
            watching.task.cancel()

    def _read(self, task_id: str, shown: Task | None) -> None:
        """Read how a task has ended. If that fails, it has ended as it was shown."""

        async def read() -> None:
            async with self._reading:
                if task_id not in self._expected:
                    return
                try:
                    task = await self._get(task_id)
                except TaskyardError as error:
                    self._settle(task_id, shown if shown is not None and isinstance(error, NotFound) else error)
                    return
                if task.state.ended or shown is not None:
                    self._settle(task_id, task if task.state.ended else shown)
                else:
                    # It was resumed meanwhile, and can be watched again.
                    self._expect_anew(task_id)

        reading = asyncio.create_task(read())
        self._reads.add(reading)
        reading.add_done_callback(self._reads.discard)

    def _settle(self, task_id: str, end: Task | TaskyardError | None) -> None:
        for future in self._expected.pop(task_id, ()):
            if future.done():
                continue
            if isinstance(end, Task):
                future.set_result(end)
            elif end is not None:
                # A copy for each: a raised error collects the tracebacks of those that await it.
                future.set_exception(copy.copy(end))
                # Anyone who has left does not ask for it.
                future.exception()
