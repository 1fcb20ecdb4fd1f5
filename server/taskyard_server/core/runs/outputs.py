"""The output of tasks: how its chunks are numbered, which come twice, and what is dropped to make room.

The chunks themselves are elsewhere; here they are sizes. A task's chunks have one sequence of numbers over its whole
life. Its hosts number theirs within each lease, so that what they say again after a break is taken once (docs/rules.md,
Output).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import NOT_YET, BadRequest, Unavailable
from taskyard_server.core.task import Task

if TYPE_CHECKING:
    from taskyard_server.core.limits import Limits
    from taskyard_server.core.readers import ReaderRules
    from taskyard_server.core.reports import Reports

SEGMENTS: Final = 16
"""A task's output is dropped in about this many parts."""


class TaskOutput:
    """The output of one task. `next` is the number of the chunk that comes next, `said` the bytes of all before it.

    Under the lease with this `token`, the newest that has said anything, `taken` chunks were taken. `segments` hold the
    number of the first chunk of each part that is kept, and the bytes said before it.
    """

    __slots__ = ("next", "said", "segments", "taken", "token")

    def __init__(
        self,
        next_number: int = 1,
        said: int = 0,
        token: int = 0,
        taken: int = 0,
        segments: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.next = next_number
        self.said = said
        self.token = token
        self.taken = taken
        self.segments = deque(segments)

    @property
    def first(self) -> int:
        """The number of the oldest chunk that is kept; that of the next one where none is."""
        return self.segments[0][0] if self.segments else self.next

    @property
    def dropped(self) -> int:
        """The bytes that were dropped to make room."""
        return self.segments[0][1] if self.segments else self.said

    def drop_all(self) -> None:
        """Nothing is kept any more, since there is no room."""
        self.segments.clear()


class Saying:
    """Chunks that a host says under a lease: the number of the first within it, and the size of each."""

    __slots__ = ("number", "sizes", "task_id", "token")

    def __init__(self, task_id: str, token: int, number: int, sizes: Sequence[int]) -> None:
        self.task_id = task_id
        self.token = token
        self.number = number
        self.sizes = sizes


class Appended:
    """Chunks that were taken: the number of the first, and the bytes said before it.

    The `repeated` first ones of those that came had been taken before. What has a lower number than `cut` was dropped,
    None if nothing was, and that were `dropped` bytes.
    """

    __slots__ = ("begin", "cut", "dropped", "first", "output", "repeated", "task")

    def __init__(
        self, task: Task, output: TaskOutput, first: int, begin: int, repeated: int, cut: int | None, dropped: int
    ) -> None:
        self.task = task
        self.output = output
        self.first = first
        self.begin = begin
        self.repeated = repeated
        self.cut = cut
        self.dropped = dropped


class Outputs:
    """The output of the tasks of one namespace that have any, by their order of submission.

    What is kept of it has `used` bytes in all, as far as that is known.

    Of tasks up to `unknown_until`, which a store has kept, and of those that came back from the history, it is not
    known until it was looked up and adopted.
    """

    def __init__(self, reports: Reports, readers: ReaderRules, limits: Limits) -> None:
        self.unknown_until = 0
        self.used = 0
        self.limits = limits
        self._reports = reports
        self._readers = readers
        self._of: dict[int, TaskOutput] = {}
        self._returned: set[int] = set()

    @property
    def has_unknown(self) -> bool:
        """True if the output of some task may have to be looked up."""
        return bool(self._returned or self.unknown_until)

    @property
    def has_any(self) -> bool:
        """True if any task has output, or may have some."""
        return bool(self._of or self._returned or self.unknown_until)

    def find(self, task: Task) -> TaskOutput | None:
        """The output of a task; None if it has said nothing, or that is not known."""
        return self._of.get(task.seq)

    def is_known(self, task: Task) -> bool:
        """True if what `find` answers is all there is."""
        return task.seq in self._of or (task.seq > self.unknown_until and task.seq not in self._returned)

    def adopt(self, task: Task, output: TaskOutput) -> None:
        """Take over what a store has of a task, unless that is known already."""
        self._returned.discard(task.seq)
        self._of.setdefault(task.seq, output)

    def came_back(self, task: Task) -> None:
        """A task was brought back from the history."""
        if task.seq not in self._of:
            self._returned.add(task.seq)

    def forget(self, task: Task, *, for_ever: bool) -> None:
        """A task has left memory, `for_ever` if no history keeps it."""
        output = self._of.pop(task.seq, None)
        if output is not None and for_ever:
            self.used -= output.said - output.dropped
        self._returned.discard(task.seq)

    def append(
        self,
        now: float,
        host_id: str,
        task_id: str,
        token: int,
        number: int,
        sizes: Sequence[int],
        *,
        own_only: bool = False,
    ) -> Appended:
        """Take chunks of these sizes, of which the first is the one with this `number` under its lease.

        It counts as the start if none was reported. The output of the task must be known.

        Raises `NotFound`, `LeaseLost`, `BadRequest` if chunks before these are missing, and `Unavailable` while an
        earlier version may come to serve the namespace. If `own_only` a task that was last handed to another host is
        not found.
        """
        lease = self._reports.leased(now, host_id, task_id, token, own_only=own_only)
        if not self._readers.allows_output:
            raise Unavailable(f"output: {NOT_YET}")
        task = lease.task
        output = self._of.get(task.seq)
        taken = output.taken if output is not None and output.token == token else 0
        if number > taken + 1:
            raise BadRequest(f"number: must be at most {taken + 1}, since {taken} chunks of this lease came before")
        self._reports.note_start(now, task)
        repeated = min(taken + 1 - number, len(sizes))
        if output is None:
            output = self._of[task.seq] = TaskOutput()
        first, begin = output.next, output.said
        new = len(sizes) - repeated
        if not new:
            return Appended(task, output, first, begin, repeated, None, 0)
        output.token, output.taken = token, taken + new
        output.next += new
        said = sum(sizes[repeated:] if repeated else sizes)
        output.said += said
        before = self._make_room(output, first, begin)
        if before is None:
            self.used += said
            return Appended(task, output, first, begin, repeated, None, 0)
        dropped = output.dropped - before
        self.used += said - dropped
        return Appended(task, output, first, begin, repeated, output.first, dropped)

    def recount(self) -> None:
        """Count what is kept anew, where that is all in memory."""
        self.used = sum([output.said - output.dropped for output in self._of.values()])

    def _make_room(self, output: TaskOutput, first: int, begin: int) -> int | None:
        """Drop the oldest parts of what is too much, but nothing of what has just come.

        Returns the bytes that had been dropped before, None if nothing was dropped now.
        """
        limit = self.limits.max_output_bytes
        if self.used > self.limits.max_namespace_output_bytes:
            limit //= SEGMENTS
        segments = output.segments
        if not segments or begin - segments[-1][1] >= limit // SEGMENTS:
            segments.append((first, begin))
        before, is_cut = segments[0][1], False
        while output.said - segments[0][1] > limit and len(segments) > 1:
            segments.popleft()
            is_cut = True
        return before if is_cut else None
