"""kill -9 of the server, of the process that writes its store, and of both, again and again, under load.

`SEED` chooses who is killed when, `KILLS` how often: half of it while all that has ended stays in memory, half while it
leaves for the history. What clients saw decides whether a promise was broken.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import spread

from .crew import Crew
from .trials import FORGETFUL, SETTINGS, hold_trial, yard_in
from .yard import Yard

pytestmark = [pytest.mark.gate("whole yards that are killed"), pytest.mark.long]

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "8")) // 2
STOPPING = ("server as it stops",)
VICTIMS = (("server",), ("writer",), ("writer", "server"), ("server", "writer"), STOPPING)
QUIET_SECS = 6.0


async def kill_again_and_again(yard: Yard, crews: list[Crew], chance: random.Random) -> Counter[str]:
    """Kill and start the yard `KILLS` times; how often each was killed. Some are killed before they serve."""
    kills: Counter[str] = Counter()
    while kills.total() < KILLS:
        await asyncio.sleep(chance.uniform(0.5, 4.0))
        for crew in crews:
            crew.check()
        assert yard.is_running, f"it ended by itself: {yard.last_lines()}"
        victims = chance.choice(VICTIMS)
        if victims == STOPPING:
            await yard.kill_while_it_stops(chance.uniform(0, 1.5))
        else:
            await yard.kill(*victims)
        kills["+".join(victims)] += 1
        if yard.is_running:
            continue
        while kills.total() < KILLS and chance.random() < 0.2:
            await yard.begin()
            await asyncio.sleep(chance.uniform(0.1, 2.0))
            if yard.is_running:
                await yard.kill("server")
                kills["server at its start"] += 1
        await yard.start()
    return kills


@pytest.mark.deep("a trial without a kill")
@pytest.mark.timeout(300)
async def test_a_yard_in_memory_that_nobody_kills_breaks_no_promise(tmp_path: Path) -> None:
    async def nothing(_: list[Crew]) -> Counter[str]:
        await asyncio.sleep(QUIET_SECS)
        return Counter()

    async with yard_in(tmp_path, "memory://") as yard:
        await hold_trial(yard, tmp_path, SEED, nothing)


@pytest.mark.timeout(180 + 9 * KILLS)
@pytest.mark.parametrize("settings", spread([FORGETFUL, SETTINGS]), ids=["with history", "all in memory"])
async def test_no_promise_is_broken_however_often_the_yard_is_killed(
    tmp_path: Path, settings: Mapping[str, Any]
) -> None:
    chance = random.Random(SEED)
    async with yard_in(tmp_path, settings=settings) as yard:
        await hold_trial(yard, tmp_path, SEED, lambda crews: kill_again_and_again(yard, crews, chance))
