"""The steps of runs: what a run has done once and for all, under names, so that a later run need not do it again.

Their values are elsewhere; here are the names and sizes of those of tasks under a lease (docs/rules.md, Steps).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from taskyard_server.core.errors import NOT_YET, TooLarge, Unavailable

if TYPE_CHECKING:
    from taskyard_server.core.readers import ReaderRules
    from taskyard_server.core.reports import Reports
    from taskyard_server.core.task import Task

MAX_STEPS: Final = 1_000
MAX_STEPS_BYTES: Final = 1 << 20
"""Of one task, over all its runs; the names and values of its steps together."""


class NewStep(NamedTuple):
    """A step that a host records under the lease with this `token`, and its bytes."""

    task_id: str
    token: int
    name: str
    size: int


class TaskSteps:
    """The steps of one task: their names, each with its number, from 1, and all their bytes."""

    __slots__ = ("numbers", "size")

    def __init__(self, steps: Sequence[tuple[str, int]] = ()) -> None:
        self.numbers = {name: number for number, (name, _) in enumerate(steps, 1)}
        self.size = sum([size for _, size in steps])


class RecordedStep:
    """A step that was taken, with its number.

    It `is_repeated` if the task had one of its name, which stays as it is.
    """

    __slots__ = ("is_repeated", "number", "task")

    def __init__(self, task: Task, number: int, *, is_repeated: bool) -> None:
        self.task = task
        self.number = number
        self.is_repeated = is_repeated


class Steps:
    """The steps of the tasks of one namespace, as far as they are known: those that their present runs need."""

    def __init__(self, reports: Reports, readers: ReaderRules) -> None:
        self._reports = reports
        self._readers = readers
        self._of: dict[int, TaskSteps] = {}

    @property
    def has_any(self) -> bool:
        """True if those of any task are known."""
        return bool(self._of)

    def is_known(self, task: Task) -> bool:
        """True if the names of all steps of a task are known."""
        return task.history.steps == 0 or task.seq in self._of

    def adopt(self, task: Task, steps: TaskSteps) -> bool:
        """Take over what is kept of a task, unless that is known already; false if that is not all of it any more."""
        if not self.is_known(task):
            if len(steps.numbers) != task.history.steps:
                return False
            self._of[task.seq] = steps
        return True

    def let_go(self, task: Task) -> None:
        """A run is over."""
        self._of.pop(task.seq, None)

    def record(self, now: float, host_id: str, step: NewStep, *, own_only: bool = False) -> RecordedStep:
        """Take a step of a task under its lease. It counts as the start if none was reported.

        What the task has must be known. Raises `NotFound`, `LeaseLost`, `TooLarge` for one too many, and `Unavailable`
        while an earlier version may come to serve the namespace. If `own_only` a task that was last handed to another
        host is not found.
        """
        task = self._reports.leased(now, host_id, step.task_id, step.token, own_only=own_only).task
        if not self._readers.allows_artifacts:
            raise Unavailable(f"steps: {NOT_YET}")
        steps = self._of.get(task.seq) or TaskSteps()
        number = steps.numbers.get(step.name)
        if number is not None:
            return RecordedStep(task, number, is_repeated=True)
        number = task.history.steps + 1
        if number > MAX_STEPS:
            raise TooLarge(f"name: a task has at most {MAX_STEPS} steps")
        if steps.size + step.size > MAX_STEPS_BYTES:
            raise TooLarge(f"result: the steps of a task may have {MAX_STEPS_BYTES} bytes in all")
        self._of[task.seq] = steps
        steps.numbers[step.name] = number
        steps.size += step.size
        task.history = task.history._replace(steps=number)
        self._reports.note_left_behind(now, task)
        return RecordedStep(task, number, is_repeated=False)
