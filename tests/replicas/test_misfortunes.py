"""Replicas that are killed, stopped, cut off and slowed down break no promise: one short trial.

`SEED` chooses what happens when, `MINUTES` for how long. `python -m tests.replicas.trial` holds longer ones.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from .cluster import Cluster
from .misfortunes import KINDS, Misfortunes
from .trial import hold_trial

pytestmark = [pytest.mark.gate("three servers and PostgreSQL"), pytest.mark.long]

SEED = int(os.environ.get("SEED", "1"))
MINUTES = float(os.environ.get("MINUTES", "0.25"))


@pytest.mark.timeout(300 + 90 * MINUTES)
async def test_no_promise_is_broken_whatever_happens_to_replicas(tmp_path: Path) -> None:
    async def happen(cluster: Cluster, check: Callable[[], None]) -> Counter[str]:
        return await Misfortunes(cluster, random.Random(SEED)).go_on(60 * MINUTES, check, KINDS)

    await hold_trial(tmp_path, SEED, happen)
