"""What a stream has to tell its host (engine/sessions.py), and what the engine puts in and takes back."""

import pytest

from taskyard_server.core.errors import Conflict, Unavailable
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import StopReason
from taskyard_server.core.streams import Hello
from taskyard_server.engine.sessions import Session
from tests import reporting


class Stream:
    """A host with a stream, which says only what a test lets it say."""

    def __init__(self):
        self.news = 0
        self.session = None

    def on_ready(self):
        self.news += 1

    def say(self, most=50):
        """The ids and tokens of the tasks that the host is told of now."""
        leases = self.session.next_leases(most)
        for lease in leases:
            self.session.mark_sent(lease)
        return [(lease.task.id, lease.token) for lease in leases]

    def stops(self):
        return [(stop.lease.task.id, stop.reason) for stop in self.session.take_stops()]


@pytest.fixture
def connect(engine):
    """Opens a stream, with credit."""

    async def open_stream(host_id="host", credit=0, instance="i", held=()):
        stream = Stream()
        hello = Hello(host_id, instance, HostProfile(), held=held)
        stream.session = await engine.hosts.connect("default", hello, stream.on_ready)
        if credit:
            await engine.hosts.give_credit(stream.session, credit)
        return stream

    return open_stream


async def test_what_is_handed_out_stays_until_it_is_said(engine, clock, asked, connect):
    stream = await connect(credit=3)
    tasks = [await engine.tasks.submit("default", asked()) for _ in range(3)]
    await clock.settle()
    assert stream.news
    assert stream.session.has_leases
    assert [lease.task for lease in stream.session.next_leases(2)] == tasks[:2]
    assert stream.say(2) == [(task.id, 1) for task in tasks[:2]]
    assert stream.say() == [(tasks[2].id, 1)]
    assert not stream.session.has_leases
    assert not stream.session.has_output


async def test_a_task_that_ends_unsaid_leaves_no_trace_and_gives_its_credit_back(engine, clock, asked, connect):
    stream = await connect(credit=1)
    first = await engine.tasks.submit("default", asked())
    await clock.settle()
    await engine.tasks.cancel("default", first.id)
    second = await engine.tasks.submit("default", asked())
    await clock.settle()
    assert stream.stops() == []
    assert stream.say() == [(second.id, 1)]
    third = await engine.tasks.submit("default", asked())
    await clock.settle()
    assert stream.say() == []
    assert third.state == "queued"


async def test_a_task_that_ends_after_it_was_said_is_to_be_stopped_and_gives_no_credit(engine, clock, asked, connect):
    stream = await connect(credit=1)
    first = await engine.tasks.submit("default", asked())
    await clock.settle()
    stream.say()
    await engine.tasks.cancel("default", first.id)
    second = await engine.tasks.submit("default", asked())
    await clock.settle()
    assert stream.stops() == [(first.id, StopReason.CANCELLED)]
    assert stream.say() == []
    assert second.state == "queued"


async def test_a_task_that_could_not_be_said_before_its_time_to_start_ends_the_stream(engine, clock, asked, connect):
    stream = await connect(credit=1)
    task = await engine.tasks.submit("default", asked())
    await clock.settle()
    await clock.pass_time(11)
    assert isinstance(stream.session.ended, Unavailable)
    assert stream.stops() == []
    assert task.state == "queued"


async def test_a_stream_that_is_over_takes_neither_credit_nor_heartbeats(engine, clock, asked, connect):
    stream = await connect()
    await engine.hosts.deregister("default", "host")
    await engine.hosts.give_credit(stream.session, 5)
    assert await engine.hosts.beat(stream.session, [("tsk", 1)]) == [("tsk", 1)]
    task = await engine.tasks.submit("default", asked())
    await clock.settle()
    assert task.state == "queued"
    assert isinstance(stream.session.ended, Conflict)
    await engine.hosts.disconnect(stream.session)
    await engine.hosts.disconnect(stream.session)


async def test_a_stream_that_lost_its_place_takes_neither(engine, clock, asked, connect):
    first = await connect(credit=1)
    second = await connect()
    assert isinstance(first.session.ended, Conflict)
    await engine.hosts.give_credit(first.session, 5)
    await engine.hosts.disconnect(first.session)
    task = await engine.tasks.submit("default", asked())
    await clock.settle()
    assert task.state == "queued"
    await engine.hosts.give_credit(second.session, 1)
    await clock.settle()
    assert second.say() == [(task.id, 1)]


async def test_the_first_reason_for_the_end_counts(connect):
    stream = await connect()
    stream.session.end(Conflict("first"))
    stream.session.end(Unavailable("second"))
    assert stream.session.ended.message == "first"
    assert stream.news == 1


async def test_a_later_drain_replaces_one_that_was_not_said(engine, clock, connect):
    stream = await connect()
    engine.admin.drain(clock.now + 10)
    engine.admin.drain(clock.now + 20)
    assert stream.session.take_drain().deadline == clock.now + 20
    assert stream.session.take_drain() is None


async def test_a_stream_that_opens_while_the_engine_drains_has_that_to_say_from_the_first(engine, connect):
    engine.admin.drain()
    stream = await connect()
    assert stream.news == 0
    assert stream.session.has_output
    assert stream.session.take_drain().deadline is None


async def test_a_silent_stream_that_is_heard_again_is_handed_tasks_in_that_very_turn(engine, clock, asked, connect):
    stream = await connect(credit=1)
    await clock.pass_time(41)
    task = await engine.tasks.submit("default", asked())
    await clock.settle()
    assert stream.say() == []
    await engine.hosts.beat(stream.session, [])
    await clock.settle()
    assert stream.say() == [(task.id, 1)]


async def test_a_heartbeat_rearms_the_timer_so_that_the_lease_ends_when_it_must(engine, clock, asked, connect):
    stream = await connect(credit=1)
    task = await engine.tasks.submit("default", asked(deadline=clock.now + 10_000))
    await clock.settle()
    ((task_id, token),) = stream.say()
    await reporting.start(engine, "default", "host", task_id, token)
    await clock.pass_time(50)
    assert await engine.hosts.beat(stream.session, [(task_id, token)]) == []
    await clock.pass_time(59)
    assert task.state == "running"
    await clock.pass_time(1.2)
    assert stream.stops() == [(task_id, StopReason.LEASE_ENDED)]


def test_a_session_starts_with_nothing_to_say():
    session = Session("default", None, lambda: None, lambda _: None)
    assert not session.has_output
    assert session.take_stops() == []
    assert session.next_leases(5) == []
