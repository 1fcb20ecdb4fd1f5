"""Waits as a handler takes them, in whatever way it runs: its run ends, and the next one finds what came.

The handler is unwound by `Parked`, its host reports what it waits for, and the slot is free (docs/rules.md, Parked
tasks). Nothing here needs grpc.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from taskyard.v1.step_pb2 import Step
from taskyard.v1.wait_pb2 import NewWait

from .artifact_work import Work
from .step_work import RunSteps, step_name

T = TypeVar("T")

QUIET_TURNS: Final = 10
"""The turns of the loop that nothing is under way before a task is parked. The error of a step takes some of them
through groups of tasks to the handler, which may go on then."""
KINDS: Final = {
    "question": Step.Kind.answer,
    "sleep_secs": Step.Kind.time,
    "ends": Step.Kind.ends,
    "event": Step.Kind.event,
}
"""The kind of step that each wait becomes."""
CALLS: Final = {"question": "ask", "sleep_secs": "sleep", "ends": "join", "event": "event"}


class Parked(BaseException):
    """Unwinds a handler whose task waits without a slot. Let it through: the handler begins again once something came.

    It is no `Exception`, so that `except Exception` lets it through. `finally` blocks and context managers run.

    Args:
        text: What was called. Default the task is parked.
    """

    def __init__(self, text: str = "the task is parked: its handler begins again once something came") -> None:
        super().__init__(text)


class RunWaits:
    """The waits of one run of a task, and whether it is parked.

    Attributes:
        steps: The steps of the run, among them what came in earlier ones.
        is_parked: Whether the handler is unwound, or should be.

    Args:
        steps: The steps of the run.
        on_park: Called when the run is parked.
        complain: Called with an error of a handler that goes on after that.
    """

    def __init__(self, steps: RunSteps, on_park: Callable[[], None], complain: Callable[[str], None]) -> None:
        self.steps = steps
        self.is_parked = False
        self._on_park = on_park
        self._complain = complain
        self._has_complained = False
        self._lock = threading.Lock()
        self._taken: dict[tuple[int, str], None] = {}
        self._parked: dict[tuple[int, str], NewWait] = {}
        self._asking: dict[tuple[int, str], tuple[NewWait, asyncio.Future[None]]] = {}
        """The waits that are awaited in the loop."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns_left = 0
        self._is_looking = False
        self._is_over = False
        steps.when_quiet = self._look_again

    @property
    def waits(self) -> list[NewWait]:
        """The waits of the run once it is parked, in the order in which they were made."""
        return [self._parked[key] for key in self._taken if key in self._parked]

    def take(self, wait: NewWait) -> None:
        """Note that something is waited for.

        Args:
            wait: What.

        Raises:
            ValueError: The run waits, or has waited, for another of its kind and name.
        """
        with self._lock:
            if key_of(wait) in self._taken:
                call = CALLS[wait.WhichOneof("awaited") or ""]
                raise ValueError(f"{call} {wait.name!r}: this run has used the name already, and names must differ")
            self._taken[key_of(wait)] = None

    def let_go(self, wait: NewWait) -> None:
        """Note that something is not waited for any more, so that it may be taken again.

        Args:
            wait: What.
        """
        with self._lock:
            self._taken.pop(key_of(wait), None)
            self._asking.pop(key_of(wait), None)

    async def until_parked(self, wait: NewWait) -> NoReturn:
        """Wait for the run to be parked, with all else that is waited for meanwhile.

        Args:
            wait: What is waited for.

        Raises:
            Parked: It is.
        """
        self._loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = self._loop.create_future()
        with self._lock:
            self._asking[key_of(wait)] = wait, over
        self._look_soon()
        await over
        raise Parked

    def park(self, wait: NewWait) -> NoReturn:
        """Park the run now.

        Args:
            wait: What is waited for.

        Raises:
            Parked: It is.
        """
        with self._lock:
            self._parked[key_of(wait)] = wait
        self._park()
        raise Parked

    def check(self) -> None:
        """Raise if the run is parked: what it reports then is refused, unless its handler is just unwound.

        Raises:
            Parked: It is.
        """
        if not self.is_parked or _is_unwound(sys.exception()):
            return
        if not self._has_complained:
            self._has_complained = True
            self._complain(
                "the handler went on after its task was parked: what it reports is refused. Let Parked through"
            )
        raise Parked("the task is parked, and its handler goes on: what it reports is refused")

    def close(self) -> None:
        """The run has ended: nothing that was left behind parks it any more."""
        self._is_over = True
        for _, over in self._asking.values():
            over.cancel()

    def _look_again(self) -> None:
        """No step is under way any more. From any thread."""
        if self._asking and self._loop is not None:
            self._loop.call_soon_threadsafe(self._look_soon)

    def _look_soon(self) -> None:
        self._turns_left = QUIET_TURNS
        if not self._is_looking and self._loop is not None:
            self._is_looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Park the run once nothing was under way for a while: work that is done is to be recorded first."""
        if self._is_over or self.is_parked or not self._asking or self.steps.is_under_way or self._loop is None:
            self._is_looking = False
            return
        self._turns_left -= 1
        if self._turns_left:
            self._loop.call_soon(self._look)
            return
        self._is_looking = False
        self._park()

    def _park(self) -> None:
        with self._lock:
            self._parked |= {key: wait for key, (wait, _) in self._asking.items()}
        if not self.is_parked:
            self.is_parked = True
            self._on_park()
        if self._asking and self._loop is not None:
            self._loop.call_soon_threadsafe(self._unwind)

    def _unwind(self) -> None:
        for _, over in self._asking.values():
            if not over.done():
                over.set_result(None)


class WaitWork(Work[T]):
    """A wait: awaited in an async handler; in a plain function it is over at once, or the run is parked.

    Args:
        waits: What the run waits for.
        wait: What is waited for.
        read: Reads the step that it becomes.
        must_wait: True if it is awaited, False if the task is parked now unless something came.
        may_wait: True if the task is parked only once it is awaited.
    """

    __slots__ = ("_read", "_wait", "_waits")

    def __init__(
        self,
        waits: RunWaits,
        wait: NewWait,
        read: Callable[[Step], T],
        *,
        must_wait: bool,
        may_wait: bool,
    ) -> None:
        super().__init__(_never, must_wait=True)
        self._waits = waits
        self._wait = wait
        self._read = read
        if (name := step_name.get()) is not None:
            raise RuntimeError(f"{wait.name!r} is waited for within the step {name!r}, whose work would be lost")
        waits.take(wait)
        if not must_wait:
            self._take_over(waits.steps.kept.find(wait.name, _kind_of(wait)))
            if not self._is_done and not may_wait:
                waits.park(wait)

    @property
    def value(self) -> T:
        """The answer, or None.

        Raises:
            Parked: Nothing has come yet.
            RuntimeError: It must be awaited first.
        """
        return super().value

    async def _made(self) -> T:
        steps, wait = self._waits.steps, self._wait
        came: Step | None = None
        try:
            if steps.kept.may_have(wait.name, _kind_of(wait)):
                with steps.under_way():
                    came = await asyncio.to_thread(steps.kept.find, wait.name, _kind_of(wait))
                self._take_over(came)
            if not self._is_done:
                self._waits.check()
                await self._waits.until_parked(wait)
        except BaseException:
            if came is None and not self._waits.is_parked:
                self._waits.let_go(wait)
            raise
        value: T = self._value
        return value

    def _take_over(self, step: Step | None) -> None:
        if step is not None:
            self._value, self._is_done = self._read(step), True


def key_of(wait: NewWait) -> tuple[int, str]:
    """Name a wait, and the step that it becomes.

    Args:
        wait: What is waited for.

    Returns:
        The kind of the step and its name.
    """
    return _kind_of(wait), wait.name


def is_unwinding(error: BaseException) -> bool:
    """Say whether this is how a handler ends that lets `Parked` through.

    Args:
        error: What it raised.

    Returns:
        Whether it is.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_unwinding, error.exceptions))
    return isinstance(error, (Parked, asyncio.CancelledError))


def _is_unwound(error: BaseException | None) -> bool:
    """True if a handler is just unwound, where this is handled: in its `finally` blocks."""
    while error is not None:
        if not isinstance(error, Exception):
            return True
        error = error.__context__
    return False


def _kind_of(wait: NewWait) -> Any:
    return KINDS[wait.WhichOneof("awaited") or ""]


def _never() -> NoReturn:
    raise AssertionError("a wait is no call")
