"""The retention of tasks that have ended or were rejected: they stay for a while, then leave all indexes at once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from .events import EventKind
from .past_keys import PastKey
from .task import FAILED, NO_EXTRAS, NO_OPTIONS

if TYPE_CHECKING:
    from .lifecycle import Lifecycle
    from .task import Task

EVICTED: Final = EventKind.EVICTED
MAX_EVICTED_PER_CALL: Final = 1000
MIN_ENTRIES_TO_COMPACT: Final = 64


class RetainedTasks:
    """Tasks in the order in which they ended; it owns their `retained`.

    A task that is removed leaves a stale entry behind, until that comes to the front or most entries are stale.
    """

    def __init__(self) -> None:
        self._entries: deque[Task] = deque()
        self._count = 0
        # The number of stale entries of each task that has any. They are older than its valid one, if it has one.
        self._stale: dict[Task, int] = {}

    def add(self, task: Task) -> None:
        """Add a task that has just ended."""
        task.retained = True
        self._entries.append(task)
        self._count += 1

    def add_oldest(self, task: Task) -> None:
        """Add a task that ended before all that are here."""
        task.retained = True
        self._entries.appendleft(task)
        self._count += 1

    def merge(self, tasks: list[Task]) -> None:
        """Add tasks in the order of their ends."""
        if tasks:
            entries = [task for task in self._entries if not self._is_stale(task)]
            for task in tasks:
                task.retained = True
            self._count += len(tasks)
            self._entries = deque(sorted([*entries, *tasks], key=_ended_at))

    def put_back(self, task: Task) -> None:
        """Add a task that was taken out as the oldest, before all that ended later."""
        task.retained = True
        ended, stale = (_ended_at(task), task.seq), dict(self._stale)
        index = 0
        for each in self._entries:
            if stale.get(each):
                # It stands where the task ended before, which may live now, or have ended anew.
                stale[each] -= 1
            elif (_ended_at(each), each.seq) > ended:
                break
            index += 1
        self._entries.insert(index, task)
        self._count += 1
        self._drop_stale_front()

    def remove(self, task: Task) -> None:
        """Remove a task that has left its terminal state; nothing happens if it is not here."""
        if not task.retained:
            return
        task.retained = False
        self._count -= 1
        self._stale[task] = self._stale.get(task, 0) + 1
        if len(self._entries) > 2 * self._count + MIN_ENTRIES_TO_COMPACT:
            self._entries = deque([task for task in self._entries if not self._is_stale(task)])
        self._drop_stale_front()

    def __len__(self) -> int:
        return self._count

    def oldest(self) -> float | None:
        """When the oldest task ended; None if there is none."""
        return self._entries[0].completed_at if self._entries else None

    def pop(self) -> Task:
        """Take out the oldest task. Call only while there is one."""
        task = self._entries.popleft()
        task.retained = False
        self._count -= 1
        if self._stale:
            self._drop_stale_front()
        return task

    def _drop_stale_front(self) -> None:
        while self._entries and self._is_stale(self._entries[0]):
            self._entries.popleft()

    def _is_stale(self, task: Task) -> bool:
        """True if the oldest entry of a task is stale. Call once for each entry: a stale one is then uncounted."""
        stale = self._stale.get(task)
        if stale is None:
            return False
        if stale == 1:
            del self._stale[task]
        else:
            self._stale[task] = stale - 1
        return True


class Retention:
    """The terminal tasks of one namespace. Those that block a target are among them only if it `takes_blockers`.

    Those that others wait for are not evicted, nor those with which others are to end, nor the named children of what
    may run again: one that would be next is put `aside` until there are no such others any more.
    """

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self.takes_blockers = False
        self.ended = RetainedTasks()
        self.rejected = RetainedTasks()
        self.aside: dict[Task, None] = {}
        life.predecessors.on_let_go = life.children.ends.on_let_go = self.let_go
        life.children.named.on_let_go = self.let_go

    def __len__(self) -> int:
        return len(self.ended) + len(self.rejected) + len(self.aside)

    def take_blockers(self) -> None:
        """From now on what blocks a target may leave memory, since it is found in a store; what was loaded, too."""
        if not self.takes_blockers:
            self.takes_blockers = True
            self.ended.merge(self._life.targets.failed_blockers())

    def evict_excess(self, now: float) -> None:
        """Evict the oldest tasks beyond `max_retained_tasks`."""
        self._life.counters.evicted += self._evict_beyond(now, self.ended, self._life.limits.max_retained_tasks)

    def retain(self, task: Task) -> None:
        """Retain a task that has ended."""
        if task.state is not FAILED:
            self._life.children.named.let_go(task)
        self.ended.add(task)

    def retain_rejected(self, now: float, task: Task) -> None:
        """Retain a task that was rejected, among the newest `max_queue_size` of these."""
        self.rejected.add(task)
        self._evict_beyond(now, self.rejected, self._life.limits.max_queue_size)

    def remove(self, task: Task) -> None:
        """Retain a task no longer, because it is live again; nothing happens if it was not retained."""
        if task in self.aside:
            del self.aside[task]
            task.retained = False
        else:
            self.ended.remove(task)
        if task.history.children:
            self._life.children.named.restored(task)

    def let_go(self, task: Task) -> None:
        """Nobody waits for a task any more, or looks for it, or nothing is to end with it any more."""
        if task in self.aside and not self._is_needed(task):
            del self.aside[task]
            self.ended.put_back(task)

    def adopt(self, task: Task) -> None:
        """Retain a task again that has left memory, in all indexes, so that a command can be about it; see `_evict`.

        It has its key where that is free. It is evicted again at the next `advance` unless a command made it live.
        """
        life, agent, options = self._life, task.agent, task.options
        if task.deadline is not None and task.deadline_secs is None:
            task.deadline += life.deadlines.stood_still_secs
        life.tasks.insert(task)
        agent.tasks += 1
        if task.state is FAILED:
            others = life.agents.figures.take_back(agent.figures, task.history.tokens_used or 0)
            if others is not None and life.changes is not None:
                life.changes.agents[others] = life.changes.agents[agent.figures] = None
        if options.batch_id is not None:
            life.tasks.batches.restore(options.batch_id, task)
            life.tasks.batches.sort_one(options.batch_id)
        if options.key is not None:
            name = (agent.id, options.key.key)
            if life.past_keys.give_back(name, task.id):
                life.tasks.by_key.setdefault(name, task)
        if options.target is not None:
            life.targets.come_back(task)
        if options.extras.inputs and task.state is FAILED:
            life.predecessors.keep_inputs(task)
        if task.history.children:
            life.children.named.restored(task)
        for bound in task.history.bound:
            name = (agent.id, bound.key)
            if life.past_keys.give_back(name, task.id):
                life.tasks.by_key.setdefault(name, task)
        self.ended.add_oldest(task)

    def next_due(self) -> float | None:
        """When the next task is due to be evicted; None if there is none."""
        ends = [ended for tasks in (self.ended, self.rejected) if (ended := tasks.oldest()) is not None]
        return min(ends) + self._life.limits.result_ttl_secs if ends else None

    def evict_one(self, now: float) -> bool:
        """Evict one task whose time is over; False if there is none."""
        evict_until = now - self._life.limits.result_ttl_secs
        for tasks in (self.ended, self.rejected):
            ended = tasks.oldest()
            if ended is not None and ended <= evict_until:
                self._evict(now, tasks.pop())
                return True
        return False

    def _evict_beyond(self, now: float, tasks: RetainedTasks, limit: int) -> int:
        """Evict the oldest tasks beyond `limit`, a bounded number in each call; how many were evicted."""
        evicted = taken = 0
        while len(tasks) > limit and taken < MAX_EVICTED_PER_CALL:
            evicted += self._evict(now, tasks.pop())
            taken += 1
        return evicted

    def _evict(self, now: float, task: Task) -> bool:
        """Forget a task, unless others need it; whether it is forgotten."""
        life = self._life
        if self._is_needed(task):
            self.aside[task] = None
            task.retained = True
            # One that is kept for others alone keeps no children: it may be for one of them that it is kept.
            life.children.named.let_go(task)
            return False
        options = task.options
        life.tasks.remove(task)
        if task.state is FAILED and options.target is not None:
            life.targets.leave_memory(task)
        life.emit(now, task, task.state, EVICTED)
        if options is not NO_OPTIONS:
            if options.batch_id is not None:
                life.tasks.batches.forget(options.batch_id, task)
            self._forget_keys(now, task)
            if options.extras is not NO_EXTRAS:
                life.predecessors.let_inputs_go(task)
        life.children.named.let_go(task)
        agent = task.agent
        agent.tasks -= 1
        if not agent.tasks:
            life.agents.remove(agent, life.limits.max_agent_figures)
        return True

    def _is_needed(self, task: Task) -> bool:
        """True if others wait for a task, are to end with it, or look for it as their child."""
        followers, children = self._life.predecessors.followers, self._life.children
        ending = children.ends.ending
        return bool((followers and task in followers) or (ending and task in ending)) or children.named.holds(task)

    def _forget_keys(self, now: float, task: Task) -> None:
        """Forget the keys of a task, which may be known for a while yet."""
        key, bound_keys = task.options.key, task.history.bound
        if key is None and not bound_keys:
            return
        # A trigger fires once: its task's key is looked up by nobody later.
        lasts_secs = 0.0 if task.options.trigger_id is not None else self._life.limits.idempotency_secs
        if key is not None:
            self._forget_key(now, task, key.key, key.fingerprint, task.created_at + lasts_secs)
        for bound in bound_keys:
            self._forget_key(now, task, bound.key, bound.fingerprint, bound.at + lasts_secs)

    def _forget_key(self, now: float, task: Task, key: str, fingerprint: bytes, until: float) -> None:
        """Forget which task has a key, if it is this one; what is to be told of it is known `until` then."""
        life, name = self._life, (task.agent.id, key)
        if life.tasks.by_key.get(name) is task:
            del life.tasks.by_key[name]
            if until > now:
                past = PastKey(name, fingerprint, task.id, task.state, task.position, task.created_at, until)
                life.past_keys.add(past)


def _ended_at(task: Task) -> float:
    assert task.completed_at is not None
    return task.completed_at
