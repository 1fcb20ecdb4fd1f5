"""What every store does (store/port.py)."""

import pytest

from taskyard_server.store.port import Group, Store, StoreError, Table, TaskRows, key_of
from tests.store.conftest import Yard
from tests.store.groups import ended, ended_since, live, rows_of, submitted

ROW_TABLES = [table for table in Table if table not in (Table.TASKS, Table.STATES, Table.ENDED)]


async def test_a_new_store_holds_nothing(yard: Yard) -> None:
    assert yard.meta == (0, 0.0, 0)
    assert await live(yard.store) == []
    assert await ended_since(yard.store, 0) == []
    assert await yard.store.check() == []


async def test_what_was_committed_is_there_after_it_was_closed(yard: Yard) -> None:
    await yard.store.commit(submitted(1, 1, 2))
    store = await yard.reopened()
    assert yard.meta == (1, 1.0, 0)
    assert [row.key for row in await live(store)] == [key_of(1, 1), key_of(1, 2)]


async def test_a_read_sees_the_commit_that_was_begun_before_it(store: Store) -> None:
    await store.commit(submitted(1, 7))
    assert await store.task(key_of(1, 7)) == TaskRows(key_of(1, 7), b"task 7", b"", None, None)


@pytest.mark.parametrize("table", ROW_TABLES)
async def test_rows_come_in_the_order_of_their_keys(store: Store, table: Table) -> None:
    group = Group(1, 1.0)
    for key in (key_of(2, 1), key_of(1, 9), key_of(1, 3)):
        group.put(table, key, b"%d" % key)
    await store.commit(group)
    keys = [key_of(1, 3), key_of(1, 9), key_of(2, 1)]
    assert await rows_of(store, table) == [(key, b"%d" % key) for key in keys]


@pytest.mark.parametrize("table", ROW_TABLES)
async def test_rows_are_read_between_two_keys_up_to_a_limit(store: Store, table: Table) -> None:
    group = Group(1, 1.0)
    keys = [*range(5), key_of(1, 0), key_of(1, 1), key_of(2, 0)]
    for key in keys:
        group.put(table, key, b"%d" % key)
    await store.commit(group)

    async def read(**within: int) -> list[int]:
        return [key async for rows in store.rows(table, **within) for key, _ in rows]

    assert await read(after_key=2) == keys[3:]
    assert await read(after_key=2, limit=2) == [3, 4]
    assert await read(limit=100) == keys
    assert await read(limit=0) == []
    assert await read(after_key=4, last_key=key_of(1, 0)) == [key_of(1, 0)]
    assert await read(after_key=4, last_key=key_of(1, 0), limit=5) == [key_of(1, 0)]
    assert await read(after_key=key_of(2, 0)) == []


async def test_a_limit_over_a_slice_is_kept(store: Store) -> None:
    group = Group(1, 1.0)
    for key in range(2500):
        group.put(Table.OUTBOX, key, b"")
    await store.commit(group)
    found = [key async for rows in store.rows(Table.OUTBOX, after_key=99, limit=2100) for key, _ in rows]
    assert found == list(range(100, 2200))


@pytest.mark.parametrize("table", ROW_TABLES)
async def test_a_row_is_replaced_and_removed(store: Store, table: Table) -> None:
    first = Group(1, 1.0)
    first.put(table, 5, b"old")
    first.put(table, 6, b"kept")
    await store.commit(first)
    second = Group(2, 2.0)
    second.put(table, 5, b"new")
    await store.commit(second)
    replaced = b"old" if table is Table.SECRETS else b"new"
    assert await rows_of(store, table) == [(5, replaced), (6, b"kept")]
    third = Group(3, 3.0)
    third.remove(table, 5)
    third.remove(table, 99)
    await store.commit(third)
    assert await rows_of(store, table) == [(6, b"kept")]


async def test_removes_come_before_puts(store: Store) -> None:
    group = submitted(1, 1)
    group.remove(Table.TASKS, key_of(1, 1))
    group.remove(Table.STATES, key_of(1, 1))
    await store.commit(group)
    assert [row.key for row in await live(store)] == [key_of(1, 1)]


