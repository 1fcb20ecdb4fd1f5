"""What happens to the calls of one replica to the store, by chance: they are slow, lost, late, or cut off."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.replicas.shared_dict_store import CUT_OFF, LOST_ANSWER, Fate, late

PATIENCE_SECS = 3.0


@dataclass(slots=True)
class Weather:
    """`slow_secs` is the most that a call takes each way; the others are chances. If `is_deaf` no news come."""

    random: Random
    slow_secs: float = 0.004
    lost_answers: float = 0.0
    late_calls: float = 0.0
    is_cut_off: bool = False
    is_deaf: bool = False

    def fate(self, call: str) -> Fate:
        """The fate of the next call."""
        del call
        draw = self.random
        if self.is_cut_off:
            return CUT_OFF
        chance = draw.random()
        if chance < self.lost_answers:
            return LOST_ANSWER
        if chance < self.lost_answers + self.late_calls:
            return late(draw.uniform(0.3, 6.0), draw.uniform(0.2, 1.0))
        return Fate(self._way(), self._way(), PATIENCE_SECS)

    def news(self) -> float | None:
        """After how many seconds news of a change come; None if they are lost."""
        return None if self.is_deaf or self.is_cut_off else self._way()

    def _way(self) -> float:
        # Most calls are fast, also where some are slow.
        return self.random.uniform(0.0005, self.slow_secs if self.random.random() < 0.5 else 0.004)

    def clear(self) -> None:
        """The store answers at once again."""
        self.slow_secs, self.lost_answers, self.late_calls = 0.004, 0.0, 0.0
        self.is_cut_off = self.is_deaf = False

    def turn(self) -> str:
        """Become bad by chance; what it is now, for people."""
        self.clear()
        kind = self.random.randrange(5)
        if kind == 0:
            self.is_cut_off = True
        elif kind == 1:
            self.slow_secs = self.random.choice([0.2, 1.0, 2.5])
        elif kind == 2:
            self.lost_answers = self.random.choice([0.1, 0.5])
        elif kind == 3:
            self.late_calls = self.random.choice([0.1, 0.5])
        else:
            self.is_deaf = True
            self.slow_secs, self.lost_answers, self.late_calls = 0.5, 0.1, 0.2
        return ["cut off", f"slow by {self.slow_secs}", "answers lost", "calls late", "deaf and bad"][kind]
