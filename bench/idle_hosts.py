"""The cost of idle hosts: server CPU per heartbeat and memory per host, beside a bare server with the same streams.

Every host sends a heartbeat per second over its own stream, with ten streams per connection. The hosts run in another
process, which is this file too:

    python bench/idle_hosts.py HOST:PORT [HOSTS]
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import grpc
import servers
import uvloop
from rows import Case, Figure, Measure, Row, Side

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1 import runtime_host_pb2_grpc

if TYPE_CHECKING:
    from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceAsyncStub

HOSTS = 1_000
STREAMS_A_CONNECTION = 10
CONNECT_SECS = 2.5
"""Time after which all hosts are connected. They start during the first second."""
SECS = 3.0
ROUNDS = 2


def cases() -> list[Case]:
    """Measures a new server in each round, because a process keeps the memory that it has used."""
    rows = (
        Row(f"{HOSTS:,} idle hosts, server CPU a heartbeat", "us", better="less"),
        Row(f"{HOSTS:,} idle hosts, memory a host", "KB", better="less"),
    )
    return [Case(rows, _side(servers.taskyard), _side(servers.bare), rounds=ROUNDS, secs=SECS)]


def _side(start: Callable[[], AbstractContextManager[servers.Server]]) -> Side:
    @contextmanager
    def opened() -> Iterator[Measure]:
        def measure(secs: float) -> list[Figure]:
            with start() as server:
                return _beaten(server, secs)

        yield measure

    return opened


def _beaten(server: servers.Server, secs: float) -> list[Figure]:
    before = server.rss_bytes()
    with servers.running(sys.executable, __file__, server.address) as hosts:
        time.sleep(CONNECT_SECS)
        used, begin = server.cpu_secs(), time.perf_counter()
        theirs = servers.cpu_secs(hosts)
        time.sleep(secs)
        used, took = server.cpu_secs() - used, time.perf_counter() - begin
        theirs = servers.cpu_secs(hosts) - theirs
        memory = server.rss_bytes() - before
    a_heartbeat = used / (HOSTS * took) * 1e6
    return [
        Figure(a_heartbeat, a_heartbeat, used / took, theirs / took),
        Figure(memory / HOSTS / 1000),
    ]


async def beat(stub: RuntimeHostServiceAsyncStub, number: int) -> None:
    """One host: it connects, then sends a heartbeat per second, each host at another moment of the second."""
    await asyncio.sleep(number / HOSTS)
    call = stub.Connect()
    hello = pb.Hello(host_id=f"host-{number}", instance="i", slots=4, lease_secs=60)
    await call.write(pb.ConnectRequest(hello=hello))
    await call.read()
    begin = time.monotonic()
    for sequence in itertools.count(1):
        await asyncio.sleep(begin + sequence - time.monotonic())
        await call.write(pb.ConnectRequest(heartbeat=pb.Heartbeat(sequence=sequence)))
        answer = await call.read()
        if not isinstance(answer, pb.ConnectResponse) or answer.heartbeat_ack.sequence != sequence:
            raise SystemExit(f"host-{number}: wrong answer to heartbeat {sequence}")


async def beat_all(address: str, hosts: int = HOSTS) -> None:
    options = (("grpc.use_local_subchannel_pool", 1),)
    connections = hosts // STREAMS_A_CONNECTION
    channels = [grpc.aio.insecure_channel(address, options) for _ in range(connections)]
    stubs = [runtime_host_pb2_grpc.RuntimeHostServiceStub(channel) for channel in channels]
    async with asyncio.TaskGroup() as group:
        for number in range(hosts):
            group.create_task(beat(stubs[number % connections], number))


if __name__ == "__main__":
    uvloop.run(beat_all(sys.argv[1], *map(int, sys.argv[2:])))
