"""Every task that the scheduler knows, in order of submission: found by id, walked from any point.

An id is `tsk_` and 128 bits in hex: milliseconds, the order of submission, and entropy, which is drawn once a
millisecond, or for each id where those of other tasks must not be computed from it. The order in it leads to a page of
some thousand tasks. Pages keep each dict small, so that none is ever resized for long, and let a listing start
anywhere without a walk from the beginning.
"""

from collections.abc import Callable, Iterator
from typing import Final

from .task import Task

# Of the ten hex digits of the order, all but the last three name the page.
PAGE_BEGIN: Final = 16
PAGE_END: Final = 23
ORDER_END: Final = 26
PAGE_BITS: Final = 12
IN_PAGE: Final[list[str]] = [f"{number:03x}" for number in range(1 << PAGE_BITS)]
"""The last three digits, made once: formatting a number is what costs most of an id."""


class TaskTable:
    """The tasks, and the source of their ids. `entropy` returns 40 random bits.

    With `draws_each` they are drawn for each id.
    """

    def __init__(self, entropy: Callable[[], int]) -> None:
        self.draws_each = False
        self._pages: dict[str, dict[str, Task]] = {}
        self._entropy = entropy
        self._last_seq = 0
        self._ms = -1
        self._page = -1
        self._time = self._head = self._tail = ""

    @property
    def last_seq(self) -> int:
        """The order of submission of the last task."""
        return self._last_seq

    def continue_after(self, seq: int) -> None:
        """Let orders of submission go on after this one."""
        if seq > self._last_seq:
            self._last_seq = seq

    def insert(self, task: Task) -> None:
        """Keep a task under the id that it had, at the place of its age."""
        self.add(task)
        name = task.id[PAGE_BEGIN:PAGE_END]
        self._pages[name] = {each.id: each for each in sorted(self._pages[name].values(), key=_seq)}
        names = list(self._pages)
        if names != sorted(names):
            self._pages = {name: self._pages[name] for name in sorted(names)}

    def sort(self) -> None:
        """Put tasks that were added in another order into that of submission."""
        names = list(self._pages)
        if names != sorted(names):
            self._pages = {name: self._pages[name] for name in sorted(names)}
        for name, page in self._pages.items():
            orders = [task.seq for task in page.values()]
            if orders != sorted(orders):
                self._pages[name] = {task.id: task for task in sorted(page.values(), key=_seq)}

    def next_id(self, now: float) -> tuple[str, int]:
        """An id that no other task has, and its order of submission."""
        ms = int(now * 1000)
        if ms != self._ms:
            # Within a millisecond the order tells ids apart, so entropy is drawn once for each.
            self._ms, self._page = ms, -1
            self._time, self._tail = f"tsk_{ms:012x}", f"{self._entropy():010x}"
        elif self.draws_each:
            self._tail = f"{self._entropy():010x}"
        self._last_seq = seq = self._last_seq + 1
        page = seq >> PAGE_BITS
        if page != self._page:
            self._page, self._head = page, f"{self._time}{page:07x}"
        return self._head + IN_PAGE[seq & (1 << PAGE_BITS) - 1] + self._tail, seq

    def add(self, task: Task) -> None:
        """Keep a task under an id from `next_id`."""
        name = task.id[PAGE_BEGIN:PAGE_END]
        page = self._pages.get(name)
        if page is None:
            page = self._pages[name] = {}
        page[task.id] = task

    def remove(self, task: Task) -> None:
        """Forget a task that is in the table."""
        name = task.id[PAGE_BEGIN:PAGE_END]
        page = self._pages[name]
        del page[task.id]
        if not page:
            del self._pages[name]

    def get(self, task_id: str) -> Task | None:
        """The task of this id, or None."""
        page = self._pages.get(task_id[PAGE_BEGIN:PAGE_END])
        return None if page is None else page.get(task_id)

    def after(self, seq: int) -> Iterator[Task]:
        """The tasks submitted after `seq`, in order. The table must not change meanwhile."""
        first = f"{seq:010x}"[:7]
        for name, page in self._pages.items():
            if name == first:
                yield from [task for task in page.values() if task.seq > seq]
            elif name > first:
                yield from page.values()

    def before(self, seq: int) -> Iterator[Task]:
        """The tasks submitted before `seq`, all if it is 0, the last first. The table must not change meanwhile."""
        last = f"{seq:010x}"[:7]
        for name, page in reversed(self._pages.items()):
            if not seq or name < last:
                yield from reversed(page.values())
            elif name == last:
                yield from [task for task in reversed(page.values()) if task.seq < seq]


def order_of(task_id: str) -> int:
    """The order of submission of the task of this id. Raises `ValueError` for what is no id of a task."""
    return int(task_id[PAGE_BEGIN:ORDER_END], 16)


def _seq(task: Task) -> int:
    return task.seq
