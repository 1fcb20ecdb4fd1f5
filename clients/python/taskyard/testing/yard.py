"""A real server in the event loop of a test, whose time stands still until the test moves it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias

from taskyard.blocking.shared_loop import share
from taskyard.client import Client
from taskyard.current import current_task
from taskyard.host import Host
from taskyard.records.tasks import Task
from taskyard.values import present
from taskyard.values.convert import Span, seconds

from .errors import StillRunning, YardError
from .faults import Faults
from .yard_host import Handlers, YardHost, host_of

if TYPE_CHECKING:
    from taskyard_server.app.embedded_server import EmbeddedServer, VirtualClock

START: Final = datetime(2029, 1, 1, tzinfo=UTC)
"""A Monday, in a year without a leap day."""
REST_SECS: Final = 5.0
"""How long hosts at work may go on without any of what they do coming to its end, in real time."""
POLL_SECS: Final = 0.0005
TICK_SECS: Final = 0.125
"""The server's timers go by ticks: what is due happens at most so much later."""
MAX_TICKS: Final = 8
NAMESPACE: Final = "default"
AGENT: Final = "tester"
ENDED: Final = frozenset({"done", "failed", "cancelled", "rejected"})


class HasId(Protocol):
    """A task as `submit`, `get` and others answer it."""

    @property
    def id(self) -> str:
        """The task's id."""


AnyTask: TypeAlias = str | HasId


