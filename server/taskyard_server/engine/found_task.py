"""A task for reading alone, wherever it is: in memory, or in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskyard_server.core.errors import NotFound

if TYPE_CHECKING:
    from taskyard_server.core.names import Names
    from taskyard_server.core.task import Task, TaskState

    from .namespace import NamespaceState
    from .namespaces import Namespaces


async def found_task(
    namespaces: Namespaces, state: NamespaceState, task_id: str, agents: Names | None
) -> tuple[Task, TaskState]:
    """The task of one of these agents, None for all, and its state as it is kept. Raises `NotFound`, `Unavailable`."""
    task = state.find(task_id, agents)
    if task is None:
        history = namespaces.history
        task = None if history is None else await history.find(state, task_id, agents)
        task = task or state.find(task_id, agents)
        if task is None:
            raise NotFound("task not found")
    kept_state = task.state
    if state.is_unkept(task_id):
        await namespaces.barrier.kept(state)
    return task, kept_state
