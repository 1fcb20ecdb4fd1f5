"""Inputs that are too large to come along with a task, and artifacts of inputs (docs/rules.md, Inputs)."""

import asyncio
from dataclasses import dataclass

import pytest

from taskyard import Action, FernetCodec, Host, Internal, NotFound, TaskFailed
from taskyard_server.core.errors import Unavailable as Away
from tests.clients.python.artifacts import handlers
from tests.clients.python.artifacts.conftest import damage
from tests.waiting import LIMIT_SECS

LARGE = 300_000
"""Bytes of a result that becomes an artifact."""
HALF = 200_000
"""Bytes of a result, of which one comes along with a task, and a second does not."""
WHOLE = 262_100
"""Bytes of a result that leaves no room for a reference beside it."""


@dataclass
class Page:
    """An input and output."""

    text: str
    number: int = 2**60


@pytest.fixture
async def server(open_server, objects):
    """A server that keeps artifacts, and whose limit of payloads is the documented one."""
    return await open_server(objects=objects, max_payload_bytes=262_144)


@pytest.fixture
def hand_on(client):
    """Submits tasks that return texts of these sizes, and one that is handed these results: its result."""

    async def submitted(**sizes):
        inputs = {name: await client.submit("work", params={"size": size}) for name, size in sizes.items()}
        async with asyncio.timeout(LIMIT_SECS):
            return await client.run("work", inputs=inputs)

    return submitted


@pytest.mark.parametrize(
    ("handler", "runs_in"),
    [
        (handlers.hands_on_async, "loop"),
        (handlers.hands_on, "thread"),
        (handlers.hands_on, "process"),
        (handlers.hands_on_async, "process"),
    ],
)
async def test_handlers_of_all_kinds_get_values_and_read_artifacts_of_inputs(server, hand_on, begin, handler, runs_in):
    begin(server, handler, runs_in)
    assert await hand_on(a=LARGE, b=HALF, c=HALF) == [[LARGE, HALF, HALF]] * 3


async def test_a_reference_that_does_not_come_along_is_followed(server, hand_on, begin):
    begin(server, handlers.hands_on_async)
    assert await hand_on(a=WHOLE, b=LARGE) == [[WHOLE, LARGE, 0], [WHOLE, LARGE], [WHOLE, LARGE]]


async def test_the_fetching_of_a_result_goes_on_where_its_stream_broke(server, client, begin):
    count = 0

    async def away():
        nonlocal count
        count += 1
        if count == 3:
            raise Away("the store of artifacts does not answer")

    async def work(task, *, page: str = ""):
        return len(page) or "x" * task.params["size"]

    begin(server, work)
    first = await client.submit("work", params={"size": 3_000_000})
    await first.wait()
    server.artifacts.sending = away
    async with asyncio.timeout(LIMIT_SECS):
        assert await client.run("work", inputs={"page": first}) == 3_000_000
    assert server.artifacts.offsets == [0, 2 << 20]


async def test_an_input_that_did_not_come_along_is_fetched_again_while_the_server_is_away(server, hand_on, begin):
    fetch, asked = server.engine.leases.fetch_input, []

    async def first_away(*given, **options):
        asked.append(given[3:])
        if len(asked) == 1:
            raise Away("another server takes over")
        return await fetch(*given, **options)

    server.engine.leases.fetch_input = first_away
    begin(server, handlers.hands_on_async)
    assert (await hand_on(a=HALF, b=HALF))[0] == [HALF, HALF, 0]
    assert [name for _, name in asked] == ["b", "b"]


async def test_a_result_whose_bytes_are_others_fails_the_task_before_its_handler(server, client, begin, objects):
    ran = []

    async def work(task, *, page: str = ""):
        ran.append(page)
        return "x" * task.params["size"]

    begin(server, work)
    first = await client.submit("work", params={"size": LARGE})
    await first.wait()
    await damage(objects)
    text = f"the input 'page' cannot be fetched: .* result.json of {first.id} has other bytes than its hash says"
    with pytest.raises(TaskFailed, match=text) as raised:
        await client.run("work", inputs={"page": first})
    assert (raised.value.code, ran) == ("bad_input", [""])


async def test_an_artifact_of_an_input_whose_bytes_are_others_is_an_error_of_the_handler(
    server, client, begin, objects
):
    async def work(task):
        if task.inputs:
            with pytest.raises(Internal, match=r"the artifact page/data of .* has other bytes than its hash says"):
                await task.read_artifact("data", of="page")
            return "goes on"
        return (await task.put_artifact("data", b"data")).name

    begin(server, work)
    first = await client.submit("work")
    await first.wait()
    await damage(objects)
    async with asyncio.timeout(LIMIT_SECS):
        assert await client.run("work", inputs={"page": first}) == "goes on"


async def test_a_result_that_only_looks_like_a_reference_is_handed_on(server, client, begin):
    told = {"$artifact": {"name": "result.json", "sizeBytes": 1, "sha256": "0" * 64}}

    async def work(_, *, page=None):
        return page or told

    begin(server, work)
    async with asyncio.timeout(LIMIT_SECS):
        assert await client.run("work", inputs={"page": await client.submit("work")}) == told


async def test_what_a_failed_task_has_left_is_read_and_what_is_not_there_is_not_found(server, client, begin):
    async def work(task):
        if not task.inputs:
            await task.put_artifact("page.html", b"<p>")
            raise LookupError("broken")
        page = task.inputs["page"]
        with pytest.raises(NotFound, match="artifact not found"):
            await task.read_artifact("page.html")
        with pytest.raises(NotFound, match="input not found"):
            await task.read_artifact("page.html", of="other")
        (artifact,) = page.artifacts
        return [page.state, page.error, page.value, (await task.read_artifact(artifact.name, of="page")).decode()]

    begin(server, work)
    first = await client.submit("work")
    async with asyncio.timeout(LIMIT_SECS):
        result = await client.run("work", inputs={"page": first}, after_policy="ended")
    assert result == ["failed", "LookupError: broken", None, "<p>"]


@pytest.mark.parametrize("is_encoded", [False, True])
async def test_typed_values_keep_their_types_with_a_codec_and_without(server, open_client, is_encoded):
    codec = FernetCodec(FernetCodec.new_key()) if is_encoded else None
    client = open_client(server, codec=codec)
    host = Host(server.address, "host", codec=codec, machine_figures=False)
    echo, joined = Action[Page, Page]("echo"), Action[None, Page]("joined")

    @host.handles(echo)
    async def repeat(page: Page) -> Page:
        return page

    @host.handles(joined)
    async def join(_: None, *, small: Page, large: Page) -> Page:
        return Page(small.text + large.text[:1], small.number + large.number)

    running = asyncio.create_task(host.run())
    async with asyncio.timeout(LIMIT_SECS):
        inputs = {"small": await client.submit(echo, Page("a")), "large": await client.submit(echo, Page("b" * LARGE))}
        assert await client.run(joined, None, inputs=inputs) == Page("ab", 2**61)
    running.cancel()
    await asyncio.wait({running})
