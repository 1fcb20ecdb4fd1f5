"""What idle hosts cost: server CPU a heartbeat, beside a bare gRPC stream server in the same run.

    python bench/idle_hosts.py [--hosts N] [--secs N] [--rounds N]

Every host sends a heartbeat a second over its own stream. The bare server reads each message of the same stream and
yields an answer of the same size, and does nothing else. Both run on uvloop, one after the other, in rounds; the load
comes from a process of its own. What counts is the ratio: the figures are of this machine.
"""

import argparse
import asyncio
import itertools
import platform
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import grpc
import psutil
import uvloop

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1 import runtime_host_pb2_grpc

STREAMS_A_CONNECTION = 10
WARM_UP_SECS = 2.0
START_SECS = 20.0


class BareService(runtime_host_pb2_grpc.RuntimeHostServiceServicer):
    """The least that a stream server can be."""

    async def Connect(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.ConnectRequest], context: object
    ) -> AsyncIterator[pb.ConnectResponse]:
        del context
        async for request in request_iterator:
            ack = pb.HeartbeatAck(sequence=request.heartbeat.sequence)
            yield pb.ConnectResponse(heartbeat_ack=ack)


async def serve_bare(port: int) -> None:
    server = grpc.aio.server()
    runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(BareService(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


async def beat(stub: runtime_host_pb2_grpc.RuntimeHostServiceStub, number: int, hosts: int) -> None:
    """One host: connected once, then a heartbeat a second, each host at its own moment."""
    await asyncio.sleep(number / hosts)
    call = stub.Connect()
    hello = pb.Hello(host_id=f"host-{number}", instance="i", slots=4, lease_secs=60)
    await call.write(pb.ConnectRequest(hello=hello))
    await call.read()
    begin = time.monotonic()
    for sequence in itertools.count(1):
        await asyncio.sleep(begin + sequence - time.monotonic())
        await call.write(pb.ConnectRequest(heartbeat=pb.Heartbeat(sequence=sequence)))
        answer = await call.read()
        if answer.heartbeat_ack.sequence != sequence:
            raise SystemExit(f"host-{number}: wrong answer to heartbeat {sequence}")


async def beat_all(port: int, hosts: int) -> None:
    options = (("grpc.use_local_subchannel_pool", 1),)
    connections = max(1, hosts // STREAMS_A_CONNECTION)
    channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) for _ in range(connections)]
    stubs = [runtime_host_pb2_grpc.RuntimeHostServiceStub(channel) for channel in channels]
    async with asyncio.TaskGroup() as group:
        for number in range(hosts):
            group.create_task(beat(stubs[number % connections], number, hosts))


@contextmanager
def running(*command: str) -> Iterator[psutil.Process]:
    """A process of ours that ends with the block."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    deadline = time.monotonic() + START_SECS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("the server did not start")


def micros_a_heartbeat(bare: bool, hosts: int, secs: float) -> float:
    """CPU of the server process for each heartbeat."""
    port, metrics = free_port(), free_port()
    at = f"127.0.0.1:{port}"
    up = ("-m", "taskyard_server.cli.main", "up", "--no-gateway", "--grpc", at, "--metrics", f"127.0.0.1:{metrics}")
    with running(*((__file__, "--serve-bare", str(port)) if bare else (*up, "--log-level", "warning"))) as server:
        wait_for(port)
        with running(__file__, "--beat", str(port), "--hosts", str(hosts)) as load:
            time.sleep(WARM_UP_SECS)
            before, begin = server.cpu_times(), time.perf_counter()
            time.sleep(secs)
            after, end = server.cpu_times(), time.perf_counter()
            if load.status() == psutil.STATUS_ZOMBIE:
                raise SystemExit("the load ended early")
    used = after.user + after.system - before.user - before.system
    return used / (hosts * (end - begin)) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--secs", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--serve-bare", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--beat", type=int, metavar="PORT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if given.serve_bare:
            runner.run(serve_bare(given.serve_bare))
            return
        if given.beat:
            runner.run(beat_all(given.beat, given.hosts))
            return
    print(f"Python {platform.python_version()}, grpcio {grpc.__version__}, {given.hosts} hosts, a heartbeat a second")
    ratios = []
    for _ in range(given.rounds):
        bare = micros_a_heartbeat(True, given.hosts, given.secs)
        ours = micros_a_heartbeat(False, given.hosts, given.secs)
        ratios.append(ours / bare)
        print(f"  bare {bare:6.1f} us a heartbeat   taskyard {ours:6.1f} us   ratio {ratios[-1]:.2f}")
    print(f"  ratio, median of {given.rounds}: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
