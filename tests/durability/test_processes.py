"""kill -9 of one of several server processes, of their parent, and of what writes their files, again and again.

`SEED` chooses who is killed when, `KILLS` how often. With each start of the parent the number of processes is another
one. What clients saw decides whether a promise was broken.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.waiting import LIMIT_SECS

from .crew import Crew
from .trials import SETTINGS, hold_trial
from .yard import WRITER, Yard

pytestmark = [pytest.mark.deep("several processes of a yard, killed for minutes"), pytest.mark.long]

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "20")) // 2
CHILD = "-m taskyard_server.processes"
VICTIMS = ("process", "process", "process", "process and its writers", "writer", "parent", "parent as it stops")
MOST_PROCESSES = 3


@dataclass
class ManyProcesses(Yard):
    """A yard of several processes."""

    async def begin(self, *flags: str) -> None:
        await super().begin("--processes", str(len(self.start_secs) % MOST_PROCESSES + 1), *flags)

    def processes(self, what: str = CHILD) -> list[psutil.Process]:
        """Those that run now; the newest ones last."""
        self._note_children()
        return [child for child in self._children.values() if _is_a(child, what)]

    async def kill_one(self, what: str, chance: random.Random) -> None:
        """Kill one of its processes, perhaps with the writers of its files, and wait until there are as many again."""
        count = len(self.processes())
        kind = WRITER if what == "writer" else CHILD
        if not (found := self.processes(kind)):
            return
        victim = chance.choice(found)
        below = victim.children(recursive=True) if what.endswith("writers") else []
        for each in (*below, victim):
            with psutil_gone():
                each.send_signal(signal.SIGKILL)
        async with asyncio.timeout(LIMIT_SECS):
            while self.is_running and (victim in self.processes(kind) or len(self.processes()) < count):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


def _is_a(process: psutil.Process, what: str) -> bool:
    with psutil_gone():
        return process.is_running() and what in " ".join(process.cmdline())
    return False


def psutil_gone() -> contextlib.suppress:
    return contextlib.suppress(psutil.Error)


async def kill_again_and_again(yard: ManyProcesses, crews: list[Crew], chance: random.Random) -> Counter[str]:
    """Kill `KILLS` times; how often each was killed. A parent that was killed is started again."""
    kills: Counter[str] = Counter()
    while kills.total() < KILLS:
        await asyncio.sleep(chance.uniform(0.5, 5.0))
        for crew in crews:
            crew.check()
        assert yard.is_running, f"it ended by itself: {yard.last_lines()}"
        victim = chance.choice(VICTIMS)
        kills[victim] += 1
        if victim == "parent":
            await yard.kill("server")
        elif victim == "parent as it stops":
            await yard.kill_while_it_stops(chance.uniform(0, 1.5))
        else:
            await yard.kill_one(victim, chance)
        if not yard.is_running:
            await yard.start()
    return kills


@pytest.mark.timeout(180 + 15 * KILLS)
@pytest.mark.parametrize("kind", ["postgres", "folder"])
async def test_no_promise_is_broken_however_often_processes_are_killed(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    store = f"sqlite:///{tmp_path}/files/" if kind == "folder" else request.getfixturevalue("postgres_url")
    chance = random.Random(SEED)
    yard = ManyProcesses(tmp_path, {**SETTINGS, "store": {"failoverSecs": 5}}, store)
    await yard.start()
    try:
        await hold_trial(yard, tmp_path, SEED, lambda crews: kill_again_and_again(yard, crews, chance))
    finally:
        await yard.stop()
