"""An agent in Python: submits a task and waits for its result. `examples/host.py` runs the task."""

import asyncio

from taskyard import Client


async def main():
    async with Client("localhost:50051", agent_id="my-agent") as client:
        submitted = await client.submit("greet", params={"name": "Alan Turing"})
        task = await client.wait(submitted.id)
        print(task.state, task.result)


asyncio.run(main())
