"""Fixtures of the tests of the whole process: `taskyard up` as a child, the example executor, a webhook receiver."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from taskyard.v1 import admin_pb2_grpc, stats_pb2_grpc, task_pb2, task_pb2_grpc
from tests.environment import without_settings
from tests.ports import free_port

EXAMPLE_EXECUTOR = Path(__file__).parents[2] / "examples" / "tab_executor.py"
MAX_WAIT_SECS = 60.0


@dataclass
class Up:
    """A running `taskyard up`: its process, its log lines and its services."""

    process: asyncio.subprocess.Process
    grpc_port: int
    metrics_port: int
    credentials: grpc.ChannelCredentials | None = None
    lines: list[dict[str, Any]] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)
    _came: asyncio.Condition = field(default_factory=asyncio.Condition)
    channel: grpc.aio.Channel | None = None
    _reader: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Wait until it serves. It handles signals before it answers the first call."""
        self._reader = asyncio.create_task(self._read())
        address = f"127.0.0.1:{self.grpc_port}"
        self.channel = (
            grpc.aio.insecure_channel(address)
            if self.credentials is None
            else grpc.aio.secure_channel(address, self.credentials)
        )
        await self.logged("started")
        await self.health()

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            async with self._came:
                try:
                    self.lines.append(json.loads(line))
                except ValueError:
                    self.noise.append(line.decode())
                self._came.notify_all()
        async with self._came:
            self._came.notify_all()

    async def logged(self, event: str, times: int = 1, **fields: Any) -> list[dict[str, Any]]:
        """Wait for this number of log lines with the event and the fields, and return them."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self.lines if line.items() >= {"event": event, **fields}.items()]

        async with asyncio.timeout(MAX_WAIT_SECS), self._came:
            await self._came.wait_for(lambda: len(found()) >= times)
        return found()

    def events(self, *events: str) -> list[str]:
        """The logged ones of these events, in their order."""
        return [line["event"] for line in self.lines if line["event"] in events]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def exited(self, secs: float = MAX_WAIT_SECS) -> int:
        """Wait until the process has ended and all its lines are read, and return the exit code."""
        async with asyncio.timeout(secs):
            code = await self.process.wait()
            assert self._reader is not None
            await self._reader
        return code

    @property
    def tasks(self) -> task_pb2_grpc.TaskServiceStub:
        return task_pb2_grpc.TaskServiceStub(self.channel)

    @property
    def stats(self) -> stats_pb2_grpc.StatsServiceStub:
        return stats_pb2_grpc.StatsServiceStub(self.channel)

    @property
    def admin(self) -> admin_pb2_grpc.AdminServiceStub:
        return admin_pb2_grpc.AdminServiceStub(self.channel)

    async def health(self, service: str = "") -> str:
        """The health of a service: SERVING or NOT_SERVING."""
        answer = await health_pb2_grpc.HealthStub(self.channel).Check(health_pb2.HealthCheckRequest(service=service))
        return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)

    async def submit(self, action: str = "click", callback_url: str = "", tab_id: str = "t1", **params: Any) -> str:
        """Submit a task for a tab, and return its id."""
        request = task_pb2.SubmitTaskRequest(agent_id="ann", action=action, tab_id=tab_id, callback_url=callback_url)
        request.params.update(params)
        return (await self.tasks.SubmitTask(request)).task_id

    async def start_task(self, ms: int, **options: Any) -> str:
        """Submit a task that takes `ms` milliseconds, wait until it runs, and return its id."""
        task_id = await self.submit("wait", ms=ms, **options)
        await self.logged("task_running", task_id=task_id)
        return task_id

    async def get(self, task_id: str) -> task_pb2.Task:
        return await self.tasks.GetTask(task_pb2.GetTaskRequest(task_id=task_id))

    async def metrics(self) -> str:
        """The answer for Prometheus."""
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{self.metrics_port}/metrics")

    async def probe(self, path: str) -> int:
        """The status with which the port of the metrics answers a probe."""
        return await asyncio.to_thread(_status, f"http://127.0.0.1:{self.metrics_port}{path}")

    async def close(self) -> None:
        if self.channel is not None:
            await self.channel.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        if self._reader is not None:
            await self._reader


def _get(url: str) -> str:
    with build_opener(ProxyHandler({})).open(url, timeout=10) as answer:
        return str(answer.read().decode())


def _status(url: str) -> int:
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


@pytest.fixture(scope="session")
def executor() -> Iterator[str]:
    """The base URL of the example executor."""
    port = free_port()
    with subprocess.Popen(
        [sys.executable, EXAMPLE_EXECUTOR, str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield f"http://127.0.0.1:{port}"
        process.kill()


@pytest.fixture
async def up(executor: str, tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Up]]]:
    """Starts `taskyard up --no-gateway` with the content of a configuration file, flags and environment variables."""
    made: list[Up] = []

    async def start(
        config: dict[str, Any] | None = None,
        *flags: str,
        credentials: grpc.ChannelCredentials | None = None,
        **environment: str,
    ) -> Up:
        grpc_port, metrics_port = free_port(), free_port()
        file = tmp_path / "taskyard.json"
        command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway", "--executor", executor]
        command += ["--log-level", "debug"]
        command += ["--grpc", f"127.0.0.1:{grpc_port}", "--metrics", f"127.0.0.1:{metrics_port}", *flags]
        if config is not None:
            file.write_text(json.dumps(config))
            command += ["--config", str(file)]
        process = await asyncio.create_subprocess_exec(
            *command,
            env=without_settings() | environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        server = Up(process, grpc_port, metrics_port, credentials)
        made.append(server)
        await server.begin()
        return server

    yield start
    for server in made:
        await server.close()


@dataclass(frozen=True)
class Refusal:
    """How a `taskyard up` that cannot start has ended."""

    exit_code: int
    errors: list[str]
    """The lines of standard error that begin with the name of the command, without it."""
    others: list[str]
    """What else it said, but that it had loaded its store."""


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., Refusal]:
    """Starts a `taskyard up` that cannot start, with the text of a configuration file, flags and environment."""

    def start(config: str | None, *flags: str, **environment: str) -> Refusal:
        command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway", *flags]
        for address in ("--grpc", "--metrics"):
            command += [] if address in flags else [address, f"127.0.0.1:{free_port()}"]
        if config is not None:
            file = tmp_path / "taskyard.json"
            file.write_text(config)
            command += ["--config", str(file)]
        ended = subprocess.run(
            command, env=without_settings() | environment, capture_output=True, text=True, timeout=MAX_WAIT_SECS
        )
        lines, name = ended.stderr.splitlines(), "taskyard: "
        return Refusal(
            ended.returncode,
            [line.removeprefix(name) for line in lines if line.startswith(name)],
            [line for line in lines if not line.startswith(name) and "store_loaded" not in line]
            + ended.stdout.splitlines(),
        )

    return start


@dataclass
class WebhookReceiver:
    """A real HTTP server that receives webhooks. Each answer waits for `opened`."""

    posts: list[dict[str, Any]] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            self.heads.append(head)
            length = next(line for line in head.split("\r\n") if line.startswith("content-length:"))
            self.posts.append(json.loads(await reader.readexactly(int(length.partition(":")[2]))))
            self.came.set()
            await self.opened.wait()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            await writer.drain()
        writer.close()


@pytest.fixture
async def hook() -> AsyncIterator[WebhookReceiver]:
    """A `WebhookReceiver` that answers at once, unless a test clears `opened`."""
    hook = WebhookReceiver()
    hook.opened.set()
    server = await asyncio.start_server(hook.serve, "127.0.0.1", 0)
    hook.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    yield hook
    server.close()
