"""Tasks that have left memory: found by their ids, and brought back for a command, from the rows of the store.

A search for a task looks in memory first, then waits until all that happened is committed, since a task may leave
memory before its end is, then reads its row, and then looks in memory again. A task of another agent than the caller's
is looked for as one that never was, so that neither the answer nor its time tells of it. One task is brought back by
one call at a time: the others wait for it, so that none of them puts an older row in the place of a newer one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import structlog

from taskyard_server.core.errors import Internal, NotFound, Unavailable
from taskyard_server.core.task import FAILED, TERMINAL
from taskyard_server.store.committer import NO_ANSWER
from taskyard_server.store.loading import FAULTS, adopt, stored_task
from taskyard_server.store.port import CommitDelayed, StoreError, key_of

if TYPE_CHECKING:
    from taskyard_server.core.names import Names
    from taskyard_server.core.task import Task
    from taskyard_server.store.port import Page, Sought, Store, TaskRows

    from .answers import CommitBarrier
    from .driver import Driver
    from .namespace import NamespaceState

log = structlog.get_logger(__name__)

T = TypeVar("T")

ID: Final = re.compile("tsk_[0-9a-f]{12}([0-9a-f]{10})[0-9a-f]{10}")
"""The order of submission in it is the number of the task's rows."""
MAX_READS: Final = 3
DAMAGED: Final = "the records of this task are at fault; see the server's log"


class StoredHistory:
    """The tasks of a store, for whose answers calls wait up to `patience_secs`."""

    def __init__(self, store: Store, patience_secs: float, barrier: CommitBarrier, driver: Driver) -> None:
        self._store = store
        self._patience_secs = patience_secs
        self._barrier = barrier
        self._driver = driver
        self._loads: dict[int, list[asyncio.Future[None]]] = {}

    async def find(self, state: NamespaceState, task_id: str, agents: Names | None = None) -> Task | None:
        """The task as it ended or as it blocks its target, for reading alone; None if it is in memory.

        Raises `NotFound`, also for a task of another agent than these, and `Unavailable` while the store does not
        answer.
        """
        key = _key(state, task_id)
        for _ in range(MAX_READS):
            rows = await self._rows(state, key, task_id, agents)
            if rows is None:
                return None
            task = _task(state, rows, task_id, agents)
            if rows.ended is not None or task.state is FAILED:
                return task
            # It was brought back, ended, and left memory again while its row was read.
        log.error("task_lost", namespace=state.namespace, task=task_id, check="taskyard store check")
        raise Internal(DAMAGED)

    async def bring_back(
        self,
        state: NamespaceState,
        task_ids: Collection[str],
        check: Callable[[Task], None] = lambda _: None,
        agents: Names | None = None,
    ) -> None:
        """Put tasks that have ended back into memory, all at once, for a command that must follow in this turn.

        With one that has failed come its inputs, which a resume needs. `check` raises why the command is refused for a
        task that ended as it did. Raises `NotFound`, also for a task of another agent than these, and `Unavailable`
        while the store does not answer.
        """
        sought = _Sought(list(task_ids), check, agents, {})
        while missing := sought.missing(state):
            keys = {_key(state, task_id): task_id for task_id in missing}
            waits = [self._loads[key] for key in keys if key in self._loads]
            if waits:
                wait: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                waits[0].append(wait)
                await wait
                continue
            self._loads |= {key: [] for key in keys}
            try:
                await self._load(state, keys, sought)
            finally:
                for key in keys:
                    for wait in self._loads.pop(key):
                        if not wait.done():
                            wait.set_result(None)

    async def _load(self, state: NamespaceState, keys: Mapping[int, str], sought: _Sought) -> None:
        """Bring tasks back, unless it turns out that inputs must come with them, which are then sought, too."""
        found = []
        for key, task_id in keys.items():
            is_input = task_id in sought.inputs
            agents = None if is_input else sought.agents
            try:
                rows = await self._rows(state, key, task_id, agents)
            except NotFound:
                if not is_input:
                    raise
                sought.inputs[task_id] = False
                continue
            if rows is None:
                continue
            task = _task(state, rows, task_id, agents)
            if not is_input:
                sought.check(task)
            if task.state not in TERMINAL:
                # A live one is always in memory.
                log.error("task_lost", namespace=state.namespace, task=task_id, check="taskyard store check")
                raise Internal(DAMAGED)
            found.append(rows)
            if task.state is FAILED and not is_input:
                sought.add_inputs(task)
        if not set(sought.missing(state)) <= set(keys.values()):
            return
        for rows in found:
            state.scheduler.outputs.came_back(adopt(state.scheduler, rows))
        # Unless the command needs them they leave memory again when time next advances, so that must be arranged.
        self._driver.mark_dirty(state)

    async def _rows(self, state: NamespaceState, key: int, task_id: str, agents: Names | None) -> TaskRows | None:
        """The committed rows of a task that is not in memory; None if it is. Raises `NotFound`."""
        await self._barrier.kept(state)
        if state.find(task_id, agents) is not None:
            return None
        rows = await self.answered(self._store.task(key))
        if state.find(task_id, agents) is not None:
            return None
        if rows is None:
            raise NotFound("task not found")
        return rows

    async def ended_since(self, state: NamespaceState, ms: int) -> AsyncIterator[list[Task]]:
        """The tasks of a namespace that ended at a time or later and have left memory, in slices."""
        await self._barrier.kept(state)
        yield await self._blockers_since(state, ms)
        try:
            async for rows in self._store.ended_tasks(ms, state.number):
                tasks = [read_task(state, each) for each in rows]
                yield [task for task in tasks if state.scheduler.find(task.id) is None]
        except (CommitDelayed, StoreError):
            raise Unavailable(NO_ANSWER) from None

    async def _blockers_since(self, state: NamespaceState, ms: int) -> list[Task]:
        """The tasks that failed at a time or later, block their target, and have left memory."""
        tasks = []
        for left in state.scheduler.targets.failed_blockers():
            if left.completed_at is not None and left.completed_at * 1000 >= ms and state.find(left.id) is None:
                rows = await self.answered(self._store.task(key_of(state.number, left.seq)))
                # It may have come back meanwhile.
                if rows is not None and rows.ended is None and state.find(left.id) is None:
                    tasks.append(read_task(state, rows))
        return tasks

    async def scan(
        self, first_key: int, last_key: int, descending: bool, limit: int, sought: Sought | None = None
    ) -> Page:
        """`Store.scan`, as `answered` has it."""
        scan = self._store.scan(first_key, last_key, descending=descending, limit=limit, sought=sought)
        return await self.answered(scan)

    async def answered(self, reading: Coroutine[Any, Any, T]) -> T:
        """The answer of the store. Raises `Unavailable` if that takes too long."""
        try:
            return await asyncio.wait_for(reading, self._patience_secs)
        except (TimeoutError, CommitDelayed, StoreError):
            raise Unavailable(NO_ANSWER) from None


