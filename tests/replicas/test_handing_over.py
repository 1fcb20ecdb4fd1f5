"""Replicas that are stopped, started and drained in order: no call of the SDK fails, no lease is lost, nothing pauses.

`SEED` chooses when, `ROUNDS` how often each replica is stopped and drained; without it one of them is, once. Calls are
repeated by the SDK alone.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.durability.crew import Size
from tests.durability.history import Reading
from tests.durability.sdk_agent import SdkAgent
from tests.durability.test_upgrade import is_paused, late_reports, leases_lost, tell_pauses, told_of, untuned

from .cluster import Cluster
from .trial import hold_trial

pytestmark = [pytest.mark.gate("three servers and PostgreSQL"), pytest.mark.long]

SEED = int(os.environ.get("SEED", "1"))
ROUNDS = int(os.environ.get("ROUNDS", "0"))
SIZE = Size(
    kinds=(SdkAgent,), writers=3, pause_secs=0.3, stream_hosts=(10, 60), unary_hosts=(), schedules=(2.0,), moves=False
)
NAMESPACES = ("default", "second", "third", "fourth")
CALM_SECS = 1.0


@pytest.mark.timeout(240 + 120 * ROUNDS)
async def test_a_hand_over_loses_no_lease_pauses_nothing_and_fails_no_call(tmp_path: Path) -> None:
    chance, spans = random.Random(SEED), list[tuple[float, float]]()

    async def hand_over(cluster: Cluster, check: Callable[[], None]) -> Counter[str]:
        members = chance.sample(cluster.members, len(cluster.members)) * ROUNDS or [chance.choice(cluster.members)]
        for member in members:
            await asyncio.sleep(CALM_SECS)
            check()
            began = time.monotonic()
            await member.yard.terminate()
            assert member.yard.exit_code == 0, member.yard.last_lines()
            await member.start()
            spans.append((began, time.monotonic()))
        for member in members:
            await asyncio.sleep(CALM_SECS)
            check()
            began = time.monotonic()
            await cluster.ask_of_replica("drain", member.name)
            await asyncio.sleep(CALM_SECS)
            await cluster.ask_of_replica("resume", member.name)
            spans.append((began, time.monotonic()))
        return Counter(restarts=len(members), drains=len(members))

    given = untuned() | {"store": {"failoverSecs": 10}}
    seen = await hold_trial(tmp_path, SEED, hand_over, dict.fromkeys(NAMESPACES, SIZE), given)
    for history, _ in seen:
        tell_pauses(history, spans)
    for history, final in seen:
        lost = leases_lost(history, final)
        assert not lost, told_of(lost, history, final)
        assert [each for each in history if isinstance(each, Reading) and is_paused(each)] == []
        assert (final.stats["metrics"].get("leasesExpired", 0), late_reports(history, final)) == (0, 0)
