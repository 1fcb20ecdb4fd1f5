"""What becomes of a store when PostgreSQL fails: later, perhaps, or never; in a line without secrets."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from taskyard_server.store.port import CommitDelayed, StoreError, key_of
from taskyard_server.store.postgres.address import PostgresAddress
from taskyard_server.store.postgres.errors import in_words
from taskyard_server.store.postgres.store import PostgresStore
from tests.postgres import Server, kill_server, start_server
from tests.store.groups import live, submitted
from tests.store.postgres.test_fences import fenced, replica

pytestmark = pytest.mark.gate("PostgreSQL")

END_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()"


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres_url)
    await store.open()
    await store.join(replica("a"))
    await store.create("yard", "a")
    yield store
    await store.close()


async def test_a_store_goes_on_after_all_its_connections_were_ended(
    store: PostgresStore, postgres_server: Server, postgres_database: str
) -> None:
    await store.commit(fenced(submitted(1, 1)))
    assert len(await live(store)) == 1
    await postgres_server.run(END_ALL.format(postgres_database))
    # Whether a call fails at once or finds its connection ended is a matter of luck.
    for _ in range(2):
        with contextlib.suppress(CommitDelayed):
            assert (await store.commit(fenced(submitted(2, 2)))).lost == frozenset()
        with contextlib.suppress(CommitDelayed):
            await store.renew("a", 99.0)
        with contextlib.suppress(CommitDelayed):
            await live(store)
    assert await store.renew("a", 99.0) is not None
    assert len(await live(store)) == 2


async def test_who_listens_hears_of_a_new_connection_and_then_of_changes(
    store: PostgresStore, postgres_server: Server, postgres_database: str
) -> None:
    changes = store.changes()
    await anext(changes)
    await postgres_server.run(END_ALL.format(postgres_database))
    await anext(changes)
    heard = asyncio.ensure_future(anext(changes))
    other = PostgresStore(store.url)
    await other.open()
    await other.create("field", "a")
    await heard
    await changes.aclose()
    await other.close()


async def test_a_statement_that_was_cancelled_is_repeated_on_the_same_connection(
    store: PostgresStore, postgres_server: Server, postgres_database: str
) -> None:
    connection = await postgres_server.connect(postgres_database)
    async with connection.transaction():
        await connection.execute("SELECT FROM taskyard.owners FOR UPDATE")
        committing = asyncio.ensure_future(store.commit(fenced(submitted(1, 1))))
        cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while not await connection.fetchval(f"{cancel} AND datname = '{postgres_database}'"):
            await connection.execute("SELECT pg_stat_clear_snapshot()")
        with pytest.raises(CommitDelayed):
            await committing
    await connection.close()
    assert (await store.commit(fenced(submitted(1, 1)))).lost == frozenset()


async def test_a_database_that_became_read_only_is_left_for_one_that_is_not(
    store: PostgresStore, postgres_server: Server, postgres_database: str
) -> None:
    await postgres_server.run(f"ALTER DATABASE {postgres_database} SET default_transaction_read_only = on")
    await postgres_server.run(END_ALL.format(postgres_database))
    with contextlib.suppress(CommitDelayed):
        await store.commit(fenced(submitted(1, 1)))
    with pytest.raises(CommitDelayed, match="no host takes writes; a standby must be promoted"):
        await store.commit(fenced(submitted(1, 1)))
    await postgres_server.run(f"ALTER DATABASE {postgres_database} RESET default_transaction_read_only")
    assert (await store.commit(fenced(submitted(1, 1)))).lost == frozenset()


async def test_a_store_waits_for_rights_that_were_taken_away(
    store: PostgresStore, postgres_server: Server, postgres_database: str
) -> None:
    await postgres_server.run("REVOKE ALL ON taskyard.tasks FROM maker", postgres_database)
    with pytest.raises(CommitDelayed, match="permission denied for table tasks; see to the rights of the role"):
        await store.commit(fenced(submitted(1, 1)))
    await postgres_server.run("GRANT ALL ON taskyard.tasks TO maker", postgres_database)
    assert (await store.commit(fenced(submitted(1, 1)))).lost == frozenset()


async def test_tables_that_were_removed_are_final(
    store: PostgresStore, postgres_server: Server, postgres_database: str
) -> None:
    await postgres_server.run("DROP SCHEMA taskyard CASCADE", postgres_database)
    with pytest.raises(StoreError, match="restore a backup"):
        await store.commit(fenced(submitted(1, 1)))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (asyncpg.AdminShutdownError("terminating connection"), CommitDelayed),
        (asyncpg.CannotConnectNowError("the database system is starting up"), CommitDelayed),
        (asyncpg.TooManyConnectionsError("too many clients"), CommitDelayed),
        (asyncpg.DiskFullError("no space left on device"), CommitDelayed),
        (asyncpg.ReadOnlySQLTransactionError("cannot execute UPDATE"), CommitDelayed),
        (asyncpg.DeadlockDetectedError("deadlock detected"), CommitDelayed),
        (asyncpg.SerializationError("could not serialize"), CommitDelayed),
        (asyncpg.InterfaceError("connection is closed"), CommitDelayed),
        (TimeoutError(), CommitDelayed),
        (ConnectionRefusedError("refused"), CommitDelayed),
        (asyncpg.InvalidPasswordError("password authentication failed"), CommitDelayed),
        (asyncpg.DataCorruptedError("invalid page"), StoreError),
        (asyncpg.InvalidSQLStatementNameError("prepared statement does not exist"), StoreError),
    ],
)
def test_what_may_pass_is_told_from_what_does_not(error: Exception, kind: type[Exception]) -> None:
    address = PostgresAddress("postgresql://ann:s3cret@db/yard")
    said = in_words(address, error)
    assert type(said) is kind
    assert str(said).startswith("postgresql://ann@db/yard")


def test_no_password_stands_in_what_others_say() -> None:
    address = PostgresAddress("postgresql://ann:s3%21cret@db/yard?sslpassword=h1dden")
    said = str(in_words(address, asyncpg.InvalidPasswordError("s3!cret or\nh1dden is wrong"), is_opening=True))
    assert said == ("postgresql://ann@db/yard: *** or *** is wrong; see to the user, the password and pg_hba.conf")


def test_each_host_is_tried_by_itself() -> None:
    address = PostgresAddress("postgresql://ann@one,two:5433/yard?connect_timeout=3&sslmode=disable")
    assert address.urls == [
        "postgresql://ann@one/yard?sslmode=disable",
        "postgresql://ann@two:5433/yard?sslmode=disable",
    ]
    assert address.connect_secs == 3


async def test_a_store_waits_while_its_server_is_started_again() -> None:
    folder = Path(tempfile.mkdtemp(prefix="taskyard-pg-"))
    process = start_server(folder)
    store = PostgresStore(Server(folder).url())
    try:
        await store.open()
        await store.join(replica("a"))
        await store.create("yard", "a")
        await store.commit(fenced(submitted(1, 1)))
        kill_server(process)
        with pytest.raises(CommitDelayed):
            await store.commit(fenced(submitted(2, 2)))
        process = start_server(folder)
        assert (await store.commit(fenced(submitted(2, 2)))).lost == frozenset()
        assert [row.key for row in await live(store)] == [key_of(1, 1), key_of(1, 2)]
    finally:
        await store.close()
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def test_what_asyncpg_says_of_its_own_states_is_told_nobody() -> None:
    error = asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")
    assert (
        str(in_words(PostgresAddress("postgresql://db/yard"), error)) == "postgresql://db/yard: the connection was lost"
    )
