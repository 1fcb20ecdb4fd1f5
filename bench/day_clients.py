"""The clients of a day's load that come and go, by the SDK in Python; for day.py and soak.py.

    python bench/day_clients.py HOST:PORT

Agents submit tasks alone and in batches, wait for some and cancel some; hosts connect, work for some seconds, then
drain or break off; schedules fire every minute; watchers look at one agent or at all; others list tasks and ask for
figures. It is drawn with the same seed in each run. The program ends with an error if a part of it fails.
"""

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count

import grpc
import uvloop

from taskyard import Client, Host, NewTask, RetryPolicy, RunningTask, TaskyardError
from taskyard.v1 import schedule_pb2, schedule_pb2_grpc, task_pb2

ACTION = "day"
"""That of all tasks here. The hosts take no others: beside them there are hosts that do."""
AGENTS = 50
HOSTS = 6
SLOTS = 8
LIFE_SECS = (2.0, 6.0)
WORK_SECS = 0.03
"""The longest time that a handler takes."""
SUBMITS, BATCHES, READS = 40.0, 2.0, 2.0
"""Tasks alone, batches and reads a second."""
BATCH = 20
SCHEDULES = 50
AGENT_WATCHERS, ALL_WATCHERS = 8, 2
WATCH_SECS = 10.0
KINDS = (
    NewTask(ACTION),
    NewTask(ACTION, priority=2, labels={"kind": "report"}),
    NewTask(ACTION, retry_policy=RetryPolicy(max_attempts=3, first_delay=timedelta(seconds=0.1))),
    NewTask(ACTION, concurrency_keys=["crawl"], project="shop"),
    NewTask(ACTION, deadline=timedelta(seconds=30)),
)
"""What tasks are like, in turn."""


class Day:
    """All clients of one address."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._draw = random.Random(7)

    async def run(self) -> None:
        """Run until cancelled."""
        async with Client(self._address, agent_id="day") as client, grpc.aio.insecure_channel(self._address) as channel:
            await self._make_schedules(channel)
            async with asyncio.TaskGroup() as group:
                for place in range(HOSTS):
                    group.create_task(self._hosts(place))
                group.create_task(every(1 / SUBMITS, lambda number: self._submit(client, number)))
                group.create_task(every(1 / BATCHES, lambda number: self._submit_batch(client, number)))
                group.create_task(every(1 / READS, lambda number: self._read(client, number)))
                for number in range(AGENT_WATCHERS + ALL_WATCHERS):
                    group.create_task(self._watch(channel, number))

    async def _hosts(self, place: int) -> None:
        """One host after the other at one place."""
        for life in count():
            host = Host(self._address, f"day-{place}-{life}", slots=SLOTS)
            host.action(ACTION)(self._work)
            running = asyncio.create_task(host.run())
            await asyncio.sleep(self._draw.uniform(*LIFE_SECS))
            if self._draw.random() < 0.7:
                host.drain()
            else:
                running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def _work(self, task: RunningTask) -> dict[str, object]:
        await asyncio.sleep(self._draw.uniform(0, WORK_SECS))
        if self._draw.random() < 0.03:
            raise RuntimeError("the page has changed")
        return {"seen": task.id}

    async def _submit(self, client: Client, number: int) -> None:
        params = {"url": f"https://shop.example.com/orders/{number}", "text": "x" * self._draw.randrange(400)}
        kind = KINDS[number % len(KINDS)]
        task = await client.submit(replace(kind, params=params, agent_id=self._agent(number)))
        with suppress(TaskyardError, TimeoutError):
            if number % 10 == 0:
                await task.cancel()
            elif number % 4 == 0:
                await task.wait(timeout=30)

    async def _submit_batch(self, client: Client, number: int) -> None:
        tasks = [NewTask(ACTION, params={"page": page}, priority=page % 3) for page in range(BATCH)]
        await client.submit_batch(tasks, agent_id=self._agent(number))

    async def _read(self, client: Client, number: int) -> None:
        await client.stats()
        async for _ in client.list(agent_id=self._agent(number), page_size=50):
            break

    async def _watch(self, channel: grpc.aio.Channel, number: int) -> None:
        # What it is sent is not read, so that the load costs little.
        watch: grpc.aio.UnaryStreamMultiCallable[task_pb2.WatchTasksRequest, bytes] = channel.unary_stream(
            "/taskyard.v1.TaskService/WatchTasks", task_pb2.WatchTasksRequest.SerializeToString, None
        )
        while True:
            request = task_pb2.WatchTasksRequest()
            if number < AGENT_WATCHERS:
                request.agent_id = self._agent(number)
            call = watch(request)
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECS + number):
                    async for _ in call:
                        pass
            call.cancel()

    async def _make_schedules(self, channel: grpc.aio.Channel) -> None:
        stub = schedule_pb2_grpc.ScheduleServiceStub(channel)
        for number in range(SCHEDULES):
            task = schedule_pb2.TaskTemplate(agent_id=self._agent(number), action=ACTION)
            await stub.CreateSchedule(
                schedule_pb2.CreateScheduleRequest(schedule_id=f"day-{number}", cron="* * * * *", task=task)
            )

    def _agent(self, number: int) -> str:
        return f"day-{number % AGENTS}"


async def every(secs: float, do: Callable[[int], Awaitable[None]]) -> None:
    """Do something at even intervals, also while earlier ones last."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with asyncio.TaskGroup() as group:
        for number in count():
            await asyncio.sleep(begin + number * secs - loop.time())
            group.create_task(_done(do(number)))


async def _done(what: Awaitable[None]) -> None:
    await what


if __name__ == "__main__":
    uvloop.run(Day(sys.argv[1]).run())
