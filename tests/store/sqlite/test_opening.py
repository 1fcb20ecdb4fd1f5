"""Which files a SQLite store opens, and what it says of those that it does not."""

import asyncio
import os
import re
import signal
import sqlite3
import stat
from pathlib import Path

import pytest

from taskyard_server.store.port import StoreError, key_of
from taskyard_server.store.sqlite import file as sqlite_file
from taskyard_server.store.sqlite.store import SqliteStore
from tests.store.groups import live, submitted

RELEASED = sorted((Path(__file__).parents[1] / "yards").glob("*.db"))
"""A small store of each released version of the schema, with task 1 of namespace 1 live."""


async def refused(path: Path, words: str) -> None:
    with pytest.raises(StoreError, match=words) as error:
        await SqliteStore(str(path), wait_secs=0.1).open()
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


async def test_missing_folders_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "one" / "two" / "yard.db"
    store = SqliteStore(str(path))
    await store.open()
    await store.close()
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)] == [0o700, 0o700]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_closed_store_is_one_file_beside_its_ballast(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"), ballast_bytes=0)
    await store.open()
    await store.commit(submitted(1, 1))
    await store.close()
    assert os.listdir(tmp_path) == ["yard.db"]


async def test_a_second_server_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "yard.db"
    store = SqliteStore(str(path))
    await store.open()
    await refused(path, "is in use by another server; stop that one, or name another file with --store")
    await store.commit(submitted(1, 1))
    await store.close()


async def test_a_server_waits_for_the_one_before_it(tmp_path: Path) -> None:
    path = str(tmp_path / "yard.db")
    before = sqlite3.connect(path, isolation_level=None)
    before.execute("BEGIN EXCLUSIVE")
    after = SqliteStore(path)
    opened = asyncio.ensure_future(after.open())
    await asyncio.wait([opened], timeout=0.3)
    assert not opened.done()
    before.execute("ROLLBACK")
    before.close()
    assert (await opened).number == 0
    await after.close()


@pytest.mark.parametrize("content", [b"what a user has written\n" * 50, b"SQLite format 3\0" + b"garbage" * 500])
async def test_a_file_of_something_else_is_refused_and_left(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "yard.db"
    path.write_bytes(content)
    await refused(path, "is not a file of Taskyard; name another one with --store")
    assert path.read_bytes() == content


async def test_a_pipe_or_device_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    await refused(tmp_path / "pipe", "is not a file of Taskyard")
    await refused(Path("/dev/null"), "is not a file of Taskyard")


async def test_a_link_is_the_file_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "yard.db").symlink_to(tmp_path / "disk" / "yard.db")
    store = SqliteStore(str(tmp_path / "yard.db"))
    await store.open()
    used = await store.stats()
    await store.commit(submitted(1, 1))
    await refused(tmp_path / "disk" / "yard.db", "in use by another server")
    # The log lies beside the file, and is seen there.
    assert (await store.stats()).used_bytes > used.used_bytes
    await store.close()
    assert sorted(os.listdir(tmp_path)) == ["disk", "yard.db"]
    assert (tmp_path / "disk" / "yard.db.ballast").exists()


async def test_another_programs_database_is_refused_and_left(tmp_path: Path) -> None:
    path = tmp_path / "yard.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE tasks (id)")
    db.close()
    content = path.read_bytes()
    await refused(path, "is not a file of Taskyard")
    assert path.read_bytes() == content


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "yard.db"
    store = SqliteStore(str(path))
    await store.open()
    await store.close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    await refused(path, re.escape(f"written by a newer Taskyard (schema 99, this one knows {sqlite_file.VERSION})"))


async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "yard.db"
    store = SqliteStore(str(path))
    await store.open()
    await store.commit(submitted(1, *range(1000)))
    await store.close()
    with path.open("r+b") as file:
        # The second page is that of `meta`.
        file.seek(4096)
        file.write(os.urandom(4096))
    await refused(path, "is damaged .*; restore a backup with `taskyard store restore`")


async def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    # Even root cannot make files there.
    await refused(Path("/proc/yard.db"), "cannot be written: .*; make it and its folder writable")
    file = tmp_path / "file"
    file.write_bytes(b"")
    await refused(file / "yard.db", "cannot be written: Not a directory")
    await refused(tmp_path, "cannot be written: Is a directory")


async def test_signals_to_the_writer_do_not_end_it(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"))
    await store.open()
    pid = store.writer_pid
    assert pid is not None
    assert os.getsid(pid) == pid
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    await store.commit(submitted(1, 1))
    assert store.writer_pid == pid
    await store.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_every_released_schema_is_migrated(tmp_path: Path) -> None:
    for before in RELEASED:
        path = tmp_path / before.name
        path.write_bytes(before.read_bytes())
        store = SqliteStore(str(path))
        await store.open()
        assert key_of(1, 1) in [row.key for row in await live(store)]
        assert await store.check() == []
        assert (await store.stats()).version == sqlite_file.VERSION
        await store.close()


def tables(path: Path) -> list[tuple[str]]:
    sql = sqlite_file.statements()
    db = sqlite_file.open_yard(str(path), synchronous="full", wait_secs=0, sql=sql)
    found = db.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
    db.close()
    return found


def test_a_migrated_file_has_the_tables_of_a_new_one(tmp_path: Path) -> None:
    expected = tables(tmp_path / "new.db")
    for before in RELEASED:
        path = tmp_path / before.name
        path.write_bytes(before.read_bytes())
        assert tables(path) == expected


@pytest.mark.parametrize("had_events", [False, True])
def test_a_file_made_between_two_releases_is_migrated_too(tmp_path: Path, had_events: bool) -> None:
    path = tmp_path / "between.db"
    expected = tables(path)
    db = sqlite3.connect(path)
    db.executescript(("" if had_events else "DROP TABLE events;") + "PRAGMA user_version = 5")
    db.close()
    assert tables(path) == expected


def test_a_migration_is_one_step_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "yard.db")
    sql = sqlite_file.statements()
    sqlite_file.open_yard(path, synchronous="full", wait_secs=0, sql=sql).close()
    version = sqlite_file.VERSION
    sql[f"to {version + 1}"] = "ALTER TABLE meta ADD COLUMN two INTEGER; UPDATE meta SET two = 2;"
    sql[f"to {version + 2}"] = "ALTER TABLE meta ADD COLUMN three INTEGER; UPDATE meta SET three = two + 1;"
    monkeypatch.setattr(sqlite_file, "VERSION", version + 2)
    db = sqlite_file.open_yard(path, synchronous="full", wait_secs=0, sql=sql)
    assert db.execute("SELECT two, three FROM meta").fetchone() == (2, 3)
    assert sqlite_file.pragma(db, "user_version") == version + 2
    db.close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "yard.db")
    sql = sqlite_file.statements()
    sqlite_file.open_yard(path, synchronous="full", wait_secs=0, sql=sql).close()
    version = sqlite_file.VERSION
    sql[f"to {version + 1}"] = "ALTER TABLE meta ADD COLUMN two INTEGER; UPDATE absent SET two = 2;"
    with monkeypatch.context() as newer:
        newer.setattr(sqlite_file, "VERSION", version + 1)
        with pytest.raises(sqlite_file.Unusable, match="no such table: absent"):
            sqlite_file.open_yard(path, synchronous="full", wait_secs=0, sql=sql)
    db = sqlite_file.open_yard(path, synchronous="full", wait_secs=0, sql=sql)
    assert sqlite_file.pragma(db, "user_version") == version
    assert len(db.execute("SELECT * FROM meta").fetchone()) == 4
    db.close()
