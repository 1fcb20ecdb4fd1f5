"""Regular looks of an engine: at hosts that are dead, and tasks that no host may run."""

import asyncio
from typing import Final

from taskyard_server.engine.engine import Engine

MAX_LOOK_SECS: Final = 5.0
"""The longest time between two looks for hosts, so that a notice goes soon after they came back."""


async def end_leases_of_the_dead(engine: Engine) -> None:
    """End what dead hosts hold, every so often, until cancelled (docs/rules.md, Orphan sweep)."""
    while True:
        await asyncio.sleep(engine.limits.orphan_check_secs)
        engine.admin.reconcile()


async def look_for_hosts(engine: Engine) -> None:
    """See which tasks no live host may run, until cancelled (docs/rules.md, Why a task waits)."""
    while True:
        await asyncio.sleep(min(MAX_LOOK_SECS, max(0.05, engine.limits.no_host_notice_secs / 4)))
        engine.admin.look_for_hosts()
