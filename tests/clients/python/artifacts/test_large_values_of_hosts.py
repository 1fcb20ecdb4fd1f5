"""Values that are too large for a message go from submitter to handler and back as values, whatever reads them."""

import asyncio
from dataclasses import dataclass

import pytest

from taskyard import Action, FernetCodec, Host, TaskFailed
from tests.clients.python.artifacts import handlers
from tests.clients.python.artifacts.conftest import damage
from tests.waiting import LIMIT_SECS

TEXT = "ä" * 150_000
"""300 KB, and twice of it is no more than a message of the server's may have."""


@dataclass
class Page:
    """An input and output."""

    text: str
    number: int = 2**60


echo = Action[Page, Page]("echo")


@pytest.fixture
async def server(open_server, objects):
    """A server that keeps artifacts, and whose limit of payloads is the documented one."""
    return await open_server(objects=objects, max_payload_bytes=262_144)


async def result_of(client, **fields):
    async with asyncio.timeout(LIMIT_SECS):
        return await client.run("work", **fields)


@pytest.mark.parametrize("runs_in", ["thread", "process"])
async def test_a_handler_sees_large_params_and_its_caller_the_large_result(server, client, begin, runs_in):
    begin(server, handlers.doubles, runs_in)
    handle = await client.submit("work", params={"text": TEXT})
    async with asyncio.timeout(LIMIT_SECS):
        assert await handle.result() == TEXT * 2
    task = await handle.task()
    assert [each.name for each in task.artifacts] == ["params.json", "result.json"]
    assert task.result["$artifact"]["href"] == f"/tasks/{task.id}/artifacts/result.json"


async def test_an_async_handler_sees_the_value_as_its_input_and_as_its_params(server, client, begin):
    async def work(task):
        return [task.input == task.params, len(task.params["text"]), task.params["number"]]

    begin(server, work)
    assert await result_of(client, params={"text": TEXT, "number": 1}) == [True, 150_000, 1]


@pytest.mark.parametrize("is_encoded", [False, True])
async def test_typed_values_keep_their_types_with_a_codec_and_without(server, open_client, is_encoded):
    codec = FernetCodec(FernetCodec.new_key()) if is_encoded else None
    client = open_client(server, codec=codec)
    host = Host(server.address, "host", codec=codec, machine_figures=False)

    @host.handles(echo)
    async def work(page: Page) -> Page:
        return page

    running = asyncio.create_task(host.run())
    async with asyncio.timeout(LIMIT_SECS):
        assert await client.run(echo, Page(TEXT)) == Page(TEXT)
        async with client.map(echo, [Page(TEXT, number) for number in range(3)]) as outcomes:
            assert sorted([outcome.result.number async for outcome in outcomes]) == [0, 1, 2]
    running.cancel()
    await asyncio.wait({running})
    told = [task.result["$artifact"].get("encoding") async for task in client.list()]
    assert told == ["fernet" if is_encoded else None] * 4


@pytest.mark.parametrize("value", [[2**60 + 1] * 20_000, ["x" * 10] * 30_000], ids=["long numbers", "texts"])
async def test_an_input_that_is_no_object_keeps_its_items(server, open_client, value):
    items = Action[list[int | str], list[int | str]]("items")
    host = Host(server.address, "host", machine_figures=False)

    @host.handles(items)
    async def work(given: list[int | str]) -> list[int | str]:
        return given

    running = asyncio.create_task(host.run())
    async with asyncio.timeout(LIMIT_SECS):
        assert await open_client(server).run(items, value) == value
    running.cancel()
    await asyncio.wait({running})


async def test_an_output_counts_with_what_its_payload_adds(server, open_client):
    numbers = Action[int, list[int]]("numbers")
    host = Host(server.address, "host", machine_figures=False)

    @host.handles(numbers)
    async def work(count: int) -> list[int]:
        return [10**18 + 1] * count

    running = asyncio.create_task(host.run())
    async with asyncio.timeout(LIMIT_SECS):
        # Its JSON has 3 bytes less than the server takes, its message 1 byte more.
        assert len(await open_client(server).run(numbers, 13_107)) == 13_107
    running.cancel()
    await asyncio.wait({running})


async def test_the_limit_is_that_of_the_server(open_server, open_client, objects, begin):
    server = await open_server(objects=objects, max_payload_bytes=10_000)
    client = open_client(server)

    async def work(task):
        return "x" * task.params["size"]

    begin(server, work)
    for size in (9_000, 11_000):
        assert len(await result_of(client, params={"size": size})) == size
    tasks = [task async for task in client.list()]
    assert [len(task.artifacts) for task in tasks] == [0, 1]


async def test_a_server_without_artifacts_refuses_the_result_as_before(open_server, open_client, begin):
    server = await open_server(max_payload_bytes=1_000)
    client = open_client(server)
    begin(server, handlers.doubles, "thread")
    with pytest.raises(TaskFailed, match="result refused: result: must be at most 1000 bytes") as raised:
        await result_of(client, params={"text": "x" * 600})
    assert raised.value.code == "too_large"


async def test_a_result_that_is_too_large_for_an_artifact_fails_its_task_for_good(
    open_server, open_client, objects, begin
):
    server = await open_server(objects=objects, max_payload_bytes=1_000, max_artifact_bytes=1_500)
    client = open_client(server)
    ran = []

    async def work(task):
        ran.append(task.id)
        return "x" * 2_000

    begin(server, work)
    with pytest.raises(TaskFailed, match="the artifacts of a task may have 1500 bytes"):
        await result_of(client)
    assert len(ran) == 1


async def test_params_whose_bytes_are_others_fail_the_task_before_its_handler(server, client, begin, objects):
    ran = []
    handle = await client.submit("work", params={"text": TEXT}, hold=True)
    await damage(objects)
    await client.resume(handle.id)
    begin(server, ran.append, "thread")
    with pytest.raises(TaskFailed, match="other bytes than its hash says"):
        await handle.result()
    assert ran == []


async def test_params_that_only_look_like_a_reference_are_params(server, client, begin):
    begin(server, lambda task: task.params, "thread")
    told = {"$artifact": {"name": "params.json", "sizeBytes": 1, "sha256": "0" * 64}}
    assert await result_of(client, params=told) == told


async def test_a_large_result_waits_for_a_server_that_is_away(server, client, begin):
    restarting = []

    async def restart():
        server.artifacts.answering = None
        await server.stop()
        await server.start()

    async def restart_soon():
        restarting.append(asyncio.create_task(restart()))
        await asyncio.Event().wait()

    server.artifacts.answering = restart_soon
    begin(server, lambda _: TEXT, "thread")
    async with asyncio.timeout(LIMIT_SECS):
        assert await (await client.submit("work")).result() == TEXT
    await restarting[0]
