"""Steps as a handler takes them, in whatever way it runs: work that is done once and for all (docs/rules.md, Steps).

There are no rules of replay: a step is found by its name. Nothing here needs grpc.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, NoReturn, Protocol, TypeVar

from taskyard.v1.step_pb2 import Step
from taskyard.values.convert import MAX_DEPTH, check_depth, plain_value, value_from
from taskyard.values.payloads import MISSING, BadValue, Codec, decode_value, encode_value
from taskyard.values.shapes import shape_of

from .artifact_work import Work
from .child_work import TaskChildren
from .hints import return_type_of

T = TypeVar("T")

MAX_NAME_CHARS: Final = 256
MAX_MS: Final = 2**32 - 1
WORK: Final = Step.Kind.work

step_name: Final[ContextVar[str | None]] = ContextVar("taskyard_step", default=None)
"""The step whose function runs here, None if there is none."""


class TaskSteps(Protocol):
    """The steps of one task, with their results whole. Its methods may be called from any thread."""

    @property
    def codec(self) -> Codec | None:
        """The codec of the host, None for none."""

    @property
    def children(self) -> TaskChildren:
        """The children of the task."""

    def may_have(self, name: str, kind: Step.Kind.ValueType = WORK) -> bool:
        """Find out whether it is worth asking for a step. It does not block.

        Args:
            name: Its name.
            kind: Its kind. Default work.

        Returns:
            False if the task surely has no step of this name.
        """

    def find(self, name: str, kind: Step.Kind.ValueType = WORK) -> Step | None:
        """Find a step that was recorded. It may block.

        Args:
            name: Its name.
            kind: Its kind. Default work.

        Returns:
            The step, None if there is none.

        Raises:
            TaskyardError: It cannot be read.
        """

    def record(self, step: Step) -> Step:
        """Record a step. It blocks until the step is kept.

        Args:
            step: The step.

        Returns:
            What is kept under its name.

        Raises:
            TaskyardError: It is refused.
        """


class RunSteps:
    """The steps that one run of a task takes.

    Attributes:
        kept: What was recorded.
        recording: The calls under way that record steps, by name, where the handler is an async one.
        when_quiet: Called, in any thread, when no step is under way any more. Default nothing.

    Args:
        kept: What was recorded.
    """

    def __init__(self, kept: TaskSteps) -> None:
        self.kept = kept
        self.recording: dict[str, asyncio.Future[Step]] = {}
        self.when_quiet: Callable[[], None] = _do_nothing
        self._taken: set[str] = set()
        self._waited: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._quiet = threading.Condition(self._lock)
        self._under_way = 0

    @property
    def is_under_way(self) -> bool:
        """True if a step is under way: its work, or the record of it."""
        return self._under_way > 0

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Note that a step is under way within this context."""
        self.begin()
        try:
            yield
        finally:
            self.finish()

    def begin(self) -> None:
        """Note that a step is under way, until `finish`."""
        with self._lock:
            self._under_way += 1

    def finish(self) -> None:
        """Note that a step is under way no more."""
        with self._quiet:
            self._under_way -= 1
            is_quiet = not self._under_way
            if is_quiet:
                self._quiet.notify_all()
        if is_quiet:
            self.when_quiet()

    def wait_until_quiet(self) -> None:
        """Block until no step is under way."""
        with self._quiet:
            self._quiet.wait_for(lambda: not self._under_way)

    def wait_of(self, child: str) -> str:
        """Name a wait for the end of a child. One may be awaited by many at once, and again after a timeout.

        Args:
            child: Its name.

        Returns:
            The name, which no other wait of the run has.
        """
        with self._lock:
            self._waited[child] += 1
            return f"child {child}" + (f" {self._waited[child]}" if self._waited[child] > 1 else "")

    def take(self, name: str) -> None:
        """Note that a step is taken.

        Args:
            name: Its name.

        Raises:
            ValueError: One of this name was, or its name is no name.
        """
        if not is_name(name):
            raise ValueError(f"step: a name has from 1 to {MAX_NAME_CHARS} characters, and is not blank: {name!r}")
        with self._lock:
            if name in self._taken:
                raise ValueError(f"step {name!r}: this run has a step of this name already, and names must differ")
            self._taken.add(name)

    def let_go(self, name: str) -> None:
        """Note that a step was not done, so that it may be taken again.

        Args:
            name: Its name.
        """
        with self._lock:
            self._taken.discard(name)


