"""The decorator that `Host.handles` makes, typed so that a type checker refuses the handler of another action."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from taskyard.action import Action

from .actions import Actions, RunsIn

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741
P = ParamSpec("P")


class Registering(Generic[I, O]):
    """Registers a function as the handler of an action, and returns it unchanged.

    Args:
        actions: Where it is registered.
        action: The action.
        runs_in: Where it runs, None for the default.
        capture_output: Whether what its process writes is output of its task.
    """

    def __init__(
        self, actions: Actions, action: Action[I, O], runs_in: RunsIn | None, capture_output: bool = False
    ) -> None:
        self._actions = actions
        self._action = action
        self._runs_in = runs_in
        self._capture_output = capture_output

    # No type says that what follows the input is the task at most, and inputs by keyword: `takes_task` checks it.
    @overload
    def __call__(
        self, function: Callable[Concatenate[I, P], Coroutine[Any, Any, O]], /
    ) -> Callable[Concatenate[I, P], Coroutine[Any, Any, O]]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[I, P], O], /) -> Callable[Concatenate[I, P], O]: ...

    def __call__(self, function: Callable[..., Awaitable[O] | O], /) -> Callable[..., Any]:
        """Register a function.

        Args:
            function: The function.

        Returns:
            The function unchanged.

        Raises:
            ValueError: The action has a handler already, or output is captured outside of a process.
            TypeError: The action has no types, the function's annotations are others, or it cannot run there.
        """
        self._actions.add(
            self._action.name,
            function,
            action=self._action,
            runs_in=self._runs_in,
            capture_output=self._capture_output,
        )
        return function
