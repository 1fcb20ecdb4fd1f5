"""The handlers of a host as its connection sees them: they run in another thread, in the program's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from taskyard.streams.mailbox import Mailbox
from taskyard.v1.lease_pb2 import Assignment

from .handlers import Handlers, OutputOf
from .outbox import LeaseKey


class RemoteHandlers:
    """Passes what the connection wants of the handlers to the program's event loop, in its order.

    Args:
        handlers: The handlers, which live in the program's loop.
        loop: The program's loop.
    """

    def __init__(self, handlers: Handlers, loop: asyncio.AbstractEventLoop) -> None:
        self._handlers = handlers
        self._box: Mailbox[tuple[Callable[[Any], None], Any]] = Mailbox(loop, self._take)

    def start(self, assignments: list[Assignment], output_of: OutputOf) -> None:
        """Start the handlers of tasks.

        Args:
            assignments: The tasks and their leases.
            output_of: Makes the output of a lease.
        """
        if assignments:
            self._box.put((partial(self._handlers.start, output_of=output_of), assignments))

    def stop(self, keys: list[LeaseKey]) -> None:
        """Stop handlers.

        Args:
            keys: The leases of the handlers.
        """
        if keys:
            self._box.put((self._handlers.stop, keys))

    def tokens_used(self) -> dict[LeaseKey, int]:
        """Collect the tokens that handlers have stated.

        Returns:
            The tokens used so far, by lease.
        """
        return self._handlers.tokens_used()

    def running(self) -> dict[LeaseKey, str]:
        """Tell what runs.

        Returns:
            The actions, by lease.
        """
        return self._handlers.running()

    def _take(self, calls: list[tuple[Callable[[Any], None], Any]]) -> None:
        for call, argument in calls:
            call(argument)