async def test_a_task_that_ended_is_found_by_its_end_and_not_among_the_live(store: Store) -> None:
    await store.commit(submitted(1, 1, 2, 3))
    await store.commit(ended(2, 2, at=500))
    assert [row.key for row in await live(store)] == [key_of(1, 1), key_of(1, 3)]
    row = TaskRows(key_of(1, 2), b"task 2", None, b"end 2", 500)
    assert await store.task(key_of(1, 2)) == row
    assert await ended_since(store, 500) == [row]
    assert await ended_since(store, 501) == []


async def test_a_task_that_goes_on_leaves_the_ended(store: Store) -> None:
    await store.commit(submitted(1, 1))
    await store.commit(ended(2, 1, at=500))
    group = Group(3, 3.0)
    group.remove(Table.ENDED, key_of(1, 1))
    group.put(Table.STATES, key_of(1, 1), b"resumed")
    await store.commit(group)
    assert await store.task(key_of(1, 1)) == TaskRows(key_of(1, 1), b"task 1", b"resumed", None, None)
    assert await ended_since(store, 0) == []


async def test_ended_tasks_come_in_the_order_of_their_ends(store: Store) -> None:
    await store.commit(submitted(1, *range(10)))
    await store.commit(ended(2, 5, 4, 9, at=300))
    await store.commit(ended(3, 7, at=100))
    assert [(row.ended_at, row.key) for row in await ended_since(store, 0)] == [
        (100, key_of(1, 7)),
        (300, key_of(1, 4)),
        (300, key_of(1, 5)),
        (300, key_of(1, 9)),
    ]


async def test_the_tasks_of_one_namespace_are_found_without_those_of_others(store: Store) -> None:
    for number, namespace in enumerate((1, 2, 3), 1):
        await store.commit(submitted(number, 0, 1, (1 << 40) - 1, namespace=namespace))
    await store.commit(ended(4, 1, (1 << 40) - 1, at=300, namespace=2))
    await store.commit(ended(5, 1, at=300, namespace=3))
    assert [row.key for row in await live(store, 2)] == [key_of(2, 0)]
    assert [row.key for row in await live(store, 1)] == [key_of(1, 0), key_of(1, 1), key_of(1, (1 << 40) - 1)]
    assert [row.key for row in await ended_since(store, 300, 2)] == [key_of(2, 1), key_of(2, (1 << 40) - 1)]
    assert await ended_since(store, 301, 2) == []
    assert await ended_since(store, 0, 1) == []


async def test_many_and_large_rows_come_whole_in_slices(store: Store) -> None:
    group = submitted(1, *range(2500))
    large = bytes(range(256)) * 4096
    group.puts[Table.STATES] = [(key_of(1, seq), b"" if seq % 500 else large) for seq in range(2500)]
    await store.commit(group)
    found = await live(store)
    assert [row.key for row in found] == [key_of(1, seq) for seq in range(2500)]
    assert [row.state == large for row in found] == [seq % 500 == 0 for seq in range(2500)]
    await store.commit(ended(2, *range(2500), at=9))
    assert [row.key for row in await ended_since(store, 9)] == [key_of(1, seq) for seq in range(2500)]


async def test_a_row_of_a_megabyte_comes_back_as_it_was(store: Store) -> None:
    large = bytes(range(256)) * 4096
    group = submitted(1, 1)
    group.puts[Table.TASKS] = [(key_of(1, 1), large)]
    await store.commit(group)
    row = await store.task(key_of(1, 1))
    assert row is not None
    assert row.task == large


async def test_an_unknown_task_is_none(store: Store) -> None:
    assert await store.task(key_of(1, 1)) is None


async def test_what_others_need_is_not_forgotten(store: Store) -> None:
    await store.commit(submitted(1, 1, 2, 3))
    await store.commit(ended(2, 1, 2, 3, at=100))
    assert await store.forget(200, 2, [key_of(1, 1), key_of(1, 9)]) == 2
    assert await store.forget(200, 2, [key_of(1, 1)]) == 0
    assert await store.task(key_of(1, 1)) is not None
    assert await store.forget(200, 2) == 1


