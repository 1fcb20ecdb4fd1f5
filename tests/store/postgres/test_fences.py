"""Who writes to PostgreSQL when several want to, each with a connection of its own, and calls come late."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from taskyard_server.store.port import CommitDelayed, Fence, Group, OutputCut, OutputRow, StoreError, Table, key_of
from taskyard_server.store.postgres.commit import Composer
from taskyard_server.store.postgres.schema import statements
from taskyard_server.store.postgres.store import PostgresStore
from taskyard_server.store.shared_port import Replica
from tests.postgres import USER, Server
from tests.store.groups import ended, live, outputs_of, rows_of, said, submitted
from tests.waiting import until

pytestmark = pytest.mark.gate("PostgreSQL")

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
OF_SPACE = "SELECT FROM taskyard.owners WHERE ns = 1 FOR UPDATE"
OF_A = "SELECT FROM taskyard.replicas WHERE instance = 'a' FOR UPDATE"


def replica(instance: str, level: int = 1) -> Replica:
    return Replica(instance, f"name of {instance}", None, level, "1.0")


def fenced(group: Group, term: int = 1, space: int = 1, *, needs_owner: bool = False) -> Group:
    group.fences[space] = Fence(term, group.number, needs_owner)
    return group


@pytest.fixture
async def opened(postgres_url: str) -> AsyncIterator[Callable[..., Awaitable[PostgresStore]]]:
    """Opens the store of a replica."""
    async with contextlib.AsyncExitStack() as stack:

        async def open_one(instance: str | None, level: int = 1, **arguments: Any) -> PostgresStore:
            store = PostgresStore(postgres_url, **arguments)
            stack.push_async_callback(store.close)
            await store.open()
            if instance is not None:
                await store.join(replica(instance, level))
            return store

        yield open_one


@pytest.fixture
def locked(postgres_server: Server, postgres_database: str) -> Callable[[str], Any]:
    """Holds a lock, and says when so many wait for one."""

    @asynccontextmanager
    async def held(statement: str) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
        connection, other = [await postgres_server.connect(postgres_database) for _ in range(2)]

        async def waits(count: int) -> None:
            await until(lambda: other.fetchval(WAITING), lambda waiting: waiting >= count)

        transaction = connection.transaction()
        await transaction.start()
        try:
            await connection.execute(statement)
            yield waits
        finally:
            await transaction.commit()
            await connection.close()
            await other.close()

    return held


# Commits


async def test_a_commit_that_waited_while_its_namespace_was_taken_writes_nothing(opened: Any, locked: Any) -> None:
    zombie, heir = await opened("a"), await opened("b")
    await zombie.create("yard", "a")
    await zombie.commit(fenced(submitted(1, 1)))
    await heir.renew("b", 0.0)
    async with locked(OF_SPACE) as waits:
        taking = asyncio.ensure_future(heir.take(1, "b"))
        await waits(1)
        committing = asyncio.ensure_future(zombie.commit(fenced(ended(2, 1, at=5))))
        await waits(2)
    taken, committed = await taking, await committing
    assert (taken.term, taken.meta.number) == (2, 1)
    assert committed.lost == {1}
    assert [row.key for row in await live(heir)] == [key_of(1, 1)]


async def test_a_commit_that_came_before_is_seen_by_who_takes(opened: Any, locked: Any) -> None:
    owner, heir = await opened("a"), await opened("b")
    await owner.create("yard", "a")
    await heir.renew("b", 0.0)
    async with locked(OF_SPACE) as waits:
        committing = asyncio.ensure_future(owner.commit(fenced(submitted(1, 1))))
        await waits(1)
        taking = asyncio.ensure_future(heir.take(1, "b"))
        await waits(2)
    assert (await committing).lost == frozenset()
    assert (await taking).meta.number == 1
    assert [row.key for row in await live(heir, 1)] == [key_of(1, 1)]


async def test_a_commit_that_was_given_up_and_took_effect_later_counts_as_written(opened: Any, locked: Any) -> None:
    store = await opened("a", commit_secs=0.3)
    await store.create("yard", "a")
    group = fenced(submitted(1, 1))
    async with locked(OF_SPACE):
        with pytest.raises(CommitDelayed, match="does not answer"):
            await store.commit(group)
        with pytest.raises(CommitDelayed):
            await store.commit(group)
    assert (await store.commit(group)).lost == frozenset()
    assert (await store.commit(fenced(ended(2, 1, at=5)))).lost == frozenset()
    assert await live(store) == []
    assert await store.check() == []


async def test_a_duplicate_that_comes_after_the_next_commit_writes_nothing(
    opened: Any, postgres_server: Server, postgres_database: str
) -> None:
    store = await opened("a")
    await store.create("yard", "a")
    first = fenced(submitted(1, 1))
    await store.commit(first)
    await store.commit(fenced(ended(2, 1, at=5)))
    late = Composer(statements()).fenced(first, "a", "writer", 1)
    connection = await postgres_server.connect(postgres_database)
    assert await connection.fetch(late.statement, *late.arguments) == []
    await connection.close()
    assert await live(store) == []


async def test_a_duplicate_of_a_token_that_comes_late_undoes_no_revocation(
    opened: Any, postgres_server: Server, postgres_database: str
) -> None:
    store = await opened("a")

    def token(record: bytes) -> Group:
        group = Group(1, 1.0)
        group.put(Table.TOKENS, 7, record)
        return group

    made = token(b"made")
    await store.commit(made)
    await store.commit(token(b"revoked"))
    late = Composer(statements()).fenced(made, "a", store._writer, 1)
    connection = await postgres_server.connect(postgres_database)
    assert await connection.fetch(late.statement, *late.arguments) == []
    await connection.close()
    await store.commit(made)
    assert await rows_of(store, Table.TOKENS) == [(7, b"made")], "a new commit of the same group object is a new one"


async def test_a_repetition_of_a_group_writes_its_tokens_once(opened: Any) -> None:
    store, other = await opened("a"), await opened("b")
    group = Group(1, 1.0)
    group.put(Table.TOKENS, 7, b"made")
    await store.commit(group)
    revoked = Group(1, 1.0)
    revoked.put(Table.TOKENS, 7, b"revoked")
    await other.commit(revoked)
    await store.commit(group)
    assert await rows_of(store, Table.TOKENS) == [(7, b"revoked")]


async def test_of_many_namespaces_the_lost_are_named_and_the_others_written(opened: Any) -> None:
    owner, heir = await opened("a"), await opened("b")
    for number in range(1, 31):
        taken = await owner.create(f"yard {number}", "a")
        assert taken.number == number
    await owner.release(dict.fromkeys(range(3, 31, 3), 1), "a", 5.0, to="b")
    group = Group(1, 1.0)
    for space in range(1, 31):
        fenced(group, space=space, needs_owner=True)
        group.put(Table.NAMESPACES, space, b"")
        group.put(Table.TASKS, key_of(space, 1), b"task")
        group.put(Table.STATES, key_of(space, 1), b"")
        group.outputs.append(OutputRow(key_of(space, 1), 1, 0, b"said"))
    assert (await owner.commit(group)).lost == set(range(3, 31, 3))
    assert [row.key >> 40 for row in await outputs_of(heir)] == [space for space in range(1, 31) if space % 3]
    assert {row.key >> 40 for row in await live(heir)} == set(range(1, 31)) - set(range(3, 31, 3))
    assert await heir.rows(Table.NAMESPACES).__anext__()


async def test_a_row_is_written_once_as_it_was_put_last(opened: Any) -> None:
    store = await opened("a")
    await store.create("yard", "a")
    group = fenced(submitted(1, 1))
    group.put(Table.TASKS, key_of(1, 1), b"last")
    group.remove(Table.TASKS, key_of(1, 1))
    await store.commit(group)
    assert (await live(store))[0].task == b"last"


async def test_rows_without_a_fence_are_refused(opened: Any) -> None:
    store = await opened("a")
    await store.create("yard", "a")
    with pytest.raises(StoreError, match="namespace 1 came without a fence"):
        await store.commit(submitted(1, 1))
    with pytest.raises(StoreError, match="rows of OUTPUT of namespace 2 came without a fence"):
        await store.commit(fenced(said(1, (1, 1, b""), namespace=2)))
    with pytest.raises(StoreError, match="rows of OUTPUT of namespace 2 came without a fence"):
        await store.commit(fenced(Group(1, 1.0, output_cuts=[OutputCut(key_of(2, 1), 1)])))


async def test_a_cut_of_a_namespace_that_is_owned_no_longer_removes_nothing(opened: Any) -> None:
    owner, heir = await opened("a"), await opened("b")
    await owner.create("yard", "a")
    group = fenced(submitted(1, 1))
    group.outputs = said(1, (1, 1, b"a"), (1, 2, b"b")).outputs
    await owner.commit(group)
    await owner.release({1: 1}, "a", 5.0, to="b")
    await owner.commit(fenced(Group(2, 2.0, output_cuts=[OutputCut(key_of(1, 1), 2)])))
    assert [row.first for row in await outputs_of(heir)] == [1, 2]


async def test_output_goes_with_a_task_that_a_replica_without_output_removes(
    opened: Any, postgres_server: Server, postgres_database: str
) -> None:
    store = await opened("a")
    await store.create("yard", "a")
    group = fenced(submitted(1, 1, 2))
    group.outputs = said(1, (1, 1, b"a"), (2, 1, b"b")).outputs
    await store.commit(group)
    connection = await postgres_server.connect(postgres_database, USER)
    await connection.execute("DELETE FROM taskyard.tasks WHERE key = $1", key_of(1, 1))
    await connection.close()
    assert [row.key for row in await outputs_of(store)] == [key_of(1, 2)]


async def test_who_uses_the_whole_store_is_refused_while_a_replica_lives(opened: Any) -> None:
    alone = await opened(None)
    await alone.commit(submitted(1, 1))
    await opened("a")
    with pytest.raises(StoreError, match="is in use by name of a; stop every server on it first"):
        await alone.commit(submitted(2, 2))
    with pytest.raises(StoreError, match="in use by name of a"):
        await (await opened(None)).commit(submitted(2, 2))
    assert [row.key for row in await live(alone)] == [key_of(1, 1)]


async def test_a_replica_that_is_long_silent_does_not_keep_others_out(opened: Any) -> None:
    zombie = await opened("a")
    alone = await opened(None, failover_secs=0.0)
    await alone.commit(submitted(1, 1))
    assert await zombie.renew("a", 9.0) is None


# History


async def test_a_replica_forgets_what_ended_in_its_own_namespaces_and_in_those_of_nobody(opened: Any) -> None:
    stores = {name: await opened(name) for name in "abc"}
    for space, name in enumerate("abc", 1):
        await stores[name].create(f"yard of {name}", name)
        await stores[name].commit(fenced(submitted(1, 1, namespace=space), space=space))
        await stores[name].commit(fenced(ended(2, 1, at=5, namespace=space), space=space))
    await stores["c"].release({3: 1}, "c", 5.0)
    assert await stores["a"].forget(9, 100) == 2
    assert await stores["a"].task(key_of(2, 1)) is not None
    assert await stores["b"].forget(9, 100) == 1
    assert await stores["b"].check() == []


async def test_of_a_namespace_of_nobody_in_which_tasks_live_nothing_is_forgotten(opened: Any) -> None:
    stores = {name: await opened(name) for name in "ab"}
    await stores["a"].create("yard", "a")
    await stores["a"].commit(fenced(submitted(1, 1, 2)))
    await stores["a"].commit(fenced(ended(2, 1, at=5)))
    await stores["a"].release({1: 1}, "a", 5.0)
    assert await stores["b"].forget(9, 100) == 0
    assert await stores["b"].take(1, "b")
    assert await stores["b"].forget(9, 100, [key_of(1, 1)]) == 0
    assert await stores["b"].forget(9, 100) == 1


async def test_what_is_forgotten_late_leaves_a_task_alone_that_goes_on(opened: Any, locked: Any) -> None:
    zombie, heir = await opened("a"), await opened("b")
    await zombie.create("yard", "a")
    await zombie.commit(fenced(submitted(1, 1)))
    await zombie.commit(fenced(ended(2, 1, at=5)))
    await heir.renew("b", 0.0)
    await heir.take(1, "b")
    resumed = fenced(Group(3, 3.0), 2)
    resumed.remove(Table.ENDED, key_of(1, 1))
    resumed.put(Table.STATES, key_of(1, 1), b"resumed")
    async with locked(OF_SPACE) as waits:
        committing = asyncio.ensure_future(heir.commit(resumed))
        await waits(1)
        assert await zombie.forget(9, 100) == 0
    await committing
    assert await heir.check() == []
    assert len(await live(heir)) == 1


# Who lives and who owns


async def test_of_many_who_take_at_once_one_has_it(opened: Any, locked: Any) -> None:
    stores = {name: await opened(name) for name in "abc"}
    await stores["a"].create("yard", "a")
    await stores["a"].release({1: 1}, "a", 5.0)
    async with locked(OF_SPACE) as waits:
        taking = [asyncio.ensure_future(store.take(1, name)) for name, store in stores.items()]
        await waits(3)
    taken = [each for each in await asyncio.gather(*taking) if each is not None]
    assert [each.term for each in taken] == [2]


async def test_of_many_who_make_a_name_at_once_one_has_it(opened: Any) -> None:
    stores = {name: await opened(name) for name in "abc"}
    for number in range(1, 11):
        made = await asyncio.gather(*(store.create(f"yard {number}", name) for name, store in stores.items()))
        assert sum(each is not None for each in made) == 1


@pytest.mark.parametrize("renewal_is_first", [True, False])
async def test_a_renewal_and_a_burial_at_once_end_as_one_of_them(
    opened: Any, locked: Any, renewal_is_first: bool, postgres_server: Server, postgres_database: str
) -> None:
    silent, other = await opened("a"), await opened("b")
    old = "UPDATE taskyard.replicas SET renewed_at = clock_timestamp() - interval '9 s' WHERE instance = 'a'"
    await postgres_server.run(old, postgres_database)
    renewing, burying = (lambda: silent.renew("a", 5.0)), (lambda: other.renew("b", 5.0))
    order = [renewing, burying] if renewal_is_first else [burying, renewing]
    async with locked(OF_A) as waits:
        first = asyncio.ensure_future(order[0]())
        await waits(1)
        second = asyncio.ensure_future(order[1]())
        await waits(2)
    renewed = await (first if renewal_is_first else second)
    seen = await (second if renewal_is_first else first)
    (row,) = [row for row in seen.replicas if row.replica.instance == "a"]
    assert (renewed is not None, row.died_at is None) == (renewal_is_first, renewal_is_first)


async def test_a_level_is_not_raised_past_who_joins_meanwhile(
    opened: Any, postgres_server: Server, postgres_database: str
) -> None:
    store = await opened("b", level=2)
    connection = await postgres_server.connect(postgres_database)
    async with connection.transaction():
        await connection.fetch(statements()["join"], *replica("a", 1))
        raising = asyncio.ensure_future(store.raise_level(2))

        async def waits() -> int:
            # The view is a picture of when it was first looked at.
            await connection.execute("SELECT pg_stat_clear_snapshot()")
            return int(await connection.fetchval(WAITING))

        await until(waits)
    await connection.close()
    assert not await raising


async def test_what_the_long_dead_own_becomes_nobodys_and_they_are_forgotten(
    opened: Any, postgres_server: Server, postgres_database: str
) -> None:
    store = await opened("a")
    await store.create("yard", "a")
    await store.leave("a")
    at = (await store.owners())[0]
    day = "UPDATE taskyard.replicas SET died_at = died_at - interval '2 days'"
    await postgres_server.run(day, postgres_database)
    other = await opened("b")
    assert [row.instance for row in (await other.owners())[1]] == [None]
    taken = await other.take(1, "b")
    assert abs(taken.meta.at - at) < 5, "until when it was served is not forgotten"
    connection = await postgres_server.connect(postgres_database)
    assert [row[0] for row in await connection.fetch("SELECT instance FROM taskyard.replicas")] == ["b"]
    await connection.close()


async def test_commits_and_renewals_tell_nobody(opened: Any) -> None:
    store, other = await opened("a"), await opened("b")
    await store.create("yard", "a")
    changes = other.changes()
    await anext(changes)
    heard = asyncio.ensure_future(anext(changes))
    await store.commit(fenced(submitted(1, 1), needs_owner=True))
    await store.renew("a", 99.0)
    # Told in the order of commits: had those told, it would be heard before this is asked.
    await store.owners()
    assert not heard.done()
    await store.release({1: 1}, "a", 5.0)
    await heard
    await changes.aclose()
