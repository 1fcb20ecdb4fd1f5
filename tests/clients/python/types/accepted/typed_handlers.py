"""Programs of hosts that type checkers must accept."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from taskyard import Action, ActionFailed, Host, NotRetryable, Retry, RunningTask


@dataclass
class Page:
    """An input."""

    url: str


@dataclass
class Links:
    """An output."""

    found: list[str]


@asynccontextmanager
async def resources() -> AsyncGenerator[dict[str, str], None]:
    """What handlers share."""
    yield {"db": "a database"}


crawl = Action[Page, Links]("crawl")
host = Host("localhost:50051", "host-1", lifespan=resources)


@host.handles(crawl)
async def fetch(page: Page, task: RunningTask) -> Links:
    """An async handler with its task."""
    await task.progress(0.5, details={"done": task.checkpoint.get("done", 0)})
    if page.url == "busy":
        raise Retry("busy", after=timedelta(seconds=30))
    return Links([page.url, task.state.db])


@host.handles(crawl, runs_in="process")
def fetch_plainly(page: Page) -> Links:
    """A plain handler with its input alone."""
    if not page.url:
        raise NotRetryable("no address", code="no_url")
    return Links([page.url])


@host.action("crawl", runs_in="thread")
def crawl_plainly(task: RunningTask) -> dict[str, Any]:
    """A handler without a typed action."""
    task.check()
    if "url" not in task.params:
        raise ActionFailed("no address")
    return {"found": []}


@host.handles(crawl)
async def compare(page: Page, task: RunningTask, *, before: Links, count: int | None = None) -> Links:
    """An async handler that takes inputs by keyword."""
    shot = await task.read_artifact("shot.png", of="before")
    return Links([page.url, *before.found, *task.inputs, str(count), shot.decode()])


@host.handles(crawl, runs_in="thread")
def compare_plainly(page: Page, *, before: Links) -> Links:
    """A plain handler that takes an input by keyword."""
    return Links([page.url, *before.found])


@host.action("compare")
async def compare_any(task: RunningTask, *, before: Links) -> dict[str, Any]:
    """A handler without a typed action that takes an input by keyword."""
    return {"found": before.found, "state": task.inputs["before"].state}


@host.middleware
async def timed(task: RunningTask, call_next: Callable[[RunningTask], Awaitable[Any]]) -> Any:
    """What is around handlers."""
    return await call_next(task)


async def unit_test(task: RunningTask) -> list[str]:
    """Handlers are functions as before."""
    links: Links = await fetch(Page("a"), task)
    links = await compare(Page("a"), task, before=links, count=3)
    return links.found + fetch_plainly(Page("b")).found + compare_plainly(Page("c"), before=links).found


def count(page: Page, *, twice: bool) -> int:
    """A plain function of a step."""
    return len(page.url) * (2 if twice else 1)


async def links_of(page: Page) -> Links:
    """An async one."""
    return Links([page.url])


@host.action("steps")
async def takes_steps(task: RunningTask) -> list[str]:
    """The types of steps are those of their functions."""
    links: Links = await task.step("links", links_of, Page("a"))
    length: int = await task.step("count", count, Page("a"), twice=True)
    return [*links.found, str(length)]


@host.action("plain steps")
def takes_plain_steps(task: RunningTask) -> int:
    """In a plain function the result is there at once."""
    length: int = task.step("count", count, Page("a"), twice=False).value
    return length


@host.action("waits")
async def waits(task: RunningTask) -> Links:
    """An answer has the type that it is asked in."""
    said: Links = await task.ask("links", "Which?", type=Links, default=Links([]), timeout=timedelta(days=1))
    anything = await task.ask("go", "Go?", choices=["yes", "no"], url="https://a.example")
    await task.join([task.task, "tsk_1"])
    await task.sleep(timedelta(minutes=1), name=str(anything))
    return said
