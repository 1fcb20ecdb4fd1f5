"""The steps of tasks: hosts record them under a lease, and have them again under the next one; callers read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import Unavailable
from taskyard_server.store.committer import NO_ANSWER
from taskyard_server.store.port import CommitDelayed, StoreError, key_of
from taskyard_server.store.records.records import decode_step

from .found_task import found_task

if TYPE_CHECKING:
    from taskyard_server.core.history import Step
    from taskyard_server.core.leases import Lease
    from taskyard_server.core.names import Names
    from taskyard_server.core.runs.steps import NewStep
    from taskyard_server.core.task import Task
    from taskyard_server.store.port import Store

    from .namespace import NamespaceState
    from .namespaces import Namespaces
    from .views import RunFigures

MAX_READS: Final = 3


class StepCommands:
    """Commands on the steps of tasks; `store` where they are kept. `agents` are those of the caller, None for all."""

    def __init__(self, namespaces: Namespaces, store: Store | None, figures: RunFigures) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now
        self._barrier = namespaces.barrier
        self._store = store
        self._figures = figures

    async def record(self, namespace: str, host_id: str, new: NewStep, *, own_only: bool = False) -> tuple[int, bool]:
        """Take a step of a task that a host has under a lease; answers once it is kept.

        Returns its number, and whether the task had one of its name. Raises `NotFound`, `LeaseLost`, `TooLarge`, and
        `Unavailable` where the store does not answer in time or its disk is nearly full.
        """
        self._namespaces.require_room()
        await self._know_names(namespace, host_id, new.task_id, new.token, own_only=own_only)
        state = self._namespaces.get_for_command(namespace, "runtime host")

        def command() -> tuple[int, bool]:
            number, is_repeated = state.scheduler.reports.record_step(self._now(), host_id, new, own_only=own_only)
            self._figures.steps += not is_repeated
            return number, is_repeated

        return await self._barrier.give(state, command)

    async def fetch(
        self, namespace: str, host_id: str, task_id: str, token: int, *, own_only: bool = False
    ) -> Sequence[Step]:
        """The steps of a task that the host has under a lease.

        Raises `NotFound`, `LeaseLost` or `Unavailable`.
        """
        state = self._namespaces.get_for_command(namespace, "runtime host")
        lease = await self._leased(state, host_id, task_id, token, own_only=own_only)
        return await self.kept(state, lease.task)

    async def list(
        self,
        namespace: str,
        task_id: str,
        *,
        agents: Names | None = None,
        check: Callable[[Task], None] = lambda _: None,
    ) -> Sequence[Step]:
        """The steps of a task. `check` raises why the caller may not read them.

        Raises `NotFound`, and `Unavailable` while the store does not answer.
        """
        state = self._namespaces.get(namespace, "task")
        task, _ = await found_task(self._namespaces, state, task_id, agents)
        check(task)
        return await self.kept(state, task)

    async def _know_names(self, namespace: str, host_id: str, task_id: str, token: int, *, own_only: bool) -> None:
        """Let the core know the steps that earlier runs have recorded of a task under a lease."""
        for _ in range(MAX_READS):
            state = self._namespaces.get_for_command(namespace, "runtime host")
            task, steps = state.scheduler.find(task_id), state.scheduler.steps
            if task is None or steps.is_known(task):
                return
            await self._leased(state, host_id, task_id, token, own_only=own_only)
            kept = await self.kept(state, task)
            if task.lease is None or steps.adopt(task, kept):
                return
        raise Unavailable(NO_ANSWER)

    async def _leased(self, state: NamespaceState, host_id: str, task_id: str, token: int, *, own_only: bool) -> Lease:
        reports = state.scheduler.reports
        return await self._barrier.give(
            state, lambda: reports.leased(self._now(), host_id, task_id, token, own_only=own_only)
        )

    async def kept(self, state: NamespaceState, task: Task) -> Sequence[Step]:
        """The steps of a task, as they are kept."""
        if self._store is None:
            state.steps.collect(state.scheduler.steps, has_store=False)
            return state.steps.kept.get(task.seq, ())
        if not task.history.steps:
            return ()
        try:
            return [decode_step(row.record) for row in await self._store.steps(key_of(state.number, task.seq))]
        except (CommitDelayed, StoreError):
            raise Unavailable(NO_ANSWER) from None
