"""What callers notice when replicas fail, hand over and restart: `python bench/failover.py [PART ...]`.

The parts, each with replicas and a PostgreSQL of its own:

- failover: the namespaces of a replica that gets kill -9. From then to the first submit that is acknowledged and to the
  first report under a lease from before, by calls to the other replicas.
- handover: a replica is told to stop, and started again, one after the other. How long no call of an SDK's agent was
  answered, calls that failed, leases that were lost.
- loading: seconds from the start of a replica to the first answer of a namespace, by its live tasks.
- idle: transactions a second at the database, of one replica and of three, with and without hosts.

Quantiles are over namespaces and rounds. Each namespace has the same share of the live tasks.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import grpc
import servers
import uvloop
from replica_sets import ReplicaSet, replicas
from run import machine

from taskyard import Client, Host, RunningTask, TaskyardError
from taskyard.v1 import lease_pb2, task_pb2
from taskyard.v1.batch_pb2 import BatchTask, SubmitBatchRequest
from taskyard.v1.batch_pb2_grpc import BatchServiceStub
from taskyard.v1.lease_pb2_grpc import LeaseServiceStub
from taskyard.v1.runtime_host_pb2 import RegisterHostRequest
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from taskyard.v1.task_pb2_grpc import TaskServiceStub

REPLICAS = 3
BATCH = 50
AT_ONCE = 8
TRY_SECS = 1.0
AGAIN_SECS = 0.01
LEASE_SECS = 120
LONGEST_SECS = 60.0
CALM_SECS = 3.0
HALF = task_pb2.Progress(fraction=0.5)
HOSTS_FILE = servers.HERE / "idle_hosts.py"


class Namespace:
    """One namespace, as callers of one replica see it. `since` waits for the first answers after a moment."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.metadata = (("taskyard-namespace", name),)
        self._token = 0.0
        self._task_id = ""

    async def fill(self, channel: grpc.aio.Channel, tasks: int) -> None:
        """Queue tasks that nobody takes."""
        stub: Any = BatchServiceStub(channel)

        async def submit(numbers: Iterator[int]) -> None:
            for first in numbers:
                some = [BatchTask(action="wait") for _ in range(min(BATCH, tasks - first))]
                request = SubmitBatchRequest(agent_id=f"agent-{first}", tasks=some)
                await stub.SubmitBatch(request, metadata=self.metadata)

        numbers = iter(range(0, tasks, BATCH))
        await asyncio.gather(*(submit(numbers) for _ in range(AT_ONCE)))

    async def lease(self, channel: grpc.aio.Channel) -> None:
        """Have one task at work at a host of plain calls."""
        hosts: Any = RuntimeHostServiceStub(channel)
        leases: Any = LeaseServiceStub(channel)
        tasks: Any = TaskServiceStub(channel)
        profile = RegisterHostRequest(host_id="reporter", actions=["work"])
        await hosts.RegisterHost(profile, metadata=self.metadata)
        request = task_pb2.SubmitTaskRequest(agent_id="reporting", action="work")
        await tasks.SubmitTask(request, metadata=self.metadata)
        claim = lease_pb2.ClaimTasksRequest(host_id="reporter", max_tasks=1, lease_secs=LEASE_SECS, wait_ms=5_000)
        claimed = (await leases.ClaimTasks(claim, metadata=self.metadata)).assignments[0].lease
        self._task_id, self._token = claimed.task_id, claimed.fencing_token
        start = lease_pb2.StartTaskRequest(host_id="reporter", task_id=self._task_id, fencing_token=self._token)
        await leases.StartTask(start, metadata=self.metadata)

    async def first_answers(self, channel: grpc.aio.Channel) -> tuple[float, float]:
        """When the first submit and the first report were acknowledged, by calls that are repeated without a pause."""
        tasks: Any = TaskServiceStub(channel)
        leases: Any = LeaseServiceStub(channel)
        submit = task_pb2.SubmitTaskRequest(agent_id="prober", action="wait")
        report = lease_pb2.ReportProgressRequest(
            host_id="reporter", task_id=self._task_id, fencing_token=self._token, progress=HALF
        )
        return tuple(  # type: ignore[return-value]
            await asyncio.gather(
                self._first(lambda: tasks.SubmitTask(submit, metadata=self.metadata, timeout=TRY_SECS)),
                self._first(lambda: leases.ReportProgress(report, metadata=self.metadata, timeout=TRY_SECS)),
            )
        )

    async def _first(self, call: Callable[[], Awaitable[Any]]) -> float:
        async with asyncio.timeout(LONGEST_SECS):
            while True:
                try:
                    await call()
                except grpc.aio.AioRpcError as error:
                    if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                        raise
                    await asyncio.sleep(AGAIN_SECS)
                else:
                    return time.monotonic()


