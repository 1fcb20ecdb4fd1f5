"""What the tests of webhooks share: a real HTTP server that takes deliveries, and an engine whose ends are posted."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpcore
import pytest
import structlog
from structlog.testing import LogCapture

from taskyard_server import webhooks as webhooks_module
from taskyard_server.config import WebhookSettings
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission, Task, TaskOptions
from taskyard_server.engine.memory.engine import MemoryEngine
from taskyard_server.webhooks import Webhooks
from tests import reporting

START = 1_700_000_000.0
PATIENCE_SECS = 5.0


@dataclass
class Post:
    """One request as it came over the wire. Header names keep their case."""

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
    """A real HTTP server. It answers with `answers` in turn, the last one for ever, and keeps what it was sent."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    answers: list[Answer] = field(default_factory=lambda: [200])
    posts: list[Post] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    connections: int = 0
    most_at_once: int = 0
    _now: int = 0
    _came: asyncio.Condition = field(default_factory=asyncio.Condition)
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
        """The requests so far, once there are that many."""
        async with asyncio.timeout(PATIENCE_SECS), self._came:
            await self._came.wait_for(lambda: len(self.posts) >= count)
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
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            async with self._came:
                self.posts.append(post)
                self.times.append(asyncio.get_running_loop().time())
                self._came.notify_all()
            if isinstance(answer, int):
                writer.write(_answer(answer))
            elif isinstance(answer, bytes):
                writer.write(answer)
            else:
                await answer(writer)
            self._now -= 1
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side went away, or the test is over while an answer is held back
        finally:
            self._open.discard(writer)
            writer.close()


class Yard:
    """An engine with one host, whose ended tasks are posted. `now` is its time, which stands still."""

    def __init__(self, settings: dict[str, Any], limits: Limits) -> None:
        self.now = START
        self.engine = MemoryEngine(limits, clock=lambda: self.now, seed=1)
        self.webhooks = Webhooks(WebhookSettings(**{"allow_private": True, "timeout_secs": PATIENCE_SECS, **settings}))
        self.engine.subscribe(self.webhooks)
        self.running: asyncio.Task[None] | None = None

    @property
    def counts(self) -> tuple[int, int, int]:
        """Delivered, failed, dropped."""
        counts = self.webhooks.counts
        return counts.delivered, counts.failed, counts.dropped

    def deliver(self) -> None:
        """Let the workers work."""
        self.running = asyncio.create_task(self.webhooks.run())

    async def submit(self, url: str | None, **wish: Any) -> Task:
        """Submit a task; `wish` takes the fields of `Submission` and of `TaskOptions`."""
        options = {name: wish.pop(name) for name in TaskOptions._fields if name in wish}
        wish = {"agent_id": "ann", "action": "click", **wish}
        return await self.engine.tasks.submit(
            "default", Submission(**wish, options=TaskOptions(callback_url=url, **options))
        )

    async def claim(self) -> Lease:
        """A lease on the task that is first in the queue, which is started."""
        await self.engine.hosts.register("default", "host", None, HostProfile(frozenset({"browser", "gpu"})))
        (lease,) = await self.engine.leases.claim("default", "host")
        await reporting.start(self.engine, "default", "host", lease.task.id, lease.token)
        return lease

    async def complete(self, result: bytes | None = None) -> Task:
        lease = await self.claim()
        task = await reporting.complete(self.engine, "default", "host", lease.task.id, lease.token, result)
        await self.tell()
        return task

    async def fail(self, error: str) -> Task:
        lease = await self.claim()
        task = await reporting.fail(self.engine, "default", "host", lease.task.id, lease.token, error)
        await self.tell()
        return task

    async def cancel(self, task: Task) -> None:
        await self.engine.tasks.cancel("default", task.id)
        await self.tell()

    async def end(self, *urls: str) -> list[Task]:
        """Submit and complete one task for each URL."""
        tasks = []
        for url in urls:
            tasks.append(await self.submit(url))
            await self.complete()
        return tasks

    async def tell(self) -> None:
        """The turn of the loop in which the engine tells its listeners."""
        await asyncio.sleep(0)

    async def settled(self) -> None:
        """Once every delivery that is due has succeeded or failed."""
        await self.webhooks.finish(PATIENCE_SECS)

    async def close(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)
        await self.engine.admin.close()


@pytest.fixture
async def make_receiver() -> AsyncIterator[Callable[..., Awaitable[Receiver]]]:
    """Starts a `Receiver` that gives these answers."""
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
    """A `Receiver` that answers 200; a test may set other `answers`."""
    return await make_receiver()


@pytest.fixture
async def make_yard(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Yard]]:
    """Makes a `Yard` with these webhook settings. Private addresses are allowed unless a test forbids them."""
    monkeypatch.setattr(webhooks_module, "BACKOFF_SECS", (0.0, 0.0))
    made: list[Yard] = []

    def make(*, limits: Limits | None = None, deliver: bool = True, **settings: Any) -> Yard:
        yard = Yard(settings, limits or Limits())
        made.append(yard)
        if deliver:
            yard.deliver()
        return yard

    yield make
    for yard in made:
        await yard.close()


@pytest.fixture
async def yard(make_yard: Callable[..., Yard]) -> Yard:
    """A `Yard` that delivers, also to private addresses."""
    return make_yard()


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What webhooks log, whatever other tests do to the configuration of logs."""
    capture = LogCapture()
    log = structlog.wrap_logger(None, processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(0))
    monkeypatch.setattr(webhooks_module, "log", log)
    return capture.entries


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that are dialled; none of them answers, and nothing leaves the machine."""
    addresses: list[str] = []

    async def connect_tcp(_: object, host: str, *_args: Any, **_kwargs: Any) -> httpcore.AsyncNetworkStream:
        addresses.append(host)
        raise httpcore.ConnectError(f"{host}: no such luck")

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect_tcp)
    return addresses
