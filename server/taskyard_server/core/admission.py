"""Which submissions become tasks: the drain, idempotency keys, deadlines, and what a store can keep.

This file does not know the limits of the queue, which `Lifecycle` checks when it accepts a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .batches import BatchSubmission
from .errors import NOT_YET, AlreadyExists, BadRequest, Refusal, Unavailable
from .task import NO_EXTRAS

if TYPE_CHECKING:
    from .lifecycle import Lifecycle
    from .task import Submission, Task, TaskOptions


def require_readers(life: Lifecycle, options: TaskOptions) -> None:
    """Raise `Unavailable` for fields that an earlier version could not read, if it may come to serve the namespace."""
    if options.extras is not NO_EXTRAS and not life.keeps_extras:
        raise Unavailable(f"concurrencyKeys, after, uniqueKey, onTargetFailure: {NOT_YET}")
    if options.has_added_fields and not life.keeps_added_fields:
        raise Unavailable(f"runTimeoutMs, parentId, input: {NOT_YET}")


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

    def submit(self, now: float, submission: Submission) -> Task:
        """See `Scheduler.submit`."""
        task = self.admit(now, submission)
        if task is None:
            raise self._life.reject(now, submission)
        return task

    def submit_each(self, now: float, submissions: Iterable[Submission]) -> list[Task | Refusal]:
        """Submit tasks one by one; for each, in order, the task or why it was refused."""
        outcomes: list[Task | Refusal] = []
        for submission in submissions:
            try:
                outcomes.append(self.submit(now, submission))
            except Refusal as refusal:
                # With its traceback, the refusal would hold this frame and so the list that holds it: a cycle.
                outcomes.append(refusal.with_traceback(None))
        return outcomes

    def submit_batch(self, now: float, submissions: Sequence[Submission], batch_id: str) -> BatchSubmission:
        """See `Scheduler.submit_batch`."""
        self._check_each(now, submissions)
        batch = self._life.batches.open(batch_id, submissions[0].agent_id, now)
        outcomes = self.submit_each(
            now,
            [submission._replace(options=submission.options._replace(batch_id=batch_id)) for submission in submissions],
        )
        self._life.batches.close(batch)
        return BatchSubmission(batch, outcomes)

    def _check_each(self, now: float, submissions: Iterable[Submission]) -> None:
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
        if not self._life.keeps_extras:
            require_readers(self._life, submission.options)
        if submission.deadline is not None and submission.deadline <= now:
            raise BadRequest("deadline: must be in the future")