class StepWork(Work[T]):
    """A step: awaited in an async handler, and done at once, with its result as `value`, in a plain function.

    Args:
        run: The steps of the run.
        name: The name of the step.
        function: Does its work.
        call: The same with its arguments.
        must_wait: True if a plain function is called when the step is awaited, False if it is called now.
        may_wait: False if the step cannot be awaited.

    Raises:
        ValueError: The run has a step of this name already.
        TypeError: The result cannot be kept; or the function is an async one, and its step cannot be awaited.
    """

    __slots__ = ("_began", "_function", "_kind", "_name", "_outcome", "_run")

    def __init__(
        self,
        run: RunSteps,
        name: str,
        function: Callable[..., Any],
        call: Callable[[], Any],
        *,
        must_wait: bool,
        may_wait: bool,
    ) -> None:
        super().__init__(call, must_wait=True)
        self._run = run
        self._name = name
        self._function = function
        self._outcome: Awaitable[Any] | None = None
        self._began = 0.0
        if (is_async := inspect.iscoroutinefunction(function)) and not may_wait:
            self._refuse_async()
        self._kind = return_type_of(function)
        try:
            shape_of(self._kind)
        except TypeError as error:
            raise TypeError(f"step {name!r}: its result cannot be kept: {error}") from error
        run.take(name)
        if not must_wait and not is_async:
            self._work_now(may_wait)

    def _work_now(self, may_wait: bool) -> None:
        with self._run.under_way():
            self._done_now(may_wait)

    def _done_now(self, may_wait: bool) -> None:
        try:
            step = self._run.kept.find(self._name)
            if step is None:
                self._began = time.monotonic()
                with _within(self._name):
                    outcome = _called(self._call)
                if inspect.isawaitable(outcome):
                    if may_wait:
                        self._outcome = outcome
                        return
                    if inspect.iscoroutine(outcome):
                        outcome.close()
                    self._refuse_async()
                step = self._run.kept.record(self._step(outcome))
            self._value = self._result(step)
        except BaseException:
            self._run.let_go(self._name)
            raise
        self._is_done = True

    async def _made(self) -> T:
        with self._run.under_way():
            try:
                step = None if self._outcome is not None else await self._found()
                if step is None:
                    with _within(self._name):
                        outcome = await self._worked()
                    step = await self._recorded(outcome)
                return self._result(step)
            except BaseException:
                self._run.let_go(self._name)
                raise

    async def _found(self) -> Step | None:
        kept, recording = self._run.kept, self._run.recording.get(self._name)
        if recording is not None:
            # An earlier try was cancelled when its work was done.
            await asyncio.wait({recording})
        return await asyncio.to_thread(kept.find, self._name) if kept.may_have(self._name) else None

    async def _worked(self) -> Any:
        if self._outcome is not None:
            return await self._outcome
        self._began = time.monotonic()
        if inspect.iscoroutinefunction(self._function):
            working: Any = self._call()
            return await working
        outcome: Any = await asyncio.to_thread(_called, self._call)
        return await outcome if inspect.isawaitable(outcome) else outcome

    async def _recorded(self, outcome: Any) -> Step:
        recordings, step = self._run.recording, self._step(outcome)
        recording = asyncio.ensure_future(asyncio.to_thread(self._run.kept.record, step))
        recordings[self._name] = recording
        self._run.begin()
        recording.add_done_callback(self._note_recorded)
        # The work is done: it is recorded also if nobody wants to wait for that.
        return await asyncio.shield(recording)

    def _note_recorded(self, recording: asyncio.Future[Step]) -> None:
        del recording
        self._run.recording.pop(self._name)
        self._run.finish()

    def _step(self, outcome: Any) -> Step:
        duration_ms = min(round((time.monotonic() - self._began) * 1000), MAX_MS)
        step = Step(name=self._name, duration_ms=duration_ms)
        try:
            codec = self._run.kept.codec
            if self._kind is Any:
                if codec is None:
                    check_depth(outcome, MAX_DEPTH)
                _check_json(outcome)
            encoded = encode_value(outcome, self._kind, codec, is_object=False)
            if encoded.payload is not None:
                step.output.CopyFrom(encoded.payload)
            elif encoded.plain is not None and encoded.plain is not MISSING:
                step.result.CopyFrom(value_from(encoded.plain))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"step {self._name!r}: its result cannot be kept: {error}") from error
        return step

    def _result(self, step: Step) -> T:
        """The result as it was kept, so that it is the same for every run."""
        plain = plain_value(step.result) if step.HasField("result") else None
        payload = step.output if step.HasField("output") else None
        try:
            value: T = decode_value(self._kind, plain, payload, self._run.kept.codec)
        except BadValue as error:
            raise BadValue(f"step {self._name!r}: its result does not fit: {error}") from error
        return value

    def _refuse_async(self) -> NoReturn:
        raise TypeError(f"step {self._name!r}: its function is an async one, which takes an async handler")


def is_name(name: str) -> bool:
    """Say whether this can be the name of a step.

    Args:
        name: The name.

    Returns:
        Whether it can.
    """
    # Half of a surrogate pair is left out.
    return bool(name.strip()) and len(name.encode(errors="ignore").decode()) == len(name) <= MAX_NAME_CHARS


def _do_nothing() -> None:
    pass


@contextmanager
def _within(name: str) -> Iterator[None]:
    """Note that the function of a step runs."""
    token = step_name.set(name)
    try:
        yield
    finally:
        # One that is never awaited to its end is closed anywhere.
        with suppress(ValueError):
            step_name.reset(token)


def _called(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except StopIteration as error:
        # A future cannot carry it: its awaiter would wait forever.
        raise RuntimeError("the function of the step raised StopIteration") from error


def _check_json(value: Any) -> None:
    """Raise `TypeError` for what is no JSON: without a type it could not come back."""
    match value:
        case None | bool() | int() | float() | str():
            pass
        case list() | tuple():
            for each in value:
                _check_json(each)
        case dict():
            for key, each in value.items():
                if not isinstance(key, str):
                    raise TypeError(f"the keys of a JSON object are strings, not {key!r}")
                _check_json(each)
        case _:
            raise TypeError(f"{type(value).__name__} is no JSON: annotate what the function returns")
