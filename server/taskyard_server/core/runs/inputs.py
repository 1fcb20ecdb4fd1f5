"""The inputs of a task: tasks whose results it is handed, each by a name (docs/rules.md, Inputs).

They are predecessors that stay in memory until the task has ended (`predecessors.py`), and its lease has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from taskyard_server.core.errors import NotFound

if TYPE_CHECKING:
    from taskyard_server.core.leases import Lease
    from taskyard_server.core.task import Task


class TaskInput(NamedTuple):
    """An input: the task with this id, None where it is not kept any more."""

    name: str
    task_id: str
    task: Task | None


def inputs_of(lease: Lease) -> Iterator[TaskInput]:
    """The inputs of the task of a lease, in the order of their names."""
    for (name, task_id), task in zip(lease.task.options.extras.inputs, lease.inputs, strict=True):
        yield TaskInput(name, task_id, task)


def find_input(lease: Lease, name: str) -> TaskInput:
    """The input of this name. Raises `NotFound`."""
    for each in inputs_of(lease):
        if each.name == name:
            return each
    raise NotFound("input not found")
