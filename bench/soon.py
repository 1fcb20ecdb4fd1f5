"""How soon what users wait for has happened: bounds in seconds, which no test holds, since none knows how fast it runs.

Tests hold that each of these happens. A bound leaves room for what else the machine does; there is nothing to compare.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
import psutil
import servers
from rows import Aim, Case, Figure, Measure, Row

from taskyard.hosting.actions import Actions
from taskyard.v1 import task_pb2, task_pb2_grpc

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from tests.certificates import Authority, Leaf  # noqa: E402
from tests.clients.python.host.handling import handling  # noqa: E402
from tests.faults.flooder import KINDS  # noqa: E402

# These have no complete types.
process_handlers: Any = import_module("tests.clients.python.host.process_handlers")
yards: Any = import_module("tests.gateway.yards")

POLL_SECS = 0.005
LIMIT_SECS = 30.0
NAMESPACES = 10_000
TOKEN = "t" * 24
BEARER = (("authorization", f"Bearer {TOKEN}"),)
HOST = """
import asyncio, sys
sys.path[:0] = ["bench"]
import soon

asyncio.run(soon.busy_host())
"""


def cases() -> list[Case]:
    """Each has bounds of its own, and is measured as often as that takes seconds."""
    return [
        _case(_workers, _row("a stopped handler's process is gone", 1), _row("the worker of a killed host is gone", 1)),
        _case(_late_headers, _row("headers that stall are answered with 408", 13), rounds=1),
        _case(
            _new_certificates,
            _row("a new certificate is served, gRPC", 2),
            _row("a new certificate is served, REST", 2),
        ),
        _case(
            _table_of_owners,
            _row(f"the owners of {NAMESPACES:,} namespaces are in force at Envoy", 2),
            _row(f"one owner more than {NAMESPACES:,} is in force at Envoy", 2),
        ),
        _case(
            _beside_floods,
            _row("a call by the gateway beside the worst flood, p99", 0.25),
            _row("a call by the server beside the worst flood, p99", 0.25),
            rounds=1,
        ),
    ]


def _row(name: str, bound_secs: float) -> Row:
    return Row(name, "s", better="less", aim=Aim(bound_secs, "value"))


def _case(take: Callable[[float], Coroutine[Any, Any, list[float]]], *rows: Row, rounds: int | None = None) -> Case:
    @contextmanager
    def opened() -> Iterator[Measure]:
        yield lambda secs: list(map(Figure, asyncio.run(take(secs))))

    return Case(rows, opened, older=False, rounds=rounds)


async def _until(is_so: Callable[[], Awaitable[bool]]) -> float:
    """The seconds until it is so."""
    begin = time.perf_counter()
    while (passed := time.perf_counter() - begin) < LIMIT_SECS:
        if await is_so():
            return passed
        await asyncio.sleep(POLL_SECS)
    raise TimeoutError("it does not come to be so")


def _busy_actions() -> Actions:
    actions = Actions()
    actions.add("work", process_handlers.ignores_sigterm, runs_in="process")
    return actions


async def busy_host() -> None:
    """Work in a process until killed, and print its number."""
    async with handling(_busy_actions()) as work:
        work.start("work")
        print((await work.reported()).progress.message, flush=True)
        await asyncio.Event().wait()


async def _workers(_: float) -> list[float]:
    """By its host, which ends it, and by its host's end."""
    async with handling(_busy_actions()) as work:
        key = work.start("work")
        await work.reported()
        begin = time.perf_counter()
        work.handlers.stop([key])
        await work.ended()
        stopped = time.perf_counter() - begin
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", HOST, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert host.stdout is not None
    worker = psutil.Process(int(await host.stdout.readline()))
    host.kill()

    async def is_gone() -> bool:
        return not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE

    took = await _until(is_gone)
    await host.wait()
    return [stopped, took]


