"""One run of a host: its handlers in the program's event loop, and its connection in a thread beside it.

So handlers delay no heartbeat, and no other connection of the program. Handlers are started and stopped from the other
thread, and what they report goes back there; each way carries all that has come at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import threading
from typing import Final, TypeAlias

from taskyard.streams.mailbox import Mailbox
from taskyard.v1.runtime_host_pb2 import Report

from .actions import Actions
from .artifacts import HostArtifacts
from .connection import Connection
from .handlers import Handlers
from .options import HostOptions, parts_of
from .outbox import LeaseKey, key_of
from .remote_handlers import RemoteHandlers
from .watch import Watch

log = logging.getLogger("taskyard")

END_SECS: Final = 5.0
"""How long the thread of the connection may take to end once it is told to."""

_Reported: TypeAlias = tuple[LeaseKey, Report | None, bool]
"""A report: under which lease, what (None for a handler that was stopped), and whether it is the last."""


class HostRun:
    """A host at work. Create it in the event loop in which its handlers run.

    Args:
        options: The options of the host.
        actions: The handlers of the host.

    Raises:
        ValueError: The slots do not fit the handlers.
        RuntimeError: This process was forked from one that has used gRPC.
    """

    def __init__(self, options: HostOptions, actions: Actions) -> None:
        parts = list(parts_of(options, actions.names))
        self._host_id = options.host_id
        self._actions = actions
        self._program = asyncio.get_running_loop()
        self._artifacts = HostArtifacts(options.credentials)
        self._handlers = Handlers(
            actions,
            sum(part.slots for part in parts),
            on_progress=lambda report: self._report(key_of(report), report, False),
            on_outcome=lambda key, outcome: self._report(key, outcome, True),
            artifacts=self._artifacts,
        )
        self._watch = Watch(self._running_here)
        self._owners: dict[LeaseKey, Connection] = {}
        """Which connection has started each handler."""
        remote = RemoteHandlers(self._handlers, self._program)
        self._connections = [
            Connection(options, part, remote, self._watch, self._owners, self._artifacts) for part in parts
        ]
        self._loop = asyncio.SelectorEventLoop()
        self._reports: list[_Reported] = []
        """Reports of handlers in this turn of the program's loop."""
        self._reported: Mailbox[list[_Reported]] = Mailbox(self._loop, self._take_reports)
        self._ended: asyncio.Future[BaseException | None] = self._program.create_future()
        self._working: asyncio.Task[None] | None = None
        self._is_stopped = self._is_begun = False

    async def run(self) -> None:
        """Work until the host has drained.

        Raises:
            TaskyardError: The server refuses the host for good.
        """
        # The lifespan is entered and left by one asyncio task.
        await self._handlers.open()
        try:
            await self._work()
        finally:
            await self._handlers.close()
            self._artifacts.close()

    @property
    def is_idle(self) -> bool:
        """True if nothing runs and every report was answered. May be read from any thread."""
        return all(connection.is_idle for connection in self._connections)

    @property
    def running(self) -> dict[LeaseKey, str]:
        """The actions whose handlers run, by lease."""
        return self._handlers.running()

    def drain(self) -> None:
        """Take no more tasks, finish what runs, then leave. Any thread and any signal handler may call it."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._drain)

    def discard(self) -> None:
        """Free what a run needs that has not begun. It does nothing after one that has."""
        if not self._is_begun:
            self._loop.close()

    # In the program's loop

    def _report(self, key: LeaseKey, report: Report | None, is_final: bool) -> None:
        if not self._reports:
            # Handlers that were started together often end together, and what they report is to be one message.
            self._program.call_soon(self._pass_on_reports)
        self._reports.append((key, report, is_final))

    def _pass_on_reports(self) -> None:
        reports, self._reports = self._reports, []
        self._reported.put(reports)

    async def _work(self) -> None:
        self._is_begun = True
        threading.Thread(target=self._run_loop, name="taskyard-host", daemon=True).start()
        try:
            error = await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop)
            await self._until_ended()
            raise
        if error is not None:
            raise error

    async def _until_ended(self) -> None:
        """Wait for the end of the thread, also if this is cancelled once more."""
        end = self._program.time() + END_SECS
        while not self._ended.done() and (left := end - self._program.time()) > 0:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({self._ended}, timeout=left)

    def _running_here(self) -> dict[LeaseKey, str]:
        """Handlers in this process, where they may be in the way of others."""
        actions = self._actions
        return {key: action for key, action in self._handlers.running().items() if not actions.runs_in_process(action)}

    # In the thread of the connection

    def _run_loop(self) -> None:
        error: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._connect())
        except BaseException as failed:
            error = failed
        with contextlib.suppress(RuntimeError):
            self._program.call_soon_threadsafe(self._end, error)

    def _end(self, error: BaseException | None) -> None:
        # The program's loop runs this.
        if not self._ended.done():
            self._ended.set_result(error)

    async def _connect(self) -> None:
        self._working = asyncio.current_task()
        if self._is_stopped:
            return
        works = [asyncio.create_task(connection.run()) for connection in self._connections]
        watching = asyncio.create_task(self._watch.run(self._tick))
        try:
            left = set(works)
            while left:
                done, _ = await asyncio.wait({*left, watching}, return_when=asyncio.FIRST_COMPLETED)
                left -= done
                for each in done:
                    each.result()
        finally:
            for each in (*works, watching):
                each.cancel()
            await asyncio.gather(*works, watching, return_exceptions=True)

    def _tick(self) -> None:
        for connection in self._connections:
            connection.tick()

    def _drain(self) -> None:
        for connection in self._connections:
            connection.drain()

    def _stop(self) -> None:
        self._is_stopped = True
        if self._working is not None:
            self._working.cancel()

    def _take_reports(self, turns: list[list[_Reported]]) -> None:
        for key, report, is_final in itertools.chain.from_iterable(turns):
            connection = self._owners.pop(key, None) if is_final else self._owners.get(key)
            if connection is None:
                continue
            if is_final:
                connection.report_outcome(key, report)
            elif report is not None:
                connection.report_progress(report)
