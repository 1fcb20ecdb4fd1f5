"""A task that fails half-way, and does not do again what it has done: `python examples/steps.py`."""

import asyncio

from taskyard import Client, Host, Retry

host = Host("localhost:50051", "host-5")


async def fetch(url: str) -> list[str]:
    print("fetches", url)
    return ["one", "page", "of", "words"]


def count(words: list[str]) -> int:
    print("counts")
    return len(words)


@host.action()
async def report(task):
    words = await task.step("fetch", fetch, task.params["url"])
    if task.attempt == 1:
        raise Retry("anything may go wrong here")
    return await task.step("count", count, words)


async def main():
    async with Client("localhost:50051", agent_id="my-agent") as client:
        working = asyncio.create_task(host.run())
        task = await client.submit("report", params={"url": "a.example"})
        print("words:", await task.result())
        for step in await task.steps():
            print(step.name, step.result, "by attempt", step.attempt)
        host.drain()
        await working


asyncio.run(main())