@pytest.mark.parametrize("descending", [False, True])
async def test_a_scan_goes_through_live_and_ended_tasks_page_by_page(store: Store, descending: bool) -> None:
    await store.commit(submitted(1, *range(10)))
    await store.commit(submitted(2, 0, 1, namespace=2))
    await store.commit(ended(3, 3, 4, 5, at=300))
    first, last = key_of(1, 1), key_of(1, 8)
    seen: list[int] = []
    pages = 0
    while True:
        page = await store.scan(first, last, descending=descending, limit=3)
        seen += [row.key for row in page.rows]
        pages += 1
        if page.next_key is None:
            break
        first, last = (first, page.next_key) if descending else (page.next_key, last)
    keys = [key_of(1, seq) for seq in range(1, 9)]
    assert seen == (keys[::-1] if descending else keys)
    assert pages == 3


async def test_a_full_page_that_is_the_last_one_says_so(store: Store) -> None:
    await store.commit(submitted(1, 1, 2))
    assert (await store.scan(0, key_of(1, 9), descending=False, limit=2)).next_key is None


async def test_what_ended_before_a_time_is_forgotten_up_to_a_limit(store: Store) -> None:
    await store.commit(submitted(1, *range(1300)))
    await store.commit(ended(2, *range(1200), at=100))
    await store.commit(ended(3, 1250, at=200))
    assert await store.forget(200, 1100) == 1100
    assert await store.forget(200, 1100) == 100
    assert await store.forget(200, 1100) == 0
    assert [row.key for row in await ended_since(store, 0)] == [key_of(1, 1250)]
    assert await store.task(key_of(1, 1)) is None
    assert len(await live(store)) == 99
    assert await store.check() == []


async def test_a_group_that_was_written_already_counts_as_written(yard: Yard) -> None:
    await yard.store.commit(submitted(1, 1))
    await yard.store.commit(submitted(1, 1, 2))
    assert [row.key for row in await live(yard.store)] == [key_of(1, 1)]
    store = await yard.reopened()
    await store.commit(submitted(1, 1, 2))
    assert [row.key for row in await live(store)] == [key_of(1, 1)]


async def test_a_group_whose_number_leaves_a_gap_is_refused(store: Store) -> None:
    await store.commit(submitted(1, 1))
    with pytest.raises(StoreError):
        await store.commit(submitted(3, 2))


async def test_a_namespace_is_removed_slice_by_slice_and_its_own_row_last(store: Store) -> None:
    group = submitted(1, *range(1200))
    for table in ROW_TABLES:
        group.put(table, key_of(1, 0) if table is not Table.NAMESPACES else 2, table.name.encode())
    await store.commit(group)
    await store.commit(ended(2, *range(600), at=5))
    await store.commit(submitted(3, 1, 2, namespace=3))
    left_over = {Table.TOKENS, Table.SECRETS, Table.TOKEN_USES}

    while removed := await store.remove_namespace(1, 700):
        assert removed <= 700
        assert await store.check() == []
        if any([await store.task(key_of(1, seq)) for seq in range(1200)]):
            assert [key for key, _ in await rows_of(store, Table.NAMESPACES)] == [1, 2, 3]

    assert [row.key for row in await live(store)] == [key_of(3, 1), key_of(3, 2)]
    assert await ended_since(store, 0) == []
    assert [key for key, _ in await rows_of(store, Table.NAMESPACES)] == [2, 3]
    for table in ROW_TABLES:
        if table is not Table.NAMESPACES:
            assert bool(await rows_of(store, table)) == (table in left_over), table


async def test_a_namespace_that_is_not_there_has_nothing_to_remove(store: Store) -> None:
    await store.commit(submitted(1, 1))
    assert await store.remove_namespace(2, 100) == 0
    assert len(await live(store)) == 1


async def test_figures_count_rows_by_table(store: Store) -> None:
    await store.commit(submitted(1, 1, 2, 3))
    await store.commit(ended(2, 1, at=5))
    stats = await store.stats()
    filled = {"namespaces": 1, "tasks": 3, "states": 2, "ended": 1}
    assert stats.rows == {table.name.lower(): filled.get(table.name.lower(), 0) for table in Table} | {"output": 0}
    assert (stats.number, stats.at, stats.epoch) == (2, 2.0, 0)


async def test_what_must_not_be_is_found(store: Store) -> None:
    group = submitted(1, 1, 2)
    group.puts[Table.STATES] = [(key_of(1, 2), b"")]
    await store.commit(group)
    (line,) = await store.check()
    assert "\n" not in line
