"""Serial queues: the tasks of one target run one at a time, oldest first (docs/rules.md, Serial queues).

Only the head of a free target is in the ready queue; the others wait here. A target is taken while one of its
tasks is in flight, and while the host of a stopped one has not yet said that nothing runs any more. It is blocked while
it has a paused task, or one that failed after it had started and shall block it. What becomes eligible is told by
`offer`, what no longer is by `withdraw`.

A blocker that has failed may leave memory: what is left of it here is a task with its id, agent, target and end alone.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from .task import FAILED, PARKED, QUEUED, Submission, Task
from .task_options import OnTargetFailure, TaskOptions

if TYPE_CHECKING:
    from .leases import Lease
    from .limits import Limits

MIN_ENTRIES_TO_COMPACT: Final = 16


class TargetStatus(StrEnum):
    """Why the next task of a target runs or does not."""

    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    BLOCKED = "blocked"
    WAITING = "waiting"


class Target:
    """One serial queue.

    `waiting` are its tasks that are queued or wait for their next attempt, `head` is the one of them that may be
    claimed now, `aside` are those that are held or not yet due, `stopping` are leases that ended while the work may
    still go on. `blockers` are by id, in the order in which they began to block. `standing` tells how it stands and
    which task that is about, `since` when that came to be so.
    """

    __slots__ = ("aside", "blockers", "head", "heap", "name", "running", "since", "standing", "stopping", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting: dict[Task, None] = {}
        self.aside: dict[Task, None] = {}
        self.heap: list[tuple[int, Task]] = []
        self.head: Task | None = None
        self.running: Task | None = None
        self.stopping: dict[Lease, None] = {}
        self.blockers: dict[str, Task] = {}
        self.standing: tuple[TargetStatus, Task | None] = (TargetStatus.WAITING, None)
        self.since: float | None = None

    def oldest(self) -> Task | None:
        """The waiting task that was submitted first."""
        heap = self.heap
        while heap and heap[0][1] not in self.waiting:
            heappop(heap)
        return heap[0][1] if heap else None

    def drop_stale(self, seq: int) -> None:
        """Let go of a task that waits no longer, and of its entry."""
        heap = [entry for entry in self.heap if entry[0] != seq]
        if len(heap) < len(self.heap):
            heapify(heap)
            self.heap = heap

    @property
    def is_free(self) -> bool:
        """True if its next task may run, as far as the others are concerned."""
        return self.running is None and not self.stopping and not self.blockers

    @property
    def is_over(self) -> bool:
        """True if nothing is left of it."""
        return self.is_free and not self.waiting and not self.aside

    @property
    def held_back(self) -> int:
        """How many tasks wait only for others of the target; a head that is not due itself is none of them."""
        return len(self.waiting) - (self.standing[0] is TargetStatus.WAITING and bool(self.waiting))

    @property
    def waits_for(self) -> str | None:
        """The reason for which its next task waits, for people; None while its head may be claimed."""
        status, task = self.standing
        if task is None or status is TargetStatus.READY:
            return None
        return f"{task.id} {WAITS_FOR[status]}"

    def stand(self, now: float) -> None:
        """Note how it stands now."""
        standing = self._standing()
        if standing != self.standing:
            self.standing = standing
            self.since = now

    def _standing(self) -> tuple[TargetStatus, Task | None]:
        if self.running is not None:
            return TargetStatus.RUNNING, self.running
        if self.blockers:
            return TargetStatus.BLOCKED, next(iter(self.blockers.values()))
        if self.stopping:
            return TargetStatus.STOPPING, next(iter(self.stopping)).task
        if self.head is not None:
            return TargetStatus.READY, self.head
        return TargetStatus.WAITING, self.oldest() or next(iter(self.aside), None)


WAITS_FOR: Final = {
    TargetStatus.RUNNING: "to end",
    TargetStatus.STOPPING: "to stop at its host",
    TargetStatus.BLOCKED: "to be resumed, resolved or cancelled",
    TargetStatus.WAITING: "to come due or to be released",
}


def blocks_when_failed(task: Task, limits: Limits) -> bool:
    """True if a failure of the task, after its start, blocks its target: its own policy decides, else that of the
    target's name, else it does (docs/rules.md, Blockers).
    """
    policy = task.options.extras.on_target_failure
    if policy is None:
        match = limits.on_target_failure.match(task.options.target or "")
        policy = OnTargetFailure.BLOCK if match is None else match[1]
    return policy is OnTargetFailure.BLOCK


class Targets:
    """All targets that have tasks which wait, run or block; `blocked` counts those that are blocked."""

    def __init__(self, offer: Callable[[float, Task], None], withdraw: Callable[[Task], None]) -> None:
        self._offer = offer
        self._withdraw = withdraw
        self._targets: dict[str, Target] = {}
        self.blocked = 0

    def has_room(self, name: str, max_blocked: int) -> bool:
        """True if a task may be added to a target: a new one is taken while fewer than `max_blocked` are blocked."""
        return self.blocked < max_blocked or name in self._targets

    def enter(self, now: float, task: Task) -> None:
        """The task waits until it is first, in the order of the tasks' ages."""
        target = self._of(task)
        target.aside.pop(task, None)
        target.waiting[task] = None
        heappush(target.heap, (task.seq, task))
        if len(target.heap) > 2 * len(target.waiting) + MIN_ENTRIES_TO_COMPACT:
            target.heap = [(other.seq, other) for other in target.waiting]
            heapify(target.heap)
        self._elect(now, target)

    def set_aside(self, now: float, task: Task) -> None:
        """The task is held or not yet due, and is not among those that wait."""
        target = self._of(task)
        target.aside[task] = None
        self._elect(now, target)

    def leave(self, now: float, task: Task) -> None:
        """The task waits no longer: it was handed out, or has ended."""
        target = self._of(task)
        target.waiting.pop(task, None)
        target.aside.pop(task, None)
        if target.head is task:
            # Who took it out of the ready queue did so already.
            target.head = None
        self._elect(now, target)

    def take(self, now: float, task: Task) -> None:
        """The head was handed out."""
        target = self._of(task)
        target.running = task
        self.leave(now, task)

    def vacate(self, now: float, task: Task) -> None:
        """The task is no longer in flight."""
        target = self._of(task)
        if target.running is task:
            target.running = None
        self._elect(now, target)

    def stop(self, lease: Lease) -> None:
        """The task's lease has ended, but its host may still work on it."""
        self._of(lease.task).stopping[lease] = None

    def stopped(self, now: float, lease: Lease) -> None:
        """Nothing runs under that lease any more."""
        target = self._of(lease.task)
        target.stopping.pop(lease, None)
        self._elect(now, target)

    def block(self, now: float, task: Task) -> None:
        """The task blocks its target until it is resumed, resolved or cancelled."""
        target = self._of(task)
        self._add_blocker(target, task)
        if target.head is task:
            # It ends while it waits; who ends it takes it out of the ready queue.
            target.head = None
        self._elect(now, target)

    def unblock(self, now: float, task: Task) -> None:
        """It blocks no longer; a task that never did changes nothing."""
        target = self._of(task)
        if target.blockers.pop(task.id, None) is not None and not target.blockers:
            self.blocked -= 1
        self._elect(now, target)

    def restore(self, task: Task, blocked_at: float | None) -> None:
        """A stored task joins; nothing is offered before `settle`.

        `blocked_at` is when a paused or failed one began to block the target. They come in any order.
        """
        target = self._of(task)
        if blocked_at is not None:
            self._add_blocker(target, task)
            target.since = blocked_at if target.since is None else min(target.since, blocked_at)
        elif task.lease is not None:
            target.running = task
            target.since = task.lease.claimed_at
        elif task.state is PARKED:
            self._restore_keeper(target, task)
        elif task.state is QUEUED or task.token:
            target.waiting[task] = None
            target.heap.append((task.seq, task))
            self._restore_keeper(target, task)
        else:
            target.aside[task] = None

    def settle(self, now: float, blocked_at: Callable[[Task], float]) -> None:
        """All tasks and stopping leases are restored: let the right ones be claimable, and note how targets stand."""
        for target in list(self._targets.values()):
            heapify(target.heap)
            if len(target.blockers) > 1:
                target.blockers = {task.id: task for task in sorted(target.blockers.values(), key=blocked_at)}
            since = target.since
            self._elect(now, target)
            status, task = target.standing
            if status is TargetStatus.READY and task is not None:
                target.since = task.queued_at
            elif status in (TargetStatus.RUNNING, TargetStatus.BLOCKED):
                target.since = since

    def find(self, name: str) -> Target | None:
        """The target of this name, if anything of it waits, runs or blocks."""
        return self._targets.get(name)

    def blocks(self, task: Task) -> bool:
        """True if the task, in memory or not, blocks its target."""
        target = self._targets.get(task.options.target or "")
        return target is not None and task.id in target.blockers

    def leave_memory(self, task: Task) -> None:
        """A task that has failed leaves memory: if it blocks its target, only what tells so stays of it."""
        target = self._targets.get(task.options.target or "")
        if target is not None and target.blockers.get(task.id) is task:
            target.drop_stale(task.seq)
            self._replace(target, task, _what_is_left(task))

    def come_back(self, task: Task) -> None:
        """A task that had left memory is there again."""
        target = self._targets.get(task.options.target or "")
        if target is not None:
            # The one that left may still have an entry, and two entries of one `seq` cannot be compared.
            target.drop_stale(task.seq)
            if (left := target.blockers.get(task.id)) is not None:
                self._replace(target, left, task)

    def failed_blockers(self) -> list[Task]:
        """The failed tasks that block a target, in memory or what is left of them."""
        return [task for each in self._targets.values() for task in each.blockers.values() if task.state is FAILED]

    def forget_all(self) -> None:
        """Let go of all targets, of which nothing is used any more."""
        self._targets.clear()

    def after(self, name: str) -> list[Target]:
        """The targets after this name, in order of their names."""
        return [self._targets[each] for each in sorted(self._targets) if each > name]

    def _of(self, task: Task) -> Target:
        name = task.options.target
        assert name is not None
        target = self._targets.get(name)
        if target is None:
            target = self._targets[name] = Target(name)
        return target

    def _add_blocker(self, target: Target, task: Task) -> None:
        if not target.blockers:
            self.blocked += 1
        target.blockers[task.id] = task

    def _restore_keeper(self, target: Target, task: Task) -> None:
        """Let a target be taken by a stored task that was parked, if it keeps it."""
        park = task.history.park
        if park is not None and park.keeps_target:
            target.running = task
            target.since = park.since

    def _replace(self, target: Target, blocker: Task, other: Task) -> None:
        """Put one task in the place of another of the same id; since when the target stands so is the same."""
        target.blockers[other.id] = other
        status, task = target.standing
        if task is blocker:
            target.standing = (status, other)

    def _elect(self, now: float, target: Target) -> None:
        """Let the right task, or none, be claimable."""
        running = target.running
        if running is not None and running.keeps_target and running in target.waiting:
            # It kept the target while it was parked.
            oldest: Task | None = running
        else:
            oldest = target.oldest() if target.is_free else None
        elected = oldest if oldest is not None and oldest.state is QUEUED else None
        if elected is not target.head:
            if target.head is not None:
                self._withdraw(target.head)
            target.head = elected
            if elected is not None:
                self._offer(now, elected)
        target.stand(now)
        if target.is_over:
            self._targets.pop(target.name, None)


def _what_is_left(task: Task) -> Task:
    """The trace of a blocker that has left memory."""
    submission = Submission(task.agent.id, "", options=TaskOptions(target=task.options.target))
    left = Task(task.id, task.seq, task.agent, submission, task.created_at, None, task.state)
    left.completed_at = task.completed_at
    return left
