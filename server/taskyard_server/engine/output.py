"""The output of tasks: hosts append to it, callers read it and follow it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from taskyard_server.core.errors import Unavailable
from taskyard_server.core.runs.outputs import TaskOutput
from taskyard_server.core.task import TERMINAL
from taskyard_server.store.committer import NO_ANSWER
from taskyard_server.store.port import CommitDelayed, StoreError, key_of, keys_of
from taskyard_server.store.records.records import decode_output

from .answers import Answer
from .found_task import found_task
from .output_log import stored_row

if TYPE_CHECKING:
    from taskyard_server.core.errors import Refusal
    from taskyard_server.core.names import Names
    from taskyard_server.core.runs.outputs import Saying
    from taskyard_server.core.task import Task, TaskState
    from taskyard_server.store.port import Store

    from .namespace import NamespaceState
    from .namespaces import Namespaces
    from .output_log import ChunkRow, Encode
    from .views import RunFigures

MEASURE_SECS: Final = 3_600.0
LOOK_SECS: Final = 60.0
"""How often it is measured what a namespace keeps, and looked for namespaces that have come."""
MEASURE_PAUSE_SECS: Final = 0.01
PART_BYTES: Final = 1 << 20
"""About how much is read at once."""
SHUTS_DOWN: Final = "the server shuts down"


class OutputPart(NamedTuple):
    """A part of a task's output, as it is kept.

    `after` is where the next part begins, and `is_last` whether there is none now. `first` is the number of the oldest
    chunk that is kept, `dropped` the bytes that were dropped. The task was in this `state` before the rows were read.
    """

    rows: Sequence[ChunkRow]
    after: int
    is_last: bool
    first: int
    dropped: int
    state: TaskState


class OutputCommands:
    """Commands on the output of tasks; `store` where it is kept. `agents` are those of the caller, None for all."""

    def __init__(self, namespaces: Namespaces, store: Store | None, figures: RunFigures) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now
        self._barrier = namespaces.barrier
        self._store = store
        self._figures = figures

    @property
    def is_taken(self) -> bool:
        """True if hosts may say anything: no earlier version may come to serve the namespaces."""
        return self._namespaces.takes_output

    async def append(
        self,
        namespace: str,
        host_id: str,
        sayings: Sequence[Saying],
        encode: Encode,
        patient: bool = False,
        *,
        own_only: bool = False,
    ) -> Answer[list[int | Refusal]]:
        """Take what a host says. Answers for each saying how many chunks of its lease are taken, or its refusal.

        `encode` makes of those of a saying, given by its index, that were not taken before what is told. If `own_only`
        a task that was last handed to another host is not found. Raises `NotFound` if the namespace does not exist,
        `Unavailable` where the store does not answer in time, unless the caller is `patient`, and while its disk is
        nearly full.
        """
        self._namespaces.require_room()
        state = self._namespaces.get_for_command(namespace, "runtime host", patient)
        if state.scheduler.outputs.has_unknown:
            for saying in sayings:
                task = state.scheduler.find(saying.task_id)
                if task is not None and not state.scheduler.outputs.is_known(task):
                    await self._look_up(state, task)
            state = self._namespaces.get_for_command(namespace, "runtime host", patient)
        outcomes = state.outputs.take(
            state.scheduler.outputs, self._now(), host_id, sayings, encode, self._figures, own_only
        )
        if self._store is None:
            state.outputs.publish()
        return self._barrier.of(state, outcomes, patient)

    async def read(
        self,
        namespace: str,
        task_id: str,
        after: int,
        *,
        agents: Names | None = None,
        check: Callable[[Task], None] = lambda _: None,
    ) -> OutputPart:
        """The part of a task's output that comes after a number.

        `check` raises why the caller may not read it. Raises `NotFound`, and `Unavailable` while the store does not
        answer.
        """
        state = self._namespaces.get(namespace, "task")
        task, task_state = await found_task(self._namespaces, state, task_id, agents)
        check(task)
        rows, is_last, first, dropped = await self._rows(state, task, after)
        return OutputPart(rows, max(after, rows[-1].end - 1) if rows else after, is_last, first, dropped, task_state)

    async def wait(self, namespace: str, task_id: str, after: int, secs: float) -> bool:
        """Wait until there is output after a number, or the task has ended; False if it took longer than `secs`.

        Raises `Unavailable` when the server shuts down.
        """
        state = self._namespaces.get(namespace, "task")
        self._require_open()
        task = state.scheduler.find(task_id)
        if task is None:
            return True
        if task.state in TERMINAL:
            await self._barrier.kept(state)
            return True
        log = state.outputs.follow(task.seq)
        if log.end > after + 1:
            return True
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()
        log.followers.add(news)
        waits = state.end_waits.setdefault(task_id, set())
        waits.add(news)
        # A timer of its own costs less than a wait with a timeout, and most waits end long before it.
        overdue: list[None] = []
        timer = loop.call_later(secs, _end_wait, news, overdue)
        try:
            await news
        finally:
            timer.cancel()
            waits.discard(news)
            if not waits and state.end_waits.get(task_id) is waits:
                del state.end_waits[task_id]
            log.followers.discard(news)
            state.outputs.left(task.seq)
        state.require_here()
        self._require_open()
        return not overdue

    async def run(self) -> None:
        """Measure what each namespace keeps, until cancelled."""
        measured: dict[int, int] = {}
        due_at = 0.0
        while True:
            if self._namespaces.wall() >= due_at:
                measured, due_at = {}, self._namespaces.wall() + MEASURE_SECS
            for state in list(self._namespaces):
                if measured.get(state.number) != state.term:
                    # While the store does not answer, a later round will do.
                    with contextlib.suppress(CommitDelayed, StoreError):
                        await self.measure(state)
                        measured[state.number] = state.term
            await asyncio.sleep(LOOK_SECS)

    async def measure(self, state: NamespaceState) -> None:
        """Measure what a namespace keeps. Raises `CommitDelayed`, `StoreError`."""
        outputs = state.scheduler.outputs
        if self._store is None:
            outputs.recount()
            return
        before, size = outputs.used, 0
        next_key: int | None
        next_key, last_key = keys_of(state.number)
        while next_key is not None:
            part, next_key = await self._store.output_sizes(next_key, last_key)
            size += part
            await asyncio.sleep(MEASURE_PAUSE_SECS)
        # What came meanwhile counts, too.
        outputs.used += size - before

    def _require_open(self) -> None:
        if self._namespaces.closed:
            raise Unavailable(SHUTS_DOWN)

    async def _rows(self, state: NamespaceState, task: Task, after: int) -> tuple[Sequence[ChunkRow], bool, int, int]:
        """The first kept rows with chunks after a number, and whether there are no more of them now.

        Then the number of the oldest chunk that is kept, and what was dropped.
        """
        output, log = state.scheduler.outputs.find(task), state.outputs.of(task.seq)
        first, dropped = (1, 0) if output is None else (output.first, output.dropped)
        if log is not None and (self._store is None or log.covers(after + 1)):
            rows = log.from_(after + 1, PART_BYTES)
            return rows, not rows or rows[-1].end == log.end, first, dropped
        is_known = state.scheduler.find(task.id) is task and state.scheduler.outputs.is_known(task)
        if self._store is None or (output is None and is_known):
            return (), True, first, dropped
        key = key_of(state.number, task.seq)
        try:
            stored = await self._store.output(key, after, PART_BYTES)
            if output is None:
                oldest = stored if not after else await self._store.output(key, 0, 0)
                first, dropped = (oldest[0].first, oldest[0].begin) if oldest else (1, 0)
        except (CommitDelayed, StoreError):
            raise Unavailable(NO_ANSWER) from None
        # It stops once there is more than was asked for, and knows where rows begin, not where they end.
        is_last = sum(len(row.record) for row in stored) <= PART_BYTES
        return [row for row in map(stored_row, stored) if row.end > after + 1], is_last, first, dropped

    async def _look_up(self, state: NamespaceState, task: Task) -> None:
        """Learn from the store what it has of a task's output."""
        assert self._store is not None
        try:
            stored = await self._store.output_state(key_of(state.number, task.seq))
        except (CommitDelayed, StoreError):
            raise Unavailable(NO_ANSWER) from None
        output = TaskOutput()
        if stored is not None:
            newest, record = stored.newest, decode_output(stored.newest.record)
            end, said = newest.first + record.count, newest.begin + record.size
            output = TaskOutput(end, said, record.token, record.taken, stored.segments)
        state.scheduler.outputs.adopt(task, output)


def _end_wait(news: asyncio.Future[None], overdue: list[None]) -> None:
    """End a wait whose time is over, and note that."""
    if not news.done():
        overdue.append(None)
        news.set_result(None)
