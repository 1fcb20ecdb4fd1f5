"""Handlers with children, in a worker process, which imports them from here, or elsewhere."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from taskyard import Action, Host, RunningTask


@dataclass
class Page:
    """What to crawl."""

    url: str


@dataclass
class Links:
    """What was found."""

    urls: list[str]


crawl = Action[Page, Links]("crawl")


def plainly(task: RunningTask) -> list[str]:
    """Have two children, and hand on what they found."""
    pages = [task.child(f"page-{name}", crawl, Page(name)).value for name in task.params.get("names", "ab")]
    task.join(pages)
    return [url for page in pages for url in page.result().value.urls]


async def awaited(task: RunningTask) -> list[str]:
    """The same of an async function, which waits for all at once."""
    pages = [await task.child(f"page-{name}", crawl, Page(name)) for name in task.params.get("names", "ab")]
    found = await asyncio.gather(*[page.result() for page in pages])
    return [url for links in found for url in links.urls]


def large_plainly(task: RunningTask) -> list[int]:
    """Give a child a value that is too large for a message, and get two of that size."""
    page = task.child("page", crawl, Page("x" * task.params["size"])).value
    return [len(url) for url in page.result().value.urls]


async def large_awaited(task: RunningTask) -> list[int]:
    """The same of an async function."""
    page = await task.child("page", crawl, Page("x" * task.params["size"]))
    return [len(url) for url in (await page.result()).urls]


def host_of(handler, runs_in, slots=1) -> Host:
    """A host of parents and of their children."""
    host = Host(host_id="host-1", slots=slots)
    host.action("work", runs_in=runs_in)(handler)

    @host.handles(crawl)
    def crawled(page: Page) -> Links:
        return Links([f"{page.url}/{number}" for number in range(2)])

    return host
