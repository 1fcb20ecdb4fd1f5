"""The time that the tasks of one agent were in flight in the last ten minutes, added up by minutes."""

from __future__ import annotations

from typing import Final

MINUTE: Final = 60.0
MINUTES: Final = 10


class SlotTime:
    """The seconds that tasks of one agent were in flight, in each of the last minutes."""

    __slots__ = ("_before", "_end", "_secs")

    def __init__(self) -> None:
        # The minute that was looked at last: when it ends, 0 if there was none, and its seconds; and those of the
        # minutes before.
        self._end = self._secs = 0.0
        self._before: list[float] = []

    def add_time(self, begun: float, ended: float) -> None:
        """A task was in flight from one time to another, which is no earlier than any before."""
        if ended < self._end and begun >= self._end - MINUTE:
            self._secs += ended - begun
        else:
            self._add_to_minutes(begun, ended)

    def _add_to_minutes(self, begun: float, ended: float) -> None:
        """As `add_time`, of a task that was not in flight in the minute alone that was looked at last."""
        if ended >= self._end:
            self._go_on(ended)
        start = self._end - MINUTE
        if begun >= start:
            self._secs += ended - begun
            return
        self._secs += max(0.0, ended - start)
        end = start
        for at, secs in enumerate(self._before):
            if begun < end:
                self._before[at] = secs + end - max(begun, end - MINUTE)
            end -= MINUTE
        while begun < end and len(self._before) < MINUTES:
            self._before.append(end - max(begun, end - MINUTE))
            end -= MINUTE

    def total(self, now: float) -> float:
        """The seconds of the last ten minutes, and of as much of a minute as has passed since the last full one."""
        if now >= self._end:
            self._go_on(now)
        return self._secs + sum(self._before)

    def _go_on(self, now: float) -> None:
        end = now // MINUTE * MINUTE + MINUTE
        if self._end:
            passed = round((end - self._end) / MINUTE)
            self._before = [*[0.0] * min(passed - 1, MINUTES), self._secs, *self._before][:MINUTES]
        self._end, self._secs = end, 0.0
