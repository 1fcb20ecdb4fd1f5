"""Artifacts of hosts: handlers of all kinds put and read them, and values that are too large go this way unseen."""

import asyncio
import hashlib

import pytest

from taskyard import Action, Host, LeaseLost, NotFound, TaskFailed
from taskyard.calls.artifacts import PART_BYTES
from taskyard.hosting.artifact_work import Work
from taskyard.testing import running_task
from tests.clients.python.artifacts import putting

MAX_PAYLOAD_BYTES = 262_144
DATA = bytes(range(256)) * 10_000


@pytest.mark.parametrize("size", [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + 5])
async def test_a_handler_puts_bytes_and_reads_them(yard, size):
    data = DATA[:size]

    async def work(task):
        put = await task.put_artifact("data.bin", data)
        assert (put.size_bytes, put.sha256, put.attempt) == (size, hashlib.sha256(data).hexdigest(), 1)
        return await task.read_artifact("data.bin") == data

    yard.host({"work": work})
    handle = await yard.client.submit("work")
    assert await handle.result() is True
    assert await yard.client.read_artifact(handle.id, "data.bin") == data
    (shown,) = (await yard.client.get(handle.id)).artifacts
    assert (shown.name, shown.media_type, shown.size_bytes) == ("data.bin", "application/octet-stream", size)


async def test_a_handler_puts_a_file(yard, tmp_path):
    file = tmp_path / "picture.png"
    file.write_bytes(DATA)

    async def work(task):
        return [(await task.put_artifact("a", file)).media_type, (await task.put_artifact("b", str(file))).size_bytes]

    yard.host({"work": work})
    assert await (await yard.client.submit("work")).result() == ["image/png", len(DATA)]


@pytest.mark.parametrize("handler", [putting.plainly, putting.awaited])
async def test_a_handler_in_a_process_puts_and_reads(yard, handler):
    host = Host(host_id="workers")
    host.action("work", runs_in="process")(handler)
    yard.host(host)
    assert await (await yard.client.submit("work")).result() == ["text/plain", "from a worker"]


async def test_a_plain_function_in_a_thread_puts_and_reads(yard):
    yard.host({"work": putting.plainly})
    assert await (await yard.client.submit("work")).result() == ["text/plain", "from a worker"]


async def test_what_must_be_awaited_says_so():
    work = Work(lambda: 1, must_wait=True)
    with pytest.raises(RuntimeError, match="await it"):
        assert work.value
    assert await work == await work == work.value == 1


async def test_a_handler_reads_what_was_attached_and_what_an_earlier_run_put(yard):
    runs = []

    async def work(task):
        runs.append(task.id)
        if len(runs) == 1:
            await task.put_artifact("half", b"done")
            raise RuntimeError("again")
        return [(await task.read_artifact(name)).decode() for name in ("half", "given")]

    yard.host({"work": work})
    handle = await yard.client.submit("work", hold=True)
    await yard.client.attach_artifact(handle.id, "given", b"by the submitter")
    await yard.client.resume(handle.id)
    with pytest.raises(TaskFailed):
        await handle.result()
    await yard.client.resume(handle.id)
    ended = await yard.client.wait(handle.id)
    assert ended.result == ["done", "by the submitter"]


async def test_an_artifact_that_is_not_there_is_not_found(yard):
    async def work(task):
        with pytest.raises(NotFound):
            await task.read_artifact("other")

    yard.host({"work": work})
    await (await yard.client.submit("work")).result()


async def test_under_a_lease_that_has_ended_nothing_is_put(yard):
    began, refused = asyncio.Event(), asyncio.Event()

    async def work(task):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            with pytest.raises((LeaseLost, NotFound)):
                await asyncio.shield(asyncio.ensure_future(_awaited(task.put_artifact("late", b"x"))))
            refused.set()

    yard.host({"work": work})
    handle = await yard.client.submit("work")
    await began.wait()
    await handle.cancel()
    await refused.wait()
    assert (await yard.client.get(handle.id)).artifacts == ()


