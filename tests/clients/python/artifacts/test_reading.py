"""Reading artifacts: breaks, replacements and changed bytes on the way."""

import asyncio
from hashlib import sha256

import pytest

from taskyard import Internal, NotFound, SyncClient, Unavailable
from taskyard_server.core.errors import Unavailable as Away
from tests.clients.python.artifacts.conftest import put
from tests.uploaders import PART_BYTES, content

DATA = content(5 * PART_BYTES + 100)


def once(server, number, do):
    """Have this done before a piece of this number is sent, from 1, and never again."""
    count = 0

    async def sending():
        nonlocal count
        count += 1
        if count == number:
            await do()

    server.artifacts.sending = sending


async def away():
    raise Away("the store of artifacts does not answer")


async def test_a_task_shows_its_artifacts_and_their_bytes_are_read(server, client, running):
    handle, lease = running
    await put(server, lease, "data", DATA)
    await put(server, lease, "none", b"")
    shown = (await client.get(handle.id)).artifacts
    assert [(each.name, each.size_bytes, each.sha256, each.attempt) for each in shown] == [
        ("data", len(DATA), sha256(DATA).hexdigest(), 1),
        ("none", 0, sha256(b"").hexdigest(), 1),
    ]
    assert await client.read_artifact(handle.id, "data") == DATA
    assert await handle.read_artifact("none") == b""


@pytest.mark.parametrize("number", [1, 3, 6])
async def test_a_reading_goes_on_where_its_stream_broke(server, running, number):
    handle, lease = running
    await put(server, lease, "data", DATA)
    once(server, number, away)
    assert await handle.read_artifact("data") == DATA
    assert server.artifacts.offsets == [0, (number - 1) * PART_BYTES]


async def test_bytes_come_whole_over_a_connection_that_is_cut_again_and_again(server, running, open_client, wire):
    handle, lease = running
    await put(server, lease, "data", DATA)
    cuts = 0

    async def cut():
        nonlocal cuts
        cuts += 1
        if cuts % 2 and cuts < 20:
            wire.cut()

    server.artifacts.sending = cut
    assert await open_client(wire).read_artifact(handle.id, "data") == DATA


async def test_a_file_is_there_once_it_is_whole(server, running, tmp_path, client):
    handle, lease = running
    await put(server, lease, "data", DATA)
    file = tmp_path / "saved"
    file.write_bytes(b"old")

    async def look():
        seen.append(file.read_bytes())
        await away()

    seen = []
    once(server, 2, look)
    assert (await client.save_artifact(handle.id, "data", file)).sha256 == sha256(DATA).hexdigest()
    assert seen == [b"old"]
    assert file.read_bytes() == DATA
    assert list(tmp_path.iterdir()) == [file]


async def test_a_file_that_cannot_be_whole_is_not_there(server, running, open_client, tmp_path):
    handle, lease = running
    await put(server, lease, "data", DATA)
    server.artifacts.sending = away
    with pytest.raises(Unavailable):
        await open_client(server, patience=0).save_artifact(handle.id, "data", str(tmp_path / "saved"))
    assert list(tmp_path.iterdir()) == []


async def test_bytes_that_are_others_than_the_hash_says_are_an_error(server, running, objects):
    handle, lease = running
    await put(server, lease, "data", DATA)
    (found,) = [each async for each in objects.listed("")]
    await objects.put(found[0].path, bytes(found[0].size))
    with pytest.raises(Internal, match="other bytes than its hash says"):
        await handle.read_artifact("data")
    assert server.artifacts.offsets == [0]


async def test_an_artifact_that_is_replaced_meanwhile_is_read_anew(server, running):
    handle, lease = running
    other = content(2 * PART_BYTES, seed=1_000_000)
    await put(server, lease, "data", DATA)
    once(server, 4, lambda: put(server, lease, "data", other))
    assert await handle.read_artifact("data") == other


async def test_one_that_is_replaced_between_two_streams_is_no_mixture(server, running):
    handle, lease = running
    other = content(len(DATA), seed=1_000_000)
    await put(server, lease, "data", DATA)

    async def replace():
        await put(server, lease, "data", other)
        await away()

    once(server, 3, replace)
    assert await handle.read_artifact("data") == other
    assert server.artifacts.offsets == [0, 2 * PART_BYTES, 0]


async def test_what_is_not_there_is_not_found(server, client, running):
    handle, lease = running
    await put(server, lease, "data", DATA)
    with pytest.raises(NotFound):
        await handle.read_artifact("other")
    with pytest.raises(NotFound):
        await client.read_artifact("tsk_00000000000000000000000000000000", "data")


async def test_the_blocking_client_reads_too(server, running, tmp_path):
    handle, lease = running
    await put(server, lease, "data", DATA)

    def read():
        with SyncClient(server.address) as client:
            picked = client.handle(handle.id)
            client.save_artifact(handle.id, "data", tmp_path / "a")
            picked.save_artifact("data", tmp_path / "b")
            return client.read_artifact(handle.id, "data"), picked.read_artifact("data")

    assert await asyncio.to_thread(read) == (DATA, DATA)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == DATA
