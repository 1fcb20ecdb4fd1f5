"""The outcome of one input of a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from .tasks import Task

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741


@dataclass(frozen=True, slots=True)
class Outcome(Generic[I, O]):
    """The outcome of one input of a map.

    Attributes:
        index: The place of the input among the inputs, from 0.
        input: The input.
        output: The output of its task, None if there is an error.
        error: Why there is none: `TaskFailed`, `TaskCancelled`, `TaskLost`, or why the task was not accepted. None if
            the task is done.
        task: The task as it ended, without its params. None if it was not accepted, or is lost.
    """

    index: int
    input: I
    output: O | None
    error: Exception | None = None
    task: Task | None = None

    @property
    def ok(self) -> bool:
        """True if the task is done."""
        return self.error is None

    @property
    def result(self) -> O:
        """The output of the task.

        Raises:
            Exception: The error, if there is one.
        """
        if self.error is not None:
            raise self.error
        output: O = self.output  # type: ignore[assignment]
        return output
