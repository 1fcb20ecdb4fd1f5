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

from tests.environment import without_settings

from .disk import Disk, Unsynced

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
