"""What a store has done since the start: plain counts, which metrics read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .port import Committed


@dataclass(slots=True)
class StoreFigures:
    """Counts of commits, of those that had to be repeated, and of rows; the bytes of the last answer.

    `observers` are called with the rows and the seconds of each commit.
    """

    commits: int = 0
    delayed: int = 0
    rows: int = 0
    used_bytes: int = 0
    free_bytes: int = 0
    observers: list[Callable[[int, float], None]] = field(default_factory=list)

    def note(self, rows: int, secs: float, committed: Committed) -> None:
        """A commit of so many rows succeeded after so many seconds."""
        self.commits += 1
        self.rows += rows
        self.used_bytes = committed.used_bytes
        self.free_bytes = committed.free_bytes
        for observe in self.observers:
            observe(rows, secs)
