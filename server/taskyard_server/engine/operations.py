"""Operations of the embedded engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from taskyard_server.core.names import Names
from taskyard_server.core.operations.operation import Operation, OperationRequest

if TYPE_CHECKING:
    from .namespaces import Namespaces

T = TypeVar("T")

MAX_COUNTED_PER_TURN: Final = 2_000
"""Maximum tasks that a dry run looks at per turn of the event loop."""


class OperationCommands:
    """Commands on operations (docs/rules.md, Operations).

    `agents` are those of the caller, None for all: it finds the operations alone that were begun with the same ones.
    """

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now
        self._barrier = namespaces.barrier

    async def begin(self, namespace: str, request: OperationRequest, *, show: Callable[[Operation], T]) -> T:
        """Begin an operation, or find the one that the same request began. Raises `Conflict` or `TooManyOperations`."""
        state = self._namespaces.get_or_create(namespace)
        operations = state.scheduler.operations
        return await self._barrier.give(state, lambda: show(operations.begin(self._now(), request)))

    async def count(self, namespace: str, request: OperationRequest) -> int:
        """How many tasks such an operation would be about, as they are found in passing. Nothing is changed."""
        state = self._namespaces.find(namespace)
        found = after = 0
        while state is not None:
            scheduler = state.scheduler
            is_about = scheduler.operations.is_about
            tasks = list(islice(scheduler.tasks_after(after), MAX_COUNTED_PER_TURN))
            found += sum([is_about(request.kind, request.task_filter, task) for task in tasks])
            if len(tasks) < MAX_COUNTED_PER_TURN:
                await self._barrier.kept(state)
                break
            after = tasks[-1].seq
            await asyncio.sleep(0)
            state.require_here()
        return found

    async def get(
        self, namespace: str, operation_id: str, *, agents: Names | None = None, show: Callable[[Operation], T]
    ) -> T:
        """The operation. Raises `NotFound`."""
        state = self._namespaces.get(namespace, "operation")
        operations = state.scheduler.operations
        return await self._barrier.give(state, lambda: show(operations.get(self._now(), operation_id, agents)))

    async def list_operations(
        self, namespace: str, before: int, *, agents: Names | None = None, show: Callable[[list[Operation]], T]
    ) -> T:
        """The operations with numbers below `before`, all for 0, the newest first."""
        state = self._namespaces.find(namespace)
        if state is None:
            return show([])
        operations = state.scheduler.operations
        return await self._barrier.give(state, lambda: show(operations.before(self._now(), before, agents)))

    async def cancel(
        self, namespace: str, operation_id: str, *, agents: Names | None = None, show: Callable[[Operation], T]
    ) -> T:
        """End an operation where it stands. Raises `NotFound`."""
        state = self._namespaces.get_for_command(namespace, "operation")
        operations = state.scheduler.operations
        return await self._barrier.give(state, lambda: show(operations.cancel(self._now(), operation_id, agents)))
