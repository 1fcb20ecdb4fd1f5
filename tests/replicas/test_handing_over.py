"""Replicas that are upgraded and drained in order: no call of the SDK fails, no lease is lost, nothing pauses.

One after the other is stopped as the last release and started as this tree; then one is drained. `SEED` chooses which
comes first, `ROUNDS` how often each of three is stopped and drained besides; without it there are two. Calls are
repeated by the SDKs of both alone.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.durability.crew import Size
from tests.durability.history import Reading
from tests.durability.sdk_agent import SdkAgent
from tests.durability.test_upgrade import is_paused, late_reports, leases_lost, tell_pauses, told_of, untuned
from tools.releases import Installed

from .cluster import Cluster
from .trial import hold_trial

pytestmark = [pytest.mark.gate("three servers and PostgreSQL"), pytest.mark.long]

SEED = int(os.environ.get("SEED", "1"))
ROUNDS = int(os.environ.get("ROUNDS", "0"))
SIZE = Size(
    kinds=(SdkAgent,), writers=3, pause_secs=0.3, stream_hosts=(10, 60), unary_hosts=(), schedules=(2.0,), moves=False
)
NAMESPACES = ("default", "second", "third")
CALM_SECS = 1.0


@pytest.mark.timeout(240 + 120 * ROUNDS)
async def test_a_rolling_upgrade_loses_no_lease_pauses_nothing_and_fails_no_call(
    tmp_path: Path, release: Installed, present: Installed
) -> None:
    chance, spans = random.Random(SEED), list[tuple[float, float]]()

    async def hand_over(cluster: Cluster, check: Callable[[], None]) -> Counter[str]:
        upgraded = chance.sample(cluster.members, len(cluster.members))
        for member in upgraded * (1 + ROUNDS):
            await asyncio.sleep(CALM_SECS)
            check()
            began = time.monotonic()
            await member.yard.terminate()
            assert member.yard.exit_code == 0, member.yard.last_lines()
            member.yard.python = present.python
            await member.start()
            spans.append((began, time.monotonic()))
        drained = upgraded * ROUNDS or upgraded[:1]
        for member in drained:
            await asyncio.sleep(CALM_SECS)
            check()
            began = time.monotonic()
            await cluster.ask_of_replica("drain", member.name)
            await asyncio.sleep(CALM_SECS)
            await cluster.ask_of_replica("resume", member.name)
            spans.append((began, time.monotonic()))
        return Counter(upgrades=len(upgraded), restarts=len(upgraded) * ROUNDS, drains=len(drained))

    given = untuned() | {"store": {"failoverSecs": 10}}
    sizes = dict.fromkeys(NAMESPACES, SIZE) | {"default": replace(SIZE, release=release)}
    seen = await hold_trial(tmp_path, SEED, hand_over, sizes, given, release.python, replicas=3 if ROUNDS else 2)
    for history, _ in seen:
        tell_pauses(history, spans)
    assert {"released-agent", "stream_host-1"} <= {each.who for each in seen[0][0]}
    for history, final in seen:
        lost = leases_lost(history, final)
        assert not lost, told_of(lost, history, final)
        assert [each for each in history if isinstance(each, Reading) and is_paused(each)] == []
        assert (final.stats["metrics"].get("leasesExpired", 0), late_reports(history, final)) == (0, 0)
