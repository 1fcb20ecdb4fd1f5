"""What watchers cost the server: one beside a thousand, and a fan-out, each beside a bare grpc.aio stream.

    python bench/watchers.py [--events N] [--rounds N]

The server runs in a process of its own, makes the events itself, at a steady rate, and its CPU time is read from
outside. What the same events cost with no watcher is subtracted. The yardstick sends as many messages of the same size
over as many streams, with nothing behind them. Rates are low enough for one event a message, save in the fan-out. The
figures are the medians of all rounds.
"""

import argparse
import asyncio
import json
import platform
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import product
from statistics import median
from tempfile import TemporaryDirectory

import grpc
import psutil
import uvloop

from taskyard.v1 import task_pb2, task_pb2_grpc
from taskyard_server import garbage
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from taskyard_server.engine.event_log import EventLogs
from taskyard_server.engine.memory import MemoryEngine
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.logs import configure
from taskyard_server.services.tasks import TaskService
from taskyard_server.services.watch import TaskWatches, encode_event

MANY = 1_000
FAN_OUT = 50
TICK_SECS = 0.001
STREAMS_A_CHANNEL = 100
WATCH = "/taskyard.v1.TaskService/WatchTasks"
BARE = "/bare.Bare/Watch"
EVERYTHING = -1
"""In place of the number of a stream: a watcher of all tasks, or all streams."""
UNBOUNDED = Limits(
    max_queue_size=1 << 40, max_per_agent=1 << 40, max_inflight=1 << 40, max_per_agent_inflight=1 << 40,
    default_deadline_secs=3600, lease_secs=3600,
)  # fmt: skip

Emit = Callable[[int], Awaitable[None]]


@dataclass(frozen=True)
class Load:
    """`streams` watchers; in each tick, `burst` events, each of the next of `tasks` tasks."""

    streams: int
    tasks: int
    burst: int
    events: int
    is_fan_out: bool = False


# In the process of the server


