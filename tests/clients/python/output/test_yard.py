"""Output in a yard: what handlers say wherever they run, and what readers get, whenever they come."""

import asyncio
import logging
import os
import signal
import threading

import pytest

from taskyard import Host, NotFound
from taskyard.testing import Yard, running_task
from tests.clients.python.output import said
from tests.waiting import LIMIT_SECS


async def chunks_of(yard, task, **options):
    async with asyncio.timeout(LIMIT_SECS):
        return [(c.channel, c.data) async for c in yard.client.output(task.id, **options)]


async def test_a_follower_gets_what_is_said_and_ends_with_the_task(yard):
    goes_on = asyncio.Event()

    async def work(task):
        await task.emit("a")
        await goes_on.wait()
        await task.emit([1, None], channel="steps")
        await task.emit(b"\x00")
        return "done"

    yard.host({"work": work})
    handle = await yard.client.submit("work")
    async with asyncio.timeout(LIMIT_SECS):
        chunks = handle.output()
        first = await anext(chunks)
        assert (first.sequence, first.channel, first.data, first.attempt) == (1, "output", "a", 1)
        assert first.taken_at == yard.now
        goes_on.set()
        rest = [(c.sequence, c.channel, c.data) async for c in chunks]
    assert rest == [(2, "steps", [1, None]), (3, "output", b"\x00")]
    assert await handle.result() == "done"
    assert await chunks_of(yard, handle, after=1, channels=["steps"]) == [("steps", [1, None])]


async def test_a_long_text_is_cut_between_characters_and_comes_whole(yard):
    text = "ä€𝄞" * 100_000

    async def work(task):
        await task.emit(text)
        await task.emit("")

    yard.host({"work": work})
    task = await yard.client.submit("work")
    await yard.until_ended(task)
    parts = [data for _, data in await chunks_of(yard, task)]
    assert "".join(parts) == text
    assert all(65_000 < len(part.encode()) <= 65_536 for part in parts[:-1])


async def test_plain_functions_say_more_than_there_is_room_for_in_order(yard):
    def work(task):
        for number in range(100):
            task.emit(f"{number}" + "x" * 60_000)

    yard.host({"work": work})
    task = await yard.client.submit("work")
    said_by_it = [data.rstrip("x") async for _, data in _read(yard, task)]
    assert said_by_it == [str(number) for number in range(100)]


async def _read(yard, task):
    async for chunk in yard.client.output(task.id, follow=True):
        yield chunk.channel, chunk.data


@pytest.mark.parametrize(
    ("chunk", "channel", "error"),
    [
        ({"x": "y" * 70_000}, "output", "at most 65,536 bytes"),
        ([1], "no channel", "channel: must have"),
        (float("nan"), "output", "chunk: nan is a number that JSON has not"),
        ("\ud800", "output", "surrogates not allowed"),
    ],
)
def test_what_cannot_be_said_is_refused_before_anything_is_sent(chunk, channel, error):
    task = running_task()
    with pytest.raises(ValueError, match=error):
        task.emit(chunk, channel)
    assert task.chunks == []


async def test_a_unit_test_sees_what_its_handler_says():
    async def work(task):
        await task.emit("a", channel="x")
        task.log.warning("careful")

    task = running_task(attempt=2)
    await task.run(work)
    assert [(c.sequence, c.channel, c.data, c.attempt) for c in task.chunks] == [
        (1, "x", "a", 2),
        (2, "log", "WARNING careful\n", 2),
    ]


async def test_the_log_of_a_task_is_output_and_goes_on_to_that_of_the_program(yard, caplog):
    async def work(task):
        task.log.debug("not kept")
        task.log.info("kept")
        task.log.setLevel(logging.ERROR)
        task.log.info("not kept either")
        thread = threading.Thread(target=lambda: task.log.error("from a thread"))
        thread.start()
        await asyncio.to_thread(thread.join)
        try:
            raise KeyError("x")
        except KeyError:
            task.log.exception("failed")

    yard.host({"work": work})
    with caplog.at_level(logging.ERROR, "taskyard.tasks"):
        task = await yard.client.submit("work")
        await yard.until_ended(task)
    said_by_it = [data for channel, data in await chunks_of(yard, task) if channel == "log"]
    assert said_by_it[:2] == ["INFO kept\n", "ERROR from a thread\n"]
    assert said_by_it[2].startswith("ERROR failed\nTraceback")
    passed_on = [record.getMessage() for record in caplog.records if record.name == "taskyard.tasks"]
    assert passed_on == ["from a thread", "failed"]


