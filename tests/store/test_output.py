"""What every store does with the output of tasks (store/port.py)."""

import pytest

from taskyard_server.store.port import SEGMENT_BYTES, Group, OutputCut, OutputRow, OutputState, Store, Table, key_of
from tests.store.conftest import Yard
from tests.store.groups import ended, outputs_of, said, submitted

LONG = bytes(range(256)) * 8
KEY = key_of(1, 1)


async def firsts(store: Store, after: int, limit_bytes: int = 1 << 20) -> list[int]:
    return [row.first for row in await store.output(KEY, after, limit_bytes)]


async def test_output_is_read_from_the_row_on_that_holds_what_follows(store: Store) -> None:
    await store.commit(submitted(1, 1, 2))
    await store.commit(said(2, (1, 1, b"1 to 3"), (1, 4, LONG), (2, 1, b"of another")))
    await store.commit(said(3, (1, 5, b"5 to 8")))
    await store.commit(said(4, (1, 9, LONG)))
    assert await store.output(KEY, 0, 1 << 20) == [
        OutputRow(KEY, 1, 0, b"1 to 3"),
        OutputRow(KEY, 4, 3, LONG),
        OutputRow(KEY, 5, 4, b"5 to 8"),
        OutputRow(KEY, 9, 8, LONG),
    ]
    assert [await firsts(store, after) for after in (1, 2, 3, 4, 7, 8, 99)] == [
        [1, 4, 5, 9],
        [1, 4, 5, 9],
        [4, 5, 9],
        [5, 9],
        [5, 9],
        [9],
        [9],
    ]
    assert await store.output(key_of(1, 3), 0, 1 << 20) == []


async def test_no_more_is_read_once_it_exceeds_a_bound_and_at_least_one_row(store: Store) -> None:
    await store.commit(said(1, *((1, first, b"%4d" % first) for first in range(1, 2502))))
    assert await firsts(store, 0, 0) == [1]
    assert await firsts(store, 5, 11) == [6, 7, 8]
    assert await firsts(store, 5, 12) == [6, 7, 8, 9]
    assert await firsts(store, 0, 2100 * 4) == list(range(1, 2102))
    assert await firsts(store, 9) == list(range(10, 2502))


async def test_a_cut_removes_the_rows_below_a_number_before_others_are_put(store: Store) -> None:
    await store.commit(submitted(1, 1, 2))
    await store.commit(said(2, (1, 1, b"a"), (1, 2, LONG), (1, 3, b"c"), (2, 1, b"of another")))
    group = said(3, (1, 4, b"d"), (2, 2, LONG))
    group.output_cuts = [OutputCut(KEY, 2), OutputCut(KEY, 3), OutputCut(key_of(1, 9), 5)]
    await store.commit(group)
    assert await firsts(store, 0) == [3, 4]
    last = said(4, (1, 5, b"e"), (2, 3, b"f"))
    last.output_cuts = [OutputCut(KEY, 5), OutputCut(key_of(1, 2), 3)]
    await store.commit(last)
    assert [(row.key, row.first) for row in await outputs_of(store)] == [(KEY, 5), (key_of(1, 2), 3)]
    await store.commit(Group(5, 5.0, output_cuts=[OutputCut(KEY, 6)]))
    assert await store.output(KEY, 0, 1 << 20) == []
    assert await store.output_state(KEY) is None


async def test_the_state_has_the_newest_row_and_the_first_one_of_each_segment(store: Store) -> None:
    assert await store.output_state(KEY) is None
    begins = [5, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 9, 3 * SEGMENT_BYTES + 1, 4 * SEGMENT_BYTES - 1]
    rows = [OutputRow(KEY, 10 * at, begin, LONG if at == 3 else b"%d" % at) for at, begin in enumerate(begins, 1)]
    await store.commit(Group(1, 1.0, outputs=[*rows[:2], OutputRow(key_of(1, 2), 1, 0, b"of another")]))
    await store.commit(Group(2, 2.0, outputs=rows[2:]))
    segments = [(10, 5), (30, SEGMENT_BYTES), (50, 3 * SEGMENT_BYTES + 1)]
    assert await store.output_state(KEY) == OutputState(rows[-1], segments)
    await store.commit(Group(3, 3.0, output_cuts=[OutputCut(KEY, 40)]))
    segments[:2] = [(40, SEGMENT_BYTES + 9)]
    assert await store.output_state(KEY) == OutputState(rows[-1], segments)


async def test_it_is_measured_task_by_task(store: Store) -> None:
    rows = [OutputRow(key_of(1, seq), first, 100 * first, LONG) for seq in range(1, 1_301) for first in (1, 2)]
    await store.commit(Group(1, 1.0, outputs=[*rows, OutputRow(key_of(2, 1), 1, 0, LONG)]))
    found, next_key = 0, key_of(1, 0)
    while next_key is not None:
        size, next_key = await store.output_sizes(next_key, key_of(1, 1_300))
        found += size
    assert found in (1_300 * (100 + len(LONG)), 1_300 * 2 * len(LONG))
    assert await store.output_sizes(key_of(3, 0), key_of(3, 9)) == (0, None)


async def test_output_comes_in_the_order_of_tasks_and_numbers_in_slices(yard: Yard) -> None:
    keys = [key_of(space, seq) for space in (2, 1) for seq in (7, 3)]
    rows = [OutputRow(key, first, first, b"%d" % first) for key in keys for first in range(1300)]
    rows[50] = rows[50]._replace(record=bytes(1 << 20))
    rows[3000] = rows[3000]._replace(record=LONG)
    await yard.store.commit(Group(1, 1.0, outputs=rows[:2000]))
    await yard.store.commit(Group(2, 2.0, outputs=rows[2000:]))
    assert await outputs_of(yard.store) == sorted(rows)
    assert (await yard.store.stats()).rows["output"] == len(rows)
    assert await outputs_of(await yard.reopened()) == sorted(rows)


