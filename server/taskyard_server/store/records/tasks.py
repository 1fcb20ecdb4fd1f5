"""The records that a group holds most of: those of tasks, of their states and of agents, as msgpack arrays.

They are written from plain tuples, which takes three quarters of the time that their Structs take; `records.py` has
these, by which they are read and checked. This file is compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.msgpack import Encoder

from taskyard_server.core.history import History
from taskyard_server.core.task import NO_EXTRAS, NO_HISTORY, NO_OPTIONS, PENDING, QUEUED, TaskState
from taskyard_server.core.task_options import TaskOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from taskyard_server.core.agents import AgentFigures
    from taskyard_server.core.task import Task

AS_SUBMITTED: Final = b""
"""The state of a task that waits and was never touched since it was submitted."""
OPTIONS_OF_LEVEL_1: Final = 13
HISTORY_OF_LEVEL_1: Final = 9
EXTRAS_OF_LEVEL_3: Final = 9
"""How many fields they had at first: these are always written."""
_VALUES: Final[dict[TaskState, str]] = {state: state.value for state in TaskState}
"""The value of an enum is looked up by a Python function."""

encode: Final[Callable[[Any], bytes]] = Encoder().encode


def encode_task(task: Task, stood_still_secs: float) -> bytes:
    """A `TaskRecord`."""
    deadline, deadline_secs, options = task.deadline, task.deadline_secs, task.options
    if stood_still_secs and deadline_secs is None and deadline is not None:
        deadline -= stood_still_secs
    return encode(
        (
            task.id,
            task.agent.id,
            task.action,
            task.created_at,
            task.position,
            deadline,
            deadline_secs,
            task.tab_id,
            task.ref,
            task.params,
            task.priority,
            None if options is NO_OPTIONS else kept_options(options),
            task.commit,
        )
    )


def encode_state(task: Task, stood_still_secs: float, has_no_key: bool = False) -> bytes:
    """A `StateRecord`."""
    deadline, lease, history = task.deadline, task.lease, task.history
    if stood_still_secs and deadline is not None and task.deadline_secs is None:
        deadline -= stood_still_secs
    return encode(
        (
            _VALUES[task.state],
            task.queued_at,
            deadline,
            task.deliveries,
            task.token,
            task.host_id,
            None
            if lease is None
            else (
                lease.host.id,
                lease.secs,
                lease.claimed_at,
                lease.started_at,
                lease.stream is not None,
                lease.claim_id,
            ),
            task.started_at,
            None if history is NO_HISTORY else kept_history(history),
            task.progress,
            task.error,
            task.expired,
            task.completed_at,
            task.result,
            has_no_key,
            task.commit,
        )
    )


def is_as_submitted(task: Task) -> bool:
    """True if nothing has happened to a task since it was submitted."""
    if task.token:
        return False
    history = task.history
    if task.state is QUEUED:
        return history is NO_HISTORY
    return (
        task.state is PENDING
        and history.run == 1
        and history.held == task.options.hold
        and history.token_limit is None
        # Whether one that comes after others has to wait does not stand in what was submitted.
        and not task.options.extras.after
        and not task.options.extras.inputs
        and not history.bound
        and not history.artifacts
    )


def encode_agent(figures: AgentFigures, tie_break: int) -> bytes:
    """An `AgentRecord`."""
    return encode(
        (
            figures.name,
            tie_break,
            figures.submitted,
            figures.completed,
            figures.failed,
            figures.cancelled,
            figures.rejected,
            figures.tokens_used,
        )
    )


def kept_options(options: TaskOptions) -> tuple[object, ...] | None:
    """Options as they stand in a record."""
    if options is NO_OPTIONS:
        return None
    kept = _up_to_the_last_set(options, NO_OPTIONS, OPTIONS_OF_LEVEL_1)
    if len(kept) < len(options):
        return kept
    # The extras are the last of the options.
    return (*kept[:-1], _up_to_the_last_set(options.extras, NO_EXTRAS, EXTRAS_OF_LEVEL_3))


def read_options(kept: TaskOptions | None) -> TaskOptions:
    """Options as they stand in the core, where those that say nothing are one object."""
    if kept is None:
        return NO_OPTIONS
    return kept._replace(extras=NO_EXTRAS) if kept.extras == NO_EXTRAS else kept


def kept_history(history: History) -> tuple[object, ...] | None:
    """The course of a task as it stands in a record."""
    return None if history is NO_HISTORY else _up_to_the_last_set(history, NO_HISTORY, HISTORY_OF_LEVEL_1)


def _up_to_the_last_set(values: tuple[object, ...], defaults: tuple[object, ...], least: int) -> tuple[object, ...]:
    """Without the last fields that say nothing.

    A version reads no tuple that has more fields than it knows. So those that came with a format level are written only
    where they say something, which the core allows only once that level is in force (`core/readers.py`).
    """
    count = len(values)
    while count > least and values[count - 1] == defaults[count - 1]:
        count -= 1
    return values[:count]
