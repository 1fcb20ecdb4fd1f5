"""Artifacts in a yard, whose server keeps them in memory, or beside its store."""

import asyncio

from taskyard import Host
from taskyard.testing import Yard
from tests import uploaders
from tests.clients.python.artifacts import handlers
from tests.waiting import LIMIT_SECS

DATA = uploaders.content(20_000_000)


async def test_a_yard_keeps_what_handlers_put_and_passes_large_values_on(yard):
    host = Host(host_id="h")
    host.action("doubles", runs_in="process")(handlers.doubles)
    yard.host(host)
    text = "x" * 300_000
    task = await yard.client.submit("doubles", params={"text": text})
    ended = await yard.until_ended(task)
    assert [each.created_at for each in ended.artifacts] == [yard.now, yard.now]
    assert await task.result() == text * 2


def test_a_yard_of_plain_functions_does_the_same(sync_yard, tmp_path):
    sync_yard.host({"work": lambda task: task.put_artifact("data", b"data").value.size_bytes})
    task = sync_yard.client.submit("work")
    assert sync_yard.until_ended(task).result == 4
    assert sync_yard.client.read_artifact(task.id, "data") == task.read_artifact("data") == b"data"
    task.save_artifact("data", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"data"


async def test_uploads_and_readings_go_on_over_restarts_of_the_server(tmp_path):
    begun = asyncio.Event()

    async def work(task):
        begun.set()
        await task.put_artifact("data", DATA)
        return (await task.read_artifact("data")) == DATA

    async with Yard(store=tmp_path / "yard.db") as yard:
        yard.host({"work": work})
        task = await yard.client.submit("work")
        await asyncio.wait_for(begun.wait(), LIMIT_SECS)
        for _ in range(3):
            await yard.restart()
        async with asyncio.timeout(LIMIT_SECS):
            assert await task.result() is True
        reading = asyncio.create_task(task.read_artifact("data"))
        await yard.restart()
        assert await asyncio.wait_for(reading, LIMIT_SECS) == DATA
