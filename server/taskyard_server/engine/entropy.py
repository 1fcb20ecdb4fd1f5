"""Random bits for ids: repeatable ones for tests, cheap ones, and such as nobody can compute from others.

Anyone who sees a few hundred numbers of Python's own generator can compute all that follow and those in between.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Final

ID_BYTES: Final = 5
BLOCK_BYTES: Final = 1_000 * ID_BYTES


def entropy(seed: int | None, private: bool) -> Callable[[], int]:
    """Forty random bits a call. If `private`, and no `seed` makes them repeatable, they come from the system."""
    if private and seed is None:
        return SystemBits()
    draw = random.Random(seed)
    return lambda: draw.getrandbits(8 * ID_BYTES)


class SystemBits:
    """Forty bits a call of the system's randomness, which is read in blocks since each call of the system costs."""

    __slots__ = ("_block", "_used")

    def __init__(self) -> None:
        self._block = b""
        self._used = BLOCK_BYTES

    def __call__(self) -> int:
        begin = self._used
        if begin >= BLOCK_BYTES:
            self._block, begin = os.urandom(BLOCK_BYTES), 0
        self._used = end = begin + ID_BYTES
        return int.from_bytes(self._block[begin:end])
