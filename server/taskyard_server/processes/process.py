"""One server process as its parent sees it: started, talked to, and started again when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog

from taskyard_server.app import StartError
from taskyard_server.process_channel import Channel, ChannelClosed

from .child import ERRORS

log = structlog.get_logger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "taskyard_server.processes")
FIRST_DELAY_SECS: Final = 0.1
LONGEST_DELAY_SECS: Final = 10.0

Serve = Callable[["Process", str, tuple[Any, ...]], Awaitable[Any]]


class Process:
    """The process that `order` describes. `serve` answers what it asks; `ended` is called whenever it has ended.

    `instance` is by which its store knows it, once it has said so.
    """

    def __init__(self, order: Mapping[str, Any], serve: Serve, ended: Callable[[Process], None]) -> None:
        self.number: int = order["number"]
        self.name: str = order["name"]
        self.socket: str = order["socket"]
        self.restarts = 0
        self.instance: str | None = None
        self.is_serving = False
        self._order = dict(order)
        self._serve = serve
        self._on_end = ended
        self._process: asyncio.subprocess.Process | None = None
        self._channel: Channel | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._why = ""

    @property
    def pid(self) -> int | None:
        """Its id, while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Start it, and return once it serves. Raises `StartError` if it ends before."""
        self._why, self._started = "", asyncio.get_running_loop().create_future()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = process = await asyncio.create_subprocess_exec(
                *COMMAND,
                str(os.getpid()),
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                # It says nothing there; whoever reads what the parent says need not wait for it.
                stdout=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                # Ctrl-C in a terminal signals the whole group, but it is the parent that ends all.
                start_new_session=True,
            )
        self._channel = channel = Channel(self._answer, ERRORS)
        await channel.open(ours)
        self._hearing = asyncio.create_task(channel.run())
        channel.tell("begin", self._order)
        ending = asyncio.create_task(process.wait())
        awaited: set[asyncio.Future[Any]] = {self._started, ending}
        try:
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.kill()
            raise
        finally:
            ending.cancel()
        if not self._started.done():
            await self._hearing
            self._note_end()
            raise StartError(self._why or f"process {self.number} ended with status {process.returncode} at its start")
        self.is_serving = True

    async def keep(self) -> None:
        """Start it again whenever it ends, after delays that grow, until cancelled."""
        clock, delay = asyncio.get_running_loop().time, FIRST_DELAY_SECS
        while True:
            since = clock()
            status = await self.wait()
            log.error("process_ended", number=self.number, status=status)
            if clock() - since > LONGEST_DELAY_SECS:
                delay = FIRST_DELAY_SECS
            while True:
                await asyncio.sleep(delay)
                delay = min(2 * delay, LONGEST_DELAY_SECS)
                try:
                    await self.start()
                except StartError as error:
                    log.error("process_not_started", number=self.number, reason=str(error), retry_in_secs=delay)
                else:
                    break
            self.restarts += 1
            log.warning("process_restarted", number=self.number, pid=self.pid)

    async def wait(self) -> int | None:
        """Wait until it has ended, and all it said has been heard; its status."""
        process, hearing = self._process, self._hearing
        if process is None or hearing is None:
            return None
        status = await process.wait()
        await hearing
        self._note_end()
        return status

    def _note_end(self) -> None:
        if self.is_serving or self.instance is not None:
            self.is_serving = False
            self._on_end(self)
            self.instance = None

    async def ask(self, method: str, *arguments: Any) -> Any:
        """What it answers; None if it does not serve."""
        if self._channel is None or not self.is_serving:
            return None
        with contextlib.suppress(ChannelClosed):
            return await self._channel.call(method, *arguments)
        return None

    def tell(self, method: str, *arguments: Any) -> None:
        """Tell it something; in vain if it has gone."""
        if self._channel is not None:
            self._channel.tell(method, *arguments)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        self.signal(signal.SIGKILL)

    async def _answer(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if method == "failed":
            self._why = str(arguments[0])
            return None
        if method == "started":
            if self._started is not None and not self._started.done():
                self._started.set_result(None)
            return None
        return await self._serve(self, method, arguments)
