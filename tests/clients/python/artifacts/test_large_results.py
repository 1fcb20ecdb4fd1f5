"""Results that are artifacts: who asks for the value gets the value, and the task shows the reference."""

import asyncio
from dataclasses import dataclass
from hashlib import sha256

import msgspec
import pytest

from taskyard import Action, BadValue, FernetCodec, SyncClient
from taskyard.values.convert import value_from
from taskyard.values.references import RESULT, Reference
from tests.clients.python.artifacts.conftest import put

LARGE = {"text": "x" * 300_000, "number": 1}


@dataclass
class Page:
    """An output."""

    text: str
    number: int


fetch = Action[int, Page]("fetch")


async def complete_with(server, lease, result, data=None, encoding=None):
    """End a task as a host does whose result is too large."""
    data = msgspec.json.encode(result) if data is None else data
    await put(server, lease, RESULT, data)
    reference = Reference(RESULT, len(data), sha256(data).hexdigest(), encoding)
    plain = reference.plain(f"/tasks/{lease.task.id}/artifacts/{RESULT}")
    await server.complete(lease, value_from(plain).SerializeToString())


async def test_a_handle_fetches_it(server, client, running):
    handle, lease = running
    await complete_with(server, lease, LARGE)
    assert await handle.result() == LARGE
    told = (await handle.task()).result["$artifact"]
    assert (told["name"], told["href"]) == (RESULT, f"/tasks/{handle.id}/artifacts/{RESULT}")
    assert await client.handle(handle.id).result() == LARGE


async def test_it_has_the_type_of_its_action(server, client):
    running = asyncio.create_task(client.run(fetch, 1))
    await complete_with(server, await server.claim_soon(), LARGE)
    assert await running == Page("x" * 300_000, 1)


async def test_one_that_does_not_fit_the_type_says_where(server, client):
    handle = await client.submit(fetch, 1)
    await complete_with(server, await server.run(), {"text": "x" * 300_000, "number": "none"})
    with pytest.raises(BadValue, match="number: "):
        await handle.result()


async def test_a_map_fetches_it(server, client):
    async with client.map(fetch, [1, 2]) as outcomes:
        working = asyncio.create_task(_work(server, 2))
        assert sorted([outcome.result.number async for outcome in outcomes]) == [1, 2]
        await working


async def _work(server, count):
    for number in range(1, count + 1):
        await complete_with(server, await server.claim_soon(), {"text": "x" * 300_000, "number": number})


async def test_one_that_a_codec_has_made_is_decoded(server, open_client):
    codec = FernetCodec(FernetCodec.new_key())
    client = open_client(server, codec=codec)
    handle = await client.submit("work")
    data = codec.encode(msgspec.json.encode(LARGE))
    await complete_with(server, await server.run(), None, data, codec.name)
    assert await handle.result() == LARGE
    with pytest.raises(BadValue, match="is encoded by 'fernet', here is no codec"):
        await open_client(server).handle(handle.id).result()


async def test_the_blocking_client_fetches_it(server, running):
    handle, lease = running
    await complete_with(server, lease, LARGE)

    def result():
        with SyncClient(server.address) as client:
            return client.handle(handle.id).result()

    assert await asyncio.to_thread(result) == LARGE


@pytest.mark.parametrize("name", [RESULT, "page.png"])
async def test_what_only_looks_like_a_reference_is_a_value(server, running, name):
    handle, lease = running
    await put(server, lease, "page.png", b"picture")
    value = Reference(name, 7, sha256(b"picture").hexdigest()).plain()
    await server.complete(lease, value_from(value).SerializeToString())
    assert await handle.result() == value
