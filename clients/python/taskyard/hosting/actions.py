"""The actions of a host: which handler runs which task."""

from collections.abc import Callable
from typing import Any, TypeAlias

from .running_task import RunningTask

Handler: TypeAlias = Callable[[RunningTask], Any]


class Actions:
    """The handlers by action, and one for all other actions, if there is one."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._any: Handler | None = None

    def add(self, name: str, handler: Handler) -> None:
        """Register the handler of an action.

        Args:
            name: The action.
            handler: The function that runs its tasks.

        Raises:
            ValueError: The action has a handler already.
        """
        if name in self._handlers:
            raise ValueError(f"action {name!r} has a handler already")
        self._handlers[name] = handler

    def add_any(self, handler: Handler) -> None:
        """Register the handler of all actions without one of their own.

        Args:
            handler: The function that runs their tasks.

        Raises:
            ValueError: There is such a handler already.
        """
        if self._any is not None:
            raise ValueError("there is a handler for any action already")
        self._any = handler

    def __bool__(self) -> bool:
        return bool(self._handlers) or self._any is not None

    @property
    def names(self) -> list[str]:
        """The only actions that can be run; empty if any can."""
        return [] if self._any is not None else list(self._handlers)

    def handler(self, action: str) -> Handler | None:
        """Look up the handler of an action.

        Args:
            action: The action.

        Returns:
            The handler, or None if there is none.
        """
        return self._handlers.get(action, self._any)

    def runs_in_process(self, action: str) -> bool:
        """Say whether the handler of an action runs in a process of its own.

        Args:
            action: The action.

        Returns:
            Whether it does.
        """
        return getattr(self.handler(action), "runs_in", None) == "process"
