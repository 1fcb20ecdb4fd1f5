"""The work of this replica on namespaces since its start: plain counts, which metrics read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class ReplicaFigures:
    """Counts of namespaces that were made, taken, given up, and lost without being given up.

    `observers` are called with the seconds of each take, from the request to the store until it is served, and of each
    hand-over, from the last command until it is released.
    """

    made: int = 0
    taken: int = 0
    given_up: int = 0
    lost: int = 0
    observers: list[Callable[[str, float], None]] = field(default_factory=list)

    def took(self, secs: float, *, is_new: bool) -> None:
        """One was made or taken, which took this many seconds."""
        if is_new:
            self.made += 1
        else:
            self.taken += 1
        self._observe("take", secs)

    def gave_up(self, secs: float) -> None:
        """One was given up, which took this many seconds."""
        self.given_up += 1
        self._observe("give_up", secs)

    def _observe(self, kind: str, secs: float) -> None:
        for observe in self.observers:
            observe(kind, secs)
