"""Fixtures of the tests of webhooks: an HTTP server for deliveries, and an engine whose ended tasks are posted."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpcore
import pytest
import structlog
from structlog.testing import LogCapture

from taskyard_server.core.history import Wait
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission, Task
from taskyard_server.core.task_options import TaskOptions
from taskyard_server.engine.engine import Engine
from taskyard_server.settings.config import WebhookSettings
from taskyard_server.store.port import Store
from taskyard_server.webhooks import webhooks as webhooks_module
from taskyard_server.webhooks.webhooks import Webhooks, encode_delivery
from tests import reporting
from tests.engines import running_engine, settled
from tests.live import live
from tests.waiting import LIMIT_SECS

START = 1_700_000_000.0
MAX_WAIT_SECS = 5.0


@dataclass
class Post:
    """One request as it arrived. Header names keep their case."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        return found[0] if found else None

    def json(self) -> Any:
        return json.loads(self.body)


Answer: TypeAlias = int | bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]
"""A status, a whole answer, or what writes one."""


def _answer(status: int, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Because", "content-length: 0", "connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


@dataclass
class Receiver:
    """An HTTP server that records its requests. It answers with `answers` in turn, then always with the last one."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    answers: list[Answer] = field(default_factory=lambda: [200])
    posts: list[Post] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    connections: int = 0
    max_concurrent: int = 0
    _concurrent: int = 0
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/hook"

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.host, self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        await self._server.wait_closed()

    async def received(self, count: int = 1) -> list[Post]:
        """All requests, once there are `count` of them."""
        async with asyncio.timeout(LIMIT_SECS), self._arrived:
            await self._arrived.wait_for(lambda: len(self.posts) >= count)
        return self.posts

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = [(name, value) for name, _, value in (line.partition(": ") for line in head[1:] if line)]
            post = Post(method, path, headers, b"")
            post.body = await reader.readexactly(int(post.header("content-length") or 0))
            answer = self.answers[min(len(self.posts), len(self.answers) - 1)]
            self._concurrent += 1
            self.max_concurrent = max(self.max_concurrent, self._concurrent)
            async with self._arrived:
                self.posts.append(post)
                self.times.append(asyncio.get_running_loop().time())
                self._arrived.notify_all()
            if isinstance(answer, int):
                writer.write(_answer(answer))
            elif isinstance(answer, bytes):
                writer.write(answer)
            else:
                await answer(writer)
            self._concurrent -= 1
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client hung up, or the test ended while an answer was delayed
        finally:
            self._open.discard(writer)
            writer.close()


class Server:
    """An engine with one host, whose ended tasks are posted. Its clock stands still at `now`."""

    engine: Engine
    webhooks: Webhooks

    def __init__(self) -> None:
        self.now = START
        self.running: asyncio.Task[None] | None = None
        self._ends = AsyncExitStack()

    async def open(self, settings: dict[str, Any], limits: Limits, store: Store | None = None) -> None:
        """Take what ends in an engine with these limits from its outbox, or without a store from its events.

        The `store` may be given; else it is that of the run.
        """
        opening = running_engine(limits, lambda: self.now, 1, store, encode_delivery=encode_delivery)
        self.engine = await self._ends.enter_async_context(opening)
        rest = {"allow_private": True, "timeout_secs": MAX_WAIT_SECS}
        self.webhooks = Webhooks(WebhookSettings(**rest | settings), self.engine.outbox)
        if self.engine.outbox is None:
            self.engine.subscribe(self.webhooks)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Delivered, failed, dropped."""
        counts = self.webhooks.counts
        return counts.delivered, counts.failed, counts.dropped

    def deliver(self) -> None:
        """Start the workers."""
        self.running = asyncio.create_task(self.webhooks.run())

    async def submit(self, url: str | None, namespace: str = "default", **fields: Any) -> Task:
        """Submit a task. `fields` are those of `Submission` and `TaskOptions`."""
        options = {name: fields.pop(name) for name in TaskOptions._fields if name in fields}
        fields = {"agent_id": "ann", "action": "click", **fields}
        return await self.engine.tasks.submit(
            namespace, Submission(**fields, options=TaskOptions(callback_url=url, **options)), show=live
        )

    async def claim(self) -> Lease:
        """A lease of the first task in the queue, which is started."""
        await self.engine.hosts.register("default", "host", None, HostProfile(frozenset({"browser", "gpu"})), show=live)
        (lease,) = await self.engine.leases.claim("default", "host", wait_secs=MAX_WAIT_SECS, show=live)
        await reporting.start(self.engine, "default", "host", lease.task.id, lease.token)
        return lease

    async def complete(self, result: bytes | None = None) -> Task:
        lease = await self.claim()
        task = await reporting.complete(self.engine, "default", "host", lease.task.id, lease.token, result)
        await self.notified()
        return task

    async def fail(self, error: str) -> Task:
        lease = await self.claim()
        task = await reporting.fail(self.engine, "default", "host", lease.task.id, lease.token, error)
        await self.notified()
        return task

    async def park(self, wait: Wait) -> Task:
        """Claim the next task, and let it wait."""
        lease = await self.claim()
        task = await reporting.park(self.engine, "default", "host", lease.task.id, lease.token, wait)
        await self.notified()
        return task

    async def cancel(self, task: Task, namespace: str = "default") -> None:
        await self.engine.tasks.cancel(namespace, task.id, show=live)
        await self.notified()

    async def end(self, *urls: str) -> list[Task]:
        """Submit and complete one task for each URL."""
        tasks = []
        for url in urls:
            tasks.append(await self.submit(url))
            await self.complete()
        return tasks

    async def notified(self) -> None:
        """Once the engine has called its listeners, which is a turn of the event loop and a commit later."""
        await settled(self.engine)

    async def settled(self) -> None:
        """Once every delivery has succeeded or failed."""
        await self.webhooks.finish(MAX_WAIT_SECS)

    async def close(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)
        await self._ends.aclose()


@pytest.fixture
async def make_receiver() -> AsyncIterator[Callable[..., Awaitable[Receiver]]]:
    """Starts a `Receiver` with these answers."""
    made: list[Receiver] = []

    async def make(*answers: Answer, **where: Any) -> Receiver:
        receiver = Receiver(**where, answers=list(answers) or [200])
        await receiver.listen()
        made.append(receiver)
        return receiver

    yield make
    for receiver in made:
        await receiver.close()


@pytest.fixture
async def receiver(make_receiver: Callable[..., Awaitable[Receiver]]) -> Receiver:
    """A `Receiver` that answers 200 unless a test sets other `answers`."""
    return await make_receiver()


@pytest.fixture
async def make_server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    """Makes a `Server` with these webhook settings. Private addresses are allowed by default."""
    monkeypatch.setattr(webhooks_module, "BACKOFF_SECS", (0.0, 0.0))
    made: list[Server] = []

    async def make(*, limits: Limits | None = None, deliver: bool = True, **settings: Any) -> Server:
        server = Server()
        made.append(server)
        await server.open(settings, limits or Limits())
        if deliver:
            server.deliver()
        return server

    yield make
    for server in made:
        await server.close()


@pytest.fixture
async def server(make_server: Callable[..., Awaitable[Server]]) -> Server:
    """A `Server` that delivers."""
    return await make_server()


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The log entries of webhooks, independent of the configuration of logs."""
    capture = LogCapture()
    log = structlog.wrap_logger(None, processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(0))
    monkeypatch.setattr(webhooks_module, "log", log)
    return capture.entries


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that are dialled. None of them answers, and nothing leaves the machine."""
    addresses: list[str] = []

    async def connect_tcp(_: object, host: str, *_args: Any, **_kwargs: Any) -> httpcore.AsyncNetworkStream:
        addresses.append(host)
        raise httpcore.ConnectError(f"{host}: refused")

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect_tcp)
    return addresses
