"""The ready tasks of one agent in one bucket: lower priorities first, among equals in order of submission.

A lane holds those that have no concurrency keys; those that have stand in its `keyed` side (`strands.py`).

Tasks of one priority stand in a row in the order of their submission. New tasks join at the end and the oldest leaves
at the front, so neither looks at any other task. One that comes back is put where it was, by bisection. One that leaves
from the middle leaves a slot in the row until that comes to the front, or until most slots are such.

A lane is itself the row of its lowest priority, since most have no other. With ten thousand agents each lane has left
the processor's caches when it is looked at again: what counts then is how few parts of the memory it is spread over.
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from taskyard_server.core.agents import Agent
    from taskyard_server.core.task import Task

    from .bucket import Bucket
    from .strands import Keyed

MIN_ENTRIES_TO_COMPACT: Final = 64


class Row:
    """The tasks of one priority. The slots before `first` are empty, of the others those of tasks that have left.

    `last` is the `seq` of the task at the end, 0 if the row has no slots.
    """

    __slots__ = ("first", "last", "priority", "tasks")

    def __init__(self, priority: int) -> None:
        self.tasks: list[Task | None] = []
        self.last = 0
        self.first = 0
        self.priority = priority


class Rows(Row):
    """Tasks of one agent in one bucket, in rows by priority; `size` of them. It is itself the row of the lowest one."""

    __slots__ = ("_later", "_slots", "agent", "bucket", "size")

    def __init__(self, agent: Agent, bucket: Bucket) -> None:
        super().__init__(0)
        self.size = 0
        self._slots = 0
        self.agent = agent
        self.bucket = bucket
        # The other rows with the lowest last. No row is empty while there is a task.
        self._later: list[Row] | None = None

    def head(self) -> Task:
        """The task that leaves first; there must be one."""
        task = self.tasks[self.first]
        assert task is not None
        return task

    def rows(self) -> list[Row]:
        """The rows that have slots, the one of the lowest priority last."""
        if not self.tasks:
            return []
        return [self] if self._later is None else [*self._later, self]

    def queued_since(self) -> float:
        """When the one of its tasks was queued that waits longest, of those that come first of their priority."""
        since = inf
        for row in self.rows():
            for at in range(row.first, len(row.tasks)):
                task = row.tasks[at]
                if task is not None and self._holds(task, row):
                    since = min(since, task.queued_at)
                    break
        return since

    def count_before(self, task: Task) -> int:
        """How many of the tasks leave before a task of the agent, which may be in another one."""
        count = 0
        if self._slots == self.size:
            # No slot is empty.
            for row in self.rows():
                if row.priority < task.priority:
                    count += len(row.tasks) - row.first
                elif row.priority == task.priority:
                    count += bisect_left(row.tasks, task.seq, row.first, key=_seq) - row.first
            return count
        for row in self.rows():
            if row.priority <= task.priority:
                for other in row.tasks[row.first :]:
                    if other is None or not self._holds(other, row):
                        continue
                    if (row.priority, other.seq) < (task.priority, task.seq):
                        count += 1
        return count

    def add(self, task: Task) -> None:
        """A task joins, or comes back to where it was."""
        row = self if task.priority == self.priority else self._row(task.priority)
        tasks, seq = row.tasks, task.seq
        self.size += 1
        if row.last < seq:
            tasks.append(task)
            row.last = seq
            self._slots += 1
            return
        at = bisect_left(tasks, task.seq, row.first, key=_seq)
        if tasks[at] is task:
            return
        self._slots += 1
        if at == row.first and at:
            row.first = at - 1
            tasks[at - 1] = task
        else:
            tasks.insert(at, task)

    def take_head(self) -> Task:
        """The task that leaves first, taken out; there must be one."""
        task = self.head()
        task.lane = None
        self.size -= 1
        self._step()
        if self._slots != self.size:
            self._compact()
        return task

    def remove(self, task: Task) -> None:
        """Take out one of the tasks, wherever it stands."""
        task.lane = None
        self.size -= 1
        self._compact()

    def _holds(self, task: Task, row: Row) -> bool:
        """True if a slot of a row is still that of its task, which may stand in another row since."""
        return task.lane is self and task.priority == row.priority

    def _row(self, priority: int) -> Row:
        if priority == self.priority:
            return self
        if not self.tasks:
            # It is the only one.
            self.priority = priority
            return self
        rows = self._later
        if rows is None:
            rows = self._later = []
        if priority < self.priority:
            front = Row(self.priority)
            front.tasks, front.last, front.first = self.tasks, self.last, self.first
            rows.append(front)
            self._become(Row(priority))
            return self
        at = bisect_left(rows, -priority, key=_urgency)
        if at == len(rows) or rows[at].priority != priority:
            rows.insert(at, Row(priority))
        return rows[at]

    def _become(self, row: Row) -> None:
        """This is the row of the lowest priority from now on."""
        self.tasks, self.last, self.first, self.priority = row.tasks, row.last, row.first, row.priority

    def _step(self) -> None:
        """The slot at the front of the first row is given up."""
        tasks, first = self.tasks, self.first
        tasks[first] = None
        self.first = first = first + 1
        self._slots -= 1
        if first == len(tasks):
            self._next_row()
        elif first > len(tasks) // 2 and first > MIN_ENTRIES_TO_COMPACT:
            del tasks[:first]
            self.first = 0

    def _next_row(self) -> None:
        """The first row has no slots any more."""
        if self._later is not None:
            self._become(self._later.pop())
            if not self._later:
                self._later = None
        else:
            self.tasks.clear()
            self.last = self.first = 0

    def _compact(self) -> None:
        """Give up slots of tasks that have left: those at the front always, all of them once they are the most."""
        if self._slots > 2 * self.size + MIN_ENTRIES_TO_COMPACT:
            for row in self.rows():
                tasks = [task for task in row.tasks[row.first :] if task is not None and self._holds(task, row)]
                row.tasks = [*tasks]
                row.last = tasks[-1].seq if tasks else 0
                row.first = 0
            if self._later is not None:
                self._later = [row for row in self._later if row.tasks] or None
            if not self.tasks:
                self._next_row()
            self._slots = self.size
        while self._slots:
            task = self.tasks[self.first]
            if task is not None and self._holds(task, self):
                return
            self._step()


class Lane(Rows):
    """One agent's tasks in one bucket; `size` of them have no concurrency keys, the others are `keyed`.

    `entry` is the rank under which the bucket holds this lane, 0 if it does not.
    """

    __slots__ = ("entry", "keyed")

    def __init__(self, agent: Agent, bucket: Bucket) -> None:
        super().__init__(agent, bucket)
        self.entry = 0
        self.keyed: Keyed | None = None

    @property
    def is_waiting(self) -> bool:
        """True if a task here may be runnable: all but those that wait at full keys."""
        return self.size > 0 or (self.keyed is not None and self.keyed.open.size > 0)

    @property
    def count(self) -> int:
        """How many tasks are here, those included that wait at full keys."""
        return self.size + (0 if self.keyed is None else sum([each.size for each in self.keyed.strands.values()]))

    @property
    def is_empty(self) -> bool:
        """True if no task is here, not even one that waits at a full key."""
        return not self.size and (self.keyed is None or not self.keyed.size)


def _seq(task: Task | None) -> int:
    return 0 if task is None else task.seq


def _urgency(row: Row) -> int:
    return -row.priority
