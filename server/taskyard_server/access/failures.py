"""Delays the answers to wrong credentials, the longer the more have come from the same address.

A right credential is never delayed, whatever came from its address before: an address may be a whole office.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger(__name__)

FIRST_DELAY_SECS: Final = 0.05
LONGEST_DELAY_SECS: Final = 2.0
MEMORY_SECS: Final = 60.0
"""An address is forgotten once nothing wrong has come from it for so long, and named in the log as often."""
MAX_ADDRESSES: Final = 10_000
MAX_WAITING: Final = 1_000
"""Answers that are delayed at once; further ones leave at once, so that they cost nothing."""


class _Address:
    __slots__ = ("count", "last", "logged_at", "unlogged")

    def __init__(self) -> None:
        self.count = 0
        self.last = 0.0
        self.logged_at = float("-inf")
        self.unlogged = 0


class Failures:
    """Wrong credentials by address. `clock` is in seconds; `total` counts them all, `noted` is told each address."""

    def __init__(self, clock: Callable[[], float], noted: Callable[[str], None] | None = None) -> None:
        self.total = 0
        self._clock = clock
        self._noted = noted
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._waiting = 0

    def note(self, address: str) -> float:
        """Count a wrong credential. Returns for how many seconds its answer is to be delayed."""
        now = self._clock()
        found = self._addresses.pop(address, None)
        if found is None or now - found.last > MEMORY_SECS:
            found = _Address()
        self._addresses[address] = found
        if len(self._addresses) > MAX_ADDRESSES:
            self._addresses.popitem(last=False)
        self.total += 1
        found.count += 1
        found.unlogged += 1
        found.last = now
        if self._noted is not None:
            self._noted(address)
        if now - found.logged_at >= MEMORY_SECS:
            log.warning("credentials_refused", address=address, count=found.unlogged)
            found.logged_at, found.unlogged = now, 0
        return float(min(FIRST_DELAY_SECS * 2 ** min(found.count - 1, 20), LONGEST_DELAY_SECS))

    async def delay(self, address: str) -> None:
        """Count a wrong credential, and wait as long as its answer is to be delayed."""
        secs = self.note(address)
        if self._waiting >= MAX_WAITING:
            return
        self._waiting += 1
        try:
            await asyncio.sleep(secs)
        finally:
            self._waiting -= 1
