"""Listings of the history: all tasks that the store has, live ones too, in order of submission or the opposite one.

They are read from the store in slices, so that neither its writer nor the event loop is held up. A page ends when it
is full, or after this many rows that its caller had better ask again.

Tasks are created in order of submission, so a range of times is found without reading what is outside of it. Only
where an operator had stored times moved (`--accept-clock`) the two orders may differ. So it is with ids, in which the
time of the submission stands; there the clocks of replicas may differ, too.
What a task has submitted is younger than it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import Internal
from taskyard_server.core.search.task_filter import NO_FILTER, TaskFilter
from taskyard_server.core.task_ids import ids_that_begin_with, is_id, ms_of
from taskyard_server.store.port import key_of, number_of
from taskyard_server.store.row_prefilter import sought

from .history import read_task
from .views import ListedTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from taskyard_server.core.task import Task

    from .history import StoredHistory
    from .namespace import NamespaceState

SLICE_ROWS: Final = 250
MAX_SCANNED_ROWS: Final = 100_000
READ_ROW: Final = 5
"""To read a row costs as much as so many that the store passes by."""
SLACK_MS: Final = 5_000
"""How much older an id may be than one of an earlier task: the clocks of replicas are never so far apart."""
MAX_PAGE_BYTES: Final = 16_000_000
"""A page ends once its rows have this many bytes; no answer holds more."""


@dataclass(slots=True)
class HistoryListing:
    """One page of a listing: up to `limit` tasks after the one numbered `after`, or from the first if that is 0."""

    history: StoredHistory
    state: NamespaceState
    task_filter: TaskFilter
    after: int
    limit: int
    newest_first: bool

    async def page(self) -> ListedTasks:
        """Read it. Raises `Unavailable` while the store does not answer, `Internal` for rows at fault."""
        if self.state.fault is not None:
            raise Internal(self.state.fault)
        number, wanted = self.state.number, self.task_filter
        looks_for = sought(wanted)
        low, high = await self._bounds()
        matches: list[Task] = []
        scanned = size = 0
        while low <= high:
            page = await self.history.scan(
                key_of(number, low), key_of(number, high), self.newest_first, self._slice(), looks_for
            )
            scanned += page.looked_at + (READ_ROW - 1) * len(page.rows)
            for rows in page.rows:
                task = read_task(self.state, rows)
                if wanted.matches(task):
                    if len(matches) == self.limit or size > MAX_PAGE_BYTES:
                        return ListedTasks(matches, matches[-1].seq)
                    matches.append(task)
                    size += len(rows.task) + len(rows.state or b"") + len(rows.ended or b"")
            if page.next_key is None:
                break
            goes_on = number_of(page.next_key)
            if scanned >= MAX_SCANNED_ROWS:
                return ListedTasks(matches, goes_on + 1 if self.newest_first else goes_on - 1)
            if self.newest_first:
                high = goes_on
            else:
                low = goes_on
            await asyncio.sleep(0)
        return ListedTasks(matches, None)

    def _slice(self) -> int:
        """How many rows to ask for: without a filter those of the page, and one that says whether it is the last."""
        return SLICE_ROWS if self.task_filter != NO_FILTER else min(SLICE_ROWS, self.limit + 1)

    @property
    def _created_until(self) -> float | None:
        """Before when all that match were created: also before they ended."""
        created, ended = self.task_filter.created_until, self.task_filter.ended_until
        return min([each for each in (created, ended) if each is not None], default=None)

    async def _bounds(self) -> tuple[int, int]:
        """Between which numbers the page lies, both included."""
        low, high = 1, self.state.scheduler.view.last_seq
        since, until = self.task_filter.created_from, self._created_until
        # Where a page goes on, the bound behind it was found by the first one.
        if self.after and self.newest_first:
            high, until = min(high, self.after - 1), None
        elif self.after:
            low, since = self.after + 1, None
        if since is not None:
            low = max(low, await self._first(high, lambda task: task.created_at >= since))
        if until is not None:
            high = min(high, await self._first(high, lambda task: task.created_at >= until) - 1)
        return await self._bounds_by_id(low, high)

    async def _bounds_by_id(self, low: int, high: int) -> tuple[int, int]:
        """The part of that where only some ids are wanted: the store would pass by all others.

        These are ids with a beginning, and those of what a task has submitted, which are younger than its own.
        """
        prefix, parent_id = self.task_filter.id_prefix, self.task_filter.parent_id
        if parent_id is not None and is_id(parent_id) and low < high:
            low = max(low, await self._first(high, lambda task: ms_of(task.id) >= ms_of(parent_id) - SLACK_MS))
        if prefix is None:
            return low, high
        ids = ids_that_begin_with(prefix)
        if ids is None:
            return 1, 0
        low, high = max(low, ids.first_seq), min(high, ids.last_seq)
        if low < high:
            low = max(low, await self._first(high, lambda task: ms_of(task.id) >= ids.first_ms - SLACK_MS))
        if low < high:
            high = min(high, await self._first(high, lambda task: ms_of(task.id) > ids.last_ms + SLACK_MS) - 1)
        return low, high

    async def _first(self, last: int, is_reached: Callable[[Task], bool]) -> int:
        """The number from which on something is so of all tasks, up to the `last` one."""
        number, low, high = self.state.number, 1, last + 1
        while low < high:
            middle = (low + high) // 2
            page = await self.history.scan(key_of(number, middle), key_of(number, last), False, 1)
            if not page.rows or is_reached(read_task(self.state, page.rows[0])):
                high = middle
            else:
                low = number_of(page.rows[0].key) + 1
        return low
