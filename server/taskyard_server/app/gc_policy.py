"""Keeps the pauses of the garbage collector short, no matter how many tasks live.

A full collection visits every object: with a million tasks it stops the process for a third of a second. Reference
counting alone frees tasks, so each object is visited once: what survives a young collection is frozen, which hides it
from later ones. Cycles among frozen objects are collected only from time to time, and only while few objects live.
Therefore nothing that a call has used may end in a cycle (`tests/services/test_call_garbage.py`).
"""

import asyncio
import gc
import sys
from typing import Final, Literal

YOUNG_OBJECTS: Final = 3_000
"""New objects after which a young collection runs. It takes a millisecond or two: new objects lead to uncached ones."""
YOUNG_COLLECTIONS: Final = 10
"""Young collections after which one visits all objects that are not yet frozen: none, but those of this moment."""
OLD_COLLECTIONS: Final = 10
OLDEST: Final = 2
COLLECT_INTERVAL_SECS: Final = 600.0
MAX_BLOCKS: Final = 600_000
"""Maximum blocks of memory for a full collection, which visits the 150,000 objects in this many in about 30 ms.

A server without tasks has 400,000. Blocks are counted by pools; to count the objects visits each of them, too.
"""


def install() -> None:
    """Put the policy into force, once, after all long-lived modules are imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, OLD_COLLECTIONS)
    if _freeze_survivors not in gc.callbacks:
        gc.callbacks.append(_freeze_survivors)


async def collect_periodically() -> None:
    """Collect frozen objects every `COLLECT_INTERVAL_SECS` until cancelled."""
    while True:
        await asyncio.sleep(COLLECT_INTERVAL_SECS)
        collect_if_small()


def collect_if_small() -> bool:
    """Collect all objects, frozen or not, if that is quick. Returns whether it did."""
    if sys.getallocatedblocks() > MAX_BLOCKS:
        return False
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    return True


def _freeze_survivors(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] < OLDEST:
        gc.freeze()
