"""The children that hosts submit by name under their leases, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from taskyard_server.core.names import Names

from .known_tasks import known_of

if TYPE_CHECKING:
    from taskyard_server.core.runs.inputs import TaskInput
    from taskyard_server.core.task import Submission, Task, TaskState

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
        extras = submission.options.extras
        past = await self._past(namespace, task_id, submission) if extras.after or extras.inputs else {}
        # Not before: while the store was read, the namespace may have gone to another owner.
        state = self._namespaces.get_for_command(namespace, "runtime host")

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

    async def _past(self, namespace: str, task_id: str, submission: Submission) -> Mapping[str, TaskState]:
        """How those ended that a child comes after and that have left memory."""
        state = self._namespaces.get(namespace, "runtime host")
        parent = state.scheduler.find(task_id)
        if parent is None:
            return {}
        agents = Names(frozenset((parent.agent_id,)))
        return (await known_of(state, self._namespaces.history, [submission], agents)).past
