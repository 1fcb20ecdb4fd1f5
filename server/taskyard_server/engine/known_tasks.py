"""Predecessors that submissions may name: tasks in memory, and those that have left it, by the rows of the store.

A task of another agent than the caller's is looked for as one that never was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import NotFound
from taskyard_server.core.predecessors import Known
from taskyard_server.core.task import FAILED

if TYPE_CHECKING:
    from taskyard_server.core.names import Names
    from taskyard_server.core.task import Submission, Task, TaskState

    from .history import StoredHistory
    from .namespace import NamespaceState

MAX_LOOKS: Final = 3
"""While the store is read, tasks that were in memory may leave it."""


async def known_of(
    state: NamespaceState, history: StoredHistory | None, submissions: Sequence[Submission], agents: Names | None
) -> Known:
    """The predecessors that these submissions may name. The command must follow in this turn. Raises `Unavailable`."""
    past: dict[str, TaskState] = {}
    if history is not None:
        names = dict.fromkeys([task_id for each in submissions for task_id in each.options.extras.after])
        for _ in range(MAX_LOOKS):
            found = False
            for task_id in names:
                if task_id not in past and state.find(task_id, agents) is None:
                    try:
                        task = await history.find(state, task_id, agents)
                    except NotFound:
                        continue
                    if task is None:
                        continue
                    found = True
                    if task.state is FAILED and state.scheduler.targets.blocks(task):
                        # It may still be resumed or resolved, which is to be waited for.
                        await history.bring_back(state, task_id, _any_state, agents)
                    else:
                        past[task_id] = task.state
            if not found:
                break
    return Known(agents, past)


def _any_state(task: Task) -> None:
    """Whatever it is, it may be named."""
    del task