async def _late_headers(_: float) -> list[float]:
    with servers.taskyard(gateway=True) as server:
        assert server.rest is not None
        with socket.create_connection(("127.0.0.1", int(server.rest.rpartition(":")[2]))) as caller:
            caller.sendall(b"GET /tasks HTTP/1.1\r\nhost: localhost\r\nx-more: ")
            caller.settimeout(LIMIT_SECS)
            begin = time.perf_counter()
            if not caller.recv(100).startswith(b"HTTP/1.1 408 "):
                raise RuntimeError("Envoy answers something else than 408")
            return [time.perf_counter() - begin]


async def _new_certificates(_: float) -> list[float]:
    authority = Authority()
    with tempfile.TemporaryDirectory() as folder:

        def put(leaf: Leaf, name: str) -> dict[str, str]:
            cert, key = leaf.write(Path(folder), name)
            return {"cert": str(cert), "key": str(key)}

        sections = {"tls": put(authority.leaf(), "server"), "gatewayTls": put(authority.leaf(), "gateway")}
        with servers.taskyard(gateway=True, settings={**servers.SETTINGS, **sections}) as server:
            return [
                await _served(server.address, authority, lambda leaf: put(leaf, "server")),
                await _served(str(server.rest), authority, lambda leaf: put(leaf, "gateway")),
            ]


async def _served(address: str, authority: Authority, put: Callable[[Leaf], object]) -> float:
    """The seconds from a change of the files to a handshake with what is in them."""
    context = ssl.create_default_context(cadata=authority.cert.decode())
    context.set_alpn_protocols(["h2"])
    leaf = authority.leaf()

    async def is_new() -> bool:
        _, writer = await asyncio.open_connection(*address.split(":"), ssl=context)
        shown = writer.get_extra_info("peercert")
        writer.close()
        return int(shown["serialNumber"], 16) == leaf.serial

    await is_new()
    put(leaf)
    return await _until(is_new)


async def _table_of_owners(_: float) -> list[float]:
    took: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        async with yards.pair(Path(folder)) as (a, _):
            owners = {f"ns-{number}": "b" for number in range(NAMESPACES)}
            for namespace in (f"ns-{NAMESPACES - 1}", "one-more"):
                owners[namespace] = "b"
                begin = time.perf_counter()
                a.gateway.carrier.take_owners(owners)
                await a.carries(namespace, to="b")
                took.append(time.perf_counter() - begin)
    return took


async def _beside_floods(secs: float) -> list[float]:
    """Calls over one connection to each port, while another process floods one of them without a credential."""
    worst = [0.0, 0.0]
    with servers.taskyard(gateway=True, settings={**servers.SETTINGS, "auth": {"adminToken": TOKEN}}) as server:
        ports = (str(server.rest), server.address)
        for flooded in ports:
            for kind in KINDS:
                async with _flood(kind, flooded, secs):
                    took = await asyncio.gather(*(_p99(port, secs) for port in ports))
                worst = [max(pair) for pair in zip(worst, took, strict=True)]
    return worst


@asynccontextmanager
async def _flood(kind: str, address: str, secs: float) -> AsyncIterator[None]:
    words = ("-m", "tests.faults.flooder", kind, *address.split(":"), str(2 * secs))
    flood = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=ROOT, stdout=asyncio.subprocess.DEVNULL)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            flood.kill()
        await flood.wait()


async def _p99(address: str, secs: float) -> float:
    took: list[float] = []
    async with grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        stub = task_pb2_grpc.TaskServiceStub(channel)
        request = task_pb2.SubmitTaskRequest(agent_id="ann", action="click")
        task_id = (await stub.SubmitTask(request, metadata=BEARER)).task_id
        end = time.perf_counter() + 2 * secs
        while (begin := time.perf_counter()) < end:
            await stub.GetTask(task_pb2.GetTaskRequest(task_id=task_id), timeout=LIMIT_SECS, metadata=BEARER)
            took.append(time.perf_counter() - begin)
            await asyncio.sleep(2 * POLL_SECS)
    return sorted(took)[int(len(took) * 0.99)]
