"""Power cuts: all processes are killed at once, and the disk keeps what was synced, and of the rest what chance leaves.

`SEED` chooses when and what, `CUTS` how often. A disk that lies about syncs is beyond what can be tested here.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from taskyard.v1.task_pb2 import ListTasksRequest
from tests.environment import without_settings

from .checker import broken_rules, told
from .crew import Crew
from .disk import Disk, Unsynced
from .doors import Doors
from .evidence import Evidence, number_of
from .history import NEVER, Event, FinalState, Json, Outcome, Recorder, read_events
from .mixture import Mixture
from .task_rules import tasks_are_in_the_order_of_their_submission, tasks_are_unchanged, what_is_lost_is_the_newest
from .trials import SETTINGS, SMALL, hold_trial, yard_in
from .writers import StreamWriter, UnaryWriter
from .yard import Yard

SEED = int(os.environ.get("SEED", "1"))
CUTS = int(os.environ.get("CUTS", "2"))
ROWS = 40
SUBMIT_SECS = 2.0
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

pytestmark = [
    pytest.mark.gate("a C compiler"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
]


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


def disk_in(folder: Path) -> Disk:
    """The disk of a yard whose folder this will be."""
    store = folder / "store"
    store.mkdir()
    return Disk(store, folder)


@pytest.mark.long
@pytest.mark.timeout(180 + 12 * CUTS)
async def test_with_full_nothing_acknowledged_is_lost_in_a_power_cut(tmp_path: Path) -> None:
    chance, disk = random.Random(SEED), disk_in(tmp_path)

    async def cut_again_and_again(crews: list[Crew]) -> Counter[str]:
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

    async with yard_in(tmp_path, environment=disk.environment) as yard:
        await hold_trial(yard, tmp_path, SEED, cut_again_and_again, (SMALL, SMALL))


@asynccontextmanager
async def submitting(doors: Doors, folder: Path, chance: random.Random) -> AsyncIterator[None]:
    """Submit tasks that nobody runs, by calls and over a stream, as fast as they are answered."""
    writing = []
    for kind in (UnaryWriter, StreamWriter):
        name = f"{kind.__name__}-{doors.namespace}"
        writer = kind(doors, Mixture(chance, name, "http://127.0.0.1"), Recorder(folder / name, doors.namespace), 0.001)
        writing.append(asyncio.create_task(writer.run()))
    yield
    for task in writing:
        task.cancel()
    await asyncio.gather(*writing, return_exceptions=True)


def events_of(folder: Path, namespace: str) -> list[Event]:
    """What the writers of a namespace noted."""
    return read_events(folder.glob(f"*-{namespace}"))


async def tasks_of(doors: Doors) -> list[dict[str, Json]]:
    """All tasks of a namespace, in their order."""
    tasks: list[dict[str, Json]] = []
    request = ListTasksRequest()
    while True:
        answer = await doors.call(doors.tasks.ListTasks, request)
        assert answer.outcome is Outcome.ACKNOWLEDGED, answer
        tasks += answer.body.get("tasks", ())
        if "nextPageToken" not in answer.body:
            return tasks
        request.page_token = answer.body["nextPageToken"]


@pytest.mark.long
async def test_with_normal_the_store_is_sound_after_a_power_cut_and_only_the_newest_is_lost(tmp_path: Path) -> None:
    chance, disk = random.Random(SEED), disk_in(tmp_path)
    rules = (what_is_lost_is_the_newest, tasks_are_unchanged, tasks_are_in_the_order_of_their_submission)
    lost, settings = [], {**SETTINGS, "store": {"synchronous": "normal"}}
    async with yard_in(tmp_path, environment=disk.environment, settings=settings) as yard:
        for number, unsynced in enumerate(Unsynced):
            doors = Doors(yard.grpc, yard.rest, f"round-{number}")
            async with submitting(doors, tmp_path, chance):
                await asyncio.sleep(SUBMIT_SECS)
                print(await cut_power(yard, disk, unsynced, chance))
            history = events_of(tmp_path, doors.namespace)
            await yard.start()
            await yard.check_store()
            tasks = await tasks_of(doors)
            await doors.close()
            final = FinalState(at=NEVER, tasks=tasks, triggers=[], stats={}, leases=[])
            broken = broken_rules(history, final, rules)
            assert not broken, told(broken)
            acknowledged = {number for number, each in Evidence(history, final).intents.items() if each.acknowledged}
            lost.append(len(acknowledged - {number_of(task) for task in tasks}))
            print(f"of {len(acknowledged)} acknowledged tasks {lost[-1]} were lost")
    # Else nothing was shown.
    assert any(lost)
