"""Tasks whose results are handed on to another one: `python examples/inputs.py`."""

import asyncio
from dataclasses import dataclass

from taskyard import Client, Host

host = Host("localhost:50051", "host-4")


@dataclass
class Page:
    url: str
    words: list[str]


@host.action()
async def fetch(task):
    return {"url": task.params["url"], "words": ["word"] * task.params["count"]}


@host.action()
async def summarise(_task, *, page: Page, other: Page):
    return f"{page.url} has {len(page.words)} words, {other.url} has {len(other.words)}"


async def main():
    async with Client("localhost:50051", agent_id="my-agent") as client:
        working = asyncio.create_task(host.run())
        page = await client.submit("fetch", params={"url": "a.example", "count": 3})
        other = await client.submit("fetch", params={"url": "b.example", "count": 100_000})
        task = await client.submit("summarise", inputs={"page": page, "other": other})
        print(await task.result())
        host.drain()
        await working


asyncio.run(main())
