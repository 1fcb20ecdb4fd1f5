"""Attaching artifacts to held tasks: in parts, over breaks, restarts and parts that were lost."""

import asyncio
from hashlib import sha256

import pytest

from taskyard import BadRequest, Conflict, SyncClient, TooLarge
from taskyard_server.core.runs.artifacts import Right
from tests import uploaders

PART_BYTES = 1 << 20
DATA = uploaders.content(3 * PART_BYTES + 5)
PARTS = [(0, PART_BYTES), (PART_BYTES, PART_BYTES), (2 * PART_BYTES, PART_BYTES), (3 * PART_BYTES, 5)]


@pytest.fixture
async def held(client):
    """A task that is held."""
    return await client.submit("work", hold=True)


def after_part(server, number, do):
    """Have this done once the part of this number is taken, from 1, before its answer is sent."""

    async def answering():
        if len(server.artifacts.parts) == number:
            await do()

    server.artifacts.answering = answering


@pytest.mark.parametrize("size", [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, len(DATA)])
async def test_what_is_attached_is_read_again(client, held, size):
    attached = await client.attach_artifact(held.id, "data", DATA[:size])
    assert (attached.size_bytes, attached.sha256) == (size, sha256(DATA[:size]).hexdigest())
    assert attached.attempt is None
    assert (await client.get(held.id)).artifacts == (attached,)
    assert await held.read_artifact("data") == DATA[:size]


async def test_all_parts_but_the_last_have_a_mebibyte(server, client, held):
    await client.attach_artifact(held.id, "data", memoryview(DATA))
    assert server.artifacts.parts == PARTS


async def test_a_file_is_attached_by_its_path(server, client, held, tmp_path):
    file = tmp_path / "page.html"
    file.write_bytes(DATA)
    assert (await client.attach_artifact(held.id, "a", file)).media_type == "text/html"
    assert (await client.attach_artifact(held.id, "b", str(file))).sha256 == sha256(DATA).hexdigest()
    assert server.artifacts.parts == 2 * PARTS
    with pytest.raises(FileNotFoundError):
        await client.attach_artifact(held.id, "c", tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "given", "media_type"),
    [
        ("page.png", None, "image/png"),
        ("page.png", "text/plain", "text/plain"),
        ("data", None, "application/octet-stream"),
    ],
)
async def test_the_media_type_is_the_one_given_or_what_the_name_says(client, held, name, given, media_type):
    assert (await client.attach_artifact(held.id, name, b"x", given)).media_type == media_type


@pytest.mark.parametrize("number", [1, 2, 4])
async def test_a_part_whose_answer_is_lost_is_sent_again(server, open_client, held, wire, number):
    async def cut():
        wire.cut()

    after_part(server, number, cut)
    await open_client(wire).attach_artifact(held.id, "data", DATA)
    assert server.artifacts.parts == sorted([*PARTS, PARTS[number - 1]])
    assert await held.read_artifact("data") == DATA


async def test_an_upload_goes_on_when_the_server_serves_again(server, client, held):
    async def restart():
        await server.stop()
        await server.start()

    restarting = []

    async def restart_soon():
        restarting.append(asyncio.create_task(restart()))
        await asyncio.Event().wait()

    after_part(server, 2, restart_soon)
    await client.attach_artifact(held.id, "data", DATA)
    await restarting[0]
    assert await held.read_artifact("data") == DATA


async def begin_anew(server, task_id):
    """Leave the server with less of the artifact than it has said, as a restart that loses parts does."""
    await uploaders.send(server.engine, Right(task_id), "data", b"x" * uploaders.PART_BYTES)


async def test_an_upload_whose_offset_is_refused_begins_anew(server, client, held):
    after_part(server, 2, lambda: begin_anew(server, held.id))
    await client.attach_artifact(held.id, "data", DATA)
    assert server.artifacts.parts == PARTS[:2] + PARTS
    assert await held.read_artifact("data") == DATA


async def test_an_upload_that_has_to_begin_anew_again_and_again_is_given_up(server, client, held):
    server.artifacts.answering = lambda: begin_anew(server, held.id)
    with pytest.raises(BadRequest, match="offset: must be"):
        await client.attach_artifact(held.id, "data", DATA)


async def test_only_a_held_task_takes_them(server, client, held):
    await client.resume(held.id)
    with pytest.raises(Conflict, match="not held"):
        await client.attach_artifact(held.id, "data", b"x")
    assert server.artifacts.parts == []


async def test_too_many_bytes_are_refused_at_once(open_server, open_client, objects):
    server = await open_server(objects=objects, max_artifact_bytes=2 * PART_BYTES)
    client = open_client(server)
    held = await client.submit("work", hold=True)
    with pytest.raises(TooLarge):
        await client.attach_artifact(held.id, "data", DATA)
    assert server.artifacts.parts == []


async def test_a_server_without_artifacts_says_so(open_server, open_client):
    client = open_client(await open_server())
    held = await client.submit("work", hold=True)
    with pytest.raises(Conflict, match="keeps no artifacts"):
        await client.attach_artifact(held.id, "data", b"x")


async def test_the_blocking_client_attaches_too(server, held):
    def attach():
        with SyncClient(server.address) as client:
            return client.attach_artifact(held.id, "data", DATA)

    assert (await asyncio.to_thread(attach)).sha256 == sha256(DATA).hexdigest()
