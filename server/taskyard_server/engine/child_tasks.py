"""The children that hosts submit by name under their leases, and what became of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from taskyard_server.core.names import Names

from .known_tasks import known_of

if TYPE_CHECKING:
    from taskyard_server.core.runs.inputs import TaskInput
    from taskyard_server.core.task import Submission, Task

    from .namespaces import Namespaces

T = TypeVar("T")


class ChildCommands:
    """Commands of hosts on the children of their tasks. `own_only` is as in `Reports.take_each`."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now
        self._barrier = namespaces.barrier

    async def submit(
        self,
        namespace: str,
        host_id: str,
        task_id: str,
        token: int,
        submission: Submission,
        *,
        own_only: bool = False,
        show: Callable[[tuple[Task, bool]], T],
    ) -> T:
        """Submit a child of a task under its lease; answers once it is kept. Raises as `ChildTasks.submit`."""
        self._namespaces.require_room()
        state = self._namespaces.get_for_command(namespace, "runtime host")
        extras, past = submission.options.extras, {}
        parent = state.scheduler.find(task_id)
        if parent is not None and (extras.after or extras.inputs):
            agents = Names(frozenset((parent.agent_id,)))
            past = dict((await known_of(state, self._namespaces.history, [submission], agents)).past)

        def command() -> T:
            children = state.scheduler.children
            return show(children.submit(self._now(), host_id, task_id, token, submission, past, own_only=own_only))

        return await self._barrier.give(state, command)

    async def fetch(
        self,
        namespace: str,
        host_id: str,
        task_id: str,
        token: int,
        name: str,
        *,
        own_only: bool = False,
        show: Callable[[TaskInput], T],
    ) -> T:
        """A child of a task that the host has under a lease. Raises `NotFound`, `LeaseLost` or `Unavailable`."""
        state = self._namespaces.get_for_command(namespace, "runtime host")

        def command() -> T:
            children = state.scheduler.children
            return show(children.find(self._now(), host_id, task_id, token, name, own_only=own_only))

        return await self._barrier.give(state, command)
