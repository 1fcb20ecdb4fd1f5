"""A task that says what it does, and a reader that follows it: `python examples/output.py`."""

import asyncio

from taskyard import Client, Host

host = Host("localhost:50051", "host-2")


@host.action()
async def write(task):
    for word in ["one", " word", " after", " the", " other\n"]:
        await task.emit(word)
    await task.emit({"words": 5}, channel="figures")
    task.log.info("written")


async def main():
    async with Client("localhost:50051", agent_id="my-agent") as client:
        working = asyncio.create_task(host.run())
        task = await client.submit("write")
        async for chunk in task.output():
            print(chunk.channel, repr(chunk.data))
        host.drain()
        await working


asyncio.run(main())
