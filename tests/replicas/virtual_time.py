"""Processes under a time that tests make: each has an event loop, and time jumps when none of them has anything to do.

Nothing sleeps and nothing depends on the machine: a seed says which process goes first where several could go on, so
that the same seed makes the same history. A process may stand still, as one that is suspended does: what comes for it
meanwhile is waiting when it goes on. One that is killed does nothing any more, not even what `finally` says.

    time = VirtualTime(seed=7)
    process = time.process("a")
    process.create_task(...)
    time.run_for(60.0)
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import sys
from asyncio import base_events, events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any, Final, TypeVar

T = TypeVar("T")

MAX_TURNS_AT_ONCE: Final = 20_000
"""So many turns without any time between them are an endless loop."""
MIN_CANCELLED_TO_COMPACT: Final = 200


class Stuck(AssertionError):
    """Nothing is left that could happen, or something happens for ever."""


class VirtualTime:
    """The time of several processes, in seconds from 0. `faults` are exceptions that nobody handled."""

    def __init__(self, seed: int = 0) -> None:
        self.now = 0.0
        self.faults: list[dict[str, Any]] = []
        self._random = Random(f"turns of {seed}")
        self._processes: list[Process] = []
        self._works: list[asyncio.Task[Any]] = []
        self._dead: list[tuple[Process, list[asyncio.Task[Any]]]] = []

    def process(self, name: str) -> Process:
        """A new process, which begins to run when time does."""
        process = Process(self, name)
        self._processes.append(process)
        return process

    def run_until(self, is_over: Callable[[], bool], at: float = float("inf")) -> None:
        """Go on until something is over, or until a time. Raises `Stuck`, and the first exception nobody handled."""
        turns_at_once = 0
        while not is_over():
            ready = [process for process in self._processes if process.has_work(self.now)]
            if ready:
                turns_at_once += 1
                if turns_at_once > MAX_TURNS_AT_ONCE:
                    raise Stuck(f"no end at {self.now}: {ready}")
                (ready[0] if len(ready) == 1 else self._random.choice(ready)).turn(self.now)
                if self.faults:
                    self._raise(self.faults[0])
                continue
            times = [due for process in self._processes if (due := process.next_due()) is not None]
            due = min(times, default=None)
            if due is None or due > at:
                if at == float("inf"):
                    raise Stuck(f"nothing follows after {self.now}")
                self.now = max(self.now, at)
                return
            if due > self.now:
                self.now, turns_at_once = due, 0

    def run_for(self, secs: float) -> None:
        """Let so much time pass."""
        self.run_until(lambda: False, self.now + secs)

    def run(self, process: Process, work: Coroutine[Any, Any, T], secs: float = float("inf")) -> T:
        """What a process returns that does this work. Raises `Stuck` where it takes longer."""
        task = process.create_task(work)
        # What waits for what nobody holds would be destroyed whenever garbage is collected, which counts as a fault.
        self._works.append(task)
        self.run_until(task.done, self.now + secs)
        if not task.done():
            raise Stuck(f"not done after {secs} s: {task}")
        self._works.remove(task)
        return task.result()

    def kill(self, process: Process) -> None:
        """End a process at once."""
        self._processes.remove(process)
        # What is held here is not closed, and so does nothing at its end.
        self._dead.append((process, [*asyncio.all_tasks(process)]))
        process.is_dead = True

    def close(self) -> None:
        """Let go of everything. What `finally` says is done here, where nobody is left to notice."""
        for process in list(self._processes):
            self.kill(process)
        while self._dead:
            process, tasks = self._dead.pop()
            events._set_running_loop(process)
            for task in tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(Exception):
                    task.get_coro().close()  # type: ignore[union-attr]
            events._set_running_loop(None)

    def _raise(self, fault: dict[str, Any]) -> None:
        error = fault.get("exception")
        if isinstance(error, BaseException):
            raise error
        raise AssertionError(fault["message"])


class Process(base_events.BaseEventLoop):
    """The event loop of one process. `stands_still` may be set at any time between its turns."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _timer_cancelled_count: int

    def __init__(self, of: VirtualTime, name: str) -> None:
        self.name = name
        self.stands_still = False
        self.is_dead = False
        self._of = of
        super().__init__()
        self.set_debug(False)
        self.set_exception_handler(lambda _, fault: None if self.is_dead else of.faults.append(fault))

    def __repr__(self) -> str:
        return f"<process {self.name}>"

    def time(self) -> float:
        """See `VirtualTime.now`."""
        return self._of.now

    def __del__(self) -> None:
        """There is nothing to close."""

    def has_work(self, now: float) -> bool:
        """True if anything can be done without time going on."""
        if self.stands_still:
            return False
        return bool(self._ready) or (bool(self._scheduled) and self._scheduled[0].when() <= now)

    def next_due(self) -> float | None:
        """When its first timer is due."""
        if self.stands_still:
            return None
        scheduled = self._scheduled
        while scheduled and scheduled[0].cancelled():
            heapq.heappop(scheduled)
        return scheduled[0].when() if scheduled else None

    def turn(self, now: float) -> None:
        """One turn of the loop: what is ready at its beginning is done."""
        scheduled, ready = self._scheduled, self._ready
        while scheduled and scheduled[0].when() <= now:
            ready.append(heapq.heappop(scheduled))
        if self._timer_cancelled_count > MIN_CANCELLED_TO_COMPACT:
            self._timer_cancelled_count = 0
            scheduled[:] = [handle for handle in scheduled if not handle.cancelled()]
            heapq.heapify(scheduled)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._asyncgen_finalizer_hook)  # type: ignore[attr-defined]
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            events._set_running_loop(before)
            sys.set_asyncgen_hooks(*hooks)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As a call from another process: what arrives for a dead one is lost."""
        return self.call_soon(callback, *args, context=context)

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        """See `AbstractEventLoop`; the dead do nothing."""
        handle = asyncio.Handle(callback, args, self, context)
        if not self.is_dead:
            self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See `AbstractEventLoop`; the dead do nothing."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.is_dead:
            heapq.heappush(self._scheduled, handle)
            handle._scheduled = True  # type: ignore[attr-defined]
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if handle._scheduled:  # type: ignore[attr-defined]
            self._timer_cancelled_count += 1
