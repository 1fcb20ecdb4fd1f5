"""Agent and host of Taskyard, with the SDK as README shows it: `taskyard_side.py agent|host ADDRESS [WAVES SIZE]`."""

import asyncio
import sys
from typing import Any

import uvloop
from waves import Executed, run_waves

from taskyard import Client, Host, RunningTask

SLOTS = 1000


async def agent(address: str, waves: int, size: int) -> None:
    async with Client(address) as client:

        async def submit_all(tasks: list[dict[str, Any]]) -> None:
            await asyncio.gather(*(client.submit(task.pop("action"), **task) for task in tasks))

        await run_waves(submit_all, waves, size)


async def host(address: str) -> None:
    here, executed = Host(address, "host", slots=SLOTS), Executed()

    @here.action("click")
    async def click(task: RunningTask) -> None:
        del task
        executed.add()

    await here.run()


if __name__ == "__main__":
    kind, server, *numbers = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(agent(server, *map(int, numbers)) if kind == "agent" else host(server))