class _Sought(NamedTuple):
    """Tasks to bring back, of these agents, and what `check` raises of them; and their `inputs`, false if gone."""

    tasks: Collection[str]
    check: Callable[[Task], None]
    agents: Names | None
    inputs: dict[str, bool]

    def missing(self, state: NamespaceState) -> list[str]:
        """Those that are not in memory, inputs first."""
        inputs = [each for each, is_there in self.inputs.items() if is_there and state.find(each) is None]
        return inputs + [each for each in self.tasks if state.find(each, self.agents) is None]

    def add_inputs(self, task: Task) -> None:
        """Seek the inputs of a task, too."""
        for _, each in task.options.extras.inputs:
            if each not in self.tasks:
                self.inputs.setdefault(each, True)


def _key(state: NamespaceState, task_id: str) -> int:
    """The key of the rows that a task of this id has. Raises `NotFound` if none can have it."""
    match = ID.fullmatch(task_id)
    number = 0 if match is None else int(match[1], 16)
    if not 0 < number <= state.scheduler.view.last_seq:
        raise NotFound("task not found")
    return key_of(state.number, number)


def _task(state: NamespaceState, rows: TaskRows, task_id: str, agents: Names | None) -> Task:
    """The task of these rows. Raises `NotFound` if it has another id than is looked for, or another agent."""
    task = read_task(state, rows)
    if task.id != task_id or (agents is not None and task.agent_id not in agents):
        raise NotFound("task not found")
    return task


def read_task(state: NamespaceState, rows: TaskRows) -> Task:
    """The task of these rows, for reading alone. Raises `Internal` if they are at fault."""
    try:
        task = stored_task(rows, state.scheduler.view.stood_still_secs)
    except FAULTS:
        log.exception("record_at_fault", namespace=state.namespace, key=rows.key, check="taskyard store check")
        raise Internal(DAMAGED) from None
    if not state.scheduler.view.tells_position:
        task.position = None
    return task