async def _awaited(work):
    return await work


@pytest.mark.parametrize("handler", [putting.plainly, putting.awaited])
async def test_in_a_unit_test_they_are_recorded(handler, tmp_path):
    task = running_task("work")
    outcome = await task.run(handler)
    assert outcome.result == ["text/plain", "from a worker"]
    assert task.artifacts == {"notes.txt": b"from a worker"}
    (tmp_path / "file").write_bytes(b"x")
    assert (await task.put_artifact("file", tmp_path / "file")).size_bytes == 1
    with pytest.raises(NotFound):
        await task.read_artifact("other")


# Values that are too large


@pytest.mark.parametrize("runs_in", ["thread", "process"])
async def test_a_large_result_comes_back_as_a_value(yard, runs_in):
    size = MAX_PAYLOAD_BYTES + 1
    host = Host(host_id="workers")
    host.action("work", runs_in=runs_in)(putting.large)
    yard.host(host)
    handle = await yard.client.submit("work", params={"size": size})
    assert await handle.result() == "x" * size
    shown = (await yard.client.get(handle.id)).result["$artifact"]
    assert (shown["name"], shown["sizeBytes"]) == ("result.json", size + 2)
    assert shown["href"] == f"/tasks/{handle.id}/artifacts/result.json"
    async with yard.client.map("work", [{"size": size}, {"size": 1}]) as outputs:
        assert sorted([len(each.output) async for each in outputs]) == [1, size]


async def test_a_result_that_just_fits_is_no_artifact(yard):
    yard.host({"work": putting.large})
    size = MAX_PAYLOAD_BYTES - 10
    handle = await yard.client.submit("work", params={"size": size})
    assert await handle.result() == "x" * size
    assert (await yard.client.get(handle.id)).artifacts == ()


async def test_a_large_typed_result_comes_back_in_its_type(yard):
    numbers = Action[int, list[int]]("numbers")
    host = Host(host_id="workers")

    @host.handles(numbers)
    async def count(until: int) -> list[int]:
        return [2**60 + each for each in range(until)]

    yard.host(host)
    assert await yard.client.run(numbers, 20_000) == [2**60 + each for each in range(20_000)]


async def test_params_that_are_an_artifact_are_there_for_the_handler(yard):
    async def work(task):
        return [len(task.params["text"]), list(task.params)]

    yard.host({"work": work})
    data = b'{"text": "%s"}' % (b"x" * 300_000)
    reference = {"name": "params.json", "sizeBytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    handle = await yard.client.submit("work", params={"$artifact": reference}, hold=True)
    await yard.client.attach_artifact(handle.id, "params.json", data)
    await yard.client.resume(handle.id)
    assert await handle.result() == [300_000, ["text"]]


async def test_a_large_typed_input_comes_exactly_and_in_its_type(yard):
    numbers = Action[list[int], list[int]]("numbers")
    host = Host(host_id="workers")

    @host.handles(numbers)
    async def ends(given: list[int]) -> list[int]:
        return [len(given), given[0], given[-1]]

    yard.host(host)
    assert await yard.client.run(numbers, [2**60 + each for each in range(20_000)]) == [20_000, 2**60, 2**60 + 19_999]


@pytest.mark.parametrize(
    ("data", "sha256"),
    [(b"{}", "00"), (b"[" * 100_000, None), (b'{"x": 1', None), (b'{"x": "\xff"}', None)],
    ids=["another hash", "too deep", "cut off", "no UTF-8"],
)
async def test_params_that_cannot_be_read_fail_their_task(yard, data, sha256):
    yard.host({"work": putting.large})
    sha256 = sha256 or hashlib.sha256(data).hexdigest()
    reference = {"name": "params.json", "sizeBytes": len(data), "sha256": sha256}
    handle = await yard.client.submit("work", params={"$artifact": reference}, hold=True)
    await yard.client.attach_artifact(handle.id, "params.json", data)
    await yard.client.resume(handle.id)
    with pytest.raises(TaskFailed, match="the params cannot be fetched"):
        await handle.result()
