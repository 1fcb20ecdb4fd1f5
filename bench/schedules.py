"""The cost of 10,000 schedules that are due in the same minute: do all fire in time, and do other callers notice?

    python bench/schedules.py [--schedules N] [--quiet SECS]

A host executes the tasks of the schedules. A prober submits one task at a time and waits until another host has it,
beside an echo over a bare stream, both before the minute and in the window after it. Server, bare server, host and
prober are separate processes, on loopback and uvloop.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import statistics
import sys
import time
from typing import TYPE_CHECKING

import grpc
import servers
import uvloop

from taskyard import Host, RunningTask
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1 import runtime_host_pb2_grpc, schedule_pb2, schedule_pb2_grpc, task_pb2, task_pb2_grpc

if TYPE_CHECKING:
    from taskyard.v1.schedule_pb2_grpc import ScheduleServiceAsyncStub

LOCAL = (("grpc.use_local_subchannel_pool", 1),)
JITTER_SECS = 30.0
SPARE_SECS = 5.0
PROBE_EVERY_SECS = 0.02
AT_ONCE = 50


def settings(schedules: int) -> dict[str, dict[str, int]]:
    """Limits that all tasks fit in, and the documented jitter."""
    room = 2 * schedules
    return {
        "scheduler": {
            "maxQueueSize": room,
            "maxPerAgent": room,
            "maxInflight": room,
            "maxPerAgentInflight": room,
        },
        "daemon": {"maxConcurrent": room, "maxJitterMs": int(JITTER_SECS * 1000)},
    }


async def run_host(address: str) -> None:
    host = Host(address, "ticker", slots=200)

    @host.action("tick")
    async def tick(task: RunningTask) -> None:
        del task

    await host.run()


async def create(stub: ScheduleServiceAsyncStub, count: int, lead_secs: float) -> float:
    """Create the schedules, all due in the same minute, and return that minute."""
    begin = time.time()
    due = (int(begin + lead_secs) // 60 + 1) * 60
    minute, hour = time.gmtime(due)[4], time.gmtime(due)[3]
    pending = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with pending:
            task = schedule_pb2.TaskTemplate(agent_id=f"agent-{number % 100}", action="tick")
            asked = schedule_pb2.CreateScheduleRequest(
                schedule_id=f"s-{number}", cron=f"{minute} {hour} * * *", task=task
            )
            await stub.CreateSchedule(asked)

    await asyncio.gather(*map(one, range(count)))
    print(f"{count} schedules made in {time.time() - begin:.1f} s, due in {due - time.time():.0f} s")
    return due


class Prober:
    """Measures one task at a time from submit to its host, and one echo, in a loop."""

    def __init__(self, taskyard: grpc.aio.Channel, hosts: grpc.aio.Channel, bare: grpc.aio.Channel) -> None:
        self._submit = task_pb2_grpc.TaskServiceStub(taskyard).SubmitTask
        self._host = runtime_host_pb2_grpc.RuntimeHostServiceStub(hosts).Connect()
        self._echo = runtime_host_pb2_grpc.RuntimeHostServiceStub(bare).Connect()

    async def open(self) -> None:
        hello = pb.Hello(host_id="prober", instance="i", actions=["probe"])
        await self._host.write(pb.ConnectRequest(hello=hello))
        await self._host.read()

    async def until(self, end: float) -> tuple[list[float], list[float]]:
        """Seconds from submit to host, and of an echo, measured until the wall clock shows `end`."""
        starts, echoes = [], []
        while time.time() < end:
            await self._host.write(pb.ConnectRequest(credit=pb.Credit(count=1)))
            await self._acknowledged()
            reading = asyncio.ensure_future(self._host.read())
            await asyncio.sleep(0)
            begin = time.perf_counter()
            call = self._submit(task_pb2.SubmitTaskRequest(agent_id="prober", action="probe"))
            handed = await reading
            starts.append(time.perf_counter() - begin)
            await call
            assert isinstance(handed, pb.ConnectResponse)
            lease = handed.assignments.assignments[0].lease
            done = pb.Report(task_id=lease.task_id, fencing_token=lease.fencing_token, completed=pb.TaskCompleted())
            await self._host.write(pb.ConnectRequest(reports=pb.Reports(reports=[done])))
            await self._host.read()
            begin = time.perf_counter()
            await self._echo.write(pb.ConnectRequest(heartbeat=pb.Heartbeat(sequence=1)))
            await self._echo.read()
            echoes.append(time.perf_counter() - begin)
            await asyncio.sleep(PROBE_EVERY_SECS)
        return starts, echoes

    async def _acknowledged(self) -> None:
        await self._host.write(pb.ConnectRequest(heartbeat=pb.Heartbeat(sequence=1)))
        await self._host.read()


async def delays(stub: ScheduleServiceAsyncStub) -> list[float]:
    """The seconds from its due time for each trigger that fired."""
    found: list[float] = []
    token = ""
    while True:
        page = await stub.ListTriggers(schedule_pb2.ListTriggersRequest(page_token=token))
        found += [
            trigger.fired_at.ToMicroseconds() / 1e6 - trigger.due_at.ToMicroseconds() / 1e6
            for trigger in page.triggers
            if trigger.state == schedule_pb2.Trigger.completed
        ]
        token = page.next_page_token
        if not token:
            return sorted(found)


def line(name: str, secs: list[float]) -> str:
    cuts = statistics.quantiles(secs, n=100)
    longest = max(secs) * 1000
    return f"  {name:32s} p50 {cuts[49] * 1000:6.2f} ms   p99 {cuts[98] * 1000:6.2f} ms   max {longest:6.2f} ms"


async def measure(taskyard: str, bare: str, schedules: int, quiet_secs: float) -> None:
    async with (
        grpc.aio.insecure_channel(taskyard, LOCAL) as agents,
        grpc.aio.insecure_channel(taskyard, LOCAL) as hosts,
        grpc.aio.insecure_channel(bare, LOCAL) as other,
    ):
        stub = schedule_pb2_grpc.ScheduleServiceStub(agents)
        due = await create(stub, schedules, lead_secs=schedules / 1000 + quiet_secs)
        prober = Prober(agents, hosts, other)
        await prober.open()
        await asyncio.sleep(max(0.0, due - quiet_secs - time.time()))
        before = await prober.until(due)
        during = await prober.until(due + JITTER_SECS + SPARE_SECS)
        fired = await delays(stub)
    for name, (starts, echoes) in (("before", before), ("while they fire", during)):
        print(f"{name}, {len(starts)} probes")
        print(line("submit until a host has the task", starts))
        print(line("echo over a bare stream", echoes))
    print(f"fired and done: {len(fired)} of {schedules}, {fired[0]:.2f} to {fired[-1]:.2f} s after they were due")
    if len(fired) != schedules or not 0 <= fired[0] <= fired[-1] <= JITTER_SECS + 1:
        raise SystemExit("not each of them fired once within the jitter window")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--quiet", type=float, default=15, help="seconds measured before they are due")
    parser.add_argument("--host", metavar="HOST:PORT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.host:
        uvloop.run(run_host(given.host))
        return
    print(f"Python {platform.python_version()}, grpcio {grpc.__version__}")
    with (
        servers.taskyard(settings=settings(given.schedules)) as taskyard,
        servers.bare() as bare,
        servers.running(sys.executable, __file__, "--host", taskyard.address),
    ):
        uvloop.run(measure(taskyard.address, bare.address, given.schedules, given.quiet))


if __name__ == "__main__":
    main()
