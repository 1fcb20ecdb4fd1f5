"""The blocking client has the typed calls, too: of threads, with inputs that block."""

import asyncio
import threading
import time

import pytest

from taskyard import SyncClient, SyncTaskHandle, TaskFailed, TaskState
from tests.waiting import until_in_thread

from .crawling import Links, Page, crawl


def answer(action, params):
    del action
    if params["url"] == "broken":
        raise ValueError("no such host")
    return {"found": [params["url"]], "total": params["size"]}


@pytest.fixture
async def blocking(server):
    """Runs a function of a blocking client in a thread."""
    client = await asyncio.to_thread(SyncClient, server.address, agent_id="ann")
    yield lambda call: asyncio.to_thread(call, client)
    await asyncio.to_thread(client.close)


async def test_typed_runs_and_handles(server, blocking, working):
    def calls(client):
        assert client.run(crawl, Page("a", 3)) == Links(["a"], 3)
        handle = client.submit(crawl, Page("b", 4))
        assert isinstance(handle, SyncTaskHandle)
        assert (handle.state, handle.position > 0, handle.action) == (TaskState.QUEUED, True, crawl)
        assert handle.result(timeout=10) == handle.result() == Links(["b"], 4)
        assert [event.task.state for event in handle.events()][-1] is TaskState.DONE
        picked = client.handle(handle.id, crawl)
        assert (picked, picked.task().id, picked.wait().state) == (handle, handle.id, TaskState.DONE)
        with pytest.raises(AttributeError, match="picked up"):
            _ = picked.state
        with pytest.raises(TaskFailed, match="no such host"):
            client.run("crawl", params={"url": "broken", "size": 1})

    async with working(server, answer):
        await blocking(calls)


async def test_maps_and_completed_handles(server, blocking, working):
    readers = set()

    def pages():
        for number in range(150):
            readers.add(threading.current_thread().name)
            if number == 3:
                time.sleep(0.01)
            yield Page("a", number)

    def calls(client):
        with client.map(crawl, pages(), max_outstanding=20) as outcomes:
            assert sorted(outcome.result.total for outcome in outcomes) == list(range(150))
        handles = [client.submit(crawl, Page("b", number)) for number in range(20)]
        assert {handle.result().total for handle in client.as_completed(handles)} == set(range(20))

    async with working(server, answer):
        await blocking(calls)
    # Neither the caller nor the loop of the client is held up by inputs that block.
    assert not {name for name in readers if "taskyard" in name}


async def test_leaving_a_map_cancels_what_has_not_ended(server, blocking):
    def calls(client):
        with client.map(crawl, [Page("a", number) for number in range(5)]):
            until_in_thread(lambda: client.stats().queue.total_queued, lambda queued: queued == 5)
        # What the server has accepted and not yet answered is cancelled once the answer comes.
        return until_in_thread(
            lambda: [task.state for task in client.list()], lambda states: states == [TaskState.CANCELLED] * 5
        )

    assert await blocking(calls)
    assert await server.made() == 5


async def test_inputs_may_call_the_client_themselves(server, blocking, working):
    def calls(client):
        inputs = (Page("a", client.run(crawl, Page("a", number)).total) for number in range(3))
        with client.map(crawl, inputs) as outcomes:
            return sorted(outcome.result.total for outcome in outcomes)

    async with working(server, answer):
        assert await blocking(calls) == [0, 1, 2]
