"""Keys of a terminal as they are pressed, and nothing of them on the screen."""

from __future__ import annotations

import os
import select
import termios
import tty
from types import TracebackType
from typing import IO, Any, Final

from .state import keys_of

MAX_TYPED: Final = 1024


class KeyReader:
    """Reads keys while it is entered; `wake` ends a `wait` from another thread. Without a terminal there are none."""

    def __init__(self, source: IO[Any] | None) -> None:
        is_there = source is not None and not source.closed and source.isatty()
        self._fd = source.fileno() if is_there and source is not None else None
        self._before: list[Any] | None = None
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)

    def __enter__(self) -> KeyReader:
        if self._fd is not None:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd is not None and self._before is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def wake(self) -> None:
        """End a `wait`, or the next one."""
        try:
            os.write(self._waker, b"\0")
        except BlockingIOError:
            # It is full: anyone who waits is woken anyway.
            return

    def wait(self, secs: float) -> list[str]:
        """The keys that were pressed, after this many seconds at the latest."""
        sources = [self._woken] if self._fd is None else [self._woken, self._fd]
        ready, _, _ = select.select(sources, [], [], secs)
        if self._woken in ready:
            os.read(self._woken, MAX_TYPED)
        if self._fd is None or self._fd not in ready:
            return []
        typed = os.read(self._fd, MAX_TYPED)
        # A terminal that was closed is like one whose user leaves.
        return keys_of(typed.decode(errors="replace")) if typed else ["q"]
