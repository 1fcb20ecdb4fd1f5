"""What becomes of tasks that have ended or were rejected: kept to be asked for, then forgotten everywhere at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .events import Event, EventKind
from .retention import Retention

if TYPE_CHECKING:
    from .lifecycle import Lifecycle
    from .task import Task

EVICTED: Final = EventKind.EVICTED
MOST_AT_ONCE: Final = 1000


class Archive:
    """The terminal tasks of one namespace. A task that blocks its target is not here, so that it is never evicted."""

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self.ended = Retention()
        self.rejected = Retention()

    def __len__(self) -> int:
        return len(self.ended) + len(self.rejected)

    def make_room(self, now: float) -> None:
        """Let the oldest tasks go that are too many."""
        self._life.counters.evicted += self._evict_beyond(now, self.ended, self._life.limits.max_retained_tasks)

    def keep(self, task: Task) -> None:
        """The task has ended."""
        self.ended.add(task)

    def keep_rejected(self, now: float, task: Task) -> None:
        """The task was refused; only the newest `max_queue_size` of these are kept."""
        self.rejected.add(task)
        self._evict_beyond(now, self.rejected, self._life.limits.max_queue_size)

    def give_back(self, task: Task) -> None:
        """The task goes on, if it was here at all."""
        self.ended.remove(task)

    def next_due(self) -> float | None:
        """When the time of the next task is over."""
        ends = [ended for kept in (self.ended, self.rejected) if (ended := kept.oldest()) is not None]
        return min(ends) + self._life.limits.result_ttl_secs if ends else None

    def evict_one(self, now: float) -> bool:
        """Forget a task whose time is over; False if there is none."""
        oldest = now - self._life.limits.result_ttl_secs
        for kept in (self.ended, self.rejected):
            ended = kept.oldest()
            if ended is not None and ended <= oldest:
                self._evict(now, kept)
                return True
        return False

    def _evict_beyond(self, now: float, kept: Retention, most: int) -> int:
        """Make room; how many had to go. After a lowered limit that takes several calls, so that none is long."""
        gone = 0
        while len(kept) > most and gone < MOST_AT_ONCE:
            self._evict(now, kept)
            gone += 1
        return gone

    def _evict(self, now: float, kept: Retention) -> None:
        life = self._life
        task = kept.pop()
        life.tasks.remove(task)
        life.events.append(Event(now, task, EVICTED, task.state))
        if task.options.batch_id is not None:
            life.batches.forget(task.options.batch_id, task)
        agent, key = task.agent, task.options.key
        if key is not None and life.keys.get((agent.id, key.key)) is task:
            del life.keys[agent.id, key.key]
        agent.tasks -= 1
        if not agent.tasks:
            del life.agents[agent.id]
