"""A running task that begins from its start again in a later run, and has its steps again, by their names."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar, overload

from .artifact_work import Work
from .step_work import RunSteps, StepWork, TaskSteps

P = ParamSpec("P")
T = TypeVar("T")

_MAKING = threading.Lock()


class ResumableTask:
    """The part of a running task that is about how its handler runs, and about how a later run goes on.

    Attributes:
        cancelled: Whether the work is no longer wanted.
        raises: True if calls raise once the task is cancelled, as they do in threads and processes.
        blocks: True if a plain function runs in the thread of the loop, as it does in worker processes.

    Args:
        steps: Makes what has its steps, when they are needed. None: it has none.
    """

    __slots__ = ("_loop", "_run_steps", "_steps", "_thread", "_was_told", "blocks", "cancelled", "raises")

    def __init__(self, steps: Callable[[], TaskSteps] | None) -> None:
        self.cancelled = False
        self.raises = False
        self.blocks = False
        self._was_told = False
        self._steps = steps
        self._run_steps: RunSteps | None = None
        # None in a unit test: its task records what is reported, from any thread.
        self._loop = asyncio._get_running_loop()
        self._thread = threading.get_ident()

    def check(self) -> None:
        """Raise if the work is no longer wanted, once; for plain functions in a loop of theirs.

        Raises:
            CancelledError: The task was cancelled, paused or is past its deadline, or its lease is lost. It is
                asyncio's, which `except Exception` lets through.
        """
        if self.cancelled and not self._was_told:
            self._was_told = True
            raise asyncio.CancelledError("the task is no longer wanted")

    @overload
    def step(self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> Work[T]: ...

    @overload
    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Work[T]: ...

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Work[Any]:
        """Do a part of the work once and for all: a later attempt or run gets its result, and does not do it again.

        Await it in an async handler, where a plain function runs in a thread; a plain handler has the result as
        `.value` of what is returned. Once it is there, the server has it. The step is found again by its name, whatever
        its place among others. If the host dies between the end of the work and the record of it, it is done again.

        Args:
            name: The name, at most 256 characters, which no other step of the task has.
            function: Does the work: plain or async. Its result has the type that it is annotated with, as the output of
                a typed action; without one it is JSON. It may have any size.
            *args: Its arguments.
            **kwargs: Further ones by name.

        Returns:
            The result, the same for every run. What the function raises is raised, and nothing is recorded.

        Raises:
            ValueError: This run has a step of this name already.
            TypeError: The result cannot be kept: it has no type and is no JSON, or does not fit its type. Or the
                function is an async one and the handler is not.
            BadValue: What an earlier run has recorded does not fit the type.
            CancelledError: As `check`, in a thread or process.
            LeaseLost: The lease of the task has ended.
            TooLarge: The task has 1,000 steps already, or as many results as it may have.
            Unimplemented: The server takes no steps, since it is of an older version.
        """
        if self.raises:
            self.check()
        with _MAKING:
            # Several threads of a handler may take their first steps at once.
            if self._run_steps is None:
                if self._steps is None:
                    raise RuntimeError("this task has no steps")
                self._run_steps = RunSteps(self._steps())
        call = partial(function, *args, **kwargs)
        return StepWork(self._run_steps, name, function, call, must_wait=self._must_wait, may_wait=self._may_wait)

    @property
    def _must_wait(self) -> bool:
        return self._is_in_loop and not self.blocks

    @property
    def _may_wait(self) -> bool:
        return self._must_wait

    @property
    def _is_in_loop(self) -> bool:
        return self._loop is not None and threading.get_ident() == self._thread
