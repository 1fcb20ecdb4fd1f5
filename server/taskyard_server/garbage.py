"""Keeps the garbage collector's pauses short, however many tasks live.

A full collection walks every object: with a million tasks it stops the process for a third of a second. Tasks are
freed by reference counting alone, so what has survived two young collections is frozen, which hides it from later ones.
Cycles among frozen objects are collected now and then, while little is alive; so what a call has used must not end in
one (`tests/services/test_what_calls_leave.py`).
"""

import asyncio
import gc
from typing import Final, Literal

YOUNG: Final = 1_000
TWICE: Final = 2
"""A young collection walks up to so many objects, a second one after so many of these all that are new since the last.

Each takes a millisecond or two, since new objects lead to old ones that are in no cache.
"""
TIDY_SECS: Final = 600.0
SMALL: Final = 300_000
"""So many tracked objects are walked within about 20 ms."""


def tame() -> None:
    """Put the policy in force, once, after everything long-lived was imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, TWICE, 10)
    if _freeze_survivors not in gc.callbacks:
        gc.callbacks.append(_freeze_survivors)


async def keep_tidy() -> None:
    """Collect what was frozen, every so often, until cancelled."""
    while True:
        await asyncio.sleep(TIDY_SECS)
        collect_if_small()


def collect_if_small() -> bool:
    """Collect everything, frozen or not, if that is quick; whether it was done."""
    if gc.get_freeze_count() > SMALL:
        return False
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    return True


def _freeze_survivors(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 1:
        gc.freeze()
