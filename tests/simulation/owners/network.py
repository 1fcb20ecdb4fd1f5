"""Calls of clients to replicas: they take their time, and whoever dies leaves its callers without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from taskyard_server.core.errors import Refusal
from tests.replicas.shared_rows import SharedRows
from tests.replicas.virtual_time import Process, VirtualTime

if TYPE_CHECKING:
    from .replica import SimulatedReplica
    from .witness import Witness

LOST_CALLS: Final = 0.01


class NoAnswer(Exception):
    """The connection broke, or the caller's patience: what came of the call is not known."""


class OpenCall:
    """A call on its way, at a replica, or on its way back. `on_message` is called with what a stream sends."""

    def __init__(
        self,
        network: Network,
        method: str,
        namespace: str,
        request: Any,
        on_message: Callable[[Any], None] | None = None,
    ) -> None:
        self.method = method
        self.namespace = namespace
        self.request = request
        self.done: asyncio.Future[Any] = network.clients.create_future()
        self._network = network
        self._on_message = on_message
        self._arrives_at = 0.0

    def send(self, message: Any) -> None:
        """A message of the stream, from the replica; they arrive in their order."""
        self._back(partial(self._hear, message))

    def answer(self, answer: Any) -> None:
        """The answer, from the replica."""
        if self._on_message is None and self._network.random.random() < LOST_CALLS:
            self._back(partial(self._settle, NoAnswer()), 2.0)
            return
        self._back(partial(self._settle, answer))

    def broken(self) -> None:
        """The replica is gone."""
        self._back(partial(self._settle, NoAnswer()))

    def _back(self, tell: Callable[[], None], more_secs: float = 0.0) -> None:
        network = self._network
        at = network.process.time() + network.latency() + more_secs
        # Timers of the same time come in any order.
        self._arrives_at = max(self._arrives_at + 1e-6, at)
        network.process.call_at(self._arrives_at, network.clients.call_soon_threadsafe, tell)

    def _hear(self, message: Any) -> None:
        if self._on_message is not None and not self.done.done():
            self._on_message(message)

    def _settle(self, answer: Any) -> None:
        if not self.done.done():
            if isinstance(answer, (Refusal, NoAnswer)):
                self.done.set_exception(answer)
                self.done.exception()
            else:
                self.done.set_result(answer)


class Network:
    """Everything between the processes. `note` is told what happens, for people."""

    def __init__(
        self, time: VirtualTime, rows: SharedRows, witness: Witness, random: Random, note: Callable[[str], None]
    ) -> None:
        self.time = time
        self.rows = rows
        self.witness = witness
        self.random = random
        self.note = note
        self.killed: set[str] = set()
        """The names of replicas whose processes have ended."""
        self.process: Process = time.process("network")
        self.clients: Process = time.process("clients")

    def latency(self) -> float:
        """How long something is under way."""
        if self.random.random() < 0.02:
            return self.random.uniform(0.1, 1.5)
        return self.random.uniform(0.0005, 0.02)

    async def call(
        self,
        replica: SimulatedReplica,
        method: str,
        namespace: str,
        request: Any,
        patience_secs: float = 6.0,
        on_message: Callable[[Any], None] | None = None,
    ) -> Any:
        """Call a replica, from a client. Raises what it refuses with, and `NoAnswer`."""
        call = OpenCall(self, method, namespace, request, on_message)
        # A connection keeps the order of what it brings, and loses nothing before it breaks.
        if on_message is not None or self.random.random() >= LOST_CALLS:
            self.process.call_later(self.latency(), self._arrive, replica, call)
        try:
            async with asyncio.timeout(patience_secs):
                return await call.done
        except TimeoutError:
            self.process.call_later(self.latency(), self._hang_up, replica, call)
            raise NoAnswer from None

    def _arrive(self, replica: SimulatedReplica, call: OpenCall) -> None:
        if replica.process.is_dead:
            call.broken()
        else:
            replica.arrive(call)

    def _hang_up(self, replica: SimulatedReplica, call: OpenCall) -> None:
        def cancel() -> None:
            task = replica.calls.get(call)
            if task is not None:
                task.cancel()

        if not replica.process.is_dead:
            replica.process.call_soon_threadsafe(cancel)
