"""A SQLite store on a disk that is full or fails, and with a writer that is killed."""

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

import pytest
import structlog

from taskyard_server.store.port import CommitDelayed, Group, StoreError, Table, key_of
from taskyard_server.store.sqlite.store import SqliteStore
from tests.store.groups import ended, live, outputs_of, said, submitted

HERE = Path(__file__).parent
SERVER = HERE.parents[2] / "server"
BALLAST = 1 << 16


def store_with(fault: str, value: object, folder: Path) -> SqliteStore:
    command = (sys.executable, "-I", "-S", str(HERE / "faulty_writer.py"), fault, str(value), str(SERVER))
    path = str(folder / "yard.db")
    return SqliteStore(path, min_free_bytes=0, ballast_bytes=BALLAST, command=command)


def large(number: int, *seqs: int) -> Group:
    group = submitted(number, *seqs)
    group.puts[Table.TASKS] = [(key, bytes(100_000)) for key, _ in group.puts[Table.TASKS]]
    return group


async def test_a_full_disk_delays_a_commit_and_is_read_from_meanwhile(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.write_text("60")
    store = store_with("small disk", room, tmp_path)
    await store.open()
    try:
        await store.commit(submitted(1, 1))
        with pytest.raises(CommitDelayed, match=r"yard\.db: the disk is full; make room"):
            await store.commit(large(2, *range(2, 12)))
        with pytest.raises(CommitDelayed):
            await store.commit(large(2, *range(2, 12)))
        assert [row.key for row in await live(store)] == [key_of(1, 1)]
        room.write_text("100000")
        await store.commit(large(2, *range(2, 12)))
        assert len(await live(store)) == 11
        assert await store.check() == []
    finally:
        await store.close()


async def test_the_ballast_is_given_up_so_that_what_is_under_way_can_end(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.write_text("1000")
    store = store_with("small disk", room, tmp_path)
    await store.open()
    ballast = tmp_path / "yard.db.ballast"
    try:
        await store.commit(submitted(1, 1))
        assert ballast.stat().st_size == BALLAST
        # No page more than there are; with what the ballast leaves there is room for this, once.
        room.write_text("1")
        await store.commit(large(2, 2))
        await store.commit(ended(3, 1, at=5))
        assert not ballast.exists()
        assert await store.forget(6, 10) == 1
    finally:
        await store.close()


async def test_a_disk_that_fails_ends_the_store_for_good(tmp_path: Path) -> None:
    store = store_with("failing disk", 1 << 20, tmp_path)
    await store.open()
    await store.commit(submitted(1, 1))
    with pytest.raises(StoreError, match=r"yard\.db: the disk failed \(SQLITE_IOERR_WRITE\); see the system's log"):
        await store.commit(large(2, *range(2, 30)))
    with pytest.raises(StoreError, match="the disk failed"):
        await store.commit(submitted(2, 2))
    await store.close()
    sound = SqliteStore(str(tmp_path / "yard.db"))
    assert await sound.open() == (1, 1.0, 0)
    assert await sound.check() == []
    await sound.close()


async def test_a_commit_whose_answer_was_lost_is_not_written_again(tmp_path: Path) -> None:
    store = store_with("lost answer", tmp_path / "once", tmp_path)
    await store.open()
    await store.commit(submitted(1, 1))
    assert (await store.stats()).number == 1
    await store.commit(submitted(2, 2))
    assert [row.key for row in await live(store)] == [key_of(1, 1), key_of(1, 2)]
    await store.close()


async def test_a_data_error_ends_the_store_for_good(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"))
    await store.open()
    await store.commit(submitted(1, 1))
    with pytest.raises(StoreError, match="commit 3 came after 1; this is a defect of Taskyard"):
        await store.commit(submitted(3, 2))
    with pytest.raises(StoreError, match="commit 3 came after 1"):
        await store.commit(submitted(2, 2))
    await store.close()
    with pytest.raises(StoreError):
        await store.commit(submitted(2, 2))


async def test_a_file_that_was_removed_ends_the_store_for_good(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"), ballast_bytes=0)
    await store.open()
    (tmp_path / "yard.db").unlink()
    with pytest.raises(StoreError, match=r"yard\.db was removed while it was in use; restore a backup"):
        await store.commit(submitted(1, 1))
    await store.close()


async def test_a_closed_store_does_nothing_more(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"))
    await store.open()
    last = asyncio.ensure_future(store.commit(submitted(1, 1)))
    await asyncio.sleep(0)
    await store.close()
    assert (await last).used_bytes > 0
    with pytest.raises(StoreError, match="is closed"):
        await store.commit(submitted(2, 2))


async def test_a_writer_that_ends_again_and_again_is_given_up(tmp_path: Path) -> None:
    store = store_with("ends", tmp_path / "starts", tmp_path)
    with pytest.raises(StoreError, match=r"its writer process ends again and again \(status 7\)"):
        await store.open()
    assert (tmp_path / "starts").read_text() == "xxx"


async def test_a_writer_that_cannot_be_started_is_a_store_error(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"), command=(str(tmp_path / "nothing"),))
    with pytest.raises(StoreError, match="its writer process cannot be started"):
        await store.open()
    await store.close()


async def test_nothing_acknowledged_is_lost_when_the_writer_is_killed_twenty_times(tmp_path: Path) -> None:
    chance = random.Random(20)
    store = SqliteStore(str(tmp_path / "yard.db"))
    await store.open()
    kills = 0
    number = 0
    while kills < 20:
        number += 1
        group = large(number, number)
        group.outputs = said(number, (number, 1, b"said"), (number, 2, bytes(2000))).outputs
        commit = asyncio.ensure_future(store.commit(group))
        if chance.random() < 0.2 and (pid := store.writer_pid) is not None:
            # Before it is sent whole, while it is written, or after it was.
            await asyncio.sleep(chance.choice((0, 0, 0.001, 0.003)))
            os.kill(pid, signal.SIGKILL)
            kills += 1
            # What is asked meanwhile is asked again of the next one, after the group.
            assert await store.task(key_of(1, number)) is not None
        await commit
    assert [row.key for row in await live(store)] == [key_of(1, seq) for seq in range(1, number + 1)]
    assert [row.first for row in await outputs_of(store)] == [1, 2] * number
    assert (await store.stats()).number == number
    assert await store.check() == []
    await store.close()


async def test_a_writer_that_is_killed_is_told_of_in_the_log(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"))
    await store.open()
    assert store.writer_pid is not None
    with structlog.testing.capture_logs() as lines:
        os.kill(store.writer_pid, signal.SIGKILL)
        await store.commit(submitted(1, 1))
    (line,) = lines
    assert (line["event"], line["log_level"], line["status"]) == ("store_writer_died", "warning", -signal.SIGKILL)
    await store.close()


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "yard.db"
    script = (
        "import asyncio, sys\n"
        "from taskyard_server.store.sqlite.store import SqliteStore\n"
        "from tests.store.groups import submitted\n"
        "async def main():\n"
        "    store = SqliteStore(sys.argv[1])\n"
        "    number = (await store.open()).number\n"
        "    while True:\n"
        "        number += 1\n"
        "        await store.commit(submitted(number, number))\n"
        "        print(number, flush=True)\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    last = 0
    for _ in range(3):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, str(path), stdout=asyncio.subprocess.PIPE, env=environment
        )
        assert process.stdout is not None
        for _ in range(50):
            last = int(await process.stdout.readline())
        process.kill()
        printed = (await process.stdout.read()).split(b"\n")[:-1]
        last = int(printed[-1]) if printed else last
        await process.wait()
        # At once: it waits for the writer of the one that was killed.
        store = SqliteStore(str(path))
        kept = await store.open()
        assert kept.number in (last, last + 1)
        assert [row.key for row in await live(store)] == [key_of(1, seq) for seq in range(1, kept.number + 1)]
        await store.close()
