"""A control plane in the event loop of a test, whose time stands still until it is moved; `taskyard.testing` has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import structlog
from pydantic import ValidationError

from taskyard_server.engine.idle_detector import Unfinished
from taskyard_server.engine.virtual_clock import VirtualClock
from taskyard_server.net.private_sockets import new_private_folder, remove_private_folder
from taskyard_server.settings.config import Settings
from taskyard_server.settings.config_sources import Loaded
from taskyard_server.settings.live_config import LiveConfig

from .app import App
from .embedded_options import EmbeddedOptions
from .endpoints import StartError

__all__ = [
    "EmbeddedServer",
    "StartError",
    "Unfinished",
    "VirtualClock",
    "new_private_folder",
    "quiet_logs",
    "remove_private_folder",
]

FOR_EVER_SECS: Final = 100 * 366 * 86_400.0
RETENTION: Final = {"resultTTLSec": FOR_EVER_SECS, "maxRetainedTasks": 1_000_000, "forgetHostsSecs": FOR_EVER_SECS}
"""So that a test finds after a jump what it looks for."""
TURNS: Final = 3
"""Turns of the event loop after which callbacks that were due have run."""


class EmbeddedServer:
    """One run of a control plane that listens at `address`. After it another one may go on with the same clock.

    `settings` are sections and keys as in the file of settings. Ended tasks are retained for as long as the clock may
    run, unless they say otherwise.

    Raises `StartError` for settings that are wrong.
    """

    def __init__(self, clock: VirtualClock, address: str, settings: Mapping[str, Any]) -> None:
        self._clock = clock
        self._app = App(LiveConfig(None, {}, _loaded(settings)), guest=EmbeddedOptions(clock, address))
        self._idle = self._app.engine.idle

    async def start(self) -> None:
        """Serve. Raises `StartError`."""
        await self._app.start()

    async def close(self) -> None:
        """End at once, once what there is to keep is kept."""
        await self._app.close()

    async def settle(self) -> None:
        """Wait until all has happened that follows from the calls so far, and is kept where there is a store."""
        while True:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            if self._idle.is_settled and not self._clock.is_ringing:
                return
            if not self._idle.is_settled:
                await asyncio.sleep(0.0005)

    @property
    def next_due(self) -> float | None:
        """When something comes due next, to the tick; None while nothing can. Only once it has settled."""
        return self._clock.due

    def go_to(self, at: float) -> None:
        """Move the clock on. Hosts whose streams are open stay alive, and what is due by then happens."""
        self._clock.move_to(at)
        self._idle.hear_all()
        self._clock.ring()

    def connected(self, namespace: str) -> set[str]:
        """The hosts whose streams are open."""
        return self._idle.connected(namespace)

    def unfinished(self) -> list[Unfinished]:
        """The work that connected hosts have still to do at this time."""
        return list(self._idle.unfinished())


def _loaded(settings: Mapping[str, Any]) -> Loaded:
    scheduler = {**RETENTION, **settings.get("scheduler", {})}
    given = {"store": {"url": "memory://"}, **settings, "gateway": False, "scheduler": scheduler}
    try:
        return Loaded(Settings.model_validate(given), {})
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, mistake['loc']))}: {mistake['msg']}" for mistake in error.errors())
        raise StartError("\n".join(lines)) from None


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Let warnings of the server go to `logging`, unless the program has configured structlog."""
    if structlog.is_configured():
        yield
        return
    structlog.configure(
        processors=[structlog.stdlib.render_to_log_kwargs],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.reset_defaults()