async def serve(kind: str, address: str, size: int) -> None:
    """Serve watches or bare streams, and make events as the lines of standard input ask for."""
    configure("error")
    server = grpc.aio.server(interceptors=(CallInterceptor(),) if kind == "watch" else ())
    emit = await (_watches(server) if kind == "watch" else _bare(server, size))
    server.add_insecure_port(address)
    await server.start()
    garbage.tame()
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        begin = loop.time()
        for number in range(asked["events"]):
            if number % asked["burst"] == 0:
                await asyncio.sleep(begin + number // asked["burst"] * TICK_SECS - loop.time())
            await emit(EVERYTHING if asked["is_fan_out"] and kind == "bare" else number % asked["tasks"])
        print("done", flush=True)


async def _watches(server: grpc.aio.Server) -> Emit:
    engine = MemoryEngine(UNBOUNDED)
    logs = EventLogs(encode_event, engine.now)
    engine.subscribe(logs)
    tasks = TaskService(engine, 262_144, TaskWatches(engine, logs))
    task_pb2_grpc.add_TaskServiceServicer_to_server(tasks, server)
    await engine.register("default", "host", None, HostProfile())
    for number in range(MANY):
        await engine.submit("default", Submission(f"agent-{number}", "click"))
    leases = await engine.claim("default", "host", MANY)
    for number, lease in enumerate(leases):
        # Watchers name their tasks by agent, whose names are known beforehand.
        assert lease.task.agent_id == f"agent-{number}"
        await engine.start("default", "host", lease.task.id, lease.token)
    progress = task_pb2.Progress(fraction=0.5, message="half of it is done").SerializeToString()

    async def emit(number: int) -> None:
        lease = leases[number]
        await engine.progress("default", "host", lease.task.id, lease.token, progress)

    return emit


async def _bare(server: grpc.aio.Server, size: int) -> Emit:
    queues: dict[int, asyncio.Queue[bytes]] = {}
    message = bytes(size)

    async def stream(request: bytes, _: object) -> AsyncIterator[bytes]:
        queue = queues[int(request)] = asyncio.Queue()
        yield b""
        while True:
            got = await queue.get()
            # What came together goes together, as it does in a watch.
            while not queue.empty():
                got += queue.get_nowait()
            yield got

    handler = grpc.unary_stream_rpc_method_handler(stream)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare.Bare", {"Watch": handler}),))

    async def emit(number: int) -> None:
        for queue in queues.values() if number == EVERYTHING else filter(None, [queues.get(number)]):
            queue.put_nowait(message)

    return emit


# In the process of the watchers


@dataclass
class Seen:
    """What the watchers got, the messages with which they began aside."""

    messages: int = 0
    bytes: int = 0


class Server:
    """A server in a process of its own."""

    def __init__(self, kind: str, size: int = 0) -> None:
        self.kind = kind
        self._folder = TemporaryDirectory()
        self._address = f"unix:{self._folder.name}/server.sock"
        command = [sys.executable, __file__, "--serve", kind, "--address", self._address, "--size", str(size)]
        self._process: subprocess.Popen[str] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert "ready" in self._process.stdout.readline()

    async def cpu_secs(self, load: Load) -> tuple[float, Seen]:
        """CPU seconds that the events took, and what was seen of them."""
        async with self._watched(load) as seen:
            before = self._used()
            assert self._process.stdin is not None
            print(json.dumps(vars(load)), file=self._process.stdin, flush=True)
            done = await asyncio.get_running_loop().run_in_executor(None, self._process.stdout.readline)
            assert "done" in done
            await asyncio.sleep(0.3)
            return self._used() - before, seen

    @asynccontextmanager
    async def _watched(self, load: Load) -> AsyncIterator[Seen]:
        seen = Seen()
        options = (("grpc.use_local_subchannel_pool", 1),)
        channels = [
            grpc.aio.insecure_channel(self._address, options=options)
            for _ in range(0, load.streams, 1 if load.is_fan_out else STREAMS_A_CHANNEL)
        ]
        readers = []
        for number in range(load.streams):
            channel = channels[number % len(channels)]
            if self.kind == "watch":
                agent = None if load.is_fan_out else f"agent-{number}"
                call = channel.unary_stream(WATCH)(task_pb2.WatchTasksRequest(agent_id=agent).SerializeToString())
            else:
                call = channel.unary_stream(BARE)(str(number).encode())
            await call.read()
            readers.append(asyncio.create_task(_read(call, seen)))
        await asyncio.sleep(0.3)
        yield seen
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        for channel in channels:
            await channel.close()
        await asyncio.sleep(0.3)

    def _used(self) -> float:
        times = psutil.Process(self._process.pid).cpu_times()
        return times.user + times.system

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.terminate()
        self._process.wait(timeout=20)
        self._folder.cleanup()


async def _read(call: grpc.aio.UnaryStreamCall[bytes, bytes], seen: Seen) -> None:
    while (message := await call.read()) is not grpc.aio.EOF:
        seen.messages += 1
        seen.bytes += len(message)


async def measure(events: int, rounds: int) -> None:
    """Print the table."""
    loads = {
        "1 watcher": Load(1, 1, 1, events),
        f"{MANY:,} watchers, each of one task": Load(MANY, MANY, 1, events),
        f"{FAN_OUT} watchers of everything": Load(FAN_OUT, MANY, 10, events, is_fan_out=True),
    }
    print(f"{platform.python_version()}, grpcio {grpc.__version__}, {psutil.cpu_count()} CPUs\n")
    print(f"us of server CPU an event delivered {'a watch':>12}{'bare stream':>14}{'ratio':>8}   events a message")
    watch = Server("watch")
    _, seen = await watch.cpu_secs(loads["1 watcher"])
    bare = Server("bare", size=seen.bytes // events)
    runs: dict[tuple[str, str], list[float]] = defaultdict(list)
    coalesced: dict[str, float] = {}
    # In turn, so that what else the machine does falls on all of them.
    for _, (name, load), server in product(range(rounds), loads.items(), (watch, bare)):
        secs, seen = await server.cpu_secs(load)
        idle, _ = await server.cpu_secs(replace(load, streams=0))
        delivered = load.events * (FAN_OUT if load.is_fan_out else 1)
        runs[name, server.kind].append((secs - idle) / delivered * 1e6)
        if server is watch:
            coalesced[name] = delivered / seen.messages
    for server in (watch, bare):
        server.stop()
    costs = {name: median(runs[name, "watch"]) for name in loads}
    for name, ours in costs.items():
        plain = median(runs[name, "bare"])
        print(f"{name:36}{ours:12.1f}{plain:14.1f}{ours / plain:8.2f}   {coalesced[name]:.1f}")
    one, many, _ = costs.values()
    print(f"\n{MANY:,} watchers beside one: {many / one:.2f} times the cost of an event")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5_000, help="events a run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", choices=["watch", "bare"], help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        uvloop.run(serve(given.serve, given.address, given.size))
    else:
        asyncio.run(measure(given.events, given.rounds))


if __name__ == "__main__":
    main()