async def test_a_group_with_output_that_was_written_already_counts_as_written(store: Store) -> None:
    group = said(1, (1, 1, b"a"), (1, 2, LONG))
    await store.commit(group)
    await store.commit(group)
    await store.commit(Group(2, 2.0, output_cuts=[OutputCut(KEY, 2)]))
    await store.commit(group)
    assert await firsts(store, 0) == [2]


async def test_output_goes_with_its_task(store: Store) -> None:
    await store.commit(submitted(1, 1, 2, 3))
    await store.commit(submitted(2, 1, namespace=2))
    await store.commit(
        said(3, *((seq, first, record) for seq in (1, 2, 3) for first, record in ((1, b"a"), (2, LONG))))
    )
    await store.commit(said(4, (1, 1, b"of 2"), namespace=2))
    await store.commit(ended(5, 1, at=100))
    assert await store.forget(200, 10) == 1
    # As where no history is kept: with its last words.
    last = said(6, (2, 3, b"last"))
    for table in (Table.TASKS, Table.STATES):
        last.remove(table, key_of(1, 2))
    await store.commit(last)
    assert {row.key for row in await outputs_of(store)} == {key_of(1, 3), key_of(2, 1)}
    assert await store.check() == []
    while await store.remove_namespace(1, 10):
        assert await store.check() == []
    assert [row.record for row in await outputs_of(store)] == [b"of 2"]


async def test_much_output_is_removed_in_parts(store: Store) -> None:
    await store.commit(submitted(1, *range(10)))
    await store.commit(ended(2, *range(4), at=5))
    for seq in range(10):
        row = OutputRow(key_of(1, seq), 9, 3 << 20, LONG)
        await store.commit(Group(3 + seq, 9.0, outputs=[row]))
    forgotten = [await store.forget(6, 1), await store.forget(6, 500), await store.forget(6, 500)]
    assert sum(forgotten) == 4
    while await store.remove_namespace(1, 500):
        assert await store.check() == []
    assert await outputs_of(store) == []


async def test_output_of_no_task_is_found_and_goes_with_its_namespace(store: Store) -> None:
    await store.commit(submitted(1, 1))
    await store.commit(said(2, (1, 1, b"a"), (5, 1, b"b"), (5, 2, LONG)))
    (line,) = await store.check()
    assert "output" in line
    while await store.remove_namespace(1, 500):
        pass
    assert await outputs_of(store) == []


@pytest.mark.parametrize("size", [0, 1 << 20])
async def test_a_row_of_any_size_comes_back_as_it_was(store: Store, size: int) -> None:
    await store.commit(said(1, (1, 1, b"\xff" * size)))
    assert await store.output(KEY, 0, 10) == [OutputRow(KEY, 1, 0, b"\xff" * size)]


def steps(number: int, *rows: tuple[int, int, bytes]) -> Group:
    """Steps of tasks of namespace 1: each with the task, its number and its record."""
    outputs = [OutputRow(key_of(1, seq), -place, 0, record) for seq, place, record in rows]
    return Group(number, float(number), outputs=outputs)


async def test_steps_come_in_the_order_of_their_numbers_and_are_no_output(store: Store) -> None:
    assert await store.steps(KEY) == []
    await store.commit(submitted(1, 1, 2))
    await store.commit(steps(2, (1, 1, b"one"), (1, 2, LONG), (2, 1, b"of another")))
    assert await store.output(KEY, 0, 1 << 20) == []
    assert await store.output_state(KEY) is None
    assert await store.output_sizes(KEY, key_of(1, 9)) in ((0, None), (0, key_of(1, 3)))
    await store.commit(said(3, (1, 1, b"a"), (1, 2, LONG)))
    await store.commit(steps(4, (1, 3, b"three")))
    assert [row.record for row in await store.steps(KEY)] == [b"one", LONG, b"three"]
    assert [await firsts(store, after) for after in (0, 1, 2)] == [[1, 2], [2], [2]]
    state = await store.output_state(KEY)
    assert state is not None
    assert state.newest.first == 2
    assert state.segments == [(1, 0)]


async def test_a_cut_of_output_removes_no_step(store: Store) -> None:
    await store.commit(submitted(1, 1))
    await store.commit(steps(2, (1, 1, b"one"), (1, 2, LONG)))
    await store.commit(said(3, (1, 1, b"a"), (1, 2, LONG)))
    await store.commit(Group(4, 4.0, output_cuts=[OutputCut(KEY, 9)]))
    assert await firsts(store, 0) == []
    assert [row.record for row in await store.steps(KEY)] == [b"one", LONG]


async def test_steps_go_with_their_task_and_are_copied_with_output(yard: Yard) -> None:
    store = yard.store
    await store.commit(submitted(1, 1, 2))
    await store.commit(steps(2, (1, 1, b"one"), (2, 1, b"two"), (2, 2, LONG)))
    await store.commit(said(3, (2, 1, b"a")))
    assert [(row.key, row.first) for row in await outputs_of(store)] == [
        (KEY, -1),
        (key_of(1, 2), -2),
        (key_of(1, 2), -1),
        (key_of(1, 2), 1),
    ]
    store = await yard.reopened()
    assert [row.record for row in await store.steps(key_of(1, 2))] == [b"two", LONG]
    await store.commit(ended(4, 1, at=100))
    assert await store.forget(200, 10) == 1
    assert await store.steps(KEY) == []
    assert await store.check() == []
    while await store.remove_namespace(1, 10):
        assert await store.check() == []
    assert await outputs_of(store) == []
