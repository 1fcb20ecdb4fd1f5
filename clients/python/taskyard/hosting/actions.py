"""The actions of a host: which function runs which task, where, and what it takes."""

import inspect
import pickle
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Final, Literal, TypeAlias

from taskyard.action import Action
from taskyard.values.payloads import Codec
from taskyard.values.shapes import shape_of
from taskyard.workers.references import reference

from .annotations import InputParameter, check_typed, check_untyped, inputs_of, takes_task
from .running_task import RunningTask

Handler: TypeAlias = Callable[Concatenate[RunningTask, ...], Any]
RunsIn: TypeAlias = Literal["loop", "thread", "process"]
Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Any] | AbstractContextManager[Any]]
CallNext: TypeAlias = Callable[[RunningTask], Any]
Middleware: TypeAlias = Callable[[RunningTask, CallNext], Any]

PLACES: Final = ("loop", "thread", "process")


@dataclass(frozen=True, slots=True)
class Registered:
    """A handler and how it is called.

    Attributes:
        function: The function; its `module:qualname` on the way to a worker process.
        runs_in: Where it runs.
        is_async: Whether it is an async function.
        input_type: The type of the action's input, None without a typed action.
        output_type: The type of its output, None without a typed action.
        is_typed: Whether there is a typed action. Its handler takes the input.
        takes_task: Whether the handler of a typed action takes the task, too.
        capture_output: Whether what its process writes to file descriptors 1 and 2 is output of its task.
        inputs: The inputs that it takes by keyword.
    """

    function: Any
    runs_in: RunsIn
    is_async: bool
    input_type: Any = None
    output_type: Any = None
    is_typed: bool = False
    takes_task: bool = True
    capture_output: bool = False
    inputs: tuple[InputParameter, ...] = ()


class Actions:
    """The handlers by action, one for all other actions, if there is one, and what is around them.

    Attributes:
        lifespan: Makes the context that is open while handlers run, None for none.
        middleware: What is called around each handler, the outermost first.
        codec: The codec of inputs and outputs, None for none.

    Args:
        lifespan: See the attribute.
        codec: See the attribute.
    """

    def __init__(self, lifespan: Lifespan | None = None, codec: Codec | None = None) -> None:
        self.lifespan = lifespan
        self.middleware: list[Middleware] = []
        self.codec = codec
        self._handlers: dict[str, Registered] = {}
        self._any: Registered | None = None

    def add(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        action: Action[Any, Any] | None = None,
        runs_in: RunsIn | None = None,
        capture_output: bool = False,
    ) -> None:
        """Register the handler of an action.

        Args:
            name: The action.
            function: The function that runs its tasks.
            action: The typed action. Default none: the function takes the task alone.
            runs_in: Where it runs. Default the event loop for an async function, a thread for a plain one.
            capture_output: Whether what its process writes is output of its task. Default False.

        Raises:
            ValueError: The action has a handler already, there is no such place to run, or what others write there
                would be captured too.
            TypeError: The function's annotations do not fit the action, or it cannot run there.
        """
        if name in self._handlers:
            raise ValueError(f"action {name!r} has a handler already")
        if capture_output and runs_in != "process":
            raise ValueError(f"capture_output: needs runs_in='process', since other tasks write here too: {name!r}")
        found = _registered(name, function, action, runs_in)
        self._handlers[name] = replace(found, capture_output=True) if capture_output else found

    def add_any(self, function: Handler, *, runs_in: RunsIn | None = None) -> None:
        """Register the handler of all actions without one of their own.

        Args:
            function: The function that runs their tasks.
            runs_in: Where it runs. Default as for `add`.

        Raises:
            ValueError: There is such a handler already, or there is no such place to run.
            TypeError: The function cannot run there.
        """
        if self._any is not None:
            raise ValueError("there is a handler for any action already")
        self._any = _registered("any action", function, None, runs_in)

    def __bool__(self) -> bool:
        return bool(self._handlers) or self._any is not None

    @property
    def names(self) -> list[str]:
        """The only actions that can be run; empty if any can."""
        return [] if self._any is not None else list(self._handlers)

    def handler(self, action: str) -> Registered | None:
        """Look up the handler of an action.

        Args:
            action: The action.

        Returns:
            The handler, or None if there is none.
        """
        return self._handlers.get(action, self._any)

    def handler_of_run(self, action: str) -> Registered | None:
        """Get the handler of a task that runs now. Asked once for each run: tests may put a failure in its place.

        Args:
            action: The action.

        Returns:
            The handler, or None if there is none.
        """
        return self.handler(action)

    def of_processes(self) -> tuple[dict[str, Registered], Registered | None]:
        """List the handlers that run in processes.

        Returns:
            Those by action, and that of any action.
        """
        named = {name: each for name, each in self._handlers.items() if each.runs_in == "process"}
        return named, self._any if self._any is not None and self._any.runs_in == "process" else None

    def runs_in_process(self, action: str) -> bool:
        """Say whether the handler of an action runs in a worker process.

        Args:
            action: The action.

        Returns:
            Whether it does.
        """
        handler = self.handler(action)
        return handler is not None and handler.runs_in == "process"

    @property
    def capture_output(self) -> bool:
        """True if the output of any handler is captured."""
        return any(each.capture_output for each in self._handlers.values())

    @property
    def run_here(self) -> bool:
        """True if any handler runs in this process."""
        every = [*self._handlers.values(), *filter(None, [self._any])]
        return any(each.runs_in != "process" for each in every)


def _registered(
    name: str, function: Callable[..., Any], action: Action[Any, Any] | None, runs_in: RunsIn | None
) -> Registered:
    if not callable(function):
        raise TypeError(f"the handler of {name!r} is a function, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"the handler of {name!r} yields: it returns its output, and tells of its work by task.progress"
        )
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    place = runs_in or ("loop" if is_async else "thread")
    if place not in PLACES:
        raise ValueError(f"runs_in: is 'loop', 'thread' or 'process', not {runs_in!r}")
    if place == "loop" and not is_async:
        raise TypeError(f"the handler of {name!r} is a plain function, which would block the event loop: make it async")
    if place == "thread" and is_async:
        raise TypeError(f"the handler of {name!r} is async, and threads run plain functions")
    if action is None:
        check_untyped(function, name)
        found = Registered(function, place, is_async, inputs=inputs_of(function, name))
    else:
        input_type, output_type = action.input_type, action.output_type
        for kind in (input_type, output_type):
            shape_of(kind)
        check_typed(function, name, input_type, output_type)
        with_task = takes_task(function, name)
        inputs = inputs_of(function, name)
        found = Registered(function, place, is_async, input_type, output_type, True, with_task, inputs=inputs)
    if place == "process":
        reference(function, name)
        _check_sent(name, found)
    return found


def _check_sent(name: str, found: Registered) -> None:
    """Check that the types of an action can be found again in a worker process."""
    try:
        pickle.dumps((found.input_type, found.output_type, found.inputs))
    except Exception as error:
        raise TypeError(f"the types of {name!r} are not found again in a worker process: {error}") from None
