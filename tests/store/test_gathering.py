"""When the next commit begins: at once, or, where the last one carried much, a moment after that one began."""

import asyncio

import pytest

from taskyard_server.store.committer import GATHER_ROWS, GATHER_SECS, Committer
from taskyard_server.store.port import StoreMeta, Table
from tests.store.dict_store import DictStore


class CountingStore(DictStore):
    """Notes how many rows each commit carried."""

    def __init__(self):
        super().__init__()
        self.rows_of_commits = []

    async def commit(self, group):
        self.rows_of_commits.append(len(group))
        return await super().commit(group)


class Agents:
    """A source that changes so many rows a turn."""

    def __init__(self):
        self.changed = 0

    def add_rows(self, group):
        for number in range(self.changed):
            group.put(Table.AGENTS, number, b"")
        self.changed = 0

    def committed(self, at):
        pass


class Yard:
    def __init__(self, loop, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(loop, "time", lambda: self.now)
        self.store, self.agents = CountingStore(), Agents()
        self.told = []
        self.committer = Committer(self.store, StoreMeta(0, 0.0, 0), lambda: self.now, 10.0, lambda: None, lambda: None)

    async def turn(self, rows):
        """A turn of the loop that changes so many rows, and what follows from it."""
        self.agents.changed += rows
        self.committer.add(self.agents, lambda _: self.told.append(rows))
        self.committer.turn_ended()
        await self.pending()

    async def pass_secs(self, secs):
        self.now += secs
        await self.pending()

    async def pending(self):
        for _ in range(10):
            await asyncio.sleep(0)


@pytest.fixture
async def yard(monkeypatch):
    return Yard(asyncio.get_running_loop(), monkeypatch)


async def test_after_a_small_commit_the_next_one_begins_at_once(yard):
    await yard.turn(GATHER_ROWS - 1)
    await yard.turn(1)
    assert yard.store.rows_of_commits == [GATHER_ROWS - 1, 1]


async def test_after_a_large_commit_more_is_gathered_for_the_next_one(yard):
    await yard.turn(GATHER_ROWS)
    await yard.turn(1)
    await yard.turn(2)
    assert yard.told == [GATHER_ROWS]
    assert not yard.committer.is_idle
    await yard.pass_secs(GATHER_SECS)
    assert yard.store.rows_of_commits == [GATHER_ROWS, 3]
    assert yard.told == [GATHER_ROWS, 1, 2]
    assert yard.committer.is_idle


async def test_what_comes_later_than_that_is_not_waited_for(yard):
    await yard.turn(GATHER_ROWS)
    await yard.pass_secs(GATHER_SECS)
    await yard.turn(1)
    assert yard.store.rows_of_commits == [GATHER_ROWS, 1]


async def test_it_is_settled_once_what_was_gathered_is_committed(yard):
    await yard.turn(GATHER_ROWS)
    await yard.turn(1)
    settled = asyncio.ensure_future(yard.committer.settle())
    await yard.pending()
    assert not settled.done()
    await yard.pass_secs(GATHER_SECS)
    await settled
