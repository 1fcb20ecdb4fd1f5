"""A trial: a yard that is used by everybody in two namespaces while faults happen, and what is decided of it then."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from .checker import broken_rules, summary, told
from .crew import PRESENT, Crew, Size
from .history import Event, FinalState
from .yard import Yard

ROOM: Final = 1_000_000
LIMITS: Final = ("maxQueueSize", "maxPerAgent", "maxPerAgentInflight", "maxInflight", "maxRetainedTasks")
SETTINGS: Final[Mapping[str, Any]] = {
    "scheduler": {
        **dict.fromkeys(LIMITS, ROOM),
        "resultTTLSec": 36_000,
        "defaultDeadlineSec": 36_000,
        "reconnectGraceSecs": 4,
        "startTimeoutSecs": 3,
        "maxDeliveries": 1_000,
    },
    "daemon": {"maxConcurrent": ROOM, "maxJitterMs": 0},
    "webhooks": {"allowPrivate": True, "secret": "whsec_c2VjcmV0LW9mLXRoZS10ZXN0cy0xMjM0NTY3ODkw"},
}
"""Nothing is refused, all stays in memory, and no deadline passes by itself."""
FORGETFUL: Final[Mapping[str, Any]] = {
    **SETTINGS,
    "scheduler": {**SETTINGS["scheduler"], "resultTTLSec": 4, "idempotencySecs": 3_600},
}
"""What has ended leaves the memory soon, and is in the history."""
LARGE: Final = Size()
SMALL: Final = Size(writers=1, pause_secs=0.5, stream_hosts=(5,), unary_hosts=(4,), schedules=(1.0,))
SETTLE_SECS: Final = 60.0
Faults = Callable[[list[Crew]], Awaitable[Counter[str]]]


@asynccontextmanager
async def yard_in(
    folder: Path,
    store: str = "",
    *,
    settings: Mapping[str, Any] = SETTINGS,
    environment: Mapping[str, str] | None = None,
    python: Path = PRESENT.python,
) -> AsyncIterator[Yard]:
    """A yard that serves."""
    yard = Yard(folder, settings, store, environment or {}, python)
    await yard.start()
    try:
        yield yard
    finally:
        await yard.stop()


async def hold_trial(
    yard: Yard, folder: Path, seed: int, faults: Faults, sizes: tuple[Size, Size] = (LARGE, SMALL)
) -> list[tuple[list[Event], FinalState]]:
    """Let faults happen, let all work be finished, and assert that nobody saw a broken promise.

    Returns what was seen in each namespace, and its state in the end.
    """
    crews = [
        Crew(yard, namespace, folder, seed + number, size)
        for number, (namespace, size) in enumerate(zip(("default", "other"), sizes, strict=True))
    ]
    began = time.monotonic()
    try:
        for crew in crews:
            await crew.start()
        happened = await faults(crews)
        ended = time.monotonic()
        finals = await asyncio.gather(*(crew.settle(SETTLE_SECS) for crew in crews))
        if yard.keeps:
            await yard.check_store()
    finally:
        for crew in crews:
            await crew.stop()
    took = f"{ended - began:.0f} s and {time.monotonic() - ended:.0f} s to finish"
    print(f"\nseed {seed}: {dict(happened)} in {took}; starts took {_spread(yard.start_secs)}")
    broken, seen = "", [(crew.history(), final) for crew, final in zip(crews, finals, strict=True)]
    for crew, (history, final) in zip(crews, seen, strict=True):
        print(f"{summary(history, final)}\nwatches went on: {[watcher.resumed for watcher in crew.watchers]}")
        broken += told(broken_rules(history, final))
        broken += "".join("a cursor was not known any more\n" for each in crew.watchers if each.cursors_expired)
    assert not broken, f"seed {seed}:\n{broken}"
    assert "Traceback" not in yard.log.read_text(errors="replace"), yard.log
    return seen


def _spread(secs: list[float]) -> str:
    return f"{min(secs):.1f}, {statistics.median(secs):.1f} and {max(secs):.1f} s (least, median, most)"
