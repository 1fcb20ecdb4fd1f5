"""Hosts that put and read artifacts, wherever their handlers run: over breaks, restarts and lost leases."""

import asyncio
import itertools
from datetime import timedelta
from types import SimpleNamespace

import pytest

from taskyard import Conflict, Internal, NotFound, Retry, TaskFailed, TaskState, TooLarge
from taskyard_server.core.errors import Unavailable as Away
from taskyard_server.core.runs.artifacts import Right
from tests import uploaders
from tests.clients.python.artifacts import handlers
from tests.clients.python.artifacts.conftest import damage
from tests.waiting import LIMIT_SECS

PART_BYTES = 1 << 20
DATA = uploaders.content(3 * PART_BYTES + 5)
PARTS = [(0, PART_BYTES), (PART_BYTES, PART_BYTES), (2 * PART_BYTES, PART_BYTES), (3 * PART_BYTES, 5)]


async def puts(task):
    return (await task.put_artifact("data", DATA)).sha256


async def reads(task):
    return len(await task.read_artifact("data"))


def once_after(server, number, do):
    """Have this done once the part of this number is taken, from 1, before its answer is sent."""

    async def answering():
        if len(server.artifacts.parts) == number:
            await do()

    server.artifacts.answering = answering


async def finished(client, **fields):
    """The handle of a task of the action `work` that is done."""
    async with asyncio.timeout(LIMIT_SECS):
        handle = await client.submit("work", **fields)
        await handle.result()
    return handle


@pytest.mark.parametrize(
    ("handler", "runs_in"),
    [
        (handlers.puts_async, "loop"),
        (handlers.puts, "thread"),
        (handlers.puts, "process"),
        (handlers.puts_async, "process"),
    ],
)
async def test_handlers_of_all_kinds_put_and_read(server, client, begin, tmp_path, handler, runs_in):
    file = tmp_path / "file.txt"
    file.write_text("of a file")
    begin(server, handler, runs_in)
    handle = await finished(client, params={"count": 500_000, "file": str(file)})
    assert await handle.result() == ["text/html", 1_500_000, "text/x-own", 1_500_000, "of a file"]
    assert [each.attempt for each in (await handle.task()).artifacts] == [1, 1]
    assert await handle.read_artifact("page.html") == b"<p>" * 500_000


@pytest.mark.parametrize("runs_in", ["thread", "process"])
async def test_what_goes_wrong_is_raised_in_the_handler(server, client, begin, runs_in):
    begin(server, handlers.fails, runs_in)
    not_found, no_file = await (await finished(client)).result()
    assert not_found == "NotFound: not_found: artifact not found"
    assert no_file.startswith("FileNotFoundError: [Errno 2]")


async def test_a_host_reads_what_the_submitter_has_attached(server, client, begin):
    begin(server, reads)
    handle = await client.submit("work", hold=True)
    await client.attach_artifact(handle.id, "data", DATA)
    await client.resume(handle.id)
    assert await handle.result() == len(DATA)


async def test_an_attempt_reads_what_an_earlier_one_has_put(server, client, begin):
    async def work(task):
        if task.attempt == 1:
            await task.put_artifact("data", DATA)
            raise Retry(after=timedelta(0))
        return (await task.read_artifact("data")) == DATA

    begin(server, work)
    assert await (await finished(client)).result() is True


@pytest.mark.parametrize("number", [1, 2, 4])
async def test_a_part_whose_answer_is_lost_is_sent_again(server, client, wire, begin, number):
    async def cut():
        wire.cut()

    once_after(server, number, cut)
    begin(wire, puts)
    handle = await finished(client)
    assert server.artifacts.parts == sorted([*PARTS, PARTS[number - 1]])
    assert await handle.read_artifact("data") == DATA


async def test_an_upload_goes_on_when_the_server_serves_again(server, client, begin):
    restarting = []

    async def restart():
        await server.stop()
        await server.start()

    async def restart_soon():
        restarting.append(asyncio.create_task(restart()))
        await asyncio.Event().wait()

    once_after(server, 2, restart_soon)
    begin(server, puts)
    handle = await finished(client)
    await restarting[0]
    assert await handle.read_artifact("data") == DATA


async def test_an_upload_whose_offset_is_refused_begins_anew(server, client, begin):
    rights = []

    async def begin_anew():
        # The server has less of it than it has said, as after a restart that loses parts.
        await uploaders.send(server.engine, rights[0], "data", b"x" * uploaders.PART_BYTES)

    async def work(task):
        rights.append(Right(task.id, "host", task.fencing_token))
        return await puts(task)

    once_after(server, 2, begin_anew)
    begin(server, work)
    handle = await finished(client)
    assert server.artifacts.parts == PARTS[:2] + PARTS
    assert await handle.read_artifact("data") == DATA


