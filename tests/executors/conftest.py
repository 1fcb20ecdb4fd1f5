"""Fixtures of the tests of executors: an HTTP server that plays an instance, and an engine with an executor."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct, Value

from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission, Task
from taskyard_server.core.task_options import TaskOptions
from taskyard_server.engine.clock import Clock
from taskyard_server.engine.engine import Engine
from taskyard_server.executors.tab_executor import TabExecutor
from taskyard_server.executors.tab_resolver import Endpoint, TabMap, TabResolver
from tests.engines import running_engine
from tests.live import live


@dataclass(eq=False)
class Request:
    """One request as it arrived. `gone` is set when the client hangs up before the answer."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def http_answer(body: bytes | str | Any = b"", status: str = "200 OK", **headers: str) -> bytes:
    """The bytes of an HTTP answer. A body that is neither bytes nor text is sent as JSON."""
    content = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


class Instance:
    """An HTTP server that records every request and answers it with `reply`, or with what `reply` returns.

    `hold` delays the answers until `release`. With `hangs_up` each answer is the last one on its connection.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.arrived: asyncio.Queue[Request] = asyncio.Queue()
        self.reply: bytes | Callable[[Request], bytes] = http_answer({"success": True})
        self.hangs_up = False
        self.concurrent = 0
        self.max_concurrent = 0
        self.connections = 0
        self.url = ""
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        try:
            while request := await self._read(reader):
                self.requests.append(request)
                self.concurrent += 1
                self.max_concurrent = max(self.max_concurrent, self.concurrent)
                self.arrived.put_nowait(request)
                try:
                    if not await self._may_answer(reader):
                        request.gone.set()
                        return
                finally:
                    self.concurrent -= 1
                writer.write(self.reply(request) if callable(self.reply) else self.reply)
                await writer.drain()
                if self.hangs_up:
                    return
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Request | None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            method, target, _ = first.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        except asyncio.IncompleteReadError:
            # The client has hung up, perhaps between the head and the body.
            return None
        return Request(method, target, headers, body)

    async def _may_answer(self, reader: asyncio.StreamReader) -> bool:
        """Wait for `release`. False if the client hangs up before it."""
        if self._open.is_set():
            return True
        opened = asyncio.ensure_future(self._open.wait())
        hung_up = asyncio.ensure_future(reader.read(1))
        await asyncio.wait((opened, hung_up), return_when=asyncio.FIRST_COMPLETED)
        for waiting in (opened, hung_up):
            waiting.cancel()
        await asyncio.gather(opened, hung_up, return_exceptions=True)
        return self._open.is_set()


@pytest.fixture
async def start_instance() -> AsyncIterator[Callable[[], Awaitable[Instance]]]:
    """Starts an instance on a free port."""
    async with AsyncExitStack() as ends:

        async def start() -> Instance:
            instance = Instance()
            server = await asyncio.start_server(instance.serve, "127.0.0.1", 0)
            ends.callback(instance.release)
            ends.callback(server.close)
            instance.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            return instance

        yield start


@pytest.fixture
async def instance(start_instance: Callable[[], Awaitable[Instance]]) -> Instance:
    return await start_instance()


class Server:
    """An engine with a tab executor that runs."""

    def __init__(self, engine: Engine, executor: TabExecutor) -> None:
        self.engine = engine
        self.executor = executor
        self.working = asyncio.create_task(executor.run())

    async def submit(self, params: Any = None, deadline_in: float | None = None, **fields: Any) -> Task:
        """Submit a task, for the tab `tab` by default. `fields` are those of `Submission` and `TaskOptions`."""
        options = {name: fields.pop(name) for name in TaskOptions._fields if name in fields}
        submission = Submission(
            **{"agent_id": "ann", "action": "click", "tab_id": "tab", **fields},
            params=None if params is None else ParseDict(params, Struct()).SerializeToString(),
            deadline=None if deadline_in is None else self.engine.now() + deadline_in,
            options=TaskOptions(**options),
        )
        return await self.engine.tasks.submit("default", submission, show=live)

    async def ended(self, task: Task) -> Task:
        """The task once it has ended."""
        await self.engine.tasks.wait("default", task.id, 10, show=live)
        return task

    async def run(self, params: Any = None, **fields: Any) -> Task:
        """Submit a task and wait for its end."""
        return await self.ended(await self.submit(params, **fields))

    async def stop(self) -> None:
        self.working.cancel()
        await asyncio.gather(self.working, return_exceptions=True)


@pytest.fixture
async def start_server() -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    """Starts an executor, in an engine of its own or the given one, that forwards to an instance or by a resolver.

    `token` is that of the instance.
    Errors that nothing awaits, such as those of callbacks, fail the test at its end.
    """
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    async with AsyncExitStack() as ends:

        async def start(
            to: Instance | TabResolver,
            limits: Limits | None = None,
            clock: Clock | None = None,
            engine: Engine | None = None,
            token: str | None = None,
            **options: Any,
        ) -> Server:
            if engine is None:
                roomy = Limits(max_inflight=1000, max_per_agent_inflight=1000)
                engine = await ends.enter_async_context(running_engine(limits or roomy, clock))
            resolver = TabMap({}, Endpoint(to.url, token)) if isinstance(to, Instance) else to
            server = Server(engine, TabExecutor(engine, resolver, **{"plain_actions": ["click"], **options}))
            ends.push_async_callback(server.stop)
            return server

        yield start
    assert unhandled == []


@pytest.fixture
async def server(start_server: Callable[..., Awaitable[Server]], instance: Instance) -> Server:
    """An executor with the default number of workers; all tabs are at `instance`."""
    return await start_server(instance)


@pytest.fixture
def soon() -> Callable[[Awaitable[Any]], Awaitable[Any]]:
    """Awaits an event that must come."""
    return partial(asyncio.wait_for, timeout=10)


@pytest.fixture
def answer() -> Callable[..., bytes]:
    """Makes the bytes of an HTTP answer, see `http_answer`."""
    return http_answer


@pytest.fixture
def result() -> Callable[[Task], Any]:
    """Unpacks the result of a task."""

    def read(task: Task) -> Any:
        assert task.result is not None
        return MessageToDict(Value.FromString(task.result))

    return read
