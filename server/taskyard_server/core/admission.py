"""Which submissions become tasks: the drain, keys, predecessors, deadlines, and what a store can keep.

This file does not know the limits of the queue, which `Lifecycle` checks when it accepts a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from .batches import BatchSubmission
from .errors import AlreadyExists, BadRequest, Refusal, RefusedBefore, Unavailable
from .leases import StopReason
from .predecessors import IN_MEMORY, Known
from .task import CANCELLED, NO_EXTRAS, NO_OPTIONS, Existing
from .task_options import OnParentEnd, TaskOptions
from .unique_keys import REPLACED

if TYPE_CHECKING:
    from .lifecycle import Lifecycle
    from .task import Submission, Task
    from .task_options import IdempotencyKey, TaskExtras

BATCH_ID_INDEX: Final = TaskOptions._fields.index("batch_id")
_new_tuple: Final[Any] = tuple.__new__


class Admission:
    """Validates submissions, until it `is_closed` by a drain. What predecessors a submission may name is `known`."""

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self.is_closed = False

    def admit(self, now: float, submission: Submission) -> Task | None:
        """The accepted task, or the first one under its key; None if a limit of the queue refuses it.

        A first one that has left memory is in no index, and only its id, state, position and `created_at` are true. The
        submission has no extras. Raises as `Scheduler.submit` does, other than `QueueFull`.
        """
        first = self._first_task(submission)
        if first is not None:
            return first
        self._check(now, submission)
        return self._life.accept(now, submission)

    def submit(self, now: float, submission: Submission, known: Known = IN_MEMORY) -> Task | Existing:
        """See `Scheduler.submit`."""
        options = submission.options
        if options is NO_OPTIONS or options.extras is NO_EXTRAS:
            task: Task | Existing | None = self.admit(now, submission)
        else:
            task = self._admit_with_extras(now, submission, known)
        if task is None:
            raise self._life.reject(now, submission)
        return task

    def submit_each(
        self, now: float, submissions: Sequence[Submission], known: Known = IN_MEMORY
    ) -> list[Task | Existing | Refusal]:
        """Submit tasks one by one; for each, in order, the task, the one that it stands for, or why it was refused."""
        outcomes: list[Task | Existing | Refusal] = []
        for submission in submissions:
            try:
                if submission.options.extras is not NO_EXTRAS:
                    submission = self._with_ids(submission, outcomes)
                outcomes.append(self.submit(now, submission, known))
            except Refusal as refusal:
                # With its traceback, the refusal would hold this frame and so the list that holds it: a cycle.
                outcomes.append(refusal.with_traceback(None))
        return outcomes

    def submit_batch(
        self, now: float, submissions: Sequence[Submission], batch_id: str, known: Known = IN_MEMORY
    ) -> BatchSubmission:
        """See `Scheduler.submit_batch`."""
        self._check_each(now, submissions)
        batch = self._life.tasks.batches.open(batch_id, submissions[0].agent_id, now)
        outcomes = self.submit_each(
            now,
            [_in_batch(submission, batch_id) for submission in submissions],
            known,
        )
        self._life.tasks.batches.close(batch)
        return BatchSubmission(batch, outcomes)

    def _check_each(self, now: float, submissions: Sequence[Submission]) -> None:
        """Raise `Unavailable` or `BadRequest` for the first submission that would be refused with it."""
        for index, submission in enumerate(submissions):
            extras = submission.options.extras
            if extras is not NO_EXTRAS:
                check_indexes(index, extras)
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

    def _admit_with_extras(self, now: float, submission: Submission, known: Known) -> Task | Existing | None:
        """As `admit`, of a submission that has extras. Keys come first, as everywhere (docs/rules.md, Unique keys)."""
        first = self._first_task(submission)
        if first is not None:
            return first if first.options.key == submission.options.key else Existing(first)
        self._check(now, submission)
        life, extras = self._life, submission.options.extras
        if extras.inputs:
            life.readers.require_known("inputs")
        if extras.on_parent_end is not None:
            life.readers.require_known("onParentEnd")
            if extras.on_parent_end is OnParentEnd.CANCEL:
                life.children.ends.check(submission.options, known)
        # What it names must be there, also where another task is the answer.
        following = life.predecessors.find(extras, known) if extras.after or extras.inputs else None
        if extras.unique_key is None:
            return life.accept(now, submission, following)
        replaced = life.unique_keys.find_conflict(now, submission, life.limits.max_blocked_targets)
        if replaced is None or isinstance(replaced, Existing):
            return replaced
        task = life.accept(now, submission, following, replaces=bool(replaced))
        if replaced and task is not None:
            self._replace(now, replaced, task)
        return task

    def _replace(self, now: float, tasks: list[Task], task: Task) -> None:
        """Cancel tasks that a new one replaces, which is there already: so what it comes after is still retained."""
        for each in tasks:
            self._life.finish(now, each, CANCELLED, None, REPLACED, StopReason.CANCELLED)
        if task.position is not None:
            task.position -= len(tasks)

    def _with_ids(self, submission: Submission, outcomes: Sequence[Task | Existing | Refusal]) -> Submission:
        """The same after the tasks that its indexes stand for. Raises `RefusedBefore` if one of these was refused."""
        options, extras = submission.options, submission.options.extras
        by_index = extras.after_indexes or extras.input_indexes
        if not by_index or self._first_task(submission) is not None:
            return submission
        after, inputs = list(extras.after), list(extras.inputs)
        after += [_id_of("afterIndexes", index, outcomes[index]) for index in extras.after_indexes]
        inputs += [(name, _id_of("inputIndexes", index, outcomes[index])) for name, index in extras.input_indexes]
        extras = extras._replace(
            after=tuple(dict.fromkeys(after)), after_indexes=(), inputs=tuple(sorted(inputs)), input_indexes=()
        )
        return submission._replace(options=options._replace(extras=extras))

    def _first_task(self, submission: Submission) -> Task | None:
        """The first task under the key of a submission; raises `AlreadyExists` if that is another task."""
        key = submission.options.key
        first = None if key is None else self._first_under((submission.agent_id, key.key))
        if first is not None and first.options.key != key and not _is_bound(first, key):
            raise AlreadyExists("idempotencyKey: is that of another task")
        return first

    def _first_under(self, name: tuple[str, str]) -> Task | None:
        """The task that has the key of an agent; of one that has left memory, what is still known."""
        return self._life.tasks.by_key.get(name) or self._life.past_keys.find(name)

    def _check(self, now: float, submission: Submission) -> None:
        self.require_open()
        if not self._life.readers.allows_extras:
            self._life.readers.require(submission.options)
        if submission.deadline is not None and submission.deadline <= now:
            raise BadRequest("deadline: must be in the future")


def check_indexes(index: int, extras: TaskExtras) -> None:
    """Raise `BadRequest` if the task at this place of a batch names one that does not stand before it."""
    for field, indexes in (
        ("afterIndexes", extras.after_indexes),
        ("inputIndexes", [each for _, each in extras.input_indexes]),
    ):
        if max(indexes, default=-1) >= index:
            raise BadRequest(f"tasks[{index}].{field}: must be places of tasks that stand before this one")


def _id_of(field: str, index: int, earlier: Task | Existing | Refusal) -> str:
    """The id of an earlier task of a batch. Raises `RefusedBefore` if it was refused."""
    if isinstance(earlier, RefusedBefore):
        # In a chain each tells of the first one, or the texts would grow from task to task.
        raise RefusedBefore(earlier.message, earlier.details)
    if isinstance(earlier, Refusal):
        details: dict[str, str | float] = {"index": index, "code": earlier.code}
        raise RefusedBefore(f"{field}: task {index} was refused: {earlier.message}", details)
    return earlier.task.id if isinstance(earlier, Existing) else earlier.id


def _in_batch(submission: Submission, batch_id: str) -> Submission:
    """The same in a batch. `_replace` would take longer than all else that is done with it."""
    fields = submission.options
    options = _new_tuple(type(fields), (*fields[:BATCH_ID_INDEX], batch_id, *fields[BATCH_ID_INDEX + 1 :]))
    made: Submission = _new_tuple(type(submission), (*submission[:-1], options))
    return made


def _is_bound(task: Task, key: IdempotencyKey | None) -> bool:
    """True if a task was the answer to a submission with this key before."""
    return key is not None and key in [(bound.key, bound.fingerprint) for bound in task.history.bound]
