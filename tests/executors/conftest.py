"""What the tests of executors share: an instance that owns tabs, an HTTP server, and an engine with its executor."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct, Value

from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission, Task, TaskOptions
from taskyard_server.engine.memory.engine import MemoryEngine
from taskyard_server.executors.tab_actions import TabExecutor
from taskyard_server.executors.tab_resolver import TabMap, TabResolver


@dataclass(eq=False)
class Request:
    """One request as it came in over the wire. `gone` is set when its client went away before the answer."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def answer(body: bytes | str | Any = b"", status: str = "200 OK", **headers: str) -> bytes:
    """An HTTP answer; what is neither bytes nor text is sent as JSON."""
    content = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


class Instance:
    """An HTTP server that keeps every request and answers it with `reply`, or with what `reply` returns.

    `hold` keeps answers back until `let_go`; with `hangs_up` each answer is the last on its connection.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.arrived: asyncio.Queue[Request] = asyncio.Queue()
        self.reply: bytes | Callable[[Request], bytes] = answer({"success": True})
        self.hangs_up = False
        self.at_once = 0
        self.most_at_once = 0
        self.connections = 0
        self.url = ""
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request."""
        self.connections += 1
        try:
            while request := await self._read(reader):
                self.requests.append(request)
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                self.arrived.put_nowait(request)
                try:
                    if not await self._may_answer(reader):
                        request.gone.set()
                        return
                finally:
                    self.at_once -= 1
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
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.strip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Request(method, target, headers, body)

    async def _may_answer(self, reader: asyncio.StreamReader) -> bool:
        """Wait for `let_go`; False if the client hangs up before."""
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
    """Starts instances on free ports."""
    async with AsyncExitStack() as ends:

        async def start() -> Instance:
            instance = Instance()
            server = await asyncio.start_server(instance.serve, "127.0.0.1", 0)
            ends.callback(instance.let_go)
            ends.callback(server.close)
            instance.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            return instance

        yield start


@pytest.fixture
async def instance(start_instance: Callable[[], Awaitable[Instance]]) -> Instance:
    return await start_instance()


class Yard:
    """An engine with a tab executor at work in it."""

    def __init__(self, engine: MemoryEngine, executor: TabExecutor) -> None:
        self.engine = engine
        self.executor = executor
        self.working = asyncio.create_task(executor.run())

    async def submit(self, params: Any = None, deadline_in: float | None = None, **wish: Any) -> Task:
        """Submit a task for a tab unless a test says otherwise; `wish` as in `Submission` and `TaskOptions`."""
        options = {name: wish.pop(name) for name in TaskOptions._fields if name in wish}
        asked = Submission(
            **{"agent_id": "ann", "action": "click", "tab_id": "tab", **wish},
            params=None if params is None else ParseDict(params, Struct()).SerializeToString(),
            deadline=None if deadline_in is None else self.engine.now() + deadline_in,
            options=TaskOptions(**options),
        )
        return await self.engine.tasks.submit("default", asked)

    async def ended(self, task: Task) -> Task:
        """The task once it has ended."""
        await self.engine.tasks.wait("default", task.id, 10)
        return task

    async def run(self, params: Any = None, **wish: Any) -> Task:
        """Submit a task and wait for its end."""
        return await self.ended(await self.submit(params, **wish))

    async def stop(self) -> None:
        self.working.cancel()
        await asyncio.gather(self.working, return_exceptions=True)


@pytest.fixture
async def start_yard() -> AsyncIterator[Callable[..., Awaitable[Yard]]]:
    """Starts an executor, in an engine of its own or the given one, that forwards to an instance or by a resolver.

    Errors that nobody awaits, such as those of callbacks, fail the test at its end.
    """
    unnoticed: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unnoticed.append(context))
    async with AsyncExitStack() as ends:

        async def start(to: Instance | TabResolver, engine: MemoryEngine | None = None, **options: Any) -> Yard:
            if engine is None:
                engine = MemoryEngine(Limits(max_inflight=1000, max_per_agent_inflight=1000))
                ends.push_async_callback(engine.admin.close)
            resolver = TabMap({}, to.url) if isinstance(to, Instance) else to
            yard = Yard(engine, TabExecutor(engine, resolver, **options))
            ends.push_async_callback(yard.stop)
            return yard

        yield start
    assert unnoticed == []


@pytest.fixture
async def yard(start_yard: Callable[..., Awaitable[Yard]], instance: Instance) -> Yard:
    """An executor with the documented number of workers, whose tabs all live in `instance`."""
    return await start_yard(instance)


@pytest.fixture
def http() -> Callable[..., bytes]:
    """Makes the bytes of an HTTP answer."""
    return answer


@pytest.fixture
def result() -> Callable[[Task], Any]:
    """The result of a task as JSON shows it."""

    def read(task: Task) -> Any:
        assert task.result is not None
        return MessageToDict(Value.FromString(task.result))

    return read
