"""The steps of tasks: what was done or came once and for all, under names, so that a later run need not repeat it.

They are taken here, on their way to where they are kept. Of tasks under a lease their names are known (docs/rules.md,
Steps).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from taskyard_server.core.errors import TooLarge
from taskyard_server.core.history import WORK, Step

if TYPE_CHECKING:
    from taskyard_server.core.history import Wait
    from taskyard_server.core.readers import ReaderRules
    from taskyard_server.core.task import Task

MAX_STEPS: Final = 1_000
MAX_STEPS_BYTES: Final = 1 << 20
"""Of one task, over all its runs; the names and values of its steps together."""


class NewStep(NamedTuple):
    """A step that a host records under the lease with this `token`."""

    task_id: str
    token: int
    name: str
    result: bytes | None = None
    output: bytes | None = None
    duration_ms: int | None = None


class TakenStep:
    """A step that was taken, with its number among those of its task, from 1."""

    __slots__ = ("number", "step", "task")

    def __init__(self, task: Task, number: int, step: Step) -> None:
        self.task = task
        self.number = number
        self.step = step


class Steps:
    """The steps of the tasks of one namespace: those just taken, and the names of those that present runs need."""

    def __init__(self, readers: ReaderRules) -> None:
        self._readers = readers
        self._names: dict[int, dict[str, int]] = {}
        self._taken: list[TakenStep] = []

    @property
    def has_any(self) -> bool:
        """True if those of any task are known, or some were taken."""
        return bool(self._names or self._taken)

    def is_known(self, task: Task) -> bool:
        """True if the names of all steps of a task are known."""
        return task.history.steps == 0 or task.seq in self._names

    def adopt(self, task: Task, steps: Sequence[Step]) -> bool:
        """Take over what is kept of a task, unless that is known already; false if that is not all of it any more."""
        if not self.is_known(task):
            if len(steps) != task.history.steps:
                return False
            self._names[task.seq] = {step.name: number for number, step in enumerate(steps, 1) if step.kind == WORK}
        return True

    def let_go(self, task: Task) -> None:
        """A run is over."""
        self._names.pop(task.seq, None)

    def take(self) -> list[TakenStep]:
        """The steps that were taken since the last call, in order."""
        if not self._taken:
            return []
        taken, self._taken = self._taken, []
        return taken

    def find(self, task: Task, name: str) -> int | None:
        """The number of the step that a host has recorded of a task under this name. What it has must be known."""
        names = self._names.get(task.seq)
        return None if names is None else names.get(name)

    def record(self, now: float, task: Task, new: NewStep) -> int:
        """Take a step of a task under a lease that has none of its name; returns its number.

        Raises `TooLarge` for one too many, and `Unavailable` while an earlier version may come to serve the namespace.
        """
        self._readers.require_known("steps")
        history = task.history
        step = Step(WORK, new.name, new.result, new.output, history.run, history.last_number + 1, new.duration_ms, now)
        if history.steps >= MAX_STEPS:
            raise TooLarge(f"name: a task has at most {MAX_STEPS} steps")
        if history.step_bytes + step.size > MAX_STEPS_BYTES:
            raise TooLarge(f"result: the steps of a task may have {MAX_STEPS_BYTES} bytes in all")
        names = self._names.setdefault(task.seq, {})
        number = names[new.name] = self._add(task, step)
        return number

    def met(
        self, now: float, task: Task, wait: Wait, result: bytes | None, by: str | None, *, is_expired: bool
    ) -> None:
        """Take what came of a wait, or that nothing did."""
        history = task.history
        attempt = history.last_number + 1
        self._add(
            task,
            Step(wait.kind, wait.name, result, None, history.run, attempt, None, now, by, is_expired, wait.question),
        )

    def _add(self, task: Task, step: Step) -> int:
        history = task.history
        number = history.steps + 1
        task.history = history._replace(steps=number, step_bytes=history.step_bytes + step.size)
        self._taken.append(TakenStep(task, number, step))
        return number
