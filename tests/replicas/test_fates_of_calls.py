"""What may happen to the calls of the store in memory: late, lost, cut off; and what is true of it all the same."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from taskyard_server.store.port import CommitDelayed
from tests.store.groups import ended, submitted

from .conftest import TickingClock
from .shared_dict_store import CUT_OFF, LOST_ANSWER, PROMPT, Fate, SharedDictStore, late
from .shared_rows import SharedRows
from .test_shared_store import created, fenced, replica


class Fated:
    """A store in memory whose next calls have these fates."""

    def __init__(self, rows: SharedRows) -> None:
        self.fates: list[Fate] = []
        self.store = SharedDictStore(rows, lambda _: self.fates.pop(0) if self.fates else PROMPT)


async def a_yard() -> tuple[SharedRows, Fated, int]:
    rows = SharedRows(TickingClock())
    fated = Fated(rows)
    await fated.store.join(replica("a"))
    taken = await created(fated.store, "yard", "a")
    return rows, fated, taken.term


async def test_a_call_whose_answer_is_lost_has_taken_effect() -> None:
    rows, fated, term = await a_yard()
    fated.fates = [LOST_ANSWER._replace(patience_secs=0.0)]
    with pytest.raises(CommitDelayed):
        await fated.store.commit(fenced(submitted(1, 1), n1=term))
    assert rows.owners[1].commit_no == 1
    assert (await fated.store.commit(fenced(submitted(1, 1), n1=term))).lost == frozenset()


async def test_a_call_that_was_cut_off_has_not() -> None:
    rows, fated, term = await a_yard()
    fated.fates = [CUT_OFF._replace(patience_secs=0.0)]
    with pytest.raises(CommitDelayed):
        await fated.store.commit(fenced(submitted(1, 1), n1=term))
    assert rows.owners[1].commit_no == 0


async def test_a_late_call_comes_after_its_repetition() -> None:
    rows, fated, term = await a_yard()
    arrivals: list[int] = []
    rows.on_commit = lambda _instance, _number, fence, _group: arrivals.append(fence.number)
    fated.fates = [late(0.01, patience_secs=0.0), PROMPT, PROMPT]
    with suppress(CommitDelayed):
        await fated.store.commit(fenced(submitted(1, 1), n1=term))
    await fated.store.commit(fenced(submitted(1, 1), n1=term))
    await fated.store.commit(fenced(ended(2, 1, at=5), n1=term))
    await asyncio.sleep(0.02)
    assert arrivals == [1, 2]
    assert rows.kept.wrong() == []


async def test_a_slow_call_takes_its_time_each_way() -> None:
    rows, fated, term = await a_yard()
    fated.fates = [Fate(0.01, 0.01)]
    committing = asyncio.ensure_future(fated.store.commit(fenced(submitted(1, 1), n1=term)))
    await asyncio.sleep(0)
    assert rows.owners[1].commit_no == 0
    reading = asyncio.ensure_future(fated.store.live_tasks().__anext__())
    fated.fates = [Fate(0.0, 0.0)]
    assert len(await reading) == 1, "a read sees the commit that was begun before it"
    assert (await committing).lost == frozenset()
