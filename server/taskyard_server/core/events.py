"""What happened: the transitions of tasks, in order."""

from typing import TypeAlias

from .task import Task, TaskState

Transition: TypeAlias = tuple[float, Task, TaskState]
"""When, which task, and the state it took. A plain tuple: several are made for every task."""
