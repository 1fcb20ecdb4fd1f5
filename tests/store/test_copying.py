"""A store is copied into another, whichever kinds they are (docs/operate/durability.md, Copy)."""

import pytest

from taskyard_server.store.copying import copy
from taskyard_server.store.port import StoreError, StoreMeta, Table
from taskyard_server.store.sqlite.store import SqliteStore

from .dict_store import DictStore
from .groups import outputs_of
from .small_yard import AT, COMMITS, OTHERS, ROWS, group, make_yard


@pytest.fixture
async def stores(tmp_path):
    """A store with rows, and an empty one."""
    await make_yard(tmp_path / "one.db")
    made = [SqliteStore(str(tmp_path / name), ballast_bytes=0) for name in ("one.db", "other.db")]
    for store in made:
        await store.open()
    yield made
    for store in made:
        await store.close()


async def everything(store):
    """All rows of a store."""
    found = [[tuple(task) for tasks in [tasks async for tasks in store.live_tasks()] for task in tasks]]
    found.append([tuple(task) for tasks in [tasks async for tasks in store.ended_tasks(0)] for task in tasks])
    for table in (Table.NAMESPACES, *OTHERS):
        found.append([tuple(row) for rows in [rows async for rows in store.rows(table)] for row in rows])
    found.append(await outputs_of(store))
    return found


async def test_a_copy_holds_every_row_as_it_was(stores):
    one, other = stores
    assert (await copy(one, other)).rows == ROWS
    copied = await everything(other)
    assert copied == await everything(one)
    assert all(copied)


async def test_rows_go_from_any_kind_of_store_into_any(stores):
    one, other = stores
    between = DictStore()
    await copy(one, between)
    await copy(between, other)
    assert await everything(other) == await everything(one)


async def test_numbers_of_commits_go_on_in_a_copy_and_its_time_and_epoch_stay(stores):
    one, other = stores
    copied = await copy(one, other)
    assert copied.number > COMMITS
    assert (copied.at, copied.epoch) == (AT + COMMITS, 0)


async def test_the_epoch_goes_along(stores):
    _, other = stores
    await other.go_on_from(StoreMeta(7, AT, 2))
    stats = await other.stats()
    assert (stats.number, stats.at, stats.epoch) == (7, AT, 2)


async def test_a_store_that_is_in_use_takes_no_copy(stores, tmp_path):
    one, other = stores
    await other.commit(group(1))
    before = await everything(other)
    with pytest.raises(StoreError, match="in use already"):
        await copy(one, other)
    await other.close()
    again = SqliteStore(str(tmp_path / "other.db"), ballast_bytes=0)
    await again.open()
    assert await everything(again) == before
    await again.close()


async def test_a_copy_that_was_cut_off_is_found_by_a_check(stores):
    one, other = stores
    commit = other.commit

    async def fail_at_the_namespaces(last):
        if Table.NAMESPACES in last.puts:
            raise StoreError("the power went")
        return await commit(last)

    other.commit = fail_at_the_namespaces
    with pytest.raises(StoreError):
        await copy(one, other)
    assert await other.check()
