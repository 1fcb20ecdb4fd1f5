"""A host at work in a yard: the program's own, but for where it is connected and what a test does to it."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from taskyard.connection.credentials import find_credentials
from taskyard.host import Host
from taskyard.hosting.options import parts_of
from taskyard.hosting.outbox import LeaseKey

from .errors import YardError
from .faults import Faults, FaultyActions

Handlers: TypeAlias = Mapping[Any, Callable[..., Any]]
"""Handlers by action: a name, or a typed action."""


class YardHost:
    """A host that runs in a yard, made by `yard.host`.

    Attributes:
        id: The id of the host.
        is_lost: Whether it was lost on purpose.
        stream_ids: The ids that it has at the server: its own, or one for each part of its slots.

    Args:
        host: The program's host, which is left as it is.
        host_id: The id here. Default its own.
        address: Where the yard listens.
        namespace: The yard's namespace.
        faults: The failures that the test orders.
    """

    def __init__(self, host: Host, host_id: str | None, address: str, namespace: str, faults: Faults) -> None:
        self._host = copy.copy(host)
        self.id = host_id or host._options.host_id
        credentials = find_credentials(address, namespace, environment={})
        self._host._options = dataclasses.replace(host._options, credentials=credentials, host_id=self.id)
        self._host._handles_signals = False
        self._host._actions = FaultyActions(host._actions, faults)
        self._host._run = None
        self.stream_ids = [part.host_id for part in parts_of(self._host._options, host._actions.names)]
        self.is_lost = False
        self._running = asyncio.get_running_loop().create_task(self._host.run(), name=f"taskyard yard {self.id}")

    @property
    def has_ended(self) -> bool:
        """True if it runs no more: it has drained, was lost, or has failed."""
        return self._running.done()

    @property
    def is_idle(self) -> bool:
        """True if it runs nothing, and every report of it was answered."""
        run = self._host._run
        return run is None or run.is_idle

    @property
    def running(self) -> dict[LeaseKey, str]:
        """The actions whose handlers run, by lease."""
        run = self._host._run
        return {} if run is None else run.running

    def check(self) -> None:
        """Check that the host has not ended by an error.

        Raises:
            YardError: It has.
        """
        if self._running.done() and not self._running.cancelled():
            error = self._running.exception()
            if error is not None:
                raise YardError(f"the host {self.id!r} has ended: {type(error).__name__}: {error}") from error

    async def drain(self) -> None:
        """Take no more tasks, end what runs, and leave."""
        self._host.drain()
        await asyncio.wait({self._running})
        self.check()

    async def kill(self) -> None:
        """End at once, and say nothing to the server."""
        self.is_lost = True
        self._running.cancel()
        await asyncio.wait({self._running})


def host_of(handlers: Handlers, **options: Any) -> Host:
    """Make a host of handlers.

    Args:
        handlers: The handlers by action.
        **options: Options of the host.

    Returns:
        The host.

    Raises:
        TypeError: They are no handlers by action.
    """
    if not isinstance(handlers, Mapping):
        raise TypeError(f"host: is a Host, or a dict of handlers by action, not {handlers!r}")
    # The address is the yard's in the end, and nothing is connected before.
    made = Host("127.0.0.1:1", **options)
    for action, handler in handlers.items():
        if isinstance(action, str):
            made.action(action)(handler)
        else:
            made.handles(action)(handler)
    return made
