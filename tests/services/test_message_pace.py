"""How soon one small message follows another on the same stream, while the server is busy (engine/pace.py)."""

import asyncio
import itertools

import pytest

from taskyard.v1 import task_pb2 as pb
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.engine import pace as pacing
from taskyard_server.engine.pace import WINDOW_SECS, Busyness, Pace
from taskyard_server.interceptors.callers import Call
from taskyard_server.services import host_outbox, task_watches
from taskyard_server.services.task_watches import TaskWatches
from tests.services.host_streams import report, run_loop
from tests.services.written import Written

BUSY_SHARE, HALF_SHARE = 0.85, 0.45
SECS, SHORT_SECS = 0.05, 0.01


@pytest.fixture(autouse=True)
def busy_share(monkeypatch):
    """The shares of a server; those of tests are never reached."""
    monkeypatch.setattr(pacing, "BUSY_SHARE", BUSY_SHARE)
    monkeypatch.setattr(pacing, "HALF_SHARE", HALF_SHARE)


class Machine:
    """A clock, and how long the process has worked, both moved by hand."""

    def __init__(self):
        self.now = self.worked = 0.0

    def work(self, secs, of):
        self.now += of
        self.worked += secs


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def pace(machine):
    """The pace of a stream that was sent a message at 1 s."""
    pace = Pace(Busyness(lambda: machine.now, lambda: machine.worked), SECS, SHORT_SECS)
    pace.sent(1.0)
    return pace


def test_nothing_waits_before_anything_was_sent(machine):
    assert Pace(Busyness(lambda: machine.now, lambda: machine.worked), SECS, SHORT_SECS).wait_secs(0.0) == 0


def test_nothing_waits_while_the_server_has_time_to_spare(machine, pace):
    machine.work(HALF_SHARE, of=1.0)
    assert pace.wait_secs(1.0) == 0


def test_a_small_message_waits_a_little_for_that_where_the_server_is_half_busy(machine, pace):
    machine.work(BUSY_SHARE, of=1.0)
    assert pace.wait_secs(1.0) == SHORT_SECS
    assert pace.wait_secs(1.0 + SECS - SHORT_SECS / 2) == pytest.approx(SHORT_SECS / 2)
    assert pace.wait_secs(1.0 + SECS) == 0


def test_a_small_message_follows_after_a_while_where_the_server_is_busy(machine, pace):
    machine.work(1.0, of=1.0)
    assert pace.wait_secs(1.0) == pytest.approx(SECS)
    assert pace.wait_secs(1.0 + SECS / 2) == pytest.approx(SECS / 2)
    assert pace.wait_secs(1.0 + SECS) == 0


def test_a_server_is_busy_until_it_was_not_for_a_while(machine, pace):
    machine.work(1.0, of=1.0)
    assert pace.wait_secs(1.0) > 0
    machine.work(0.0, of=WINDOW_SECS / 2)
    assert pace.wait_secs(1.0) > 0
    machine.work(0.0, of=WINDOW_SECS / 2)
    assert pace.wait_secs(1.0) == 0


# Hosts


LONG_SECS = 10_000.0
"""What waits in a test waits until the test ends the wait, however busy the machine is."""


@pytest.fixture
def waits(monkeypatch):
    """The waits for more to send, in place of those of milliseconds."""
    monkeypatch.setattr(host_outbox, "SECS_BETWEEN_HAND_OUTS", LONG_SECS)
    monkeypatch.setattr(task_watches, "SECS_BETWEEN", LONG_SECS)
    begun, watched = [], []

    class Waits:
        def watch(self, loop):
            call_later = loop.call_later

            def noted(secs, *callback, **more):
                handle = call_later(secs, *callback, **more)
                if secs > LONG_SECS / 2:
                    begun.append(handle)
                return handle

            loop.call_later = noted
            watched.append(loop)

        def end(self):
            for handle in begun:
                if not handle.cancelled():
                    handle._run()
                    handle.cancel()
            begun.clear()

    yield Waits()
    # A loop that refers to its own method would stay, with all that it refers to, until garbage is collected.
    for loop in watched:
        del loop.call_later
    for handle in begun:
        handle.cancel()


@pytest.fixture
async def busy(server, waits):
    """The server is at work all the time."""
    time = itertools.count()
    server.engine.fair_yield.busyness = Busyness(lambda: next(time), lambda: 2 * next(time))
    waits.watch(asyncio.get_running_loop())


@pytest.fixture
async def stream(server):
    """A stream with eight places."""
    return await server.connect(credit=8, counts_accepted=True)


@pytest.fixture(name="task")
async def sent_before_three_that_wait(server, stream):
    """A task that was sent to the host of a server that is busy. Three more wait."""
    await server.submit()
    task = await stream.task()
    for _ in range(3):
        await server.submit()
    await stream.assert_quiet()
    return task


@pytest.mark.usefixtures("busy", "task")
async def test_tasks_that_wait_share_a_message_and_half_of_the_places_do_not_wait(server, stream, waits):
    await server.submit()
    assert len((await stream.receive("assignments")).assignments) == 4
    await server.submit()
    await stream.assert_quiet()
    waits.end()
    assert len((await stream.receive("assignments")).assignments) == 1


@pytest.mark.usefixtures("busy")
async def test_a_count_that_is_awaited_takes_the_tasks_that_wait_along(stream, task):
    await stream.send(reports={"reports": [report(task, started=True)]})
    message = await stream.read_message()
    assert (message.accepted_reports, len(message.assignments.assignments)) == (1, 3)


@pytest.mark.usefixtures("busy", "task")
async def test_tasks_that_wait_are_sent_before_their_host_is_told_to_leave(server, stream):
    server.engine.admin.drain(server.clock.now)
    assert len((await stream.read_message()).assignments.assignments) == 3
    assert (await stream.read_message()).HasField("drain")


# Watchers


@pytest.mark.usefixtures("busy")
async def test_events_that_wait_share_a_message(server, waits):
    logs = server.engine.event_logs(encode_event)
    server.engine.subscribe(logs)
    call = Written()
    watch = TaskWatches(server.engine, logs).watch(Call(), pb.WatchTasksRequest(), call)
    watching = asyncio.create_task(watch)
    await call.until(1)
    await server.submit()
    await call.until(2)
    await server.submit()
    await server.submit()
    await run_loop()
    assert len(call.messages) == 2
    waits.end()
    await call.until(3)
    assert [len(pb.WatchTasksResponse.FromString(message).events) for message in call.messages] == [0, 1, 2]
    logs.close()
    await asyncio.wait({watching})
    assert watching.exception() is not None