async def test_a_worker_process_says_the_same(yard):
    host = Host(host_id="h")
    host.action("says", runs_in="process")(said.says)
    yard.host(host)
    task = await yard.client.submit("says")
    await yard.until_ended(task)
    assert await chunks_of(yard, task) == [
        ("output", "text"),
        ("raw", b"\xff"),
        ("steps", {"done": 1}),
        ("log", "INFO half of 2\n"),
    ]


async def test_what_a_worker_process_writes_is_captured_with_all_that_it_starts(yard):
    host = Host(host_id="h")
    host.action("writes", runs_in="process", capture_output=True)(said.writes)
    yard.host(host)
    for text in ("ä", "again"):
        task = await yard.client.submit("writes", params={"text": text})
        await yard.until_ended(task)
        chunks = await chunks_of(yard, task)
        written = "".join(data for channel, data in chunks if channel == "stdout")
        assert written == f"from Python: {text}\nfrom a shell\n"
        errors = b"".join(
            data if isinstance(data, bytes) else data.encode() for channel, data in chunks if channel == "stderr"
        )
        assert errors == b"a line without an end\xff"


async def test_what_a_worker_process_wrote_before_it_died_is_kept(yard):
    host = Host(host_id="h")
    host.action("dies", runs_in="process", capture_output=True)(said.writes_and_dies)
    yard.host(host)
    task = await yard.client.submit("dies")
    assert (await yard.until_ended(task)).state == "failed"
    assert await chunks_of(yard, task) == [("stdout", "last words")]


async def test_a_worker_process_that_says_too_much_waits(yard):
    host = Host(host_id="h")
    host.action("floods", runs_in="process")(said.floods)
    yard.host(host)
    task = await yard.client.submit("floods", params={"count": 60})
    assert [int(data[:8]) async for _, data in _read(yard, task)] == list(range(60))


async def test_a_process_that_was_left_behind_does_not_hold_up_the_end(yard):
    host = Host(host_id="h")
    host.action("leaves", runs_in="process", capture_output=True)(said.leaves_a_process)
    yard.host(host)
    task = await yard.client.submit("leaves")
    ended = await yard.until_ended(task)
    os.kill(int(ended.result), signal.SIGKILL)
    assert ("output", "begun") in await chunks_of(yard, task)


def test_output_of_others_cannot_be_captured():
    host = Host(host_id="h")
    with pytest.raises(ValueError, match="capture_output: needs runs_in='process'"):
        host.action("x", capture_output=True)(said.writes)


async def test_an_unknown_task_has_no_output(yard):
    with pytest.raises(NotFound):
        await chunks_of(yard, yard.client.handle("tsk_00000000000000000000000000000000"))


async def test_host_and_reader_go_on_over_restarts_of_the_server(tmp_path):
    async def work(task):
        for number in range(1, 41):
            await task.emit(f"{number}")
            if number % 10 == 0:
                reached.set_result(None)
                await goes_on.wait()

    async with Yard(store=tmp_path / "yard.db") as yard:
        goes_on = asyncio.Event()
        yard.host({"work": work})
        reached = asyncio.get_running_loop().create_future()
        task = await yard.client.submit("work")
        reading = asyncio.create_task(_all(yard, task))
        for _ in range(4):
            await asyncio.wait_for(reached, LIMIT_SECS)
            await yard.restart()
            reached = asyncio.get_running_loop().create_future()
            goes_on.set()
            goes_on.clear()
        numbers = [f"{number}" for number in range(1, 41)]
        assert await asyncio.wait_for(reading, LIMIT_SECS) == numbers
        assert [data async for _, data in _read(yard, task)] == numbers


async def _all(yard, task):
    return [data async for _, data in _read(yard, task)]
