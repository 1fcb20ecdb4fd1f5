"""`Client.map`: many inputs, each a task, and each outcome once as it ends.

A bounded number of tasks is outstanding: submitted, and not yet handed to the program. Inputs are read as there is
room, so that they may be any number and made on the way.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sized
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Literal, Self, TypeAlias

from .action import Action, I, O
from .bar import Bar
from .errors import AlreadyExists, BadRequest, NotFound, QueueFull, TaskyardError, TooLarge
from .failures import TaskLost, failure_of
from .handles import output_of
from .new_tasks import NewTask
from .records.outcomes import Outcome
from .records.submitted import Submitted
from .streams.task_desk import TaskDesk, WhenFull

if TYPE_CHECKING:
    from .records.tasks import Task

OnFailure: TypeAlias = Literal["yield", "raise", "cancel_rest"]

OF_ONE_INPUT: Final = (BadRequest, TooLarge, QueueFull, AlreadyExists, ValueError, TypeError, NotFound)
"""Errors that concern one task. Any other ends the map."""
MAX_READ: Final = 64
"""The most inputs that are read in a row before other work has its turn."""
SLOW_SECS: Final = 0.01
"""How long inputs that were read wait for further ones."""


class TaskMap(Generic[I, O]):
    """The tasks of some inputs, as `Client.map` makes them. Enter it by `async with`, then go through the outcomes.

    Leaving the block cancels the tasks that have not ended, but for those that had their unique key before.

    Args:
        desk: Submits, follows and ends the tasks.
        action: The typed action, None for plain JSON.
        inputs: The inputs.
        make: Makes the task of an input.
        max_outstanding: How many tasks are submitted and not yet handed out, at most.
        on_failure: What happens when a task does not end as done.
        progress: Whether a bar is shown at a terminal.
        when_full: What happens when the queue is full.

    Raises:
        ValueError: An argument has a value that is not known.
        TypeError: The inputs cannot be gone through.
    """

    def __init__(
        self,
        desk: TaskDesk,
        action: Action[I, O] | None,
        inputs: Iterable[I] | AsyncIterable[I],
        make: Callable[[I], NewTask],
        *,
        max_outstanding: int,
        on_failure: OnFailure,
        progress: bool,
        when_full: WhenFull,
    ) -> None:
        if max_outstanding < 1:
            raise ValueError(f"max_outstanding: is at least 1, not {max_outstanding}")
        if on_failure not in ("yield", "raise", "cancel_rest"):
            raise ValueError(f"on_failure: is 'yield', 'raise' or 'cancel_rest', not {on_failure!r}")
        if when_full not in ("raise", "wait"):
            raise ValueError(f"when_full: is 'raise' or 'wait', not {when_full!r}")
        if not isinstance(inputs, Iterable | AsyncIterable):
            raise TypeError(f"inputs: is an iterable or asynchronous iterable of inputs, not {type(inputs).__name__}")
        self._desk = desk
        self._action = action
        self._inputs = inputs
        self._make = make
        self._max = max_outstanding
        self._on_failure = on_failure
        self._when_full = when_full
        self._bar = Bar(len(inputs) if isinstance(inputs, Sized) else None) if progress else None
        self._room = asyncio.Semaphore(max_outstanding)
        self._outcomes: deque[Outcome[I, O]] = deque()
        self._changed = asyncio.Event()
        self._items: set[asyncio.Task[None]] = set()
        self._live: dict[str, None] = {}
        """The accepted tasks that have not ended."""
        self._feeder: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        """The error that ends the map."""
        self._is_read = False
        """True if all inputs were read, or no further one is wanted."""
        self._is_stopped = False
        """True if what has not ended is cancelled, since a task did not end as done."""
        self.in_thread = False
        """True if inputs are read in a thread, since reading them may block."""

    async def __aenter__(self) -> Self:
        if self._feeder is not None:
            raise RuntimeError("a map is entered once")
        self._feeder = asyncio.create_task(self._feed())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running = [*self._items, *([] if self._feeder is None else [self._feeder])]
        for task in running:
            task.cancel()
        try:
            # Items that were sent and have no answer see to their own end.
            await asyncio.gather(*running, return_exceptions=True)
        finally:
            if self._bar is not None:
                self._bar.close()
            await self._desk.end_tasks(self._live)

    def __aiter__(self) -> AsyncIterator[Outcome[I, O]]:
        return self._each()

    async def take(self) -> list[Outcome[I, O]]:
        """Wait for the next outcomes.

        Returns:
            Those that are there, at least one. None at the end.

        Raises:
            TaskFailed: A task did not end as done, with `on_failure="raise"`.
            TaskyardError: No further task can be submitted or watched.
            RuntimeError: The block was not entered.
        """
        if self._feeder is None:
            raise RuntimeError("a map is entered before its outcomes are read: async with client.map(...) as outcomes")
        while not self._outcomes:
            if self._failure is not None:
                raise self._failure
            if self._is_read and not self._items:
                return []
            self._changed.clear()
            await self._changed.wait()
        outcomes = list(self._outcomes)
        self._outcomes.clear()
        for index, outcome in enumerate(outcomes):
            if outcome.error is not None and self._on_failure == "raise":
                self._outcomes.extend(outcomes[index + 1 :])
                if not index:
                    raise outcome.error
                self._outcomes.appendleft(outcome)
                outcomes = outcomes[:index]
                break
        for _ in outcomes:
            self._room.release()
        return outcomes

    async def _each(self) -> AsyncIterator[Outcome[I, O]]:
        while outcomes := await self.take():
            for outcome in outcomes:
                yield outcome

    # Submitting

    async def _feed(self) -> None:
        try:
            index = 0
            async for values in self._read():
                for value in values:
                    item = asyncio.create_task(self._run(index, value))
                    self._items.add(item)
                    item.add_done_callback(self._done)
                    index += 1
        except Exception as error:
            self._fail(error)
        finally:
            self._is_read = True
            self._changed.set()

    async def _read(self) -> AsyncIterator[list[I]]:
        """The inputs in pieces, each as large as there is room for."""
        if isinstance(self._inputs, AsyncIterable):
            async for value in self._inputs:
                await self._room.acquire()
                yield [value]
            return
        inputs = iter(self._inputs)
        while True:
            await self._room.acquire()
            room = 1
            while room < MAX_READ and not self._room.locked():
                await self._room.acquire()
                room += 1
            if self.in_thread:
                values, end = await asyncio.to_thread(_next, inputs, room, SLOW_SECS)
            else:
                values, end = _next(inputs, room, None)
            for _ in range(room - len(values)):
                self._room.release()
            if values:
                yield values
            if isinstance(end, StopIteration):
                return
            if end is not None:
                raise end
            await asyncio.sleep(0)

    async def _run(self, index: int, value: I) -> None:
        """Submit the task of one input and wait for its end."""
        task: Task | None = None
        output: O | None = None
        error: Exception | None = None
        try:
            new = self._make(value)
            accepted = await self._desk.accept(new, self._when_full, ends_if_cancelled=True)
            task = await self._ended(accepted)
            error = failure_of(task, new.deadline is None and not new.hold and new.not_before is None)
            if error is None:
                output = output_of(await self._desk.artifacts.whole(task), self._action, self._desk)
        except OF_ONE_INPUT as raised:
            error = raised
        self._outcomes.append(Outcome(index, value, output, error, task))
        if self._bar is not None:
            self._bar.add(error is None)
        self._changed.set()
        if error is not None and self._on_failure == "cancel_rest" and not self._is_stopped:
            await self._stop()

    async def _ended(self, accepted: Submitted) -> Task:
        # One that was there before is not this map's to cancel, unless another input has made it.
        if not accepted.existing:
            self._live[accepted.id] = None
            if self._is_stopped:
                await self._desk.end_tasks([accepted.id])
        ended = self._desk.completions.expect(accepted.id)
        try:
            task = await ended
        except TaskyardError as error:
            if error.code == "not_found":
                self._live.pop(accepted.id, None)
                raise TaskLost(accepted.id) from error
            raise
        except asyncio.CancelledError:
            self._desk.completions.forget(accepted.id, ended)
            raise
        self._live.pop(accepted.id, None)
        return task

    async def _stop(self) -> None:
        """Read no further input, and cancel what has not ended. Its outcomes come as those of other tasks do."""
        self._is_read = self._is_stopped = True
        if self._feeder is not None:
            self._feeder.cancel()
        await self._desk.end_tasks(self._live)

    def _done(self, item: asyncio.Task[None]) -> None:
        self._items.discard(item)
        self._changed.set()
        if not item.cancelled() and (error := item.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._changed.set()


def _next(inputs: Iterator[I], count: int, secs: float | None) -> tuple[list[I], Exception | None]:
    """The next inputs, and what follows them: an error, StopIteration at the end, None if there may be more.

    With `secs` those that come slowly are not held back for longer.
    """
    until = None if secs is None else time.monotonic() + secs
    values: list[I] = []
    while len(values) < count and (not values or until is None or time.monotonic() < until):
        try:
            values.append(next(inputs))
        except Exception as error:
            return values, error
    return values, None
