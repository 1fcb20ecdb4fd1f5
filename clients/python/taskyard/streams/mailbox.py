"""Items that other threads leave for an event loop, which takes all that has come at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Carries items from any thread to an event loop, in their order.

    To wake a loop costs more than most of what is carried, so it is done once for all items that come meanwhile.

    Args:
        loop: The event loop.
        take: Called in the loop with the items that have come.
    """

    __slots__ = ("_is_awaited", "_items", "_loop", "_take")

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[list[T]], None]) -> None:
        self._loop = loop
        self._take = take
        self._items: deque[T] = deque()
        self._is_awaited = False

    def put(self, item: T) -> None:
        """Leave an item. It is lost if the loop is closed.

        Args:
            item: The item.
        """
        self._items.append(item)
        if not self._is_awaited:
            self._is_awaited = True
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.empty)

    def empty(self) -> None:
        """Have the items taken that have come until now. Called in the loop.

        It does so by itself soon; this is for one who must not come before them.
        """
        # First this: what comes from now on wakes the loop again.
        self._is_awaited = False
        items: list[T] = []
        while self._items:
            items.append(self._items.popleft())
        if items:
            self._take(items)
