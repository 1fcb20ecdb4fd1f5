"""The yard for tests without asyncio: the same, blocking. Its event loop runs in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from taskyard.host import Host
from taskyard.records.tasks import Task
from taskyard.sync import SyncClient
from taskyard.values.convert import Span

from .errors import YardError
from .yard import AGENT, NAMESPACE, START, AnyTask, Yard
from .yard_host import Handlers, YardHost

T = TypeVar("T")


class SyncYard:
    """A server, its clients and its hosts, with a time of their own, for tests without asyncio.

    All of it lives in one event loop in a thread, every `SyncClient` that is made meanwhile too. Its methods are those
    of `Yard`, blocking. Use it by `with`, or as the fixture `sync_yard`.

    Attributes:
        client: A client of the agent `tester`.

    Args:
        start: The time at which it begins, as for `Yard`.
        store: The URL or the path of a store, as for `Yard`. Default none.
        settings: Settings of the server, as for `Yard`. Default its defaults.

    Raises:
        ValueError: `start` has no time zone.
    """

    client: SyncClient

    def __init__(
        self, *, start: datetime = START, store: str | Path | None = None, settings: Mapping[str, Any] | None = None
    ) -> None:
        self._yard = Yard(start=start, store=store, settings=settings)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._clients: list[SyncClient] = []

    def __enter__(self) -> Self:
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=_run_loop, args=(started,), name="taskyard-yard", daemon=True)
        self._thread.start()
        self._loop = started.result()
        try:
            self._call(self._yard.__aenter__())
        except BaseException:
            self._stop()
            raise
        self.client = self.open_client()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for client in self._clients:
                client.close()
            self._call(self._yard.__aexit__(kind, error, trace))
        finally:
            self._stop()

    @property
    def address(self) -> str:
        """Where the server listens, for clients of other kinds."""
        return self._yard.address

    @property
    def now(self) -> datetime:
        """The time in the yard, in UTC."""
        return self._yard.now

    def advance(
        self,
        span: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        wait: bool = True,
    ) -> None:
        """Let time pass, see `Yard.advance`.

        Args:
            span: How much time passes. The others are added to it. Default none.
            days: Days of 24 hours. Default 0.
            hours: Hours. Default 0.
            minutes: Minutes. Default 0.
            seconds: Seconds. Default 0.
            wait: Whether to wait for handlers that run. Default True.

        Raises:
            StillRunning: Nothing of what hosts do has ended for 5 s of real time, or a host did not connect.
            YardError: A host has ended by an error.
            ValueError: The span is negative.
        """
        call = self._yard.advance(span, days=days, hours=hours, minutes=minutes, seconds=seconds, wait=wait)
        self._call(call)

    def advance_to(self, at: datetime, *, wait: bool = True) -> None:
        """Let time pass until a point in time, see `Yard.advance_to`.

        Args:
            at: The time, with a time zone.
            wait: Whether to wait for handlers that run. Default True.

        Raises:
            StillRunning: As `advance`.
            YardError: A host has ended by an error.
            ValueError: The time has passed, or has no time zone.
        """
        self._call(self._yard.advance_to(at, wait=wait))

    def until_ended(self, task: AnyTask, *, within: Span = timedelta(days=366)) -> Task:
        """Let time pass from one due time to the next until a task has ended.

        Args:
            task: The task, or its id.
            within: How much time may pass, in seconds or as a timedelta. Default 366 days.

        Returns:
            The ended task.

        Raises:
            StillRunning: As `advance`.
            YardError: The task has not ended by then, or nothing comes due any more.
            NotFound: There is no such task.
        """
        return self._call(self._yard.until_ended(task, within=within))

    def open_client(self, **options: Any) -> SyncClient:
        """Open another client, which is closed with the yard.

        Args:
            **options: Options of `SyncClient`, such as `agent_id` or `codec`.

        Returns:
            The client.
        """
        client = SyncClient(self.address, **{"agent_id": AGENT, "namespace": NAMESPACE, **options})
        self._clients.append(client)
        return client

    def host(self, host: Host | Handlers, host_id: str | None = None, **options: Any) -> YardHost:
        """Start a host, see `Yard.host`. Its async handlers run in the yard's event loop.

        Args:
            host: The program's host, or handlers by action: a name, or a typed action.
            host_id: Its id. Default its own, or `host-1`, `host-2`, ... for handlers.
            **options: Options of `Host` for a host of handlers, such as `slots`.

        Returns:
            The host at work.

        Raises:
            YardError: A host of this id runs here already.
            TypeError: There are options for a host that has its own.
        """

        async def start() -> YardHost:
            return self._yard.host(host, host_id, **options)

        return self._call(start())

    def fail_next(self, action: Any, error: str | BaseException = "ordered by the test", times: int = 1) -> None:
        """Let the next runs of an action fail, see `Yard.fail_next`.

        Args:
            action: The name of the action, or the typed action.
            error: What the handler raises; a text for `ActionFailed`. Default a text.
            times: How many runs. Default 1.
        """
        self._yard.fail_next(action, error, times)

    def lose(self, host: str | YardHost) -> None:
        """Lose a host as if its process were killed, see `Yard.lose`.

        Args:
            host: The host, or its id.

        Raises:
            YardError: No such host runs here.
        """
        self._call(self._yard.lose(host))

    def restart(self, *, down: Span = 0) -> None:
        """End the server and start it again, see `Yard.restart`.

        Args:
            down: For how long it is away, in the yard's time, in seconds or as a timedelta. Default 0.
        """
        self._call(self._yard.restart(down=down))

    def task(self, task: AnyTask) -> Task:
        """Get a task as it is now.

        Args:
            task: The task, or its id.

        Returns:
            The task.

        Raises:
            NotFound: There is no such task.
        """
        return self._call(self._yard.task(task))

    def _call(self, call: Coroutine[Any, Any, T]) -> T:
        loop = self._loop
        if loop is None:
            call.close()
            raise YardError("the yard is not open: use it by `with SyncYard() as yard`, or as the fixture `sync_yard`")
        if asyncio._get_running_loop() is not None:
            call.close()
            raise YardError("SyncYard would block this event loop: async tests use Yard, or the fixture `yard`")
        answer = asyncio.run_coroutine_threadsafe(call, loop)
        try:
            return answer.result()
        finally:
            # A test that is interrupted takes its call along.
            answer.cancel()

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()


def _run_loop(started: Future[asyncio.AbstractEventLoop]) -> None:
    """Run the yard's loop until it is stopped: the main function of its thread."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        started.set_result(loop)
        asyncio.set_event_loop(loop)
        loop.run_forever()