async def failover(given: argparse.Namespace) -> None:
    """Kill one after the other, and print how long its namespaces were away."""
    spaces = [Namespace(f"space-{number}") for number in range(given.namespaces)]
    to_submit: list[float] = []
    to_report: list[float] = []
    with replicas(REPLICAS) as found:
        async with grpc.aio.insecure_channel(found.front) as channel:
            await until_well(spaces, channel)
            await in_turns(spaces, lambda space: space.fill(channel, given.tasks // given.namespaces))
            await in_turns(spaces, lambda space: space.lease(channel))
        for number in range(given.rounds):
            await settled(found, spaces)
            victim = number % REPLICAS
            name = found.places[victim].name
            away = [space for space in spaces if found.owners().get(space.name) == name]
            other = found.places[(victim + 1) % REPLICAS].grpc
            async with grpc.aio.insecure_channel(other) as channel:
                await channel.channel_ready()
                killed_at = time.monotonic()
                await asyncio.to_thread(found.kill, victim)
                answers = await asyncio.gather(*(space.first_answers(channel) for space in away))
            to_submit += [submitted - killed_at for submitted, _ in answers]
            to_report += [reported - killed_at for _, reported in answers]
            print(f"... round {number + 1}: {len(away)} namespaces", file=sys.stderr, flush=True)
            await asyncio.to_thread(found.start, victim)
    tell(f"kill -9 to the first submit, {given.tasks:,} live tasks", to_submit)
    tell("kill -9 to the first report", to_report)


async def handover(given: argparse.Namespace) -> None:
    """Stop and start one after the other under calls of the SDK, and print what its callers noticed."""
    spaces = [Namespace(f"space-{number}") for number in range(given.namespaces)]
    with replicas(REPLICAS) as found:
        async with grpc.aio.insecure_channel(found.front) as channel:
            await until_well(spaces, channel)
            await in_turns(spaces, lambda space: space.fill(channel, given.tasks // given.namespaces))
        callers = [Caller(found.front, space.name) for space in spaces]
        for caller in callers:
            await caller.start()
        await asyncio.sleep(CALM_SECS)
        pauses: list[float] = []
        stops: list[float] = []
        for number in range(given.rounds):
            await settled(found, spaces)
            calm = [max(caller.gaps(time.monotonic() - CALM_SECS)) for caller in callers]
            began = time.monotonic()
            name = found.places[number % REPLICAS].name
            moved = {space for space, owner in found.owners().items() if owner == name}
            stops.append(await asyncio.to_thread(found.terminate, number % REPLICAS))
            await asyncio.sleep(CALM_SECS)
            pauses += [max(each.gaps(began)) for each in callers if each.name in moved]
            await asyncio.to_thread(found.start, number % REPLICAS)
            quiet = f"longest pause before {max(calm) * 1e3:.0f} ms"
            print(f"... round {number + 1}: {len(moved)} namespaces moved, {quiet}", file=sys.stderr, flush=True)
        failed = [error for caller in callers for error in caller.failed]
        calls = sum(len(caller.answered) for caller in callers)
        lost = sum([await caller.stop() for caller in callers])
    tell(f"longest pause of a caller at a hand-over, {given.tasks:,} live tasks", pauses)
    tell("SIGTERM to the end of the process", stops)
    print(f"{calls:,} calls of the SDK, {len(failed)} failed, {lost} leases lost {failed[:3]}")


class Caller:
    """An agent and a host of the SDK in one namespace: it submits, and waits for the answer of each task."""

    def __init__(self, address: str, name: str) -> None:
        self.name = name
        self.answered: list[float] = []
        self.failed: list[str] = []
        self._client = Client(address, namespace=name, agent_id="agent")
        self._host = Host(
            *(address, "host"),
            namespace=name,
            slots=4,
            lease=30,
            machine_figures=False,
        )
        self._tasks: list[asyncio.Task[None]] = []

        @self._host.action("work")
        async def work(_: RunningTask) -> None:
            await asyncio.sleep(1.0)

    async def start(self) -> None:
        """Begin."""
        self._tasks = [asyncio.create_task(self._submit()), asyncio.create_task(self._host.run())]

    async def stop(self) -> int:
        """End, and return how many leases were lost."""
        stats = await self._client.stats()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()
        return stats.metrics.leases_expired

    def gaps(self, since: float) -> list[float]:
        """The times between answers since a moment."""
        times = [since, *(at for at in self.answered if at > since)]
        return [after - before for before, after in pairwise(times)] or [time.monotonic() - since]

    async def _submit(self) -> None:
        count = 0
        while True:
            count += 1
            try:
                await self._client.submit("work" if count % 25 == 0 else "wait")
            except TaskyardError as error:
                self.failed.append(str(error))
            self.answered.append(time.monotonic())
            await asyncio.sleep(AGAIN_SECS)


async def loading(given: argparse.Namespace) -> None:
    """Print how long a namespace takes until it answers, by its live tasks."""
    space = Namespace("space")
    for tasks in (given.tasks, 5 * given.tasks):
        with replicas(1) as found:
            async with grpc.aio.insecure_channel(found.places[0].grpc) as channel:
                await until_well([space], channel)
                await space.fill(channel, tasks)
                await space.lease(channel)
            for how in ("told to stop", "killed"):
                await asyncio.to_thread(found.terminate if how == "told to stop" else found.kill, 0)
                began = time.monotonic()
                await asyncio.to_thread(found.start, 0)
                served = time.monotonic() - began
                async with grpc.aio.insecure_channel(found.places[0].grpc) as channel:
                    answered = (await space.first_answers(channel))[0] - began
                print(f"{tasks:,} live tasks, {how}: listens after {served:.2f} s, answers after {answered:.2f} s")


async def idle(given: argparse.Namespace) -> None:
    """Print the transactions a second while nothing is to be done."""
    for count in (1, REPLICAS):
        with replicas(count) as found:
            async with grpc.aio.insecure_channel(found.front) as channel:
                await until_well([Namespace("default")], channel)
            await tell_idle(found, f"{count} replicas, nobody connected", given.secs)
            if count == 1:
                command = (sys.executable, str(HOSTS_FILE), found.places[0].grpc, str(given.hosts))
                with servers.running(*command):
                    await asyncio.sleep(given.hosts / 1000 + CALM_SECS)
                    await tell_idle(found, f"{count} replicas, {given.hosts:,} idle hosts", given.secs)


async def tell_idle(found: ReplicaSet, name: str, secs: float) -> None:
    await asyncio.sleep(CALM_SECS)
    before, began = found.statements(), time.monotonic()
    await asyncio.sleep(secs)
    # Looking is one itself.
    print(f"{name}: {(found.statements() - before - 1) / (time.monotonic() - began):.1f} transactions/s")


async def in_turns(spaces: Sequence[Namespace], call: Callable[[Namespace], Awaitable[None]]) -> None:
    for space in spaces:
        await call(space)


async def until_well(spaces: Sequence[Namespace], channel: grpc.aio.Channel) -> None:
    """Wait until each namespace takes tasks."""
    stub: Any = TaskServiceStub(channel)
    for space in spaces:
        request = task_pb2.SubmitTaskRequest(agent_id="first", action="wait")
        await space._first(lambda: stub.SubmitTask(request, metadata=space.metadata, timeout=5.0))  # noqa: B023


async def settled(found: ReplicaSet, spaces: Sequence[Namespace]) -> None:
    """Wait until every replica owns its share of the namespaces."""
    share = -(-len(spaces) // len(found.places))
    async with asyncio.timeout(LONGEST_SECS):
        while True:
            owners = [owner for name, owner in found.owners().items() if name.startswith("space")]
            if len(owners) == len(spaces) and max(map(owners.count, set(owners))) <= share + 1:
                break
            await asyncio.sleep(0.2)
    await asyncio.sleep(CALM_SECS)


def tell(name: str, values: Sequence[float]) -> None:
    """Print quantiles in seconds."""
    values = sorted(values)
    if not values:
        print(f"{name}: none")
        return
    p99 = values[min(len(values) - 1, int(len(values) * 0.99))]
    print(f"{name}: p50 {statistics.median(values):.2f} s, p99 {p99:.2f} s, most {values[-1]:.2f} s of {len(values)}")


PARTS = {"failover": failover, "handover": handover, "loading": loading, "idle": idle}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--tasks", type=int, default=20_000, help="live tasks, over all namespaces")
    parser.add_argument("--namespaces", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--secs", type=float, default=20.0, help="how long the idle are looked at")
    parser.add_argument("--hosts", type=int, default=10_000, help="idle hosts")
    given = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()), flush=True)
    for part in given.parts or PARTS:
        uvloop.run(PARTS[part](given))


if __name__ == "__main__":
    main()
