"""Every task that the scheduler knows, in order of submission: found by id, walked from any point.

An id is `tsk_` and 128 bits in hex: milliseconds, the order of submission, and entropy, which is drawn once a
millisecond, or for each id where those of other tasks must not be computed from it. The order in it leads to a page of
some hundred tasks. Pages keep each list small, so that none is ever resized for long, let a listing start anywhere
without a walk from the beginning, and are passed by where they hold nothing that it wants.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from .batches import Batches
from .search.task_pages import INDEXES, PAGE_BEGIN, PAGE_BITS, PAGE_END, PAGE_SIZE, TaskPage
from .task import DONE, IN_FLIGHT, NO_OPTIONS, QUEUED

if TYPE_CHECKING:
    from .task import Task

IN_PAGE: Final[list[str]] = list(INDEXES)
"""The last two digits, made once: formatting a number is what costs most of an id."""
MAX_SEQ: Final = (1 << 40) - 1
"""The last order of submission that an id has room for."""


class TaskTable:
    """The tasks, and the source of their ids. `entropy` returns 40 random bits.

    With `draws_each` they are drawn for each id. `by_key` has the tasks that answer a repeat of an idempotency key, by
    agent and key; `batches` has those that came in one call.
    """

    def __init__(self, entropy: Callable[[], int]) -> None:
        self.draws_each = False
        self.by_key: dict[tuple[str, str], Task] = {}
        self.batches = Batches()
        # Told of each page that is dropped.
        self.on_dropped: Callable[[TaskPage], None] | None = None
        self._pages: dict[str, TaskPage] = {}
        # In order of submission.
        self._names: list[str] = []
        self._entropy = entropy
        self._last_seq = 0
        self._ms = -1
        self._number = -1
        self._time = self._head = self._tail = ""
        self._open = self._page_of("tsk_" + "0" * 32)

    @property
    def last_seq(self) -> int:
        """The order of submission of the last task."""
        return self._last_seq

    def continue_after(self, seq: int) -> None:
        """Let orders of submission go on after this one."""
        if seq > self._last_seq:
            self._last_seq = seq

    def restore(self, task: Task) -> None:
        """Add a stored task under the id that it had. Unless they come in order of submission, `sort` follows."""
        page = self._page_of(task.id)
        task.page = page
        page.add(task)
        if page.noted_agents is not None:
            page.noted_agents.add(task.agent.id)
        page.note(task.options)
        state = task.state
        if state is DONE:
            page.done += 1
        elif state is not QUEUED and state not in IN_FLIGHT:
            page.entered(state)

    def insert(self, task: Task) -> None:
        """Add a task under the id that it had, in the order of submission."""
        self.restore(task)
        task.page.see_times()
        if self._names[-1] == task.page.name:
            # It may be a page of its own.
            insort(self._names, self._names.pop())

    def sort(self) -> None:
        """Put pages that were added in another order into that of submission."""
        self._names.sort()
        for page in self._pages.values():
            page.see_times()

    def next_id(self, now: float) -> tuple[str, int]:
        """An id that no other task has, and its order of submission."""
        ms = int(now * 1000)
        if ms != self._ms:
            # Within a millisecond the order tells ids apart, so entropy is drawn once for each.
            self._ms, self._number = ms, -1
            self._time, self._tail = f"tsk_{ms:012x}", f"{self._entropy():010x}"
        elif self.draws_each:
            self._tail = f"{self._entropy():010x}"
        self._last_seq = seq = self._last_seq + 1
        page = seq >> PAGE_BITS
        if page != self._number:
            self._number, self._head = page, f"{self._time}{page:08x}"
            self._open_page(self._head)
        return self._head + IN_PAGE[seq & PAGE_SIZE - 1] + self._tail, seq

    def add(self, task: Task) -> None:
        """Add a task under the id that `next_id` gave last."""
        page = self._open
        task.page = page
        page.add(task)
        if page.noted_agents is not None:
            page.noted_agents.add(task.agent.id)
        if task.options is not NO_OPTIONS:
            page.note(task.options)

    def remove(self, task: Task) -> None:
        """Forget a task that is in the table, and has ended."""
        page = task.page
        page.remove(task)
        if task.state is DONE:
            page.done -= 1
        else:
            page.left(task.state)
        if page.size < page.renew_below:
            if page.size:
                page.renew()
            elif page is not self._open:
                self._drop(page)

    def _open_page(self, task_id: str) -> None:
        """Open the page of an id, to which tasks are added from now on."""
        left = self._open
        self._open = self._page_of(task_id)
        if left is not self._open and not left.size:
            self._drop(left)

    def _page_of(self, task_id: str) -> TaskPage:
        """The page of an id, which is made if it is not there."""
        name = task_id[PAGE_BEGIN:PAGE_END]
        page = self._pages.get(name)
        if page is None:
            page = self._pages[name] = TaskPage(name)
            self._names.append(name)
        return page

    def _drop(self, page: TaskPage) -> None:
        if self.on_dropped is not None:
            self.on_dropped(page)
        del self._pages[page.name]
        del self._names[bisect_left(self._names, page.name)]

    def get(self, task_id: str) -> Task | None:
        """The task of this id, or None."""
        page = self._pages.get(task_id[PAGE_BEGIN:PAGE_END])
        return None if page is None else page.find(task_id)

    def pages(self, seq: int, newest_first: bool = False) -> Iterator[TaskPage]:
        """The pages of what comes after `seq`, all if it is 0, in that order; the first one may hold other tasks, too.

        The table must not change meanwhile.
        """
        name = f"{min(seq, MAX_SEQ) >> PAGE_BITS:08x}"
        if newest_first:
            indexes = range(bisect_right(self._names, name) - 1 if seq else len(self._names) - 1, -1, -1)
        else:
            indexes = range(bisect_left(self._names, name), len(self._names))
        for index in indexes:
            yield self._pages[self._names[index]]

    def after(self, seq: int) -> Iterator[Task]:
        """The tasks submitted after `seq`, in order. The table must not change meanwhile."""
        for page in self.pages(seq):
            yield from [task for task in page.tasks if task.seq > seq]
