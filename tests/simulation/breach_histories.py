"""Histories that must show a broken rule, begun with the one that shows it soonest.

`seen_first.json` names that one for each breach. It decides the order alone: where it shows the breach no longer,
another must, which takes longer. To look for the soonest of each anew:

    UPDATE=1 pytest -m mutation tests/simulation
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .simulator import Mismatch

NEVER = sys.maxsize
FURTHER = range(10_000, 10_400)
"""Seeds that are played where those of a kind do not show a breach: what a history does changes with the simulation."""

_FILE = Path(__file__).with_name("seen_first.json")
_SEEN_FIRST: dict[str, int] = json.loads(_FILE.read_text())
_IS_UPDATE = bool(os.environ.get("UPDATE"))


@dataclass(frozen=True)
class Histories:
    """Short histories of a kind of simulation, one a seed."""

    kind: Any
    seeds: Sequence[int]
    steps: int
    options: dict[str, Any] = field(default_factory=lambda: {"recount_every": NEVER})

    def play(self, breach: str | None = None) -> int:
        """Play all, and return how many steps that were; raises `Mismatch` for the first in which a rule is broken.

        The text of the breach decides where to begin.
        """
        if _IS_UPDATE and breach is not None:
            self._look_for(breach)
        steps = 0
        seeds = self.seeds if breach is None else [*self.seeds, *FURTHER]
        for seed in soonest_first(breach, seeds):
            simulation = self.kind(seed, **self.options)
            try:
                simulation.run(self.steps)
            except Mismatch as mismatch:
                mismatch.add_note(f"caught after {steps + simulation.steps} steps")
                raise
            steps += simulation.steps
        return steps

    def _look_for(self, breach: str) -> None:
        soonest, steps = None, self.steps
        for seed in [*self.seeds, *FURTHER]:
            if soonest is not None and seed in FURTHER:
                break
            try:
                self.kind(seed, **self.options).run(steps)
            except Mismatch as mismatch:
                soonest, steps = seed, mismatch.step - 1
        if soonest is not None:
            note(breach, soonest)


def soonest_first(breach: str | None, seeds: Iterable[int]) -> list[int]:
    """The seeds in their order, but for the one that is known to show this breach."""
    known = None if breach is None else _SEEN_FIRST.get(breach)
    return sorted(seeds, key=lambda seed: seed != known)


def note(breach: str, seed: int) -> None:
    """Where histories are looked for anew, keep that this one shows the breach."""
    if _IS_UPDATE:
        _SEEN_FIRST[breach] = seed
        _FILE.write_text(json.dumps(_SEEN_FIRST, indent=0, sort_keys=True) + "\n")
