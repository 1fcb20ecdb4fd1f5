"""Which submissions become tasks: the drain, idempotency keys and deadlines.

This file does not know the limits of the queue, which `Lifecycle` checks when it accepts a task.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .errors import AlreadyExists, BadRequest, Unavailable

if TYPE_CHECKING:
    from .lifecycle import Lifecycle
    from .task import Submission, Task


class Admission:
    """Validates submissions, until it `is_closed` by a drain."""

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self.is_closed = False

    def admit(self, now: float, submission: Submission) -> Task | None:
        """The accepted task, or the first one under its key; None if a limit of the queue refuses it.

        A first one that has left memory is in no index, and only its id, state, position and `created_at` are true.

        Raises as `Scheduler.submit` does, other than `QueueFull`.
        """
        first = self._first_task(submission)
        if first is not None:
            return first
        self._check(now, submission)
        return self._life.accept(now, submission)

    def check_each(self, now: float, submissions: Iterable[Submission]) -> None:
        """Raise `Unavailable` or `BadRequest` for the first submission that would be refused with it."""
        for submission in submissions:
            key = submission.options.key
            if key is None or self._first_under((submission.agent_id, key.key)) is None:
                self._check(now, submission)

    def require_open(self) -> None:
        """Raise `Unavailable` during a drain."""
        if self.is_closed:
            raise Unavailable("the scheduler is draining")

    def close(self) -> None:
        """Accept nothing from now on."""
        self.is_closed = True

    def _first_task(self, submission: Submission) -> Task | None:
        """The first task under the key of a submission; raises `AlreadyExists` if that is another task."""
        key = submission.options.key
        first = None if key is None else self._first_under((submission.agent_id, key.key))
        if first is not None and first.options.key != key:
            raise AlreadyExists("idempotencyKey: is that of another task")
        return first

    def _first_under(self, name: tuple[str, str]) -> Task | None:
        """The task that has the key of an agent; of one that has left memory, what is still known."""
        return self._life.tasks_by_key.get(name) or self._life.past_keys.find(name)

    def _check(self, now: float, submission: Submission) -> None:
        self.require_open()
        if submission.deadline is not None and submission.deadline <= now:
            raise BadRequest("deadline: must be in the future")
