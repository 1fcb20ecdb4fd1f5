"""Tasks that submissions may name, to come after or end with them: those in memory, and those that have left it.

A task of another agent than the caller's is looked for as one that never was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import NotFound
from taskyard_server.core.predecessors import Known
from taskyard_server.core.task import FAILED
from taskyard_server.core.task_options import OnParentEnd

if TYPE_CHECKING:
    from taskyard_server.core.names import Names
    from taskyard_server.core.task import Submission, TaskState

    from .history import StoredHistory
    from .namespace import NamespaceState

MAX_LOOKS: Final = 3
"""While the store is read, tasks that were in memory may leave it."""


async def known_of(
    state: NamespaceState, history: StoredHistory | None, submissions: Sequence[Submission], agents: Names | None
) -> Known:
    """The tasks that these submissions may name. The command must follow in this turn. Raises `Unavailable`."""
    past: dict[str, TaskState] = {}
    if history is None:
        return Known(agents, past)
    extras = [each.options.extras for each in submissions]
    predecessors = dict.fromkeys([task_id for each in extras for task_id in each.predecessors])
    names = predecessors | dict.fromkeys(_parents(submissions))
    inputs = {task_id for each in extras for _, task_id in each.inputs}
    for _ in range(MAX_LOOKS):
        has_waited, needed = False, []
        for task_id in list(names):
            if state.find(task_id, agents) is not None:
                continue
            has_waited = True
            try:
                task = await history.find(state, task_id, agents)
            except NotFound:
                del names[task_id]
                continue
            if task is None:
                continue
            # One that failed may still be resumed or resolved, which is to be waited for.
            may_be_resumed = task.state is FAILED and state.scheduler.targets.blocks(task)
            if task_id in inputs or (may_be_resumed and task_id in predecessors):
                needed.append(task_id)
            else:
                past[task_id] = task.state
                del names[task_id]
        if not has_waited:
            break
        # One that is forgotten meanwhile is found to be so in the next look.
        with contextlib.suppress(NotFound):
            await history.bring_back(state, needed, agents=agents)
    return Known(agents, past)


def _parents(submissions: Sequence[Submission]) -> list[str]:
    """The parents with which these are to end."""
    its = [each.options for each in submissions if each.options.extras.on_parent_end is OnParentEnd.CANCEL]
    return [options.parent_id for options in its if options.parent_id is not None]
