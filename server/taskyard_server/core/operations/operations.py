"""Operations: one thing that is done to many tasks, slice by slice (docs/rules.md, Operations).

An operation first counts the tasks that it is about, then walks them again, in order of submission, and treats each
that it comes to. Both walks go in slices of bounded work: the driver of the scheduler calls `step` while `is_ready`,
and lets others go on in between. Only tasks that were submitted before the operation are looked at.

What one slice leaves to the next one is how far the walk has come, and the counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import Conflict, NotFound, Refusal, TooManyOperations
from taskyard_server.core.events import EventKind
from taskyard_server.core.task import IN_FLIGHT, STOPPED, TERMINAL, WAITING

from .operation import Operation, OperationKind, OperationRequest, OperationStatus

if TYPE_CHECKING:
    from taskyard_server.core.admission import Admission
    from taskyard_server.core.lifecycle import Lifecycle
    from taskyard_server.core.names import Names
    from taskyard_server.core.search.task_filter import TaskFilter
    from taskyard_server.core.task import Task

MAX_COUNTED: Final = 2_000
"""Maximum tasks that one slice looks at."""
MAX_TREATED: Final = 50
"""Maximum tasks that one slice treats: some two milliseconds with all that follows from them."""
MAX_LIVE: Final = 64
MAX_LIVE_OF_ONE: Final = 8
"""Maximum operations that are at work at a time: of all callers together, and of those with the same agents."""
MAX_ENDED: Final = 1_000
RETAINED_SECS: Final = 3_600.0
"""How long an operation that has ended is known, the newest `MAX_ENDED` of them."""

Resume = Callable[[float, str, str | None, int | None], "Task"]


class Operations:
    """The operations of one namespace: those at work, and those that ended lately."""

    def __init__(self, life: Lifecycle, admission: Admission, resume: Resume) -> None:
        self._life = life
        self._admission = admission
        self._resume = resume
        self._by_name: dict[tuple[Names | None, str], Operation] = {}
        # The one whose slice is next comes first.
        self._live: dict[Operation, None] = {}
        self._ended: dict[Operation, None] = {}
        self._last_number = 0

    # Commands

    def begin(self, now: float, request: OperationRequest) -> Operation:
        """Begin an operation, or return the one that the same request began.

        Raises `Conflict` if another request has the id, `TooManyOperations`, and for a reason as `require_reason` does.
        """
        self._life.readers.require_reason(request.reason)
        self._forget_old(now)
        known = self._by_name.get((request.task_filter.agents, request.operation_id))
        if known is not None:
            if not known.request.asks_the_same(request):
                raise Conflict("operationId: is that of another operation")
            return known
        agents = request.task_filter.agents
        if len(self._live) >= MAX_LIVE:
            raise TooManyOperations(MAX_LIVE)
        if len([each for each in self._live if each.agents == agents]) >= MAX_LIVE_OF_ONE:
            raise TooManyOperations(MAX_LIVE_OF_ONE)
        self._last_number += 1
        operation = Operation(self._last_number, request, now, self._life.tasks.last_seq)
        self._by_name[operation.name] = operation
        self._live[operation] = None
        # So that the answer tells how many it is about where they are not too many to be counted at once.
        self._count_some(operation)
        self._note(operation)
        return operation

    def get(self, now: float, operation_id: str, agents: Names | None) -> Operation:
        """The operation that a caller with these agents began; for None the newest of this id, anyone who began it.

        Raises `NotFound`.
        """
        operation = self._by_name.get((agents, operation_id))
        if operation is None and agents is None:
            for each in self._by_name.values():
                if each.request.operation_id == operation_id and (operation is None or each.number > operation.number):
                    operation = each
        if operation is None or _is_over(operation, now):
            raise NotFound("operation not found")
        return operation

    def before(self, now: float, number: int, agents: Names | None) -> list[Operation]:
        """The operations with numbers below this one, all for 0, the newest first; of these agents, or for None all."""
        found = [
            each
            for each in self._by_name.values()
            if (not number or each.number < number)
            and (agents is None or each.agents == agents)
            and not _is_over(each, now)
        ]
        return sorted(found, key=_newest_first)

    def cancel(self, now: float, operation_id: str, agents: Names | None) -> Operation:
        """End an operation where it stands; one that has ended stays as it is. Raises `NotFound`."""
        operation = self.get(now, operation_id, agents)
        if operation.ended_at is None:
            self._end(now, operation, OperationStatus.CANCELLED)
        return operation

    # Slices

    @property
    def live(self) -> int:
        """How many operations are at work."""
        return len(self._live)

    @property
    def is_ready(self) -> bool:
        """True if `step` has something to do now. It changes with the queue, so ask before each slice."""
        return any(self._can_go_on(operation) for operation in self._live)

    def step(self, now: float) -> None:
        """Do one slice of the operation that is next."""
        for operation in self._live:
            if self._can_go_on(operation):
                del self._live[operation]
                self._live[operation] = None
                operation.status, operation.waits_for = OperationStatus.RUNNING, None
                if operation.is_counted:
                    self._treat_some(now, operation)
                else:
                    self._count_some(operation)
                self._note(operation)
                return

    def _can_go_on(self, operation: Operation) -> bool:
        task, request = operation.waits_for, operation.request
        return task is None or self._has_room(task) or not self.is_about(request.kind, request.task_filter, task)

    def _has_room(self, task: Task) -> bool:
        """True if a task may be queued that is not: a held one is counted as queued already."""
        if self._admission.is_closed:
            return False
        life, limits = self._life, self._life.limits
        if task.state in WAITING:
            return True
        return life.counts.queued < limits.max_queue_size and task.agent.queued < limits.max_per_agent

    def _count_some(self, operation: Operation) -> None:
        kind, task_filter = operation.request.kind, operation.request.task_filter
        looked_at = self._next(operation)
        operation.matched += sum([self.is_about(kind, task_filter, task) for task in looked_at])
        if len(looked_at) == MAX_COUNTED:
            operation.after = looked_at[-1].seq
        else:
            operation.after, operation.is_counted = 0, True

    def _treat_some(self, now: float, operation: Operation) -> None:
        request = operation.request
        looked_at = self._next(operation)
        treated = 0
        for task in looked_at:
            if treated == MAX_TREATED:
                return
            # What was done to others may have let this one leave memory.
            if self.is_about(request.kind, request.task_filter, task) and self._life.tasks.get(task.id) is task:
                if request.kind is OperationKind.RESUME and not self._has_room(task):
                    operation.status, operation.waits_for = OperationStatus.WAITING, task
                    return
                treated += 1
                self._treat(now, operation, task)
            operation.after = task.seq
        if len(looked_at) < MAX_COUNTED:
            operation.skipped = max(0, operation.matched - operation.done - operation.failed)
            self._end(now, operation, OperationStatus.DONE)

    def _next(self, operation: Operation) -> list[Task]:
        """The next tasks to look at, fewer than `MAX_COUNTED` at the end."""
        found: list[Task] = []
        for task in self._life.tasks.after(operation.after):
            if task.seq > operation.until or len(found) == MAX_COUNTED:
                break
            found.append(task)
        return found

    def is_about(self, kind: OperationKind, task_filter: TaskFilter, task: Task) -> bool:
        """True if a task matches, and is in a state in which this can be done to it."""
        state = task.state
        if kind is OperationKind.CANCEL:
            can_be = state not in TERMINAL or self._life.targets.blocks(task)
        elif kind is OperationKind.PAUSE:
            can_be = state in IN_FLIGHT
        elif kind is OperationKind.RESUME:
            can_be = state in STOPPED or task.is_held
        elif kind is OperationKind.RESOLVE:
            can_be = state in STOPPED
        else:
            can_be = state not in TERMINAL
        return can_be and task_filter.matches(task)

    def _treat(self, now: float, operation: Operation, task: Task) -> None:
        try:
            self._do(now, operation.request, task)
        except Refusal as refusal:
            operation.failed += 1
            if operation.first_error is None:
                operation.first_error = f"{task.id}: {refusal.message}"
        else:
            operation.done += 1
        # Some that were counted match no longer, and others have come to match.
        operation.matched = max(operation.matched, operation.done + operation.failed)

    def _do(self, now: float, request: OperationRequest, task: Task) -> None:
        kind, life = request.kind, self._life
        if kind is OperationKind.CANCEL:
            life.cancel(now, task, request.reason)
        elif kind is OperationKind.PAUSE:
            life.pause(now, task, reason=request.reason)
        elif kind is OperationKind.RESUME:
            self._resume(now, task.id, None, request.token_limit)
        elif kind is OperationKind.RESOLVE:
            life.resolve(now, task, request.result, request.reason)
        elif task.priority != request.priority:
            self._reprioritize(now, task, request.priority)

    def _reprioritize(self, now: float, task: Task, priority: int) -> None:
        """Give a task another priority; where it waits to be claimed it moves in among those of that one by its age."""
        life = self._life
        is_ready = task.lane is not None
        if is_ready:
            life.ready.remove(task)
        task.priority = priority
        if is_ready:
            life.ready.add(task)
        life.emit(now, task, task.state, EventKind.REPRIORITIZED)

    # Ends

    def _end(self, now: float, operation: Operation, status: OperationStatus) -> None:
        operation.status, operation.ended_at, operation.waits_for = status, now, None
        del self._live[operation]
        self._ended[operation] = None
        self._note(operation)
        self._forget_old(now)

    def _forget_old(self, now: float) -> None:
        """Forget those that ended too long ago; nobody finds them before that either."""
        for operation in list(self._ended):
            if len(self._ended) <= MAX_ENDED and not _is_over(operation, now):
                return
            del self._ended[operation]
            del self._by_name[operation.name]
            if self._life.changes is not None:
                self._life.changes.operation_gone(operation)

    def _note(self, operation: Operation) -> None:
        if self._life.changes is not None:
            self._life.changes.operations[operation] = None

    # For a store

    def restore(self, operation: Operation) -> None:
        """Go on with a stored operation; in order of their numbers."""
        self._last_number = max(self._last_number, operation.number)
        self._by_name[operation.name] = operation
        if operation.ended_at is None:
            operation.status = OperationStatus.RUNNING
            self._live[operation] = None
        else:
            self._ended[operation] = None

    def settle(self) -> None:
        """All are restored: those that have ended are forgotten in the order of their ends."""
        self._ended = dict.fromkeys(sorted(self._ended, key=_ended_at))

    def all(self) -> list[Operation]:
        """Every operation that is known."""
        return list(self._by_name.values())


def _newest_first(operation: Operation) -> int:
    return -operation.number


def _ended_at(operation: Operation) -> float:
    return operation.ended_at or 0.0


def _is_over(operation: Operation, now: float) -> bool:
    return operation.ended_at is not None and now >= operation.ended_at + RETAINED_SECS
