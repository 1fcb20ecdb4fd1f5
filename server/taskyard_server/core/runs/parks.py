"""Parked tasks: runs that wait for something without a lease and without a slot (docs/rules.md, Parked tasks).

A task waits for any of several things: an answer, the end of other tasks, a time, an event. What comes of one is kept
as a step of the task, which then is queued again, in its old place: its next run begins with all its steps.

Things that nothing has come of yet outlast that: a question that is asked again is the same question, with the time
that it had.
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from taskyard_server.core.errors import Conflict, NotFound, TooLarge
from taskyard_server.core.history import ANSWER, EVENT, TIME, Park
from taskyard_server.core.task import FAILED, PARKED, QUEUED, TERMINAL
from taskyard_server.core.timers import TimerOrder

from .awaited_ends import AwaitedEnds
from .events import MAX_EVENT_BYTES, SentEvents, awaited
from .steps import MAX_STEPS, MAX_STEPS_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from taskyard_server.core.changes import Changes
    from taskyard_server.core.deadlines import Deadlines
    from taskyard_server.core.history import Wait
    from taskyard_server.core.leases import StopReason
    from taskyard_server.core.readers import ReaderRules
    from taskyard_server.core.stats import Counts
    from taskyard_server.core.targets import Targets
    from taskyard_server.core.task import Task, TaskState
    from taskyard_server.core.task_table import TaskTable
    from taskyard_server.core.timers import Timers

    from .steps import Steps

QUESTION_EXPIRED: Final = "question_expired"
"""The code of a task that failed since nobody answered in time."""


class TaskMoves(Protocol):
    """The part of `Lifecycle` by which parked tasks go on or end."""

    changes: Changes | None
    counts: Counts
    deadlines: Deadlines
    readers: ReaderRules
    targets: Targets
    tasks: TaskTable
    timers: Timers

    def transition(self, task: Task, state: TaskState, error: str | None) -> TaskState:
        """See `Lifecycle`."""

    def count_queued(self, task: Task) -> None:
        """See `Lifecycle`."""

    def enqueue(self, now: float, task: Task) -> None:
        """See `Lifecycle`."""

    def emit(self, now: float, task: Task, before: TaskState) -> None:
        """See `Lifecycle`."""

    def record_left_behind(self, now: float, task: Task) -> None:
        """See `Lifecycle`."""

    def finish(
        self,
        now: float,
        task: Task,
        state: TaskState,
        result: bytes | None,
        error: str | None,
        stop: StopReason | None = None,
        code: str | None = None,
    ) -> None:
        """See `Lifecycle`."""


class Parks:
    """The parked tasks of one namespace: when each is looked at, and what it waits for."""

    def __init__(self, life: TaskMoves, steps: Steps) -> None:
        self.steps = steps
        self.events = SentEvents(life.timers, life.readers, life.changes)
        self.events.on_came = self._go_on
        self.ends = AwaitedEnds(life.tasks)
        self.ends.on_over = self._go_on
        self._life = life
        self._timers = life.timers.queue(self._come_due, TimerOrder.PARK)
        self._asking: list[Task] = []
        self._asked: dict[Task, int] = {}
        """How many open questions each of them has, those first that were parked first."""
        self._open = 0

    def new_park(self, now: float, task: Task, waits: Sequence[Wait], *, keeps_target: bool) -> Park:
        """A park for a task with a lease. A wait that the task has, by its kind and name, stays as it was.

        Raises `TooLarge` for one too many, or where the payload of an event might have no room among its steps, and
        `Unavailable` while an earlier version may come to serve the namespace.
        """
        self._life.readers.require_known("parked")
        history = task.history
        if history.steps + len(waits) > MAX_STEPS:
            raise TooLarge(f"waits: a task has at most {MAX_STEPS} steps")
        events = sum([wait.kind == EVENT for wait in waits])
        if events and history.step_bytes + events * MAX_EVENT_BYTES > MAX_STEPS_BYTES:
            raise TooLarge(
                f"waits: the steps of a task may have {MAX_STEPS_BYTES} bytes in all, and an event {MAX_EVENT_BYTES}"
            )
        known: dict[str, Wait] = {}
        met: tuple[str, ...] = ()
        heard: tuple[tuple[str, int], ...] = ()
        if history.park is not None:
            known, met = {wait.key: wait for wait in history.park.waits}, history.park.met
            heard = history.park.heard
        kept = tuple([known.get(wait.key, wait) for wait in waits])
        left_secs = None if task.deadline_secs is not None or task.deadline is None else task.deadline - now
        return Park(now, task.token, kept, met, left_secs, keeps_target, heard)

    def answer(self, now: float, task: Task, name: str, result: bytes | None, by: str | None) -> None:
        """Answer an open question of a task, parked or not.

        Raises `NotFound` if it is not open, `Conflict` if it was answered or its time is over, and `TooLarge`.
        """
        history = task.history
        park = history.park
        wait = None if park is None or task.state in TERMINAL else _question(park, name)
        if wait is None:
            if park is not None and f"{ANSWER}:{name}" in park.met:
                raise Conflict("question was answered")
            raise NotFound("question not found")
        if wait.until is not None and wait.until <= now:
            # Of a task that runs nobody has noticed yet.
            raise Conflict("the time of the question is over")
        if history.step_bytes + len(result or b"") > MAX_STEPS_BYTES:
            raise TooLarge(f"answer: the steps of a task may have {MAX_STEPS_BYTES} bytes in all")
        if task.state is PARKED:
            self._withdraw(task)
            self._meet(now, task, wait, result, by)
            self._wake(now, task)
        else:
            self._meet(now, task, wait, result, by)
            self._life.record_left_behind(now, task)

    def open_question(self, task: Task, name: str) -> Wait | None:
        """The question of this name that a task has asked, if it is open."""
        park = task.history.park
        return None if park is None or task.state in TERMINAL else _question(park, name)

    def asking_after(self, seq: int) -> Iterator[Task]:
        """The tasks with open questions that were submitted after one, in order. Do not hold it across a command."""
        for index in range(bisect_left(self._asking, seq + 1, key=_seq), len(self._asking)):
            yield self._asking[index]

    def open_questions(self) -> tuple[int, float]:
        """How many questions are open, and the earliest time since which a task with one is parked, else `inf`."""
        for task in self._asked:
            park = task.history.park
            assert park is not None
            return self._open, park.since
        return 0, inf

    def end(self, task: Task) -> None:
        """A task that is, or was parked, has ended: nothing of it is open any more."""
        park = task.history.park
        assert park is not None
        self._withdraw(task)
        names = list(awaited(task))
        if park.waits or park.keeps_target:
            task.history = task.history._replace(park=park._replace(waits=(), keeps_target=False))
        self._note_questions(task)
        for name in names:
            self.events.let_go(name)

    def leave(self, now: float, task: Task) -> None:
        """A parked task ends."""
        self._life.counts.parked -= 1
        task.page.left(PARKED)
        if task.options.target is not None:
            self._life.targets.vacate(now, task)

    def restored(self, now: float, task: Task) -> None:
        """A task that was parked was stored. All tasks are there: others have ended."""
        self._note_questions(task)
        if task.state is PARKED:
            self._index(now, task)

    def settle(self) -> None:
        """All that were parked are restored."""
        self._asked = dict(sorted(self._asked.items(), key=_parked_since))
        self.events.settle()

    def wait(self, now: float, task: Task) -> None:
        """Let a task wait that has just been parked; it is queued again at once if something has come already.

        Only then is its target free, so that no younger task of it becomes its head in between.
        """
        self._wait(now, task)
        if task.options.target is not None and not task.keeps_target:
            self._life.targets.vacate(now, task)

    def _wait(self, now: float, task: Task) -> None:
        park = task.history.park
        assert park is not None
        self._open -= self._asked.pop(task, 0)
        self._note_questions(task)
        is_met = [wait.key in park.met for wait in park.waits]
        if True in is_met or self.events.has_for(task):
            waits = tuple([wait for wait, met in zip(park.waits, is_met, strict=True) if not met])
            task.history = task.history._replace(park=park._replace(waits=waits))
            self._note_questions(task)
            self._wake(now, task)
            return
        if self._index(now, task):
            self._come_due(now, task)

    def _index(self, now: float, task: Task) -> bool:
        """Note when a parked task is to be looked at; returns true if that is now."""
        park = task.history.park
        assert park is not None
        due = _first_end(park)
        if due is not None:
            self._timers.add(due, task)
        self.events.wait(now, task)
        is_over = self.ends.wait(now, task)
        task.pack()
        return is_over or (due is not None and due <= now)

    def _withdraw(self, task: Task) -> None:
        """Look at a task no more, whose waits are as they were."""
        task.unpack()
        park = task.history.park
        assert park is not None
        due = _first_end(park)
        if due is not None:
            self._timers.remove(due, task)
        self.events.withdraw(task)
        self.ends.withdraw(task)

    def _come_due(self, now: float, task: Task) -> None:
        """The time of a wait is over, or all is there that it was for. What has come by now counts first."""
        before = task.history.park
        assert before is not None
        self._withdraw(task)
        self._meet_what_came(now, task)
        park = task.history.park
        assert park is not None
        over = [wait for wait in park.waits if wait.until is not None and wait.until <= now]
        unanswered = [wait for wait in over if wait.kind == ANSWER and wait.default is None]
        if unanswered and park.met == before.met:
            error = f"nobody answered the question {unanswered[0].name} in time"
            self._life.finish(now, task, FAILED, None, error, code=QUESTION_EXPIRED)
            return
        for wait in over:
            # The run that goes on may end without that answer, and fails if it asks again.
            if wait not in unanswered:
                self._meet(now, task, wait, wait.default, None, is_expired=wait.kind != TIME)
        self._wake(now, task)

    def _go_on(self, now: float, task: Task) -> None:
        """Something has come for a parked task."""
        self._withdraw(task)
        self._wake(now, task)

    def _meet(
        self, now: float, task: Task, wait: Wait, result: bytes | None, by: str | None, *, is_expired: bool = False
    ) -> None:
        """Keep what came of a wait."""
        self.steps.met(now, task, wait, result, by, is_expired=is_expired)
        park = task.history.park
        assert park is not None
        waits = tuple([each for each in park.waits if each != wait])
        task.history = task.history._replace(park=park._replace(waits=waits, met=(*park.met, wait.key)))
        self._note_questions(task)

    def _meet_what_came(self, now: float, task: Task) -> None:
        """Keep the ends and the events that have come for a task that goes on."""
        park = task.history.park
        assert park is not None
        for wait in park.waits:
            if self.ends.is_over(wait):
                self._meet(now, task, wait, None, None)
        self._meet_events(now, task)

    def _meet_events(self, now: float, task: Task) -> None:
        park = task.history.park
        assert park is not None
        for wait in park.waits:
            if wait.kind == EVENT:
                (name,) = wait.about
                event = self.events.next_for(task, name)
                if event is not None:
                    self._meet(now, task, wait, event.payload, event.by)
                    self._note_heard(task, name, event.number)
        for wait in park.waits:
            if wait.kind == EVENT:
                self.events.let_go(wait.about[0])

    def _note_heard(self, task: Task, name: str, number: int) -> None:
        park = task.history.park
        assert park is not None
        heard = (*[each for each in park.heard if each[0] != name], (name, number))
        task.history = task.history._replace(park=park._replace(heard=heard))

    def _wake(self, now: float, task: Task) -> None:
        """Queue a task again, in its old place, with all that has come for it; a default deadline goes on."""
        life = self._life
        self._meet_what_came(now, task)
        before = life.transition(task, QUEUED, None)
        life.counts.parked -= 1
        task.page.left(PARKED)
        life.count_queued(task)
        life.enqueue(now, task)
        life.deadlines.add(task)
        life.emit(now, task, before)

    def _note_questions(self, task: Task) -> None:
        """Note how many open questions a task has."""
        park = task.history.park
        assert park is not None
        asks, asked, asking = sum([wait.kind == ANSWER for wait in park.waits]), self._asked, self._asking
        self._open += asks - asked.get(task, 0)
        index = bisect_left(asking, task.seq, key=_seq)
        is_noted = index < len(asking) and asking[index] is task
        if asks:
            asked[task] = asks
            if not is_noted:
                asking.insert(index, task)
        else:
            asked.pop(task, None)
            if is_noted:
                del asking[index]


def _seq(task: Task) -> int:
    return task.seq


def _parked_since(asked: tuple[Task, int]) -> float:
    park = asked[0].history.park
    assert park is not None
    return park.since


def _question(park: Park, name: str) -> Wait | None:
    for wait in park.waits:
        if wait.kind == ANSWER and wait.name == name:
            return wait
    return None


def _first_end(park: Park) -> float | None:
    """When the first of its waits is over that has an end. Hundreds of thousands may be parked: it is not kept."""
    first = None
    for wait in park.waits:
        if wait.until is not None and (first is None or wait.until < first):
            first = wait.until
    return first
