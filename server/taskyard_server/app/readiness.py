"""The readiness of the server, or why it does not serve, for supervisors (docs/rules.md, Health).

gRPC's own health service is told of changes; `HealthService` and the metrics port ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Final

import structlog
from grpc_health.v1 import health, health_pb2

if TYPE_CHECKING:
    from taskyard_server.engine.persistence import Persistence

log = structlog.get_logger(__name__)

PROBE_SECS: Final = 5.0
"""How long the event loop may be busy with one thing before it counts as hung."""
LOOK_SECS: Final = 1.0
"""How often gRPC's health service is told."""
STARTING: Final = "the server is starting"
HUNG: Final = "the event loop does not answer"
ENDING: Final = "the server is shutting down"
STORE_FAILED: Final = "the store has failed"
STORE_SILENT: Final = "the store does not answer"
NOT_TRUSTED: Final = "this replica cannot renew its place among those that share the store"

SERVING: Final = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING


class Readiness:
    """Looks at a server. `persistence` is None where nothing is kept; `is_trusted` asks what makes it a replica.

    It may be asked from any thread.
    """

    def __init__(self, persistence: Persistence | None, is_trusted: Callable[[], bool] = lambda: True) -> None:
        self.by_grpc = health.aio.HealthServicer()
        self._persistence = persistence
        self._is_trusted = is_trusted
        self._phase: str | None = STARTING
        self._services: Sequence[str] = ()
        self._told: str | None = None

    @property
    def obstacle(self) -> str | None:
        """Why no calls should come here, None if they may."""
        if self._phase is not None:
            return self._phase
        if self._persistence is not None and self._persistence.committer.failed.done():
            return STORE_FAILED
        if self._persistence is not None and self._persistence.committer.is_stuck:
            return STORE_SILENT
        return None if self._is_trusted() else NOT_TRUSTED

    def probes(self) -> Mapping[str, Callable[[], str | None]]:
        """Answers to other threads, by paths: whether the event loop of this one runs, and whether calls may come.

        Each answers why not, or None.
        """
        probe = loop_probe(asyncio.get_running_loop())
        return {"/healthz": probe, "/readyz": lambda: probe() or self.obstacle}

    async def begin(self, services: Sequence[str]) -> None:
        """The server has started, and has these services."""
        self._phase = None
        self._services = ("", *services)
        await self._tell(SERVING)

    async def run(self) -> None:
        """Tell gRPC's health service and the log when it changes, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECS)
            await self.look()

    async def look(self) -> None:
        """Tell what has changed since the last look."""
        obstacle = self.obstacle
        if obstacle != self._told and self._phase is None:
            self._told = obstacle
            if obstacle is None:
                log.info("ready_again")
            else:
                log.warning("not_ready", why=obstacle)
            await self._tell(SERVING if obstacle is None else NOT_SERVING)

    async def end(self) -> None:
        """The server ends, for good."""
        self._phase = ENDING
        await self.by_grpc.enter_graceful_shutdown()

    async def _tell(self, status: int) -> None:
        for service in self._services:
            await self.by_grpc.set(service, status)


def loop_probe(loop: asyncio.AbstractEventLoop) -> Callable[[], str | None]:
    """A probe of an event loop by another thread: None if it answers, else why not."""
    return partial(_obstacle_of_loop, loop)


def _obstacle_of_loop(loop: asyncio.AbstractEventLoop) -> str | None:
    has_run = Event()
    try:
        loop.call_soon_threadsafe(has_run.set)
    except RuntimeError:
        return ENDING
    return None if has_run.wait(PROBE_SECS) else HUNG
