"""What random histories of schedules are made of: how often each command is given, which wishes and limits occur."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final, TypeVar

from .cadences import Beats, Cadence, Once
from .model_records import Bounds, Wish

WEIGHTS: Final = {
    "create": 5,
    "update": 5,
    "delete": 1,
    "pause": 2,
    "resume": 4,
    "trigger": 6,
    "submit": 2,
    "claim": 9,
    "complete": 6,
    "fail": 2,
    "cancel": 2,
    "pause task": 1,
    "resume task": 1,
    "resolve task": 0.5,
    "pass time": 22,
    "advance": 3,
    "stall": 2,
    "jump": 1.5,
    "reconfigure": 2,
    "restart": 0.7,
    "drain": 0.2,
}

LIMITS: Final[dict[str, list[float]]] = {
    "max_queue_size": [1, 3, 8, 30, 1000],
    "max_per_agent": [1, 2, 5, 100],
    "max_inflight": [1, 5, 40],
    "max_per_agent_inflight": [1, 10],
    "result_ttl_secs": [2.0, 30.0, 300.0],
    "default_deadline_secs": [3.0, 60.0, 600.0],
    "lease_secs": [2.0, 20.0, 60.0],
    "max_deliveries": [1, 2, 5],
    "max_concurrent": [1, 2, 5, 5, 20],
    "max_queued_triggers": [1, 2, 5, 5, 100],
    "max_schedules": [2, 1000, 1000, 1000],
    "poll_secs": [1.0, 15.0, 30.0, 30.0],
    "max_jitter_secs": [0.0, 0.25, 5.0, 30.0],
    "jitter_threshold": [0, 1, 3, 3, 1000],
}
FIXED: Final = {"heartbeat_timeout_secs": 1e10, "forget_hosts_secs": 1e12, "max_retained_tasks": 100_000}
BOUNDS: Final = [Bounds(100, 100_000, 1000), Bounds(3, 12, 2), Bounds(8, 30, 4)]

Thing = TypeVar("Thing")


class Chances:
    """The dice of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"schedules of {seed}")
        self.new_mood()

    def new_mood(self) -> None:
        """Another life begins."""
        self._schedules = self.one_of([1, 2, 3, 6, 10])
        self._agents = self.one_of([1, 2, 4])
        self._whole = self.under(0.6)
        self._fickle = self.under(0.3)
        self._favourite = self.one_of([None, None, "skip", "wait", "allow", "replace"])
        often = {"update": 4, "trigger": 2} if self._fickle else {}
        self._weights = [weight * often.get(name, 1) * self.one_of([0.3, 1, 1, 2]) for name, weight in WEIGHTS.items()]

    def under(self, chance: float) -> bool:
        """True with this probability."""
        return self._random.random() < chance

    def one_of(self, things: Sequence[Thing]) -> Thing:
        return self._random.choice(things)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def command(self) -> str:
        return self._random.choices(list(WEIGHTS), self._weights)[0]

    def limits(self) -> dict[str, Any]:
        return {name: self.one_of(values) for name, values in LIMITS.items()} | FIXED

    def new_limits(self) -> dict[str, Any]:
        """Some limits, changed."""
        names = self._random.sample(list(LIMITS), self.one_of([1, 1, 3]))
        return {name: self.one_of(LIMITS[name]) for name in names}

    def secs(self, about: float) -> float:
        """A length of time: in some lives a whole number of 1/1024 s, in others anything."""
        secs = self._random.random() * 2 * about
        return round(secs * 1024) / 1024 + 1 / 1024 if self._whole else secs + 1e-6

    def schedule_id(self) -> str:
        return f"schedule-{self.below(self._schedules)}"

    def agent(self) -> str:
        return f"agent-{self.below(self._agents)}"

    def cadence(self, wall: float) -> Cadence:
        """`wall` is the wall clock's time; some of these have no time left."""
        if self.under(0.12):
            return Once(wall + self.one_of([-5.0, 0.0, self.secs(2), self.secs(100), self.secs(5000)]))
        secs = self.one_of([0.5, 1.0, 1.0, 2.5, 10.0, 10.0, 60.0, 3600.0])
        cycle = self.one_of([1, 1, 1, 2, 7])
        holes = frozenset(self._random.sample(range(cycle), cycle // 2))
        until = wall + self.secs(self.one_of([3, 100])) if self.under(0.05) else None
        offset = self.one_of([0.0, 0.0, 0.5, secs / 3])
        return Beats(secs, offset, self.under(0.6), cycle, holes, until)

    def wish(self, wall: float) -> Wish:
        cadence = self.cadence(wall)
        return Wish(
            cadence,
            self.agent(),
            self.one_of(["do", "do", "make"]),
            self.one_of([0, 0, -1, 3]),
            self.one_of([None, None, 5.0, 100.0, 100.0]) if self.under(0.97) else 0.0,
            self.one_of([1, 1, 1, 3]),
            self.overlap(),
            self.one_of(["last", "last", "all", "all", "none"]),
            self.window(cadence),
        )

    def overlap(self) -> str:
        return self._favourite or self.one_of(["skip", "wait", "allow", "replace"])

    def window(self, cadence: Cadence) -> int:
        """Not so long that the times in it are thousands."""
        return self.one_of([1, 20, 20 * round(cadence.secs + 1)] if isinstance(cadence, Beats) else [0, 100, 86_400])

    def changed(self, wish: Wish, wall: float) -> Wish:
        """The same, but for something."""
        what = 1 if self._fickle and self.under(0.8) else self.below(9)
        if what == 0:
            cadence = self.cadence(wall)
            return replace(wish, cadence=cadence, window=self.window(cadence))
        if what in (1, 7, 8):
            return replace(wish, overlap=self.one_of(["skip", "wait", "allow", "replace"]))
        if what == 2:
            return replace(wish, catch_up=self.one_of(["last", "all", "none"]))
        if what == 3:
            return replace(wish, agent=self.agent(), priority=self.below(5))
        if what == 4:
            return replace(wish, deadline_secs=self.one_of([None, 2.0, 50.0]))
        return replace(wish, window=self.window(wish.cadence)) if what == 5 else wish
