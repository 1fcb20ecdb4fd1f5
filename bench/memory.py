"""The memory of a task while it is queued, while it runs, while it is parked, and while it is retained after its end.

For core and engine it is counted to the byte, without a payload. For the server it is the growth of resident memory
with queued tasks of about 300 bytes, which includes the payload, parts of pages and the reserve of the allocator.
"""

import asyncio
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace

import grpc
import servers
from core import UNBOUNDED
from rows import Aim, Case, Figure, Measure, Row

from taskyard.v1 import stats_pb2, stats_pb2_grpc
from taskyard.v1.wait_pb2 import Question
from taskyard_server.core.history import ANSWER, Wait
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.streams import HeldLease
from taskyard_server.core.task import Submission
from taskyard_server.engine.engine import Engine

TASKS = 20_000
AGENTS = 1_000
AIM = Aim(600, "value")


def cases() -> list[Case]:
    """Rows for four states in the engine, and for the whole server."""
    return [
        _in_the_engine("queued", queued),
        _in_the_engine("running", running),
        _in_the_engine("parked", parked, Aim(700, "value")),
        _in_the_engine("retained", retained),
        Case((Row("memory, server, queued task of 300 bytes", "bytes", better="less"),), _resident),
    ]


async def queued(engine: Engine) -> None:
    for number in range(TASKS):
        await engine.tasks.submit("default", Submission(f"agent-{number % AGENTS}", "click"), show=nothing)
        # Events are delivered and dropped at the end of each turn of the loop.
        await asyncio.sleep(0)


async def running(engine: Engine) -> None:
    await queued(engine)
    await engine.hosts.register("default", "host", None, HostProfile(), show=nothing)
    for task_id, token in await engine.leases.claim("default", "host", TASKS, show=held):
        await engine.leases.report("default", "host", [Report(ReportKind.STARTED, task_id, token)])
        await asyncio.sleep(0)


async def parked(engine: Engine) -> None:
    await queued(engine)
    await engine.hosts.register("default", "host", None, HostProfile(), show=nothing)
    for task_id, token in await engine.leases.claim("default", "host", TASKS, show=held):
        wait = Wait(ANSWER, "go", engine.now() + 604_800, question=Question(text="Go on?").SerializeToString())
        await engine.leases.report("default", "host", [Report(ReportKind.PARKED, task_id, token, waits=(wait,))])
        await asyncio.sleep(0)


async def retained(engine: Engine) -> None:
    await engine.hosts.register("default", "host", None, HostProfile(), show=nothing)
    for number in range(TASKS):
        await engine.tasks.submit("default", Submission(f"agent-{number % AGENTS}", "click"), show=nothing)
        ((task_id, token),) = await engine.leases.claim("default", "host", 1, show=held)
        await engine.leases.report("default", "host", [Report(ReportKind.COMPLETED, task_id, token)])
        await asyncio.sleep(0)


def nothing(_: object) -> None:
    """Shows nothing of an answer."""


def held(leases: list[Lease]) -> list[HeldLease]:
    """The task and the token of each lease."""
    return [(lease.task.id, lease.token) for lease in leases]


def _in_the_engine(state: str, build: Callable[[Engine], Coroutine[object, object, None]], aim: Aim = AIM) -> Case:
    async def bytes_a_task() -> float:
        engine = Engine(replace(UNBOUNDED, max_retained_tasks=TASKS))
        tracemalloc.start()
        try:
            await build(engine)
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        await engine.admin.close()
        return used / TASKS

    @contextmanager
    def opened() -> Iterator[Measure]:
        yield lambda _: [Figure(asyncio.run(bytes_a_task()))]

    row = Row(f"memory, {state} task, payload aside", "bytes", better="less", aim=aim)
    # The result is the same in each round. There are two, so that runs can be compared.
    return Case((row,), opened, apart=True, rounds=2)


@contextmanager
def _resident() -> Iterator[Measure]:
    with servers.taskyard() as server, grpc.insecure_channel(server.address) as channel:
        stats = stats_pb2_grpc.StatsServiceStub(channel)

        def now() -> tuple[float, float]:
            return server.rss_bytes(), stats.GetStats(stats_pb2.GetStatsRequest()).queue.total_queued

        def fill(secs: float) -> None:
            servers.load("stream", server, secs)

        # The part that does not depend on the number of tasks.
        fill(servers.WARM_UP_SECS)

        def measure(secs: float) -> list[Figure]:
            bytes_before, tasks_before = now()
            fill(secs)
            bytes_after, tasks_after = now()
            return [Figure((bytes_after - bytes_before) / (tasks_after - tasks_before))]

        yield measure
