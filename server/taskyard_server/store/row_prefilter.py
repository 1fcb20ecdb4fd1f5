"""Filters that a store can apply to rows of tasks without knowing their content: bytes that must stand in them.

A text stands in a record as msgpack writes it, with its length in front, wherever it is. So rows without these bytes
cannot be of a task that is wanted; of those that have them the engine decides.
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.msgpack import Encoder

from taskyard_server.core.search.label_selectors import IN, PRESENT
from taskyard_server.core.search.task_filter import WITH_ERROR
from taskyard_server.core.task import PENDING, QUEUED

from .port import Sought

if TYPE_CHECKING:
    from taskyard_server.core.search.label_selectors import Requirement
    from taskyard_server.core.search.task_filter import TaskFilter
    from taskyard_server.core.task import TaskState

encode: Final = Encoder().encode
AS_SUBMITTED_IN: Final = frozenset({PENDING, QUEUED})
"""The states of tasks that have no record of their state, since nothing happened to them."""


def sought(wanted: TaskFilter) -> Sought | None:
    """The bytes in the rows of tasks that match; None if nothing is known of them."""
    task: list[tuple[bytes, ...]] = []
    for text in (wanted.agent_id, wanted.action, wanted.batch_id, wanted.target, wanted.parent_id):
        if text is not None:
            task.append((encode(text),))
    if wanted.id_prefix is not None:
        # It stands in the record of the task, with its length in front.
        task.append((wanted.id_prefix.encode(),))
    if wanted.concurrency_key is not None:
        task.append((encode(wanted.concurrency_key),))
    if wanted.agents is not None and not wanted.agents.is_every:
        exact = [encode(name) for name in sorted(wanted.agents.exact)]
        # What follows a beginning, and with it the length in front, may be anything.
        task.append((*exact, *[prefix.encode() for prefix in wanted.agents.prefixes]))
    if wanted.labels is not None:
        task += [found for each in wanted.labels.requirements if (found := _of_label(each)) is not None]
    state, may_be_as_submitted = _of_state(wanted)
    ended = None
    if wanted.ended_from is not None or wanted.ended_until is not None:
        first = -(1 << 62) if wanted.ended_from is None else floor(wanted.ended_from * 1000)
        last = 1 << 62 if wanted.ended_until is None else floor(wanted.ended_until * 1000)
        ended = (first, last)
    looks_for = Sought(tuple(task), tuple(state), may_be_as_submitted, ended)
    return None if looks_for == Sought() else looks_for


class _States(NamedTuple):
    groups: list[tuple[bytes, ...]]
    may_be_as_submitted: bool


def _of_state(wanted: TaskFilter) -> _States:
    groups: list[tuple[bytes, ...]] = []
    states: frozenset[TaskState] | None = wanted.states
    if wanted.error is not None:
        # Its text may be written in any case, so only the states that have one are looked for.
        states = WITH_ERROR if states is None else states & WITH_ERROR
    if states is not None:
        groups.append(tuple([encode(state.value) for state in sorted(states)]))
    if wanted.host_id is not None:
        groups.append((encode(wanted.host_id),))
    as_submitted = wanted.host_id is None and (states is None or not states.isdisjoint(AS_SUBMITTED_IN))
    return _States(groups, as_submitted)


def _of_label(requirement: Requirement) -> tuple[bytes, ...] | None:
    if requirement.relation is IN:
        return tuple([encode((requirement.key, value)) for value in requirement.values])
    return (encode(requirement.key),) if requirement.relation is PRESENT else None
