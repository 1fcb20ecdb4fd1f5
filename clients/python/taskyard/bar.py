"""A bar that shows at a terminal how far a map is."""

from __future__ import annotations

import sys
import time
from typing import Final

WIDTH: Final = 30
EVERY_SECS: Final = 0.1


class Bar:
    """A line at the end of standard error, drawn anew as outcomes come. Without a terminal nothing is shown.

    Args:
        total: How many outcomes there will be, None if that is not known.
    """

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._done = self._failed = 0
        self._is_shown = sys.stderr.isatty()
        self._begun = time.monotonic()
        self._drawn_at = 0.0

    def add(self, is_done: bool) -> None:
        """Count an outcome.

        Args:
            is_done: Whether its task is done.
        """
        self._done += 1
        self._failed += not is_done
        if self._is_shown and time.monotonic() - self._drawn_at >= EVERY_SECS:
            self._draw()

    def close(self) -> None:
        """Draw the last state, and end the line."""
        if self._is_shown and self._done:
            self._draw()
            print(file=sys.stderr, flush=True)
        self._is_shown = False

    def text(self) -> str:
        """Say how far it is.

        Returns:
            The line.
        """
        secs = max(time.monotonic() - self._begun, 1e-9)
        failed = f", {self._failed} failed" if self._failed else ""
        rate = f"{self._done / secs:,.0f}/s{failed}"
        if self._total is None:
            return f"{self._done:,} tasks, {rate}"
        filled = WIDTH * self._done // max(self._total, 1)
        return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {self._done:,} of {self._total:,}, {rate}"

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        print(f"\r{self.text()}\x1b[K", end="", file=sys.stderr, flush=True)
