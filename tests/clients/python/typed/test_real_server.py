"""Typed agents and hosts together, on a real server: what one sends the other reads, and failures say where."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from taskyard import Action, Client, FernetCodec, Host, TaskCancelled, TaskFailed, TaskState
from tests.clients.python.host.real_server import running
from tests.waiting import LIMIT_SECS, until

from .crawling import Links, Page

crawl = Action[Page, Links]("crawl")
outer = Action[list[str], list[str]]("outer")
waits = Action[None, None]("waits")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("server"), {"maxPerAgentInflight": 100}) as address:
        yield address


@pytest.fixture
async def namespace(request: pytest.FixtureRequest) -> str:
    return request.node.name[:40].replace("[", "-").replace("]", "")


@asynccontextmanager
async def yard(address: str, namespace: str, codec: FernetCodec | None = None) -> AsyncIterator[Client]:
    """A host that serves the actions, and a client for the agent, which the handlers use too."""
    host = Host(address, "host-1", namespace=namespace, slots=50, codec=codec)

    async with Client(address, agent_id="ann", namespace=namespace, codec=codec) as client, asyncio.timeout(LIMIT_SECS):

        @host.handles(crawl)
        async def fetch(page: Page) -> Links:
            if page.url == "broken":
                raise LookupError("no such host")
            return Links([page.url], page.size)

        @host.handles(outer)
        async def submit(urls: list[str]) -> list[str]:
            if urls == ["wait"]:
                await client.run(waits, None, cancel_on_exit=False)
            return [link for url in urls for link in (await client.run(crawl, Page(url))).found]

        @host.handles(waits)
        async def wait(_: None) -> None:
            await asyncio.Event().wait()

        serving = asyncio.create_task(host.run())
        try:
            yield client
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("codec", [None, FernetCodec(FernetCodec.new_key())], ids=["plain", "fernet"])
async def test_all_digits_and_failures_survive_the_way(address: str, namespace: str, codec: FernetCodec | None) -> None:
    async with yard(address, namespace, codec) as client:
        assert await client.run(crawl, Page("a", 2**60)) == Links(["a"], 2**60)
        with pytest.raises(TaskFailed, match="no such host") as raised:
            await client.run(crawl, Page("broken"))
        assert "LookupError: no such host" in (raised.value.traceback or "")
        assert "The traceback on host-1:" in raised.value.__notes__[0]
        async with client.map(crawl, [Page("a"), Page("broken"), Page("c")]) as outcomes:
            found = {outcome.index: outcome async for outcome in outcomes}
        assert found[2].result == Links(["c"])
        assert isinstance(found[1].error, TaskFailed)
        assert "LookupError" in (found[1].error.traceback or "")


async def test_what_a_handler_submits_has_its_task_as_its_parent(address: str, namespace: str) -> None:
    async with yard(address, namespace) as client:
        handle = await client.submit(outer, ["a", "b"])
        assert await handle.result() == ["a", "b"]
        assert [task.action async for task in client.list(parent_id=handle.id)] == ["crawl", "crawl"]
        waiting = await client.submit(outer, ["wait"])

        async def begun():
            return [task async for task in client.list(parent_id=waiting.id)]

        children = await until(begun)
        assert await waiting.cancel(cancel_children=True) is TaskState.CANCELLED
        with pytest.raises(TaskCancelled):
            await client.handle(children[0].id).result()


async def test_an_attempt_that_runs_too_long_is_timed_out(address: str, namespace: str) -> None:
    async with yard(address, namespace) as client:
        with pytest.raises(TaskFailed, match="run timeout of 100 ms exceeded") as raised:
            await client.run(waits, None, run_timeout=timedelta(milliseconds=100))
        assert raised.value.code == "timed_out"
