"""The work of a store since the start: plain counts, which metrics and statistics read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .port import UNKNOWN_BYTES, Committed


@dataclass(slots=True)
class StoreFigures:
    """Counts of commits, of those that had to be repeated, and of rows; the bytes of the last answer.

    `url` is what `store.url` names, without secrets. `observers` are called with the rows and the seconds of each
    commit.
    """

    url: str = ""
    commits: int = 0
    delayed: int = 0
    """Tries of a commit that failed for a reason that may pass."""
    failed: int = 0
    """Commits that failed for good."""
    rows: int = 0
    forgotten: int = 0
    """Ended tasks whose time in the history was over."""
    used_bytes: int = 0
    free_bytes: int = UNKNOWN_BYTES
    load_secs: float = 0.0
    """How long the start took to load what was kept."""
    under_way_since: float | None = None
    """When the present commit was begun, by the clock of the event loop; None while there is none."""
    observers: list[Callable[[int, float], None]] = field(default_factory=list)

    def note(self, rows: int, secs: float, committed: Committed) -> None:
        """A commit of this many rows succeeded after this many seconds."""
        self.commits += 1
        self.rows += rows
        self.measured(committed.used_bytes, committed.free_bytes)
        for observe in self.observers:
            observe(rows, secs)

    def measured(self, used_bytes: int, free_bytes: int) -> None:
        """Take over the bytes of the store, and those that are free beside it."""
        self.used_bytes = used_bytes
        self.free_bytes = free_bytes
