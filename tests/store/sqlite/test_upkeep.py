"""The log of a SQLite store stays short, as does the tail of its output; a ballast takes room while there is some."""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from taskyard_server.store.port import Table
from taskyard_server.store.sqlite.file import open_yard, pragma, statements
from taskyard_server.store.sqlite.rows import MOVED_IN_PAUSE, MOVED_ROWS, YardRows
from taskyard_server.store.sqlite.store import SqliteStore
from taskyard_server.store.sqlite.upkeep import IDLE_FRAMES, LOG_FRAMES, PAUSE_SECS, QUIET_SECS, Ballast, Log
from tests.store.groups import live, outputs_of, rows_of, said, submitted


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    db = open_yard(str(tmp_path / "yard.db"), synchronous="normal", wait_secs=0, sql=statements())
    db.execute("PRAGMA wal_checkpoint(PASSIVE)")
    yield db
    db.close()


def write(db: sqlite3.Connection, log: Log, pages: int) -> None:
    """A commit that adds so many pages to the log, or a few more."""
    for number in range(pages // 2):
        db.execute("BEGIN")
        db.execute("INSERT OR REPLACE INTO hosts VALUES (?, ?)", (number * 2, bytes(3000)))
        db.execute("INSERT OR REPLACE INTO hosts VALUES (?, ?)", (number * 2 + 1, bytes(3000)))
        db.execute("COMMIT")
    log.written()


def test_a_log_is_copied_once_it_is_long(db: sqlite3.Connection, tmp_path: Path) -> None:
    path = tmp_path / "yard.db"
    log = Log(db, str(path))
    write(db, log, LOG_FRAMES // 10)
    before = path.stat().st_size
    log.copy_if_long()
    assert path.stat().st_size == before
    write(db, log, LOG_FRAMES * 2)
    log.copy_if_long()
    assert path.stat().st_size > before
    assert log.pause_secs(0) is None
    # The log begins anew: what it held before does not count, though its file is as long as ever.
    db.execute("INSERT OR REPLACE INTO hosts VALUES (1, x'01')")
    log.written()
    after = path.stat().st_size
    assert log.bytes() > LOG_FRAMES * 4096
    log.copy_if_long()
    assert log.pause_secs(0) == PAUSE_SECS
    assert path.stat().st_size == after
    log.close()


def test_a_pause_is_used_for_a_log_that_is_worth_it(db: sqlite3.Connection, tmp_path: Path) -> None:
    log = Log(db, str(tmp_path / "yard.db"))
    write(db, log, 10)
    log.copy_in_pause(PAUSE_SECS)
    assert log.pause_secs(PAUSE_SECS) == QUIET_SECS - PAUSE_SECS
    log.copy_in_pause(QUIET_SECS)
    assert log.pause_secs(QUIET_SECS) is None
    write(db, log, 2 * IDLE_FRAMES)
    log.copy_in_pause(PAUSE_SECS)
    assert log.pause_secs(PAUSE_SECS) is None
    log.close()


def in_tail(db: sqlite3.Connection) -> int:
    """How many rows of output have not been moved."""
    found: int = db.execute("SELECT count(*) FROM output_tail").fetchone()[0]
    return found


def test_short_output_is_moved_where_there_is_much_of_it_and_room(db: sqlite3.Connection, tmp_path: Path) -> None:
    path = str(tmp_path / "yard.db")
    rows = YardRows(db, path, Log(db, path), Ballast(path, 0, 0), statements())

    def say(number: int) -> None:
        output = [(key, number, number, b"short") for key in range(MOVED_IN_PAUSE)]
        rows.commit(number, 1.0, [], [], [], [*output, (7, MOVED_IN_PAUSE + number, 0, bytes(2000))])

    say(1)
    rows.move_output()
    assert in_tail(db) == MOVED_IN_PAUSE, "long rows are not in it"
    db.execute(f"PRAGMA max_page_count = {pragma(db, 'page_count')}")
    rows.move_output(MOVED_IN_PAUSE)
    assert in_tail(db) == MOVED_IN_PAUSE, "there is no room"
    db.execute("PRAGMA max_page_count = 100000")
    rows.move_output(MOVED_IN_PAUSE)
    assert in_tail(db) == MOVED_IN_PAUSE, "it is not tried again before there is more"
    say(2)
    rows.move_output(MOVED_IN_PAUSE)
    assert in_tail(db) == 0
    assert [row[1] for row in rows.output(7, 0, 1 << 20)] == [1, 2, MOVED_IN_PAUSE + 1, MOVED_IN_PAUSE + 2]


async def test_a_store_moves_output_while_commits_come_and_shows_it_as_before(tmp_path: Path) -> None:
    path = tmp_path / "yard.db"
    store = SqliteStore(str(path), ballast_bytes=0)
    await store.open()
    groups = [
        said(number, *((seq % 50, number << 20 | seq, b"short") for seq in range(MOVED_ROWS))) for number in (1, 2)
    ]
    groups[1].outputs.pop()
    for group in groups:
        await store.commit(group)
    rows = groups[0].outputs + groups[1].outputs
    assert await outputs_of(store) == sorted(rows)
    assert (await store.stats()).rows["output"] == len(rows)
    await store.close()
    with sqlite3.connect(path) as db:
        assert in_tail(db) < MOVED_ROWS
    db.close()


def test_a_ballast_is_made_only_where_there_is_room(tmp_path: Path) -> None:
    path = str(tmp_path / "yard.db")
    ballast = tmp_path / "yard.db.ballast"
    Ballast(path, 1 << 20, 1 << 60).look_after()
    assert not ballast.exists()
    kept = Ballast(path, 1 << 20, 0)
    kept.look_after()
    assert ballast.stat().st_size == 1 << 20
    assert kept.give_up()
    assert not ballast.exists()
    assert not kept.give_up()
    kept.look_after()
    assert ballast.exists()
    assert 0 < kept.free_bytes() == os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize


async def test_the_log_stays_bounded_while_commits_come_without_a_pause(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"), synchronous="normal")
    await store.open()
    for number in range(1, 3000):
        group = submitted(number, number)
        group.put(Table.AGENTS, number % 97, bytes(8000))
        await store.commit(group)
    assert (tmp_path / "yard.db-wal").stat().st_size < 2 * LOG_FRAMES * 4120
    await store.close()


def test_the_loop_turns_while_a_large_group_is_sent(tmp_path: Path) -> None:
    async def commit_large_ones() -> int:
        store = SqliteStore(str(tmp_path / "yard.db"))
        await store.open()
        group = submitted(1, 1)
        for key in range(20):
            group.put(Table.AGENTS, key, os.urandom(1 << 20))
        commit = asyncio.ensure_future(store.commit(group))
        turns = 0
        while not commit.done():
            await asyncio.sleep(0)
            turns += 1
        await commit
        assert await rows_of(store, Table.AGENTS) == group.puts[Table.AGENTS]
        assert len(await live(store)) == 1
        await store.close()
        return turns

    assert asyncio.run(commit_large_ones()) > 100
    (tmp_path / "yard.db").unlink()
    assert uvloop.run(commit_large_ones()) > 100
