"""Failures that a test has ordered: they come in the place of the next runs of a handler."""

from __future__ import annotations

from collections import defaultdict, deque

from taskyard.hosting.actions import Actions, Registered
from taskyard.hosting.running_task import RunningTask


class Faults:
    """The failures by action, in the order in which they come. Hosts of a yard share them."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, deque[BaseException]] = defaultdict(deque)

    def add(self, action: str, error: BaseException, times: int) -> None:
        """Let the next runs of an action end so.

        Args:
            action: The action.
            error: What the handler raises.
            times: How often.
        """
        self._waiting[action].extend([error] * times)

    def take(self, action: str) -> BaseException | None:
        """Take the next failure of an action.

        Args:
            action: The action.

        Returns:
            What its handler is to raise, None if it is to run.
        """
        waiting = self._waiting.get(action)
        return waiting.popleft() if waiting else None


class FaultyActions(Actions):
    """The actions of a host, some of whose runs fail.

    Args:
        actions: The actions as they were registered.
        faults: The failures.
    """

    def __init__(self, actions: Actions, faults: Faults) -> None:
        self.__dict__.update(actions.__dict__)
        self._faults = faults

    def handler_of_run(self, action: str) -> Registered | None:
        """Get the handler of a task that runs now.

        Args:
            action: The action.

        Returns:
            The handler, one that fails instead of it, or None if there is none.
        """
        error = self._faults.take(action)
        return super().handler_of_run(action) if error is None else _failing(error)


def _failing(error: BaseException) -> Registered:
    async def fail(_: RunningTask) -> None:
        raise error.with_traceback(None)

    return Registered(fail, "loop", is_async=True)
