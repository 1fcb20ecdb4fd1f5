"""What the committer and the loader count of a store, for metrics and statistics. It knows neither."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from .port import Committed

Observe: TypeAlias = Callable[[int, float], None]
"""Is told the rows of each commit, and the seconds that it took."""


def _nobody(rows: int, secs: float) -> None:
    del rows, secs


@dataclass(slots=True)
class StoreFigures:
    """Counters since the server started, and the size of the store as of the last commit. `url` has no secrets."""

    url: str
    commits: int = 0
    rows: int = 0
    """Rows written or removed by commits."""
    delayed: int = 0
    """Commits that failed for a reason that may pass; each repeat that fails counts again."""
    failed: int = 0
    """Commits that failed for good."""
    forgotten: int = 0
    """Ended tasks whose time in the history was over."""
    used_bytes: int = 0
    free_bytes: int = 0
    load_secs: float = 0.0
    """How long the start took to load what was kept."""
    observe: Observe = _nobody

    def committed(self, rows: int, committed: Committed) -> None:
        """Count a commit of so many rows."""
        self.commits += 1
        self.rows += rows
        self.measured(committed.used_bytes, committed.free_bytes)
        self.observe(rows, committed.secs)

    def measured(self, used_bytes: int, free_bytes: int) -> None:
        """Take over the size of the store, and what is free beside it."""
        self.used_bytes = used_bytes
        self.free_bytes = free_bytes
