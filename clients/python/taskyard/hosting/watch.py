"""The watch over handlers that keep the rest of their program from running, and its warnings.

A handler may block the program's event loop: heartbeats go on, no other handler of the loop does. It may also hold the
interpreter, as a long call into C does: then nothing of the process runs, heartbeats neither.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Final

from .outbox import LeaseKey

log = logging.getLogger("taskyard")

TICK_SECS: Final = 0.1
STALL_SECS: Final = 1.0
"""A tick that is so late had no turn before. Many busy threads delay it by less."""
SERIOUS_SECS: Final = 3.0
"""So long a stall is a danger to leases. A machine that is too busy may cause shorter ones."""
BLOCKED_SECS: Final = 1.0
BLOCKED_OUTSIDE_SECS: Final = 5.0
"""The same where no asyncio task runs in the loop: it may just be slow to get its turn."""
AGAIN_SECS: Final = 30.0
STOPPED_SECS: Final = 30.0
"""So long nothing has run the program's event loop: what runs there will not go on."""
NAME: Final = "taskyard "
"""The beginning of the names of handlers' asyncio tasks; action and task follow."""


class Stalls:
    """The times in which this thread had no turn, found by looking at a clock often. All times are in seconds.

    Args:
        now: The time.
    """

    def __init__(self, now: float) -> None:
        self._looked_at = now
        self._found: deque[tuple[float, float]] = deque(maxlen=16)
        """When each of the last ones ended, and how long it was."""

    def look(self, now: float) -> float:
        """Look at the clock. This is to be done every `TICK_SECS`.

        Args:
            now: The time.

        Returns:
            How long the stall was that has ended now; 0 if there was none.
        """
        late, self._looked_at = now - self._looked_at - TICK_SECS, now
        if late < STALL_SECS:
            return 0.0
        self._found.append((now, late))
        return late

    def secs_since(self, since: float) -> float:
        """Add up the stalls that have ended since a time.

        Args:
            since: The time.

        Returns:
            Their length.
        """
        return sum(secs for ended, secs in self._found if ended >= since)


