"""What every store does that replicas share (store/shared_port.py): who lives, who owns, and what is written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskyard_server.store.port import Fence, Group, StoreError, Table, key_of
from taskyard_server.store.shared_port import Replica, SharedStore, Taken
from tests.store.groups import ended, ended_since, live, rows_of, submitted

from .conftest import DictDatabase

NEVER = 1e9


def replica(instance: str, level: int = 1, name: str | None = None) -> Replica:
    return Replica(instance, name or f"name of {instance}", None, level, "1.0")


async def joined(database: DictDatabase, instance: str, **its: Any) -> SharedStore:
    store = await database.opened()
    await store.join(replica(instance, **its))
    return store


async def created(store: SharedStore, name: str, instance: str) -> Taken:
    taken = await store.create(name, instance)
    assert taken is not None
    return taken


def fenced(group: Group, needs_owner: bool = False, **terms: int) -> Group:
    """A group that is the commit of its number in the namespaces, `n3=2` for number 3 under term 2."""
    group.fences = {int(name[1:]): Fence(term, group.number, needs_owner) for name, term in terms.items()}
    return group


# Replicas


async def test_who_has_joined_lives_and_is_known_to_others(database: DictDatabase) -> None:
    first, second = await joined(database, "a", level=3), await joined(database, "b", level=4)
    renewal = await second.renew("b", NEVER)
    assert renewal is not None
    assert [(row.replica, row.died_at) for row in renewal.replicas] == [
        (replica("a", 3), None),
        (replica("b", 4), None),
    ]
    assert all(row.started_at <= row.renewed_at <= renewal.at for row in renewal.replicas)
    assert await first.renew("a", NEVER) is not None


async def test_who_is_not_renewed_is_marked_dead_by_another_and_lives_never_again(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    renewal = await second.renew("b", 0.0)
    assert renewal is not None
    assert [row.replica.instance for row in renewal.replicas if row.died_at is not None] == ["a"]
    assert await first.renew("a", NEVER) is None
    await first.join(replica("a"))
    assert await first.renew("a", NEVER) is None
    await first.join(replica("c"))
    assert await first.renew("c", NEVER) is not None


async def test_nobody_marks_itself_dead(database: DictDatabase) -> None:
    store = await joined(database, "a")
    assert await store.renew("a", 0.0) is not None
    assert await store.renew("a", 0.0) is not None


async def test_an_instance_that_nobody_knows_is_dead(database: DictDatabase) -> None:
    assert await (await database.opened()).renew("a", NEVER) is None


async def test_who_leaves_is_dead(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    taken = await created(first, "yard", "a")
    await first.leave("a")
    assert await first.renew("a", NEVER) is None
    assert await second.take(taken.number, "b") is not None


async def test_a_replica_is_drained_by_its_name(database: DictDatabase) -> None:
    store = await joined(database, "a", name="one")
    await store.join(replica("b", name="two"))
    assert await store.drain("one", True)
    assert not await store.drain("three", True)
    renewal = await store.renew("a", NEVER)
    assert renewal is not None
    assert {row.replica.instance: row.replica.is_draining for row in renewal.replicas} == {"a": True, "b": False}
    assert await store.drain("one", False)
    await store.leave("a")
    assert not await store.drain("one", True)


async def test_a_level_is_in_force_once_every_living_replica_has_it(database: DictDatabase) -> None:
    first, second = await joined(database, "a", level=1), await joined(database, "b", level=2)
    assert not await second.raise_level(2)
    await first.leave("a")
    assert await second.raise_level(2)
    renewal = await second.renew("b", NEVER)
    assert renewal is not None
    assert renewal.level == 2
    assert await second.raise_level(1)
    with pytest.raises(StoreError):
        await first.join(replica("c", level=1))


# Owners


async def test_a_name_is_created_once(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    yard = await created(first, "yard", "a")
    assert await second.create("yard", "b") is None
    field = await created(second, "field", "b")
    assert yard.number != field.number
    _, rows = await first.owners()
    assert sorted(rows) == sorted(
        [(yard.number, "yard", "a", yard.term), (field.number, "field", "b", field.term)],
    )


async def test_what_a_living_replica_owns_is_taken_by_nobody(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    taken = await created(first, "yard", "a")
    assert await second.take(taken.number, "b") is None
    assert await second.take(99, "b") is None


async def test_what_a_dead_replica_owned_is_taken_under_a_higher_term(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    taken = await created(first, "yard", "a")
    renewal = await first.renew("a", NEVER)
    assert renewal is not None
    await second.renew("b", 0.0)
    again = await second.take(taken.number, "b")
    assert again is not None
    assert again.term == taken.term + 1
    assert abs(again.meta.at - renewal.at) < 0.1, "it was served until the renewal of the owner before"


async def test_a_dead_replica_takes_and_makes_nothing(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    taken = await created(second, "yard", "b")
    await second.release({taken.number: taken.term}, "b", 5.0)
    await first.leave("a")
    assert await first.take(taken.number, "a") is None
    assert await first.create("field", "a") is None
    assert len((await second.owners())[1]) == 1


async def test_who_takes_twice_has_a_new_term_and_is_told_the_same_time(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    taken = await created(first, "yard", "a")
    await first.leave("a")
    once, twice = await second.take(taken.number, "b"), await second.take(taken.number, "b")
    assert once is not None
    assert twice is not None
    assert twice.term == once.term + 1
    assert twice.meta.at == once.meta.at


async def test_what_is_released_is_free(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    taken = await created(first, "yard", "a")
    at = (await first.owners())[0]
    await first.release({taken.number: taken.term}, "a", at + 3600)
    assert (await second.owners())[1] == [(taken.number, "yard", None, taken.term)]
    again = await second.take(taken.number, "b")
    assert again is not None
    assert abs(again.meta.at - at - 3600) < 1e-3


async def test_a_gift_is_for_one_alone_while_that_one_lives(database: DictDatabase) -> None:
    stores = {name: await joined(database, name) for name in "abc"}
    taken = await created(stores["a"], "yard", "a")
    await stores["a"].release({taken.number: taken.term}, "a", 5.0, to="b")
    assert await stores["c"].take(taken.number, "c") is None
    assert await stores["a"].take(taken.number, "a") is None
    again = await stores["b"].take(taken.number, "b")
    assert again is not None
    assert again.term == taken.term + 1
    await stores["b"].release({taken.number: again.term}, "b", 5.0, to="c")
    await stores["c"].leave("c")
    assert await stores["a"].take(taken.number, "a") is not None


async def test_what_is_given_away_is_written_no_more_also_before_it_is_taken(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    taken = await created(first, "yard", "a")
    await first.release({taken.number: taken.term}, "a", 5.0, to="b")
    assert (await first.commit(fenced(submitted(1, 1), n1=taken.term))).lost == {taken.number}
    assert await live(second) == []


async def test_only_what_is_owned_under_that_term_is_released(database: DictDatabase) -> None:
    store = await joined(database, "a")
    yard, field = await created(store, "yard", "a"), await created(store, "field", "a")
    again = await store.take(yard.number, "a")
    assert again is not None
    await store.release({yard.number: yard.term, field.number: field.term}, "a", 5.0)
    rows = {row.name: row.instance for row in (await store.owners())[1]}
    assert rows == {"yard": "a", "field": None}
    await store.release({yard.number: again.term}, "b", 5.0)
    assert (await store.owners())[1][0].instance == "a"


async def test_changes_since_a_time_are_among_the_owners_of_that_time(database: DictDatabase) -> None:
    store = await joined(database, "a")
    yard = await created(store, "yard", "a")
    since, _ = await store.owners()
    field = await created(store, "field", "a")
    await store.release({yard.number: yard.term}, "a", 5.0)
    later, rows = await store.owners(since)
    assert later >= since
    assert set(rows) == {(yard.number, "yard", None, yard.term), (field.number, "field", "a", field.term)}


async def test_what_needs_an_owner_and_has_none_is_named(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    busy, idle = await created(first, "busy", "a"), await created(first, "idle", "a")
    own = await created(second, "own", "b")
    assert not (await first.commit(fenced(submitted(1, 1, namespace=busy.number), True, n1=busy.term))).lost
    assert not (await first.commit(fenced(submitted(1, 1, namespace=idle.number), False, n2=idle.term))).lost
    assert not (await second.commit(fenced(submitted(1, 1, namespace=own.number), True, n3=own.term))).lost
    assert await second.needing_owner(9) == []
    await first.leave("a")
    assert [row.name for row in await second.needing_owner(9)] == ["busy"]
    assert await second.needing_owner(0) == []
    await second.rename(busy.number, None)
    assert await second.needing_owner(9) == []


async def test_a_deleted_namespace_is_taken_by_nobody_and_its_name_is_free(database: DictDatabase) -> None:
    store = await joined(database, "a")
    yard = await created(store, "yard", "a")
    await store.rename(yard.number, None)
    assert await store.take(yard.number, "a") is None
    again = await created(store, "yard", "a")
    assert again.number != yard.number


async def test_changes_are_heard(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await database.opened()
    changes = second.changes()
    heard = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    while not heard.done():
        # What came before it listened it need not hear.
        await created(first, f"yard {len((await first.owners())[1])}", "a")
        await asyncio.wait((heard,), timeout=0.05)
    await changes.aclose()  # type: ignore[attr-defined]


async def test_changes_of_tokens_are_heard_by_who_listens_for_them(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    tokens, others = second.token_changes(), second.changes()
    heard, heard_else = (asyncio.ensure_future(anext(each)) for each in (tokens, others))
    number = 0
    while not heard.done():
        # What came before it listened it need not hear.
        group = Group(number := number + 1, 0.0)
        group.put(Table.TOKENS, number, b"token")
        await first.commit(group)
        await asyncio.wait((heard,), timeout=0.05)
    for waiting, changes in ((heard, tokens), (heard_else, others)):
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait((waiting,))
        await changes.aclose()  # type: ignore[attr-defined]


async def test_the_living_are_listed_and_those_that_died_lately(database: DictDatabase) -> None:
    first = await joined(database, "a")
    await (await joined(database, "b")).leave("b")
    rows = {row.replica.instance: row.died_at is None for row in await first.replicas(60.0)}
    assert rows == {"a": True, "b": False}
    assert [row.replica.instance for row in await first.replicas(0.0)] == ["a"]


# Commits


async def test_the_owner_writes_commit_after_commit(database: DictDatabase) -> None:
    store = await joined(database, "a")
    yard = await created(store, "yard", "a")
    assert (await store.commit(fenced(submitted(1, 1, 2), n1=yard.term))).lost == frozenset()
    assert (await store.commit(fenced(ended(2, 1, at=500), n1=yard.term))).lost == frozenset()
    assert [row.key for row in await live(store)] == [key_of(1, 2)]
    assert [row.key for row in await ended_since(store, 0)] == [key_of(1, 1)]
    taken = await store.take(yard.number, "a")
    assert taken is not None
    assert taken.meta.number == 2


async def test_who_owns_no_longer_writes_nothing_and_is_told(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    yard, field = await created(first, "yard", "a"), await created(first, "field", "a")
    await first.release({yard.number: yard.term}, "a", 5.0)
    assert await second.take(yard.number, "b") is not None
    group = submitted(1, 1)
    for table, key, record in ((Table.TASKS, 7, b"task"), (Table.STATES, 7, b"")):
        group.put(table, key_of(field.number, key), record)
    committed = await first.commit(fenced(group, n1=yard.term, n2=field.term))
    assert committed.lost == {yard.number}
    assert [row.key for row in await live(second)] == [key_of(field.number, 7)]


@pytest.mark.parametrize("number", [0, 2])
async def test_a_number_that_does_not_follow_is_lost(database: DictDatabase, number: int) -> None:
    store = await joined(database, "a")
    yard = await created(store, "yard", "a")
    again = await store.take(yard.number, "a")
    assert again is not None
    term = yard.term if number == 0 else again.term
    committed = await store.commit(fenced(submitted(number + (number == 0), 1), n1=term))
    assert committed.lost == {yard.number}
    assert await live(store) == []


async def test_a_commit_that_was_written_counts_as_written_and_writes_nothing(database: DictDatabase) -> None:
    store = await joined(database, "a")
    yard = await created(store, "yard", "a")
    first = fenced(submitted(1, 1), n1=yard.term)
    await store.commit(first)
    await store.commit(fenced(ended(2, 1, at=500), n1=yard.term))
    assert (await store.commit(first)).lost == frozenset()
    assert await live(store) == []


async def test_a_commit_that_was_written_is_lost_for_who_owns_no_longer(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    yard = await created(first, "yard", "a")
    group = fenced(submitted(1, 1), n1=yard.term)
    await first.commit(group)
    await first.leave("a")
    assert await second.take(yard.number, "b") is not None
    assert (await first.commit(group)).lost == {yard.number}


async def test_the_numbers_go_on_under_the_next_term(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    yard = await created(first, "yard", "a")
    await first.commit(fenced(submitted(1, 1), n1=yard.term))
    await first.leave("a")
    again = await second.take(yard.number, "b")
    assert again is not None
    assert (await second.commit(fenced(submitted(2, 2), n1=again.term))).lost == frozenset()
    assert [row.key for row in await live(second)] == [key_of(1, 1), key_of(1, 2)]


async def test_an_owner_that_was_found_dead_writes_until_another_one_takes(database: DictDatabase) -> None:
    """The fence alone decides: between the mark and the take nobody else can have read what it writes over."""
    first, second = await joined(database, "a"), await joined(database, "b")
    yard = await created(first, "yard", "a")
    await second.renew("b", 0.0)
    assert (await first.commit(fenced(submitted(1, 1), n1=yard.term))).lost == frozenset()


async def test_tokens_belong_to_no_owner(database: DictDatabase) -> None:
    first, second = await joined(database, "a"), await joined(database, "b")
    yard = await created(first, "yard", "a")
    await first.leave("a")
    assert await second.take(yard.number, "b") is not None
    group = submitted(1, 1)
    group.put(Table.TOKENS, 1, b"token")
    group.put(Table.SECRETS, 1, b"secret")
    await first.commit(fenced(group, n1=yard.term))
    alone = Group(1, 1.0)
    alone.put(Table.TOKENS, 2, b"another")
    alone.put(Table.SECRETS, 1, b"not this")
    await second.commit(alone)
    assert await rows_of(second, Table.TOKENS) == [(1, b"token"), (2, b"another")]
    assert await rows_of(second, Table.SECRETS) == [(1, b"secret")]
    assert await live(second) == []


async def test_one_namespace_is_read_alone(database: DictDatabase) -> None:
    store = await joined(database, "a")
    yard, field = await created(store, "yard", "a"), await created(store, "field", "a")
    for each in (yard, field):
        await store.commit(fenced(submitted(1, 1, 2, namespace=each.number), **{f"n{each.number}": each.term}))
        await store.commit(fenced(ended(2, 1, at=9, namespace=each.number), **{f"n{each.number}": each.term}))
    own = [row.key async for rows in store.live_tasks(field.number) for row in rows]
    own += [row.key async for rows in store.ended_tasks(9, field.number) for row in rows]
    assert own == [key_of(field.number, 2), key_of(field.number, 1)]
    assert len(await live(store)) == len(await ended_since(store, 9)) == 2
