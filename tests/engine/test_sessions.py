"""Sessions: the output that the engine adds for a stream, takes back, and the stream sends."""

import pytest

from taskyard_server.core.errors import Conflict, Unavailable
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import StopReason
from taskyard_server.core.streams import Hello
from tests import reporting
from tests.live import live


class Stream:
    """A stream whose output is sent only when a test takes it."""

    def __init__(self):
        self.ready_calls = 0
        self.session = None

    def on_ready(self):
        self.ready_calls += 1

    def take_assignments(self, limit=50):
        """The ids and tokens of the leases that are sent now."""
        leases = self.session.next_leases(limit)
        for lease in leases:
            self.session.mark_sent(lease)
        return [(lease.task.id, lease.token) for lease in leases]

    def stops(self):
        return [(stop.lease.task.id, stop.reason) for stop in self.session.take_stops()]


def has_output(session):
    return session.has_leases or session.has_notices


@pytest.fixture
def connect(engine):
    """Opens a stream with credit."""

    async def open_stream(host_id="host", credit=0, instance="i", held=()):
        stream = Stream()
        hello = Hello(host_id, instance, HostProfile(), held=held)
        stream.session, _ = await engine.hosts.connect("default", hello, stream.on_ready, show=live)
        if credit:
            await engine.hosts.give_credit(stream.session, credit)
        return stream

    return open_stream


async def test_a_granted_lease_stays_pending_until_it_is_sent(engine, clock, submission, connect):
    stream = await connect(credit=3)
    tasks = [await engine.tasks.submit("default", submission(), show=live) for _ in range(3)]
    await clock.run_pending()
    assert stream.ready_calls
    assert stream.session.has_leases
    assert [lease.task for lease in stream.session.next_leases(2)] == tasks[:2]
    assert stream.take_assignments(2) == [(tasks[0].id, 1), (tasks[1].id, 2)]
    assert stream.take_assignments() == [(tasks[2].id, 3)]
    assert not stream.session.has_leases
    assert not has_output(stream.session)


async def test_a_lease_that_ends_before_it_is_sent_returns_its_credit_and_sends_nothing(
    engine, clock, submission, connect
):
    stream = await connect(credit=1)
    first = await engine.tasks.submit("default", submission(), show=live)
    await clock.run_pending()
    await engine.tasks.cancel("default", first.id, show=live)
    second = await engine.tasks.submit("default", submission(), show=live)
    await clock.run_pending()
    assert stream.stops() == []
    assert stream.take_assignments() == [(second.id, 2)]
    third = await engine.tasks.submit("default", submission(), show=live)
    await clock.run_pending()
    assert stream.take_assignments() == []
    assert third.state == "queued"


async def test_a_lease_that_ends_after_it_was_sent_is_stopped_and_returns_no_credit(engine, clock, submission, connect):
    stream = await connect(credit=1)
    first = await engine.tasks.submit("default", submission(), show=live)
    await clock.run_pending()
    stream.take_assignments()
    await engine.tasks.cancel("default", first.id, show=live)
    second = await engine.tasks.submit("default", submission(), show=live)
    await clock.run_pending()
    assert stream.stops() == [(first.id, StopReason.CANCELLED)]
    assert stream.take_assignments() == []
    assert second.state == "queued"


async def test_a_lease_that_cannot_be_sent_within_the_start_timeout_ends_the_stream(engine, clock, submission, connect):
    stream = await connect(credit=1)
    task = await engine.tasks.submit("default", submission(), show=live)
    await clock.run_pending()
    await clock.advance(11)
    assert isinstance(stream.session.ended, Unavailable)
    assert stream.stops() == []
    assert task.state == "queued"


async def test_an_ended_stream_accepts_neither_credit_nor_heartbeats(engine, clock, submission, connect):
    stream = await connect()
    await engine.hosts.deregister("default", "host")
    await engine.hosts.give_credit(stream.session, 5)
    assert await engine.hosts.beat(stream.session, [("tsk", 1)]) is None
    task = await engine.tasks.submit("default", submission(), show=live)
    await clock.run_pending()
    assert task.state == "queued"
    assert isinstance(stream.session.ended, Conflict)
    await engine.hosts.disconnect(stream.session)
    await engine.hosts.disconnect(stream.session)


async def test_a_superseded_stream_accepts_no_credit(engine, clock, submission, connect):
    first = await connect(credit=1)
    second = await connect()
    assert isinstance(first.session.ended, Conflict)
    await engine.hosts.give_credit(first.session, 5)
    await engine.hosts.disconnect(first.session)
    task = await engine.tasks.submit("default", submission(), show=live)
    await clock.run_pending()
    assert task.state == "queued"
    await engine.hosts.give_credit(second.session, 1)
    await clock.run_pending()
    assert second.take_assignments() == [(task.id, 1)]


async def test_the_first_reason_for_the_end_is_kept(connect):
    stream = await connect()
    stream.session.end(Conflict("first"))
    stream.session.end(Unavailable("second"))
    assert stream.session.ended.message == "first"
    assert stream.ready_calls == 1


async def test_a_later_drain_replaces_one_that_is_not_sent(engine, clock, connect):
    stream = await connect()
    engine.admin.drain(clock.now + 10)
    engine.admin.drain(clock.now + 20)
    assert stream.session.take_drain().deadline == clock.now + 20
    assert stream.session.take_drain() is None


async def test_a_stream_opened_while_the_engine_drains_starts_with_the_notice(engine, connect):
    engine.admin.drain()
    stream = await connect()
    assert stream.ready_calls == 0
    assert has_output(stream.session)
    assert stream.session.take_drain().deadline is None


async def test_a_suspended_stream_gets_tasks_in_the_turn_of_its_next_heartbeat(engine, clock, submission, connect):
    stream = await connect(credit=1)
    await clock.advance(41)
    task = await engine.tasks.submit("default", submission(), show=live)
    await clock.run_pending()
    assert stream.take_assignments() == []
    await engine.hosts.beat(stream.session, [])
    await clock.run_pending()
    assert stream.take_assignments() == [(task.id, 1)]


async def test_a_heartbeat_resets_the_timer_so_that_the_lease_ends_on_time(engine, clock, submission, connect):
    stream = await connect(credit=1)
    task = await engine.tasks.submit("default", submission(deadline=clock.now + 10_000), show=live)
    await clock.run_pending()
    ((task_id, token),) = stream.take_assignments()
    await reporting.start(engine, "default", "host", task_id, token)
    await clock.advance(50)
    assert await engine.hosts.beat(stream.session, [(task_id, token)]) == []
    await clock.advance(59)
    assert task.state == "running"
    await clock.advance(1.2)
    assert stream.stops() == [(task_id, StopReason.LEASE_ENDED)]


async def test_a_new_session_has_no_output(connect):
    session = (await connect()).session
    assert not has_output(session)
    assert session.take_stops() == []
    assert session.next_leases(5) == []
