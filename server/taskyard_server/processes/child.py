"""One of the server processes of a parent: a control plane without a gateway of its own, which ends with the parent.

The parent starts it with one end of a pair of sockets, and sends it what it is to be in the first frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog
import uvloop
from prometheus_client import CollectorRegistry, generate_latest

from taskyard_server import logs
from taskyard_server.app import App, StartError
from taskyard_server.config import ConfigError
from taskyard_server.live_config import LiveConfig
from taskyard_server.process_channel import Channel, ChannelClosed
from taskyard_server.sibling import Sibling
from taskyard_server.store.folder import FolderStore
from taskyard_server.store.port import BackupFailed, CommitDelayed, StoreError
from taskyard_server.telemetry.starting import configured_telemetry

from .upkeep import at_file

log = structlog.get_logger(__name__)

ERRORS: Final = {kind.__name__: kind for kind in (BackupFailed, CommitDelayed, StoreError)}
"""What is raised at the other end of the channel as it was here."""
TOGETHER_SECS: Final = 0.002
"""Changes of what it serves that come together are told together."""


def main(end: int) -> None:
    """Serve at this end of the pair until the parent says otherwise."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(_serve(socket.socket(fileno=end))))


async def _serve(end: socket.socket) -> int:
    child = Child(end)
    try:
        await child.run()
    except (ConfigError, StartError) as error:
        await child.say_why(str(error))
        return 1
    return 0


class Child:
    """The process, from its first frame to its end."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._channel = Channel(self._answer, ERRORS)
        self._begun: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._app: App | None = None
        self._sibling: Sibling | None = None
        self._config: LiveConfig | None = None
        self._registry: CollectorRegistry | None = None
        self._told: dict[str, int] = {}
        self._telling: asyncio.TimerHandle | None = None
        self._hears: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Become what the parent says, and serve. Raises `StartError`, `ConfigError`."""
        await self._channel.open(self._end)
        self._hears = asyncio.create_task(self._hear())
        order = await self._begun
        file = order["config_file"]
        config = self._config = LiveConfig(None if file is None else Path(file), order["flags"])
        telemetry, why_not = configured_telemetry(config.settings)
        logs.configure(
            order["log_level"],
            file=logs.configured_log_file(config.settings.log),
            also=telemetry.log_processor,
            process=order["number"],
        )
        if why_not is not None:
            log.warning("telemetry_off", why=why_not)
        self._sibling = sibling = Sibling(order["number"], order["name"], order["socket"], self._channel)
        app = App(
            config,
            accept_clock=order["accept_clock"],
            insecure=True,
            telemetry=telemetry,
            sibling=sibling,
        )
        assert app.sharing is not None
        app.draining.tell = lambda words: self._channel.tell("say", words)
        await app.start()
        self._app, self._registry = app, app.metrics.registry()
        app.sharing.on_change = self._changed
        self._channel.tell("started")
        self._changed()
        await app.run()

    async def say_why(self, text: str) -> None:
        """Tell the parent why it cannot start."""
        with contextlib.suppress(ChannelClosed):
            await self._channel.call("failed", text)

    async def _hear(self) -> None:
        await self._channel.run()
        # Nobody restarts this one, or reaches it: what was told is kept.
        os._exit(1)

    def _changed(self) -> None:
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(TOGETHER_SECS, self._tell_what_it_serves)

    def _tell_what_it_serves(self) -> None:
        self._telling = None
        assert self._app is not None
        assert self._app.sharing is not None
        replica = self._app.sharing.replica
        now = {row.name: row.term for row in replica.ownership.owned() if row.name is not None}
        gone = [name for name in self._told if name not in now]
        new = {name: term for name, term in now.items() if self._told.get(name) != term}
        self._told = now
        self._channel.tell("serves", replica.membership.me.instance, new, gone)

    def _listeners(self) -> Mapping[str, Callable[[], None]]:
        return {} if self._sibling is None else self._sibling.listeners

    async def _answer(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """What the parent asks."""
        if method == "begin":
            self._begun.set_result(arguments[0])
            return None
        if method in self._listeners():
            self._listeners()[method]()
            return None
        app = self._app
        if app is None:
            return None
        match method:
            case "metrics":
                assert self._registry is not None
                return await asyncio.to_thread(generate_latest, self._registry)
            case "obstacle":
                return app.readiness.obstacle
            case "reload":
                assert self._config is not None
                self._config.reload_if_changed()
            case "drain":
                app.draining.begin(*arguments)
            case "file":
                return await _at_file(app, *arguments)
            case "bury":
                # Another process has ended.
                assert app.sharing is not None
                await app.sharing.bury(*arguments)
            case _:
                raise LookupError(method)
        return None


async def _at_file(app: App, what: str, number: int, *arguments: Any) -> tuple[Any] | None:
    """What upkeep finds at the file of a namespace, in a tuple; None if it is not open here."""
    assert app.engine.keeper is not None
    assert isinstance(app.engine.keeper.store, FolderStore)
    store = app.engine.keeper.store.opened(number)
    return None if store is None else (await at_file(store, what, *arguments),)