async def test_a_reading_goes_on_where_its_stream_broke(server, client, begin):
    count = 0

    async def away():
        nonlocal count
        count += 1
        if count == 3:
            raise Away("the store of artifacts does not answer")

    async def work(task):
        await task.put_artifact("data", DATA)
        server.artifacts.sending = away
        return (await task.read_artifact("data")) == DATA

    begin(server, work)
    assert await (await finished(client)).result() is True
    assert server.artifacts.offsets == [0, 2 * PART_BYTES]


async def test_a_reading_that_comes_on_outlasts_any_number_of_breaks(server, client, begin, monkeypatch):
    count, ticks = 0, itertools.count()
    clock = SimpleNamespace(monotonic=lambda: 40.0 * next(ticks), sleep=lambda _: None)

    async def away():
        nonlocal count
        count += 1
        if count % 2 == 0:
            raise Away("the store of artifacts does not answer")

    async def work(task):
        await task.put_artifact("data", DATA)
        server.artifacts.sending = away
        monkeypatch.setattr("taskyard.hosting.artifacts.time", clock)
        return (await task.read_artifact("data")) == DATA

    begin(server, work)
    assert await (await finished(client)).result() is True
    assert server.artifacts.offsets == [0, PART_BYTES, 2 * PART_BYTES, 3 * PART_BYTES]


@pytest.mark.parametrize(
    ("handler", "runs_in"), [(reads, None), (handlers.reads, "thread"), (handlers.reads, "process")]
)
async def test_bytes_that_are_others_than_the_hash_says_fail_the_handler(
    server, client, begin, objects, handler, runs_in
):
    handle = await client.submit("work", hold=True)
    await client.attach_artifact(handle.id, "data", DATA)
    await damage(objects)
    await client.resume(handle.id)
    begin(server, handler, runs_in)
    with pytest.raises(TaskFailed, match=f"the artifact data of {handle.id} has other bytes than its hash says"):
        await handle.result()


async def test_what_the_handler_has_put_is_checked_too_and_what_it_puts_then_has_another_hash(
    server, client, begin, objects
):
    async def work(task):
        await task.put_artifact("data", DATA)
        await damage(objects)
        with pytest.raises(Internal, match="other bytes than its hash says"):
            await task.read_artifact("data")
        await task.put_artifact("data", b"whole again")
        return (await task.read_artifact("data")).decode()

    begin(server, work)
    assert await (await finished(client)).result() == "whole again"


@pytest.mark.parametrize("other", [DATA[::-1], b"short"], ids=["as long", "shorter"])
@pytest.mark.parametrize("breaks", [False, True], ids=["on one stream", "on two streams"])
async def test_a_handler_that_replaces_what_it_reads_gets_the_new_one_whole(server, client, begin, other, breaks):
    async def work(task):
        async def replace():
            nonlocal count
            count += 1
            if count == 2:
                await task.put_artifact("data", other)
                if breaks:
                    raise Away("the store of artifacts does not answer")

        count = 0
        await task.put_artifact("data", DATA)
        server.artifacts.sending = replace
        return (await task.read_artifact("data")) == other

    begin(server, work)
    assert await (await finished(client)).result() is True


async def test_a_server_without_artifacts_says_so(open_server, open_client, begin):
    server = await open_server()

    async def work(task):
        with pytest.raises(Conflict, match="keeps no artifacts"):
            await task.put_artifact("data", b"x")
        with pytest.raises(NotFound):
            await task.read_artifact("data")

    begin(server, work)
    await finished(open_client(server))


async def test_too_many_bytes_are_an_error_of_the_handler(open_server, open_client, objects, begin):
    server = await open_server(objects=objects, max_artifact_bytes=10)

    async def work(task):
        with pytest.raises(TooLarge):
            await task.put_artifact("data", b"x" * 11)
        return "goes on"

    begin(server, work)
    assert await (await finished(open_client(server))).result() == "goes on"


async def test_the_upload_of_a_task_that_is_paused_ends_and_its_next_run_begins_anew(server, client, begin):
    reached = asyncio.Event()

    async def wait():
        reached.set()
        await asyncio.Event().wait()

    server.artifacts.answering = wait
    begin(server, puts)
    handle = await client.submit("work")
    await asyncio.wait_for(reached.wait(), LIMIT_SECS)
    await client.pause(handle.id)
    assert (await handle.task()).state is TaskState.PAUSED
    server.artifacts.answering = None
    await client.resume(handle.id)
    await handle.result()
    assert await handle.read_artifact("data") == DATA
