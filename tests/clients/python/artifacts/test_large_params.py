"""Params that are too large for a message: their task is held until they are an artifact of it."""

import asyncio
from hashlib import sha256

import msgspec
import pytest

from taskyard import Action, FernetCodec, Internal, NewTask, SyncClient, TaskState, TooLarge
from taskyard.values.convert import struct_from
from taskyard.values.references import PARAMS
from taskyard_server.core.errors import Unavailable as Away
from tests.waiting import until

LARGE = {"z": 1, "text": "x" * 300_000}
DATA = b'{"text":"' + b"x" * 300_000 + b'","z":1}'
REFERENCE = {"$artifact": {"name": PARAMS, "sizeBytes": len(DATA), "sha256": sha256(DATA).hexdigest()}}


async def lose_answer():
    raise Away("its answer is lost")


async def break_down():
    raise ArithmeticError("the server breaks down")


async def test_the_task_has_a_reference_in_their_place_and_waits_for_nothing(server, client):
    handle = await client.submit("work", params=LARGE)
    task = await client.get(handle.id)
    assert (task.params, task.state, task.hold) == (REFERENCE, TaskState.QUEUED, False)
    assert handle.state is TaskState.QUEUED
    (artifact,) = task.artifacts
    assert (artifact.name, artifact.media_type, artifact.attempt) == (PARAMS, "application/json", None)
    assert await handle.read_artifact(PARAMS) == DATA
    assert await server.made() == 1


async def test_params_of_256_kibibytes_are_sent_as_they_are(server, client):
    fits = {"x": "x" * (262_144 - struct_from({"x": "x" * 262_000}).ByteSize() + 262_000)}
    task = await client.get((await client.submit("work", params=fits)).id)
    assert (task.params, task.artifacts) == (fits, ())
    assert server.artifacts.parts == []
    await client.submit("work", params={"x": fits["x"] + "x"})
    assert len(server.artifacts.parts) == 1


async def test_a_task_that_is_to_be_held_stays_held(client):
    handle = await client.submit("work", params=LARGE, hold=True)
    task = await client.get(handle.id)
    assert (task.state, task.hold, len(task.artifacts)) == (TaskState.PENDING, True, 1)


async def test_those_of_typed_actions_and_codecs_are_kept_as_they_are_encoded(server, open_client):
    numbers = Action[list[int], None]("numbers")
    value = [2**60] * 20_000
    plain = await open_client(server).submit(numbers, value)
    assert msgspec.json.decode(await plain.read_artifact(PARAMS)) == value
    codec = FernetCodec(FernetCodec.new_key())
    encoded = await open_client(server, codec=codec).submit(numbers, value)
    assert msgspec.json.decode(codec.decode(await encoded.read_artifact(PARAMS))) == value
    told = (await encoded.task()).params["$artifact"]
    assert (told["encoding"], (await encoded.task()).input) == ("fernet", None)


async def test_fewer_bytes_go_that_way_too_where_the_server_refuses_them(open_server, open_client, objects):
    server = await open_server(objects=objects, max_payload_bytes=1_000)
    client = open_client(server)
    handle = await client.submit("work", params={"x": "x" * 1_001})
    assert await handle.read_artifact(PARAMS) == b'{"x":"' + b"x" * 1_001 + b'"}'
    handle = await client.submit(Action[list[int], None]("numbers"), [2**60] * 100)
    assert msgspec.json.decode(await handle.read_artifact(PARAMS)) == [2**60] * 100
    assert await server.made() == 2


async def test_a_repeat_under_its_idempotency_key_finds_the_task(server, client, open_client):
    first = await client.submit("work", params=LARGE, idempotency_key="mine")
    again = await open_client(server).submit("work", params=dict(reversed(LARGE.items())), idempotency_key="mine")
    assert (again.id, again.state) == (first.id, TaskState.QUEUED)
    assert len(server.artifacts.parts) == await server.made() == 1


async def test_a_repeat_goes_on_where_the_first_try_ended(server, client, open_client):
    server.artifacts.answering = break_down
    with pytest.raises(Internal):
        await open_client(server).submit("work", params=LARGE, idempotency_key="mine")
    (task,) = [task async for task in client.list()]
    assert task.hold
    server.artifacts.answering = None
    assert (await client.submit("work", params=LARGE, idempotency_key="mine")).id == task.id
    assert (await client.get(task.id)).state is TaskState.QUEUED
    assert await server.made() == 1


async def test_a_task_that_was_let_go_meanwhile_is_left_alone(server, client):
    async def let_go():
        server.artifacts.answering = None
        (task,) = [task async for task in client.list()]
        await client.resume(task.id)
        await lose_answer()

    server.artifacts.answering = let_go
    handle = await client.submit("work", params=LARGE)
    assert (await client.get(handle.id)).state is TaskState.QUEUED


async def test_without_a_key_of_the_callers_what_was_begun_is_cancelled(server, client):
    server.artifacts.answering = break_down
    with pytest.raises(Internal):
        await client.submit("work", params=LARGE)
    await until(lambda: states(client), lambda found: found == [TaskState.CANCELLED])


async def test_a_submit_that_is_cancelled_cancels_what_was_begun(server, client):
    reached = asyncio.Event()

    async def wait():
        reached.set()
        await asyncio.Event().wait()

    server.artifacts.answering = wait
    submitting = asyncio.create_task(client.submit("work", params=LARGE))
    await reached.wait()
    submitting.cancel()
    await until(lambda: states(client), lambda found: found == [TaskState.CANCELLED])
    with pytest.raises(asyncio.CancelledError):
        await submitting


async def test_closing_waits_until_they_are_attached(server, client, open_client):
    other = open_client(server)
    reached, goes_on = asyncio.Event(), asyncio.Event()

    async def wait():
        reached.set()
        await goes_on.wait()

    server.artifacts.answering = wait
    submitting = asyncio.create_task(client.submit("work", params=LARGE))
    await reached.wait()
    closing = asyncio.create_task(client.close())
    await other.stats()
    goes_on.set()
    await closing
    assert (await other.get((await submitting).id)).state is TaskState.QUEUED


async def states(client):
    return [task.state async for task in client.list()]


async def test_one_that_has_the_unique_key_already_is_the_answer(server, client):
    first = await client.submit("work", params=LARGE, unique_key="k", hold=True)
    again = await client.submit("work", params={"text": "y" * 300_000}, unique_key="k")
    assert (again.id, again.existing) == (first.id, True)
    assert await first.read_artifact(PARAMS) == DATA
    assert (await first.task()).hold
    assert len(server.artifacts.parts) == 1


async def test_a_server_without_artifacts_refuses_them_and_keeps_no_task_waiting(open_server, open_client):
    client = open_client(await open_server())
    with pytest.raises(TooLarge, match=r"params: .* this server keeps no artifacts"):
        await client.submit("work", params=LARGE, idempotency_key="mine")
    await until(lambda: states(client), lambda found: found == [TaskState.CANCELLED])


async def test_a_batch_with_such_a_task_is_refused_as_a_whole_and_says_what_to_do(yard):
    tasks = [NewTask("small"), NewTask("large", params=LARGE)]
    with pytest.raises(TooLarge, match=r"tasks\[1\]\.params: .*submit this task by itself"):
        await yard.client.submit_batch(tasks)
    assert [task async for task in yard.client.list()] == []


async def test_the_blocking_client_submits_them_too(server):
    def submit():
        with SyncClient(server.address, agent_id="ann") as client:
            return client.submit("work", params=LARGE).read_artifact(PARAMS)

    assert await asyncio.to_thread(submit) == DATA
