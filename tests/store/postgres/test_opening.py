"""How a store in PostgreSQL is opened: made, migrated, refused, and by whom.

See docs/operate/durability.md, PostgreSQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from pathlib import Path
from typing import Any

import pytest

from taskyard_server.store.port import BackupFailed, StoreError, StoreMeta, key_of
from taskyard_server.store.postgres.address import PostgresAddress
from taskyard_server.store.postgres.schema import VERSION, migrate, statements, steps
from taskyard_server.store.postgres.store import PostgresStore
from tests.postgres import MAKER, MAY_USE, USER, Server
from tests.store.groups import outputs_of, said, submitted

pytestmark = pytest.mark.gate("PostgreSQL")


async def opened(url: str, **arguments: Any) -> StoreMeta:
    store = PostgresStore(url, **arguments)
    try:
        return await store.open()
    finally:
        await store.close()


async def refused(url: str, **arguments: Any) -> str:
    with pytest.raises(StoreError) as raised:
        await opened(url, **arguments)
    assert "\n" not in str(raised.value)
    return str(raised.value)


# Its tables


async def test_many_that_open_an_empty_database_at_once_make_its_tables_once(empty_postgres_url: str) -> None:
    assert set(await asyncio.gather(*(opened(empty_postgres_url) for _ in range(5)))) == {StoreMeta(0, 0.0, 0)}


def newer(**more: str) -> dict[str, str]:
    return {**statements(), **more}


async def test_a_database_of_before_is_migrated_step_by_step_by_many_at_once(
    postgres_server: Server, postgres_url: str, postgres_database: str
) -> None:
    assert steps(statements()) == list(range(2, VERSION + 1))
    store = PostgresStore(postgres_url)
    await store.open()
    await store.commit(submitted(1, 1))
    await store.close()
    sql = newer(
        **{
            f"to {VERSION + 1}": "CREATE TABLE taskyard.more (key bigint PRIMARY KEY)",
            f"to {VERSION + 2} concurrently": "CREATE INDEX CONCURRENTLY IF NOT EXISTS more_key ON taskyard.more (key)",
        }
    )
    connections = [await postgres_server.connect(postgres_database, MAKER) for _ in range(3)]
    address = PostgresAddress(postgres_url)
    await asyncio.gather(*(migrate(connection, address, sql, VERSION + 2) for connection in connections))
    assert await connections[0].fetchval("SELECT version FROM taskyard.meta") == VERSION + 2
    assert await connections[0].fetchval("SELECT to_regclass('taskyard.more_key') IS NOT NULL")
    for connection in connections:
        await connection.close()
    assert f"was written by a newer Taskyard (schema {VERSION + 2}, this one knows {VERSION})" in await refused(
        postgres_url
    )


async def test_the_tables_of_0_3_0_are_migrated_beside_a_replica_that_serves(
    postgres_server: Server, postgres_url: str, postgres_database: str
) -> None:
    connection = await postgres_server.connect(postgres_database, MAKER)
    await connection.execute(
        "DROP TABLE taskyard.output, taskyard.events; DROP FUNCTION taskyard.remove_output CASCADE"
    )
    await connection.execute("UPDATE taskyard.meta SET version = 2")
    before, after = PostgresStore(postgres_url), PostgresStore(postgres_url)
    await before._committing.fetch("SELECT 1")
    await before.commit(submitted(1, 1))
    await after.open()
    await before.commit(submitted(2, 2))
    group = said(3, (1, 1, b"a"), (2, 1, b"b"))
    await after.commit(group)
    await connection.execute("DELETE FROM taskyard.tasks WHERE key = $1", key_of(1, 1))
    assert await outputs_of(after) == group.outputs[1:]
    for each in (connection, before, after):
        await each.close()


async def test_a_step_that_fails_changes_nothing(
    postgres_server: Server, postgres_url: str, postgres_database: str
) -> None:
    sql = newer(**{f"to {VERSION + 1}": "CREATE TABLE taskyard.more (key bigint); SELECT 1 / 0"})
    connection = await postgres_server.connect(postgres_database, MAKER)
    with pytest.raises(Exception, match="division by zero"):
        await migrate(connection, PostgresAddress(postgres_url), sql, VERSION + 1)
    assert await connection.fetchval("SELECT to_regclass('taskyard.more')") is None
    await connection.close()
    await opened(postgres_url)


async def test_a_schema_of_something_else_is_left_alone(postgres_server: Server, empty_postgres_url: str) -> None:
    connection = await postgres_server.connect(Path(empty_postgres_url.partition("?")[0]).name, MAKER)
    await connection.execute("CREATE SCHEMA taskyard; CREATE TABLE taskyard.tasks (theirs int)")
    assert "its schema taskyard is of something else" in await refused(empty_postgres_url)
    assert await connection.fetch("SELECT theirs FROM taskyard.tasks") == []
    await connection.close()


async def test_what_must_exist_is_not_made(empty_postgres_url: str) -> None:
    assert (await refused(empty_postgres_url, must_exist=True)).startswith("no store at postgresql://")
    assert (await refused(empty_postgres_url, must_exist=True)).startswith("no store at postgresql://")


# Rights


async def test_a_role_that_may_not_make_tables_says_who_can(postgres_server: Server, empty_postgres_url: str) -> None:
    database = Path(empty_postgres_url.partition("?")[0]).name
    url = postgres_server.url(database, USER)
    assert "let one that may run `taskyard store migrate URL`" in await refused(url)
    await opened(empty_postgres_url)
    assert "permission denied for schema taskyard" in await refused(url)
    connection = await postgres_server.connect(database, MAKER)
    await connection.execute(MAY_USE.format(role=USER))
    await connection.close()
    assert await opened(url) == StoreMeta(0, 0.0, 0)


async def test_a_schema_that_an_administrator_made_is_enough(postgres_server: Server) -> None:
    database = await postgres_server.new_database(is_empty=True)
    await postgres_server.run(f"CREATE SCHEMA taskyard AUTHORIZATION {USER}", database)
    assert await opened(postgres_server.url(database, USER)) == StoreMeta(0, 0.0, 0)
    await postgres_server.drop(database)


async def test_a_database_that_is_not_there_is_named(postgres_server: Server) -> None:
    text = await refused(postgres_server.url("nowhere"))
    assert 'database "nowhere" does not exist; make the database, or name another one in store.url' in text


async def test_a_role_that_is_not_there_is_named(postgres_server: Server, postgres_database: str) -> None:
    assert 'role "nobody_here" does not exist' in await refused(postgres_server.url(postgres_database, "nobody_here"))


# Servers


async def test_a_server_that_is_away_is_waited_for_and_then_named(tmp_path: Path) -> None:
    url = f"postgresql://ann:s3cret@/yard?host={tmp_path}"
    text = await refused(url, wait_secs=0.3)
    assert text.startswith(f"postgresql://ann@/yard?host={tmp_path}: ")
    assert text.endswith("see that it runs and that store.url names it")


async def test_a_server_that_is_too_old_is_named(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskyard_server.store.postgres.health.OLDEST", 99)
    assert "at least 99 is needed" in await refused(postgres_url)


async def test_a_backup_names_the_tools_of_postgresql(postgres_url: str) -> None:
    with pytest.raises(BackupFailed, match="pg_dump"):
        await PostgresStore(postgres_url).backup("x")


async def test_what_may_cost_acknowledged_work_is_said(
    postgres_server: Server, postgres_url: str, postgres_database: str
) -> None:
    store = PostgresStore(postgres_url)
    await store.open()
    assert store.warnings == ["fsync is off in PostgreSQL: a crash of its machine may destroy everything"]
    await store.close()
    await postgres_server.run(f"ALTER DATABASE {postgres_database} SET synchronous_commit = off")
    await store.open()
    assert store.warnings[1].startswith("synchronous_commit is off in PostgreSQL")
    await store.close()


# Proxies

Message = tuple[bytes, bytes]


class TransactionPool:
    """A proxy that gives its one session to whoever has a transaction to do, as PgBouncer does."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._one_at_a_time = asyncio.Lock()
        self._holder: asyncio.StreamWriter | None = None
        self._greeting = b""
        self._server: asyncio.StreamWriter | None = None
        self._pump: asyncio.Task[None] | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client until it goes."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._greet(reader, writer)
            while (message := await _message(reader))[0] != b"X":
                if self._holder is not writer:
                    await self._one_at_a_time.acquire()
                    self._holder = writer
                assert self._server is not None
                self._server.write(b"".join(message))
        writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = await reader.readexactly(4)
        startup = length + await reader.readexactly(struct.unpack("!i", length)[0] - 4)
        async with self._one_at_a_time:
            if self._server is None:
                answers, self._server = await asyncio.open_unix_connection(self._socket)
                self._server.write(startup)
                while not self._greeting.endswith(b"Z\0\0\0\5I"):
                    self._greeting += b"".join(await _message(answers))
                self._pump = asyncio.ensure_future(self._pass_on(answers))
        writer.write(self._greeting)

    async def _pass_on(self, answers: asyncio.StreamReader) -> None:
        while True:
            message = await _message(answers)
            assert self._holder is not None
            self._holder.write(b"".join(message))
            if message[0] == b"Z" and message[1].endswith(b"I"):
                self._holder = None
                self._one_at_a_time.release()

    def close(self) -> None:
        """End the session."""
        if self._pump is not None and self._server is not None:
            self._pump.cancel()
            self._server.close()


async def _message(reader: asyncio.StreamReader) -> Message:
    kind, length = await reader.readexactly(1), await reader.readexactly(4)
    return kind, length + await reader.readexactly(struct.unpack("!i", length)[0] - 4)


async def test_a_proxy_that_pools_transactions_is_refused(
    postgres_server: Server, postgres_database: str, tmp_path: Path
) -> None:
    pool = TransactionPool(str(postgres_server.folder / ".s.PGSQL.5432"))
    proxy = await asyncio.start_unix_server(pool.serve, str(tmp_path / ".s.PGSQL.5432"))
    try:
        text = await refused(f"postgresql://{MAKER}@/{postgres_database}?host={tmp_path}")
    finally:
        proxy.close()
        pool.close()
    assert text.endswith("connect directly, or by a proxy that pools sessions")
