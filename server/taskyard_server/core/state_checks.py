"""Which commands of agents a task may get in which state. Each check raises a refusal that says why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import Conflict, NotFound
from .task import IN_FLIGHT, STOPPED, TERMINAL

if TYPE_CHECKING:
    from .task import Task


def check_cancel(task: Task, blocks: bool = False) -> None:
    """Only a live task, or one that blocks its target, can be cancelled. Raises `Conflict`."""
    if task.state in TERMINAL and not blocks:
        raise Conflict(f"task is already {task.state.value}")


def check_pause(task: Task) -> None:
    """Only a task in flight can be paused. Raises `Conflict`."""
    if task.state not in IN_FLIGHT:
        raise Conflict(f"task is {task.state.value}, only an assigned or running one can be paused")


def check_resume(task: Task, target: str | None = None) -> None:
    """Only a stopped or held task can be resumed. Raises `Conflict`, and `NotFound` for one of another target."""
    if target is not None and task.options.target != target:
        raise NotFound("task not found")
    if not task.is_held and task.state not in STOPPED:
        raise Conflict(f"task is {task.state.value}, only a paused, failed or held one can be resumed")


def check_resolve(task: Task) -> None:
    """Only a stopped task can be resolved. Raises `Conflict`."""
    if task.state not in STOPPED:
        raise Conflict(f"task is {task.state.value}, only a paused or failed one can be resolved")
