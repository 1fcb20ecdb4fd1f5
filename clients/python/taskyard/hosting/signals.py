"""The signals that hosts of a program take: a first one drains all of them, a second one ends the process.

They are Python's handlers, beside those of event loops: what a program has set by `loop.add_signal_handler` stays, is
called too, and is alone again once the last host has ended.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

SAME_SIGNAL_SECS: Final = 1.0
"""A signal this soon after the first one is the same request: `timeout`, terminals and init processes signal the whole
process group and then the process itself."""
NUMBERS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def draining_by_signals(drain: Callable[[], None]) -> Iterator[None]:
    """Have SIGTERM and SIGINT drain a host for as long as it runs.

    Args:
        drain: Drains the host. It is called by a signal handler, between any two steps of the main thread.

    Yields:
        Nothing.

    Raises:
        RuntimeError: This is not the main thread, and no host of the main thread has taken the signals.
    """
    _shared.add(drain)
    try:
        yield
    finally:
        _shared.remove(drain)


class _Shared:
    """The parts that the hosts of this process share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drains: list[Callable[[], None]] = []
        self._previous: dict[signal.Signals, Any] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the main thread."""
        self._first_at: float | None = None

    def add(self, drain: Callable[[], None]) -> None:
        with self._lock:
            if not self._previous:
                self._take()
            self._drains.append(drain)
        if self._first_at is not None:
            # The program was told to stop already.
            drain()

    def remove(self, drain: Callable[[], None]) -> None:
        with self._lock:
            self._drains.remove(drain)
            if self._drains:
                return
            if threading.current_thread() is threading.main_thread():
                self._give_back()
            elif self._loop is not None:
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._give_back_unless_used)

    def _take(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("handle_signals=True works in the main thread only, since Python handles signals there")
        self._loop, self._first_at = asyncio.get_running_loop(), None
        for number in NUMBERS:
            self._previous[number] = signal.signal(number, self._on_signal)

    def _give_back_unless_used(self) -> None:
        with self._lock:
            if not self._drains:
                self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._previous.items():
            # What the program has set meanwhile stays.
            if handler is not None and signal.getsignal(number) in (self._on_signal, signal.SIG_DFL):
                signal.signal(number, handler)
        self._previous.clear()
        self._loop = self._first_at = None

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self._first_at is None:
            self._first_at = now
            for drain in tuple(self._drains):
                drain()
            # Also where no step of Python follows, as in a long call into C, the second one is to end the process.
            if self._loop is not None:
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._loop.call_later, SAME_SIGNAL_SECS, self._let_end)
        elif now - self._first_at >= SAME_SIGNAL_SECS:
            self._let_end()
            signal.raise_signal(number)

    def _let_end(self) -> None:
        for number in self._previous:
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, signal.SIG_DFL)


_shared: Final = _Shared()
