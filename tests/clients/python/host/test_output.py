"""What handlers say, as a server gets it: waiting for room, and what breaks, refusals and older servers change."""

import asyncio
import threading

import pytest

from taskyard import Unimplemented
from tests.clients.python.host.scripted_server import result_of
from tests.clients.python.output import said as said_by_processes
from tests.waiting import LIMIT_SECS

WINDOW = 100


@pytest.fixture
def begin(server, make_host, work):
    """Has a handler run the task `t` on a stream with room for 100 bytes of output, or more or less."""

    async def begin(handler, runs_in=None, capture_output=False, **welcome):
        host = make_host()
        host.action("click", runs_in=runs_in, capture_output=capture_output)(handler)
        work(host)
        stream = await server.welcomed(**{"output_bytes": WINDOW, **welcome})
        await stream.until_credit(10)
        stream.assign("t")
        assert (await stream.report()).HasField("started")
        return stream

    return begin


def texts_of(size, *names):
    """Texts whose chunks have so many bytes, each with another beginning."""
    return [name.ljust(size - len("\n\x06output\x12\x00"), ".") for name in names]


async def said(stream, *texts, first=1):
    """Wait until these texts have come, in however many messages."""
    come = []
    while len(come) < len(texts):
        number, some = await stream.said()
        assert number == first + len(come)
        come += some
    assert come == list(texts)


A, B, C, D = texts_of(50, "a", "b", "c", "d")


async def test_emit_waits_until_there_is_room_in_the_loop(begin):
    emitted = []

    async def click(task):
        for text in (A, B, C, D):
            await task.emit(text)
            emitted.append(text)

    stream = await begin(click)
    await said(stream, A, B)
    assert emitted == [A, B]
    stream.keep(1)
    await said(stream, C, first=3)
    stream.keep(3)
    await said(stream, D, first=4)
    assert (await stream.report()).HasField("completed")


async def test_emit_blocks_a_thread_until_there_is_room(begin):
    def click(task):
        for text in (A, B, C):
            task.emit(text)

    stream = await begin(click)
    await said(stream, A, B)
    stream.keep(2)
    await said(stream, C, first=3)
    assert (await stream.report()).HasField("completed")


async def test_others_report_while_one_waits_for_room(begin):
    async def click(task):
        if task.id == "t":
            for text in (A, B, C):
                await task.emit(text)

    stream = await begin(click)
    await stream.said()
    stream.assign("other")
    assert await stream.reports(2) == ["other started", "other completed"]


async def test_after_a_break_the_chunks_that_are_not_kept_come_again(begin, server):
    goes_on = asyncio.Event()

    async def click(task):
        await task.emit(A)
        await task.emit(B)
        await goes_on.wait()
        await task.emit(C)

    stream = await begin(click)
    await said(stream, A, B)
    stream.keep(1)
    stream.close()
    stream = await server.stream()
    stream.welcome(kept=stream.hello.leases, output_bytes=WINDOW)
    await said(stream, B, first=2)
    goes_on.set()
    await said(stream, C, first=3)
    assert (await stream.report()).HasField("completed")


async def test_chunks_that_the_server_cannot_keep_now_are_said_again(begin):
    goes_on = asyncio.Event()

    async def click(task):
        await task.emit(A)
        await goes_on.wait()
        await task.emit(B)

    stream = await begin(click)
    await said(stream, A)
    stream.keep(0, code="unavailable")
    await said(stream, A)
    goes_on.set()
    await said(stream, B, first=2)
    stream.keep(2)
    assert (await stream.report()).HasField("completed")


async def test_a_handler_whose_output_is_refused_is_stopped(begin):
    stopped = []

    async def click(task):
        await task.emit(A)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(task.id)
            raise

    stream = await begin(click)
    await stream.said()
    stream.keep(0, code="lease_lost")
    assert (await stream.report()).HasField("released")
    assert stopped == ["t"]


async def test_a_thread_that_waits_for_room_is_told_that_its_task_is_not_wanted(begin):
    ended = threading.Event()

    def click(task):
        try:
            while True:
                task.emit(A)
        except asyncio.CancelledError:
            ended.set()
            raise

    stream = await begin(click)
    await said(stream, A, A)
    stream.cancel("t")
    assert (await stream.report()).HasField("released")
    assert ended.is_set()


async def test_with_an_older_server_emit_fails_and_the_log_warns_once(begin, caplog):
    async def click(task):
        task.log.info("one")
        task.log.info("two")
        with pytest.raises(Unimplemented, match="the server takes no output"):
            await task.emit("x")
        return "done"

    stream = await begin(click, output_bytes=0)
    assert result_of(await stream.report()) == "done"
    assert caplog.text.count("its log is not kept: the server takes no output") == 1
    assert not any(message.HasField("output") for message in stream.messages)


async def test_with_an_older_server_a_worker_process_writes_where_its_host_does(begin, caplog, capfd):
    stream = await begin(said_by_processes.tries, output_bytes=0, runs_in="process", capture_output=True)
    assert result_of(await stream.report()) == "Unimplemented"
    assert capfd.readouterr().out == "written\n"
    assert caplog.text.count("what it writes is not kept: the server takes no output") == 1


async def test_what_a_worker_process_wrote_before_it_died_waits_for_room(begin):
    stream = await begin(said_by_processes.floods_and_dies, runs_in="process", capture_output=True)
    come = 0
    for taken in range(1, 3):
        _, texts = await stream.said()
        come += len("".join(texts))
        stream.keep(taken)
        if come == 60_000:
            break
    assert come == 60_000
    assert (await stream.report()).failed.code == "worker_died"


async def test_a_log_in_the_loop_waits_for_nothing(begin):
    async def click(task):
        for number in range(1_000):
            task.log.info("record %d", number)

    stream = await begin(click)
    number = 1
    while number <= 1_000:
        async with asyncio.timeout(LIMIT_SECS):
            first, texts = await stream.said()
        assert first == number
        number += len(texts)
        stream.keep(number - 1)
    assert (await stream.report()).HasField("completed")
    await stream.until_credit(10)