class Watch:
    """Watches the program's event loop and the whole process from another event loop. Create it in the program's.

    Attributes:
        is_blocked: Whether the program's loop is blocked.
        culprits: What the last stall was about, for people.

    Args:
        running: Tells the actions that run now, of handlers that run in this process, by lease.
    """

    def __init__(self, running: Callable[[], Mapping[LeaseKey, str]]) -> None:
        self._running = running
        self._program = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._stalls: Stalls | None = None
        self._pinged_at: float | None = None
        self._is_answered = False
        self._warn_after = BLOCKED_SECS
        self._blocker = ""
        self._idle_since: float | None = None
        self._ran: set[str] = set()
        """The actions that ran at the last look: a handler may end in the moment in which it lets others run."""
        self.is_blocked = False
        self.culprits = ""

    async def run(self, on_tick: Callable[[], None]) -> None:
        """Look ten times a second.

        Args:
            on_tick: Called after each look.

        Raises:
            RuntimeError: The program's event loop does not run any more.
        """
        try:
            while True:
                await asyncio.sleep(TICK_SECS)
                now = self.look()
                self._check_program(now)
                on_tick()
        finally:
            if self.is_blocked:
                self._tell_end(self.look())

    def look(self) -> float:
        """Find out whether the process has stalled until now, and say so.

        Returns:
            The time of the loop that runs.
        """
        now = asyncio.get_running_loop().time()
        if self._stalls is None:
            self._stalls = Stalls(now)
        stalled = self._stalls.look(now)
        if stalled:
            self.culprits = self._suspects()
            log.log(
                logging.WARNING if stalled >= SERIOUS_SECS else logging.INFO,
                "the connection of this host got no turn for %.1f s, so that no heartbeat was sent: %s. What computes "
                "for long in one call belongs into a process (runs_in='process')",
                stalled,
                self.culprits,
            )
        return now

    def stalled_secs(self, since: float) -> float:
        """Tell how long this thread had no turn.

        Args:
            since: From when on stalls count, by when they ended, in seconds.

        Returns:
            The seconds.
        """
        return 0.0 if self._stalls is None else self._stalls.secs_since(since)

    def _suspects(self) -> str:
        """Who held the interpreter, as far as it can be told."""
        actions = sorted({*self._ran, *self._running().values()})
        if not actions:
            return "no handler ran; the process was suspended, or something else held the interpreter"
        here = self._action_in_loop()
        if len(actions) == 1 or here in actions:
            return f"the handler of {here or actions[0]!r} held the interpreter, or the machine is too busy"
        return f"a handler of one of {', '.join(map(repr, actions))} held the interpreter, or the machine is too busy"

    # The program's event loop

    def _check_program(self, now: float) -> None:
        if self._program.is_closed():
            raise RuntimeError("the event loop in which the host runs was closed")
        if self._program.is_running():
            self._idle_since = None
        else:
            self._idle_since = now if self._idle_since is None else self._idle_since
            if now - self._idle_since > STOPPED_SECS:
                raise RuntimeError("the event loop in which the host runs has been stopped")
        self._ran = set(self._running().values())
        if self._pinged_at is None:
            if self._ran:
                self._ping(now)
            return
        if not self._is_answered:
            blocked = self._blocked_secs(now)
            if blocked >= self._warn_after and self._idle_since is None:
                self._warn(blocked)
            return
        if self.is_blocked:
            self._tell_end(now)
        self._pinged_at = None

    def _tell_end(self, now: float) -> None:
        log.warning("the event loop was blocked for %.1f s by %s", self._blocked_secs(now), self._blocker)
        self.is_blocked = False

    def _blocked_secs(self, now: float) -> float:
        """How long the last ping has waited or waits. When this thread had no turn does not count."""
        return 0.0 if self._pinged_at is None else now - self._pinged_at - self.stalled_secs(self._pinged_at)

    def _ping(self, now: float) -> None:
        self._pinged_at, self._is_answered, self._warn_after = now, False, BLOCKED_SECS
        try:
            self._program.call_soon_threadsafe(self._pong)
        except RuntimeError:
            # It was closed in this moment, which the next look finds.
            self._pinged_at = None

    def _pong(self) -> None:
        # The program's loop runs this.
        self._is_answered = True

    def _warn(self, blocked: float) -> None:
        task = asyncio.current_task(self._program)
        if task is None and blocked < BLOCKED_OUTSIDE_SECS:
            return
        self._warn_after = blocked + AGAIN_SECS
        self.is_blocked = True
        place = _place_of(sys._current_frames().get(self._thread))
        name = "" if task is None else task.get_name()
        if name.startswith(NAME):
            action, _, task_id = name.removeprefix(NAME).rpartition(" ")
            self._blocker = f"the handler of {action!r} (task {task_id}{place})"
        else:
            coroutine: Any = None if task is None else task.get_coro()
            what = getattr(coroutine, "__qualname__", None) or "something that is no handler"
            running = ", ".join(map(repr, sorted(set(self._running().values()))))
            self._blocker = f"{what} ({place.removeprefix(', ')}; handlers of {running} run)"
        log.warning(
            "the event loop is blocked for %.1f s by %s: heartbeats go on, but no other handler of the loop. Blocking "
            "work belongs into a plain function, which runs in a thread, or into a process",
            blocked,
            self._blocker,
        )

    def _action_in_loop(self) -> str | None:
        """The action of the handler that the program's loop runs in this moment."""
        task = asyncio.current_task(self._program)
        if task is None or not task.get_name().startswith(NAME):
            return None
        return task.get_name().removeprefix(NAME).rpartition(" ")[0]


def _place_of(frame: FrameType | None) -> str:
    return "" if frame is None else f", at {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
