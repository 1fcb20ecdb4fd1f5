"""Backups of a SQLite store, its check, and a backup that takes its place."""

import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from taskyard_server.store.port import EPOCH_JUMP, BackupFailed, StoreError, Table, key_of
from taskyard_server.store.sqlite.restore import restore
from taskyard_server.store.sqlite.store import SqliteStore
from tests.store.groups import ended, live, said, submitted


async def filled(path: Path, tasks: int = 3, commits: int = 1) -> None:
    store = SqliteStore(str(path), ballast_bytes=0)
    number = (await store.open()).number
    for _ in range(commits):
        number += 1
        await store.commit(submitted(number, *range(number * tasks, (number + 1) * tasks)))
    await store.close()


async def test_a_backup_is_the_store_as_of_one_commit_while_commits_go_on(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"))
    await store.open()
    first = submitted(1, *range(1000))
    first.puts[Table.TASKS] = [(key, os.urandom(10_000)) for key, _ in first.puts[Table.TASKS]]
    await store.commit(first)
    backup = asyncio.ensure_future(store.backup(str(tmp_path / "backup.db")))
    number = 1
    while not backup.done():
        number += 1
        # Each commit changes a page at either end.
        group = ended(number, number, at=number)
        group.put(Table.STATES, key_of(1, 1_000_000), b"%d" % number)
        group.put(Table.TASKS, key_of(1, 1_000_000), b"")
        await store.commit(group)
    await backup
    assert number > 2
    await store.commit(submitted(number + 1, 2_000_000))
    await store.close()
    assert sorted(os.listdir(tmp_path)) == ["backup.db", "yard.db", "yard.db.ballast"]
    copy = SqliteStore(str(tmp_path / "backup.db"))
    kept = await copy.open()
    assert 1 <= kept.number <= number
    states = {row.key: row.state for row in await live(copy)}
    assert len(states) == 1000 - (kept.number - 1) + (kept.number > 1)
    assert states.get(key_of(1, 1_000_000), b"1") == b"%d" % kept.number
    assert await copy.check() == []
    await copy.close()


async def test_a_backup_is_a_file_by_itself_that_its_owner_alone_reads(tmp_path: Path) -> None:
    await filled(tmp_path / "yard.db")
    store = SqliteStore(str(tmp_path / "yard.db"))
    await store.open()
    await store.backup(str(tmp_path / "backup.db"))
    await store.close()
    assert stat.S_IMODE((tmp_path / "backup.db").stat().st_mode) == 0o600
    with sqlite3.connect(tmp_path / "backup.db") as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert sorted(os.listdir(tmp_path)) == ["backup.db", "yard.db", "yard.db.ballast"]


async def test_a_backup_refuses_a_file_that_is_there_unless_told(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"))
    await store.open()
    path = tmp_path / "backup.db"
    path.write_text("mine")
    with pytest.raises(BackupFailed, match=r"backup\.db is there already; remove it, or name another file"):
        await store.backup(str(path))
    assert path.read_text() == "mine"
    await store.backup(str(path), replace=True)
    assert path.read_bytes().startswith(b"SQLite format 3\0")
    for name, words in (
        (tmp_path / "yard.db", "is the store itself"),
        (tmp_path / "none" / "backup.db", "cannot be written: No such file or directory; make its folder"),
    ):
        with pytest.raises(BackupFailed, match=words):
            await store.backup(str(name), replace=True)
    await store.commit(submitted(1, 1))
    await store.close()


async def test_one_copy_is_made_at_a_time(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"))
    await store.open()
    group = submitted(1, *range(300))
    group.puts[Table.TASKS] = [(key, bytes(100_000)) for key, _ in group.puts[Table.TASKS]]
    await store.commit(group)
    paths = [str(tmp_path / name) for name in ("one", "two")]
    done = await asyncio.gather(*map(store.backup, paths), return_exceptions=True)
    (error,) = filter(None, done)
    assert type(error) is BackupFailed
    assert "is being copied already; try again when that is done" in str(error)
    assert len(set(os.listdir(tmp_path)) & {"one", "two", "one.part", "two.part"}) == 1
    await store.close()


async def test_a_copy_for_which_there_is_no_room_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"), min_free_bytes=1 << 60)
    await store.open()
    for copy in (store.backup(str(tmp_path / "backup.db")), store.check()):
        with pytest.raises(BackupFailed, match="are free; make room, or name another folder"):
            await copy
    await store.commit(submitted(1, 1))
    await store.close()
    assert os.listdir(tmp_path) == ["yard.db"]


async def test_the_check_names_what_must_not_be(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"))
    await store.open()
    group = submitted(1, 1, 2)
    group.puts[Table.STATES] = [(key_of(1, 2), b""), (key_of(1, 3), b"")]
    group.ended = [(key_of(1, 2), 5, b""), (key_of(1, 4), 5, b"")]
    group.put(Table.HOSTS, key_of(7, 1), b"")
    group.outputs = said(1, *((seq, first, b"") for seq in range(1, 28) for first in (1, 2))).outputs
    await store.commit(group)
    assert await store.check() == [
        "task 3 of namespace 1 has a state and no task row",
        "task 4 of namespace 1 has ended and has no task row",
        "task 2 of namespace 1 is live and has ended",
        "task 1 of namespace 1 has neither a state nor an end",
        *(f"task {seq} of namespace 1 has output and no task row" for seq in range(3, 23)),
        "and 5 more, each of which has output and no task row",
        f"namespace 7 has no row, and table hosts has rows of it, the first at key {key_of(7, 1)}",
    ]
    await store.close()


async def test_damage_is_found_by_the_check(tmp_path: Path) -> None:
    path = tmp_path / "yard.db"
    await filled(path, tasks=5000)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(os.urandom(4096))
    store = SqliteStore(str(path))
    await store.open()
    found = await store.check()
    await store.close()
    assert found
    assert all(line and "\n" not in line for line in found)


async def test_a_restored_store_begins_an_epoch_with_numbers_that_jumped(tmp_path: Path) -> None:
    path, backup = tmp_path / "yard.db", tmp_path / "backup.db"
    await filled(backup, commits=3)
    restored = restore(str(backup), str(path))
    assert restored == (3.0, 1, None)
    store = SqliteStore(str(path))
    assert await store.open() == (3 + EPOCH_JUMP, 3.0, 1)
    await store.commit(submitted(4 + EPOCH_JUMP, 99))
    assert len(await live(store)) == 10
    assert await store.check() == []
    await store.close()
    other = SqliteStore(str(backup))
    assert await other.open() == (3, 3.0, 0)
    await other.close()


async def test_the_same_backup_restored_twice_begins_two_epochs(tmp_path: Path) -> None:
    path, backup = tmp_path / "yard.db", tmp_path / "backup.db"
    await filled(backup)
    restore(str(backup), str(path))
    assert restore(str(backup), str(path), replace=True).epoch == 2
    store = SqliteStore(str(path))
    assert await store.open() == (1 + 2 * EPOCH_JUMP, 1.0, 2)
    await store.close()


async def test_what_is_replaced_is_set_aside_whole(tmp_path: Path) -> None:
    path, backup = tmp_path / "yard.db", tmp_path / "backup.db"
    await filled(backup)
    await filled(path, commits=2)
    with pytest.raises(StoreError, match="is there already; say that it is to be replaced, or name another file"):
        restore(str(backup), str(path))
    aside = restore(str(backup), str(path), replace=True).set_aside
    assert aside == f"{path}.replaced-1"
    store = SqliteStore(aside)
    assert (await store.open()).number == 2
    await store.close()
    assert restore(str(backup), str(path), replace=True).set_aside == f"{path}.replaced-2"


async def test_a_damaged_store_is_replaced_with_its_log(tmp_path: Path) -> None:
    path, backup = tmp_path / "yard.db", tmp_path / "backup.db"
    await filled(backup)
    path.write_bytes(b"damaged")
    path.with_name("yard.db-wal").write_bytes(b"its log")
    aside = restore(str(backup), str(path), replace=True).set_aside
    assert aside is not None
    assert Path(aside).read_bytes() == b"damaged"  # noqa: ASYNC240
    assert not path.with_name("yard.db-wal").exists()
    store = SqliteStore(str(path))
    assert (await store.open()).epoch == 1
    await store.close()


async def test_a_store_that_a_server_has_open_is_not_replaced(tmp_path: Path) -> None:
    path, backup = tmp_path / "yard.db", tmp_path / "backup.db"
    await filled(backup)
    store = SqliteStore(str(path))
    await store.open()
    with pytest.raises(StoreError, match=r"yard\.db is in use by another server"):
        restore(str(backup), str(path), replace=True)
    await store.commit(submitted(1, 1))
    await store.close()


@pytest.mark.parametrize("content", [b"something else", b"SQLite format 3\0" + bytes(5000)])
def test_what_is_no_backup_is_not_restored(tmp_path: Path, content: bytes) -> None:
    backup = tmp_path / "backup.db"
    backup.write_bytes(content)
    with pytest.raises(StoreError, match=r"backup\.db is not a file of Taskyard"):
        restore(str(backup), str(tmp_path / "yard.db"))
    with pytest.raises(StoreError, match="missing is no file; name a backup"):
        restore(str(tmp_path / "missing"), str(tmp_path / "yard.db"))
    assert os.listdir(tmp_path) == ["backup.db"]


async def test_a_damaged_backup_is_not_restored(tmp_path: Path) -> None:
    path, backup = tmp_path / "yard.db", tmp_path / "backup.db"
    await filled(path)
    await filled(backup, tasks=5000)
    with backup.open("r+b") as file:
        file.seek(backup.stat().st_size // 2 // 4096 * 4096)
        file.write(os.urandom(4096))
    with pytest.raises(StoreError, match=r"backup\.db is damaged: .*; name another backup"):
        restore(str(backup), str(path), replace=True)
    assert sorted(os.listdir(tmp_path)) == ["backup.db", "yard.db"]
