"""Agent of Taskyard in a window: `taskyard_durable_side.py ADDRESS HOW SUBMITTERS BATCH SECS`.

HOW is `sdk`, which submits as README shows it (several of a batch at once), `batch` for `submit_batch`, or `unary`: one
call of gRPC a task. The host is that of taskyard_side.py.
"""

import asyncio
import sys
from typing import Any

import grpc
import uvloop
from google.protobuf.struct_pb2 import Struct
from waves import DURABLE_BACKLOG, run_window

from taskyard import Client, NewTask
from taskyard.v1.task_pb2 import SubmitTaskRequest
from taskyard.v1.task_pb2_grpc import TaskServiceStub


def unary_request(task: dict[str, Any]) -> SubmitTaskRequest:
    params = Struct()
    params.update(task.pop("params"))
    return SubmitTaskRequest(params=params, **task)


async def agent(address: str, how: str, submitters: int, batch: int, secs: float) -> None:
    async with Client(address) as client, grpc.aio.insecure_channel(address) as channel:
        stub = TaskServiceStub(channel)

        async def by_sdk(tasks: list[dict[str, Any]]) -> None:
            await asyncio.gather(*(client.submit(task.pop("action"), **task) for task in tasks))

        async def by_batch(tasks: list[dict[str, Any]]) -> None:
            agents = [task.pop("agent_id") for task in tasks]
            await client.submit_batch([NewTask(**task) for task in tasks], agent_id=agents[0])

        async def by_call(tasks: list[dict[str, Any]]) -> None:
            (task,) = tasks
            await stub.SubmitTask(unary_request(task))

        async def ended() -> int:
            return (await client.stats()).metrics.tasks_completed

        ways = {"sdk": by_sdk, "batch": by_batch, "unary": by_call}
        await run_window(ways[how], submitters, batch, secs, ended, DURABLE_BACKLOG)


if __name__ == "__main__":
    server, way, *numbers = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(agent(server, way, int(numbers[0]), int(numbers[1]), float(numbers[2])))
