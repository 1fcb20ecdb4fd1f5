"""`taskyard store` on PostgreSQL (docs/operate/durability.md, PostgreSQL)."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest

from taskyard_server.store.port import EPOCH_JUMP
from taskyard_server.store.postgres.store import PostgresStore
from taskyard_server.store.shared_port import Replica
from tests.environment import without_settings
from tests.postgres import PROGRAMS, Server, awaited
from tests.store.small_yard import ROWS, make_yard

pytestmark = [pytest.mark.gate("PostgreSQL"), pytest.mark.usefixtures("clean")]
REPLICA = Replica("a", "one", None, 1, "1.0")


@pytest.fixture
def clean(monkeypatch):
    for name, value in without_settings().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def file(tmp_path):
    """The URL of a file with rows."""
    asyncio.run(make_yard(tmp_path / "yard.db"))
    return f"sqlite:///{tmp_path}/yard.db"


@pytest.fixture
def database(anywhere, file, empty_postgres_url):
    """The URL of a database that holds a copy of them."""
    done = anywhere("store", "copy", file, empty_postgres_url)
    assert done.code == 0, done.err
    return empty_postgres_url


def using(url: str, use: Any) -> Any:
    """What is done with the opened store of a URL."""

    async def used() -> Any:
        store = PostgresStore(url)
        await store.open()
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(used())


def test_a_copy_holds_all_rows_and_goes_back(anywhere, file, database, tmp_path):
    assert anywhere("store", "stats", "--store", database, "--json").json["rows"] == ROWS
    assert anywhere("store", "check", "--store", database).out == "Nothing is wrong.\n"
    back = f"sqlite:///{tmp_path}/back.db"
    assert anywhere("store", "copy", database, back).code == 0
    before, after = (anywhere("store", "stats", "--store", url, "--json").json for url in (file, back))
    assert after["rows"] == before["rows"]
    assert after["commitNumber"] >= before["commitNumber"]


def test_what_was_copied_is_taken_by_replicas_and_new_numbers_are_others(database):
    async def take(store: PostgresStore) -> Any:
        (row,) = (await store.owners())[1]
        number = (await store.stats()).number
        await store.join(REPLICA)
        taken = await store.take(row.number, "a")
        assert await store.needing_owner(9) == []
        made = await store.create("another", "a")
        return row, number, taken, made

    row, number, taken, made = using(database, take)
    assert (row.instance, taken.meta.number) == (None, number)
    assert made.number > row.number


def test_a_copy_goes_into_a_new_database_only(anywhere, file, database):
    failed = anywhere("store", "copy", file, database)
    assert (failed.code, "is in use already; name a new database" in failed.err) == (1, True)


def test_nothing_is_copied_or_restored_while_a_replica_lives(anywhere, database, tmp_path):
    using(database, lambda store: store.join(REPLICA))
    for words in (("copy", database, f"sqlite:///{tmp_path}/x.db"), ("restore", database)):
        failed = anywhere("store", *words)
        assert failed.code == 1
        assert "is in use by one; stop every server on it first" in failed.err
    assert anywhere("store", "check", "--store", database).code == 0


def test_a_database_that_postgresql_restored_begins_a_new_epoch(anywhere, database, postgres_server: Server, tmp_path):
    async def use(store: PostgresStore) -> Any:
        await store.join(REPLICA)
        (row,) = (await store.owners())[1]
        taken = await store.take(row.number, "a")
        await store.leave("a")
        return taken

    before = using(database, use)
    dump = str(tmp_path / "dump")
    name = awaited(postgres_server.new_database(is_empty=True))
    restored = postgres_server.url(name)
    subprocess.run([PROGRAMS / "pg_dump", "-Fc", "-n", "taskyard", "-f", dump, database], check=True)
    subprocess.run([PROGRAMS / "pg_restore", "--exit-on-error", "-d", restored, dump], check=True)
    done = anywhere("store", "restore", restored, "--json")
    assert (done.code, done.json["epoch"]) == (0, before.meta.epoch + 1)

    async def take(store: PostgresStore) -> Any:
        await store.join(Replica("b", "two", None, 1, "1.0"))
        (needing,) = await store.needing_owner(9)
        return await store.take(needing.number, "b")

    after = using(restored, take)
    assert after.meta.number == before.meta.number + EPOCH_JUMP
    assert after.term == before.term + EPOCH_JUMP + 1
    assert after.meta.epoch == before.meta.epoch + 1
    awaited(postgres_server.drop(name))


def test_a_backup_of_it_is_for_the_tools_of_postgresql(anywhere, database):
    failed = anywhere("store", "backup", "x.db", "--store", database)
    assert (failed.code, "is backed up by PostgreSQL: pg_dump" in failed.err) == (1, True)


def test_a_database_is_migrated_by_who_may(anywhere, empty_postgres_url):
    assert anywhere("store", "check", "--store", empty_postgres_url).err.startswith(
        "taskyard: no store at postgresql://"
    )
    assert anywhere("store", "migrate", empty_postgres_url).out.endswith("has the tables of this version\n")
    assert anywhere("store", "check", "--store", empty_postgres_url).code == 0
    assert anywhere("store", "migrate", "sqlite:///x.db").code == 2


def test_no_password_is_shown(anywhere, tmp_path):
    failed = anywhere("store", "check", "--store", f"postgresql://ann:s3cret@/yard?host={tmp_path}")
    assert failed.code == 1
    assert "s3cret" not in failed.err + failed.out
