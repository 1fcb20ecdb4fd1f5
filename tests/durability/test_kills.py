"""kill -9 of the server, of the process that writes its store, and of both, again and again, under load.

`SEED` chooses who is killed when, `KILLS` how often. What clients saw decides whether a promise was broken.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from .checker import broken_rules, summary, told
from .crew import Crew, Size
from .yard import Yard

pytestmark = pytest.mark.long

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "20"))
STORE = os.environ.get("STORE", "")
ROOM = 1_000_000
SETTINGS = {
    "scheduler": {
        **dict.fromkeys(
            ("maxQueueSize", "maxPerAgent", "maxPerAgentInflight", "maxInflight", "maxRetainedTasks"), ROOM
        ),
        "resultTTLSec": 36_000,
        "defaultDeadlineSec": 36_000,
        "reconnectGraceSecs": 4,
        "startTimeoutSecs": 3,
        "maxDeliveries": 1_000,
    },
    "daemon": {"maxConcurrent": ROOM, "maxJitterMs": 0},
    "webhooks": {"allowPrivate": True, "secret": "whsec_c2VjcmV0LW9mLXRoZS10ZXN0cy0xMjM0NTY3ODkw"},
}
VICTIMS = (("server",), ("writer",), ("writer", "server"), ("server", "writer"))
SETTLE_SECS = 60.0
QUIET_SECS = 6.0


@asynccontextmanager
async def yard_in(folder: Path, store: str) -> AsyncIterator[Yard]:
    """A yard that serves."""
    yard = Yard(folder, SETTINGS, store)
    await yard.start()
    try:
        yield yard
    finally:
        await yard.stop()


async def kill_again_and_again(yard: Yard, crews: list[Crew], chance: random.Random) -> Counter[str]:
    """Kill and start the yard `KILLS` times; how often each was killed. Some are killed before they serve."""
    kills: Counter[str] = Counter()
    while kills.total() < KILLS:
        await asyncio.sleep(chance.uniform(0.5, 4.0))
        for crew in crews:
            crew.check()
        assert yard.is_running, f"it ended by itself: {yard.last_lines()}"
        victims = chance.choice(VICTIMS)
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


async def let_live(yard: Yard, folder: Path, faults: Callable[[list[Crew]], Awaitable[Counter[str]]]) -> None:
    """Let two namespaces be used while faults happen, let all work be finished, and check what everybody saw."""
    small = Size(writers=1, pause_secs=0.5, stream_hosts=(5,), unary_hosts=(4,), schedules=(1.0,))
    crews = [Crew(yard, "default", folder, SEED, Size()), Crew(yard, "other", folder, SEED + 1, small)]
    began = time.monotonic()
    try:
        for crew in crews:
            await crew.start()
        happened = await faults(crews)
        finals = await asyncio.gather(*(crew.settle(SETTLE_SECS) for crew in crews))
    finally:
        for crew in crews:
            await crew.stop()
    print(f"seed {SEED}: {dict(happened)} in {time.monotonic() - began:.0f} s; starts took {_spread(yard.start_secs)}")
    broken = ""
    for crew, final in zip(crews, finals, strict=True):
        history = crew.history()
        print(f"{summary(history, final)}\nwatches resumed: {[watcher.resumed for watcher in crew.watchers]}")
        broken += told(broken_rules(history, final))
    assert not broken, f"seed {SEED}:\n{broken}"
    assert not any(watcher.cursors_expired for crew in crews for watcher in crew.watchers)
    assert "Traceback" not in yard.log.read_text(errors="replace")


@pytest.mark.timeout(120)
async def test_a_yard_in_memory_that_nobody_kills_breaks_no_promise(tmp_path: Path) -> None:
    async def nothing(_: list[Crew]) -> Counter[str]:
        await asyncio.sleep(QUIET_SECS)
        return Counter()

    async with yard_in(tmp_path, "memory://") as yard:
        await let_live(yard, tmp_path, nothing)


@pytest.mark.timeout(180 + 9 * KILLS)
async def test_no_promise_is_broken_however_often_the_yard_is_killed(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    async with yard_in(tmp_path, STORE) as yard:
        await let_live(yard, tmp_path, lambda crews: kill_again_and_again(yard, crews, chance))


def _spread(secs: list[float]) -> str:
    return f"{min(secs):.1f}, {statistics.median(secs):.1f} and {max(secs):.1f} s (least, median, most)"