class Yard:
    """A server, its clients and its hosts, in the event loop of a test, with a time of their own.

    The server is the real one, reached over gRPC through a unix socket. Its time stands still until `advance` or
    `until_ended` move it; spans such as `deadline=timedelta(hours=1)` are reckoned from there. Time-outs of clients and
    whatever handlers sleep or measure themselves are real. Use it by `async with`, or as the fixture `yard`.

    Attributes:
        client: A client of the agent `tester`.
        address: Where the server listens, for clients of other kinds.

    Args:
        start: The time at which it begins, with a time zone. Default Monday, January 1, 2029, 00:00 UTC.
        store: The URL or the path of a store in which the server keeps its tasks, so that they survive `restart`.
            Default none.
        settings: Sections and keys of the server as in its file of settings, such as
            `{"scheduler": {"leaseSecs": 10}}`. Default its defaults, but that ended tasks are kept.

    Raises:
        ValueError: `start` has no time zone.
    """

    client: Client
    address: str

    def __init__(
        self,
        *,
        start: datetime = START,
        store: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if start.tzinfo is None:
            raise ValueError(f"start: {start!r} must have a time zone, such as datetime(2029, 1, 1, tzinfo=UTC) has")
        self._start = start
        self._settings = dict(settings or {})
        if store is not None:
            url = str(store) if "://" in str(store) else f"sqlite:///{Path(store).absolute()}"
            self._settings["store"] = {"url": url, "synchronous": "normal", **self._settings.get("store", {})}
        self._hosts: dict[str, YardHost] = {}
        self._clients: list[Client] = []
        self._faults = Faults()
        self._ends = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clock: VirtualClock
        self._server: EmbeddedServer
        self._nominal = 0.0
        """The time as the test has set it. That of the server may be some ticks ahead."""

    async def __aenter__(self) -> Self:
        try:
            from taskyard_server.app import embedded_server as embedded
        except ImportError as missing:
            raise YardError(f"{missing}: install taskyard[testing]") from None
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as ends:
            ends.enter_context(embedded.quiet_logs())
            folder = embedded.new_private_folder()
            ends.callback(embedded.remove_private_folder, folder)
            self.address = f"unix:{folder}/yard"
            self._nominal = self._start.timestamp()
            self._clock = embedded.VirtualClock(self._nominal)
            ends.callback(present.go_by(self._clock))
            ends.callback(share(self._loop))
            await self._serve()
            ends.push_async_callback(self._stop_serving)
            ends.push_async_callback(self._end_hosts)
            self._ends = ends.pop_all()
            self.client = self.open_client()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hosts = list(self._hosts.values())
        await self._ends.aclose()
        if error is None:
            for host in hosts:
                host.check()

    # The time

    @property
    def now(self) -> datetime:
        """The time in the yard, in UTC."""
        return datetime.fromtimestamp(self._nominal, UTC)

    async def advance(
        self,
        span: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        wait: bool = True,
    ) -> None:
        """Let time pass: go from one due time to the next, and wait at each until the hosts have come to rest.

        A host is at rest once it runs nothing and the server has answered its last report. Hosts stay alive meanwhile,
        and renew their leases, unless they were lost on purpose.

        Args:
            span: How much time passes. The others are added to it. Default none.
            days: Days of 24 hours. Default 0.
            hours: Hours. Default 0.
            minutes: Minutes. Default 0.
            seconds: Seconds. Default 0.
            wait: Whether to wait for handlers that run. Without, time passes while they run, so that a run time-out, a
                deadline or a cancellation meets them. Default True.

        Raises:
            StillRunning: Nothing of what hosts do has ended for 5 s of real time, or a host did not connect.
            YardError: A host has ended by an error.
            ValueError: The span is negative.
        """
        more = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        await self._pass(((span or timedelta(0)) + more).total_seconds(), wait)

    async def advance_to(self, at: datetime, *, wait: bool = True) -> None:
        """Let time pass until a point in time, as `advance` does.

        Args:
            at: The time, with a time zone.
            wait: As for `advance`. Default True.

        Raises:
            StillRunning: As `advance`.
            YardError: A host has ended by an error.
            ValueError: The time has passed, or has no time zone.
        """
        if at.tzinfo is None:
            raise ValueError(f"at: {at!r} must have a time zone, such as datetime.now(UTC) has")
        await self._pass(at.timestamp() - self._nominal, wait)

    async def until_ended(self, task: AnyTask, *, within: Span = timedelta(days=366)) -> Task:
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
        self._check_test()
        limit = self._clock() + seconds(within)
        await self._rest(True)
        while (found := await self.task(task)).state not in ENDED:
            due = self._server.next_due
            if due is None or due > limit:
                after = "and nothing comes due any more" if due is None else f"and nothing ends it within {within}"
                raise YardError(f"the task {found.id} ({found.action}) is {found.state}, {after}")
            await self._go_to(due, True)
        return found

    # Clients, hosts and what happens to them

    def open_client(self, **options: Any) -> Client:
        """Open another client, which is closed with the yard.

        Args:
            **options: Options of `Client`, such as `agent_id` or `codec`.

        Returns:
            The client.
        """
        self._check_loop()
        client = Client(self.address, **{"agent_id": AGENT, "namespace": NAMESPACE, **options})
        self._ends.push_async_callback(client.close)
        self._clients.append(client)
        return client

    def host(self, host: Host | Handlers, host_id: str | None = None, **options: Any) -> YardHost:
        """Start a host: one of the program's own, at the yard's address instead of its own, or one for some handlers.

        It connects meanwhile; `advance` waits for it. The program's host is left as it is, and may run in other yards.

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
        self._check_loop()
        if not isinstance(host, Host):
            host_id = host_id or f"host-{len(self._hosts) + 1}"
            host = host_of(host, host_id=host_id, **options)
        elif options:
            raise TypeError(f"{', '.join(options)}: options are for a host of handlers, a Host has its own")
        host_id = host_id or host._options.host_id
        before = self._hosts.get(host_id)
        if before is not None and not before.has_ended:
            raise YardError(f"a host {host_id!r} runs here already: give host_id")
        started = self._hosts[host_id] = YardHost(host, host_id, self.address, NAMESPACE, self._faults)
        return started

    def fail_next(self, action: Any, error: str | BaseException = "ordered by the test", times: int = 1) -> None:
        """Let the next runs of an action fail, on whatever host of the yard, before their handler is called.

        Args:
            action: The name of the action, or the typed action.
            error: What the handler raises, such as `NotRetryable("gone")`; a text for `ActionFailed`. Default a text.
            times: How many runs. Default 1.
        """
        from taskyard.hosting.failing import ActionFailed

        raised = ActionFailed(error) if isinstance(error, str) else error
        self._faults.add(action if isinstance(action, str) else action.name, raised, times)

    async def lose(self, host: str | YardHost) -> None:
        """Lose a host as if its process were killed. What it ran is run again once its leases are over.

        Args:
            host: The host, or its id.

        Raises:
            YardError: No such host runs here.
        """
        self._check_loop()
        host_id = host if isinstance(host, str) else host.id
        found = self._hosts.get(host_id)
        if found is None or found.has_ended:
            raise YardError(f"no host {host_id!r} runs here")
        await found.kill()
        await self._wait_for(lambda: sorted(self._server.connected(NAMESPACE).intersection(found.stream_ids)))

    async def restart(self, *, down: Span = 0) -> None:
        """End the server and start it again. With a store it goes on, without one it forgets everything.

        Hosts come back by themselves.

        Args:
            down: For how long it is away, in the yard's time, in seconds or as a timedelta. Default 0.
        """
        self._check_loop()
        await self._stop_serving()
        self._nominal += seconds(down)
        self._clock.move_to(self._nominal)
        await self._serve()
        await self._wait_for(self._missing_hosts)

    async def task(self, task: AnyTask) -> Task:
        """Get a task as it is now.

        Args:
            task: The task, or its id.

        Returns:
            The task.

        Raises:
            NotFound: There is no such task.
        """
        return await self.client.get(task if isinstance(task, str) else task.id)

    # Internals

    async def _serve(self) -> None:
        from taskyard_server.app.embedded_server import EmbeddedServer, StartError

        try:
            self._server = EmbeddedServer(self._clock, self.address, self._settings)
            await self._server.start()
        except StartError as error:
            raise YardError(str(error)) from None

    async def _stop_serving(self) -> None:
        await self._server.close()

    async def _end_hosts(self) -> None:
        await asyncio.gather(*(host.kill() for host in self._hosts.values()))

    async def _pass(self, secs: float, wait: bool) -> None:
        if secs < 0:
            raise ValueError(f"time does not go back, also not by {-secs:g} s")
        self._check_test()
        await self._rest(wait)
        end = self._nominal + secs
        until = max(end, self._clock() + secs)
        ticks = 1
        while (due := self._server.next_due) is not None and due <= until + ticks * TICK_SECS:
            await self._go_to(due, wait)
            # Each thing that is due in ticks may have led to one that is due a tick later than it should be.
            ticks = min(ticks + 1, MAX_TICKS)
        self._nominal = end
        self._server.go_to(end)
        await self._rest(wait)

    async def _go_to(self, due: float, wait: bool) -> None:
        self._server.go_to(due)
        self._nominal = max(self._nominal, due - TICK_SECS)
        await self._rest(wait)

    async def _rest(self, wait: bool) -> None:
        """Wait until hosts have done what there is to do at this time."""
        await self._wait_for(functools.partial(self._at_work, wait))

    async def _wait_for(self, pending: Callable[[], list[str]]) -> None:
        """Wait until nothing is pending. Raises `StillRunning`."""
        until, before = 0.0, None
        while True:
            await self._server.settle()
            for host in self._hosts.values():
                host.check()
            left = pending()
            if not left:
                # What was begun just now takes its first step.
                await asyncio.sleep(0)
                return
            now = time.monotonic()
            if left != before:
                # Many short handlers may take longer than one that does not end.
                until, before = now + REST_SECS, left
            elif now > until:
                raise StillRunning(f"after {REST_SECS:g} s of real time {'; '.join(left)}")
            await asyncio.sleep(POLL_SECS)

    def _missing_hosts(self) -> list[str]:
        connected = self._server.connected(NAMESPACE)
        alive = [host_id for host in self._hosts.values() if not host.has_ended for host_id in host.stream_ids]
        return [f"the host {host_id!r} is not connected" for host_id in alive if host_id not in connected]

    def _at_work(self, wait: bool) -> list[str]:
        """Work that is still to be done at this time, a text each; without `wait` what handlers do that may go on."""
        left = self._missing_hosts()
        if any(not client._desk.is_idle for client in self._clients):
            left.append("a task that is being submitted was not accepted")
        begun = {task_id for host in self._hosts.values() for task_id, _ in host.running}
        leased = set()
        for each in self._server.unfinished():
            leased.add(each.task_id)
            if each.task_id is None:
                left.append(f"the host {each.host_id!r} asks for nothing to do")
            elif wait or not each.is_running or each.task_id not in begun:
                left.append(f"the handler of {each.action!r} has not ended on {each.host_id!r} ({each.task_id})")
        for host in self._hosts.values():
            if host.has_ended or host.is_idle:
                continue
            stopped = [(id_, action) for (id_, _), action in host.running.items() if id_ not in leased]
            for task_id, action in stopped:
                left.append(f"the handler of {action!r} has not stopped on {host.id!r} ({task_id})")
            if wait and not left:
                left.append(f"the host {host.id!r} has a report that was not answered")
        return left

    def _check_test(self) -> None:
        self._check_loop()
        if current_task.get() is not None:
            raise YardError("a handler cannot let time pass, since that waits for the handler: the test does")

    def _check_loop(self) -> None:
        if self._loop is None:
            raise YardError("the yard is not open: use it by `async with Yard() as yard`, or as the fixture `yard`")
        with contextlib.suppress(RuntimeError):
            if asyncio.get_running_loop() is self._loop:
                return
        raise YardError("the yard belongs to another event loop: plain functions use SyncYard, or `sync_yard`")
