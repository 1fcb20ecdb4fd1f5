"""Power cuts: all processes are killed at once, and the disk keeps what was synced, and of the rest what chance leaves.

`SEED` chooses when and what, `CUTS` how often. A disk that lies about syncs is beyond what can be tested here.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from taskyard.v1.task_pb2 import ListTasksRequest
from tests.environment import without_settings

from .checker import told
from .crew import Crew, Size
from .disk import Disk, Unsynced
from .evidence import Evidence, number_of
from .history import NEVER, FinalState
from .task_rules import tasks_are_unchanged
from .trials import hold_trial, yard_in
from .yard import Yard

SEED = int(os.environ.get("SEED", "1"))
CUTS = int(os.environ.get("CUTS", "10"))
ROWS = 40
INSERTS = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "wal_autocheckpoint=10", "synchronous=" + sys.argv[2]):
    db.execute("PRAGMA " + pragma)
db.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, data BLOB)")
first = db.execute("SELECT coalesce(max(number), 0) FROM rows").fetchone()[0]
for number in range(first + 1, first + 41):
    db.execute("INSERT INTO rows VALUES (?, randomblob(3000))", (number,))
    os.write(1, b"%d\\n" % number)
os._exit(0)
"""
"""Inserts rows one by one, tells each once it is committed, and ends without closing the file."""

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def insert_and_cut(disk: Disk, path: Path, synchronous: str, unsynced: Unsynced, chance: random.Random) -> int:
    """Insert rows, cut the power, and return the last row that was told."""
    command = (sys.executable, "-c", INSERTS, str(path), synchronous)
    environment = without_settings() | disk.environment
    told = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout.split()
    disk.cut(unsynced, chance)
    return int(told[-1])


def rows_in(path: Path) -> int:
    """The number of rows that a copy of the file holds, which must be sound and without gaps."""
    copy = path.with_name("copy")
    for suffix in ("", "-wal", "-journal"):
        (copy.parent / f"copy{suffix}").unlink(missing_ok=True)
        if (beside := Path(f"{path}{suffix}")).exists():
            shutil.copy(beside, f"{copy}{suffix}")
    db = sqlite3.connect(copy)
    try:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if not db.execute("SELECT 1 FROM sqlite_schema").fetchone():
            return 0
        count, last = db.execute("SELECT count(*), coalesce(max(number), 0) FROM rows").fetchone()
    finally:
        db.close()
        for suffix in ("", "-wal", "-shm", "-journal"):
            (copy.parent / f"copy{suffix}").unlink(missing_ok=True)
    assert count == last
    return int(count)


@pytest.mark.parametrize("unsynced", Unsynced)
def test_what_sqlite_commits_with_full_survives_every_cut(tmp_path: Path, unsynced: Unsynced) -> None:
    chance = random.Random(SEED)
    path = tmp_path / "store" / "rows.db"
    path.parent.mkdir()
    disk = Disk(path.parent, tmp_path)
    for _ in range(5):
        assert rows_in(path) if path.exists() else True
        assert insert_and_cut(disk, path, "FULL", unsynced, chance) == rows_in(path)
        disk = Disk(path.parent, tmp_path)


@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_a_cut_loses_what_was_committed_without_a_sync(tmp_path: Path, synchronous: str) -> None:
    path = tmp_path / "store" / "rows.db"
    path.parent.mkdir()
    disk = Disk(path.parent, tmp_path)
    told = insert_and_cut(disk, path, synchronous, Unsynced.NOTHING, random.Random(SEED))
    assert (rows_in(path) if path.exists() else 0) < told == ROWS


async def cut_power(yard: Yard, disk: Disk, unsynced: Unsynced, chance: random.Random) -> str:
    """Kill everything at once, and leave what the disk has. Returns a line about it."""
    await yard.kill("writer", "server")
    await yard.gone()
    return disk.cut(unsynced, chance)


async def cut_again_and_again(yard: Yard, disk: Disk, crews: list[Crew], chance: random.Random) -> Counter[str]:
    """Cut the power and start the yard `CUTS` times; how often each was left on the disk."""
    cuts: Counter[str] = Counter()
    for number in range(CUTS):
        await asyncio.sleep(chance.uniform(0.5, 4.0))
        for crew in crews:
            crew.check()
        unsynced = list(Unsynced)[number % len(Unsynced)]
        print(await cut_power(yard, disk, unsynced, chance))
        cuts[unsynced] += 1
        await yard.start()
    return cuts


@pytest.mark.long
@pytest.mark.timeout(180 + 12 * CUTS)
async def test_with_full_nothing_acknowledged_is_lost_in_a_power_cut(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    (tmp_path / "store").mkdir()
    disk = Disk(tmp_path / "store", tmp_path)
    size = Size(writers=1, stream_hosts=(5,), unary_hosts=(4,), schedules=(1.0,))
    async with yard_in(tmp_path, environment=disk.environment) as yard:
        faults = lambda crews: cut_again_and_again(yard, disk, crews, chance)
        await hold_trial(yard, tmp_path, SEED, faults, (size, size))
