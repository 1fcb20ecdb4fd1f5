"""A clock that stands still until it is moved, for an engine in a test: what comes due does so when the test says so.

An engine that is given one asks it for the alarm, too. There are no stalls then, and no clock that jumps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class VirtualClock:
    """Seconds since the epoch, from `start` on. An engine that is made later, as after a restart, goes on with it."""

    def __init__(self, start: float) -> None:
        self._now = start
        self.before_move: Callable[[float], None] = lambda _: None
        """Called before the time is moved, with the time to come: what is there now holds until then."""
        self._alarm: VirtualAlarm | None = None

    def __call__(self) -> float:
        """The time."""
        return self._now

    @property
    def due(self) -> float | None:
        """When the engine has next something to do; None while nothing can come due."""
        return None if self._alarm is None else self._alarm.at

    @property
    def is_ringing(self) -> bool:
        """True if the engine is about to do what is due now."""
        return self._alarm is not None and self._alarm.is_ringing

    def move_to(self, at: float) -> None:
        """Show this time, and never an earlier one. What is due then happens at the next `ring`."""
        self.before_move(at)
        self._now = max(self._now, at)

    def ring(self) -> None:
        """Let the engine do what is due."""
        if self._alarm is not None:
            self._alarm.ring_soon()

    def alarm(self, ring: Callable[[], None]) -> VirtualAlarm:
        """The alarm of an engine, in the place of the one before."""
        self._alarm = VirtualAlarm(self, ring)
        return self._alarm


class VirtualAlarm:
    """Keeps the time that was set; it calls `ring` in the next turn of the event loop if that has come, or when told.

    It has the face of `engine/alarm.py: Alarm`.
    """

    is_catching_up = False
    """There are no stalls."""

    def __init__(self, clock: VirtualClock, ring: Callable[[], None]) -> None:
        self.at: float | None = None
        self.is_ringing = False
        self._clock = clock
        self._ring = ring

    def set(self, at: float | None) -> None:
        """Ring at this time, or never for None. Replaces the time set before."""
        self.at = at
        if at is not None and at <= self._clock():
            self.ring_soon()

    def catch_up(self) -> None:
        """Ring soon, whatever was set."""
        self.ring_soon()

    def ring_soon(self) -> None:
        """Ring in the next turn of the event loop."""
        if not self.is_ringing:
            self.is_ringing = True
            asyncio.get_running_loop().call_soon(self._on_time)

    def _on_time(self) -> None:
        self.is_ringing = False
        self.at = None
        self._ring()
