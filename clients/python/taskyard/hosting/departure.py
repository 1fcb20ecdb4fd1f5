"""How a host leaves: it drains, interrupts what runs too long, and deregisters (docs/rules.md, Host stream).

It lives in the event loop of the connection. All times are those of that loop, in seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import grpc

from taskyard.connection.credentials import Credentials
from taskyard.v1.runtime_host_pb2 import DeregisterHostRequest, Drain, DrainHostRequest
from taskyard.values import present

from .remote_handlers import RemoteHandlers
from .session import Session

if TYPE_CHECKING:
    from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceAsyncStub

log = logging.getLogger("taskyard")

CLOSE_SECS: Final = 5.0
INTERRUPT_SECS: Final = 5.0
"""How long handlers may take to end once they are cancelled because the host leaves."""

DRAIN_SLACK_SECS: Final = 2.0
"""At the end of a drain by the server, the server interrupts what runs. The host does so only if that fails."""


class Departure:
    """The end of one stream's work.

    Args:
        host_id: The id of the host at the server.
        credentials: What is sent with calls.
        session: Its leases.
        handlers: Its handlers.
        on_drain: Called when it begins to drain, or has another reason to look.
        give_up: Called when it leaves without waiting for handlers.
    """

    def __init__(
        self,
        host_id: str,
        credentials: Credentials,
        session: Session,
        handlers: RemoteHandlers,
        on_drain: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        self._host_id = host_id
        self._credentials = credentials
        self._session = session
        self._handlers = handlers
        self._on_drain = on_drain
        self._give_up = give_up
        self._interrupt_at: dict[str, float] = {}
        """When handlers that still run are interrupted, by the initiator of the drain: `host` or `server`."""
        self._leaving: asyncio.Task[None] | None = None
        self._announcing: asyncio.Task[None] | None = None

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Tasks in the background."""
        return [task for task in (self._leaving, self._announcing) if task is not None]

    def drain(self, initiator: str, end: float, stub: RuntimeHostServiceAsyncStub | None = None) -> None:
        """Take no more tasks, and interrupt at a time what still runs. A repeated call of the host has no effect.

        Args:
            initiator: Who wants it, `host` or `server`.
            end: When handlers are interrupted; infinite for never.
            stub: How to tell the server, if it does not know. Default none.
        """
        if initiator == "host":
            if initiator in self._interrupt_at:
                return
            log.info("host %s drains: %d tasks run", self._host_id, self._session.active)
            if stub is not None and not self._session.draining:
                self._announcing = asyncio.create_task(self._announce(stub))
        self._session.drain()
        self._interrupt_at[initiator] = end
        if self._leaving is not None:
            self._leaving.cancel()
        self._leaving = asyncio.create_task(self._leave(min(self._interrupt_at.values())))
        self._on_drain()

    def drain_for_server(self, drain: Drain) -> None:
        """Drain since the server says so.

        Args:
            drain: The server's message.
        """
        end = float("inf")
        if drain.HasField("deadline"):
            secs = drain.deadline.ToNanoseconds() / 1e9 - present.now().timestamp()
            end = asyncio.get_running_loop().time() + max(0.0, secs) + DRAIN_SLACK_SECS
        self.drain("server", end)

    async def deregister(self, stub: RuntimeHostServiceAsyncStub) -> None:
        """Have the server forget a host that has left in order, once it knows of the drain.

        Args:
            stub: How to call the server.
        """
        if self._announcing is not None:
            await asyncio.wait({self._announcing})
        request = DeregisterHostRequest(host_id=self._host_id)
        try:
            await stub.DeregisterHost(request, metadata=self._credentials.metadata(), timeout=CLOSE_SECS)
        except grpc.RpcError as failed:
            log.debug("the host stays registered: %s", failed)

    async def _announce(self, stub: RuntimeHostServiceAsyncStub) -> None:
        """Have the server assign nothing more, also for the credit that it still has."""
        request = DrainHostRequest(host_id=self._host_id)
        # Tasks that are assigned all the same are given back at once.
        with contextlib.suppress(grpc.RpcError):
            await stub.DrainHost(request, metadata=self._credentials.metadata(), timeout=CLOSE_SECS)

    async def _leave(self, end: float) -> None:
        """Interrupt what still runs at `end`, and leave even if handlers do not stop."""
        if end == float("inf"):
            return
        await asyncio.sleep(end - asyncio.get_running_loop().time())
        if self._session.active:
            log.warning("%d tasks still run: they are interrupted and given back", self._session.active)
        self._handlers.stop(self._session.running())
        await asyncio.sleep(INTERRUPT_SECS)
        log.warning("host %s leaves without waiting for %d handlers", self._host_id, self._session.active)
        self._give_up()
