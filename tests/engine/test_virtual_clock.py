"""A clock that stands still: an engine with one does nothing by itself, and everything when it is moved."""

import asyncio

import pytest

from taskyard_server.cadence import parse_cron
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.schedules.schedule import ScheduleSpec
from taskyard_server.core.streams import Hello
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskOptions
from taskyard_server.engine.virtual_clock import VirtualClock
from tests.engines import running_engine, settled
from tests.live import live

START = 1_861_920_000.0
DAY = 86_400.0


@pytest.fixture
def clock():
    return VirtualClock(START)


@pytest.fixture
async def engine(clock):
    async with running_engine(clock=clock) as engine:
        yield engine


async def go_to(engine, clock, at):
    clock.move_to(at)
    clock.ring()
    await settled(engine)


async def connect(engine, host_id="host"):
    hello = Hello(host_id, "instance", profile=HostProfile(), slots=1)
    session, _ = await engine.hosts.connect("default", hello, lambda: None, show=lambda welcome: welcome.kept)
    return session


def test_it_never_goes_back(clock):
    clock.move_to(START - 1)
    assert clock() == START
    assert clock.due is None


async def test_an_engine_tells_when_something_is_due(engine, clock):
    options = TaskOptions(not_before=START + 10)
    task = await engine.tasks.submit("default", Submission("ann", "click", options=options), show=live)
    await settled(engine)
    assert START + 10 <= clock.due <= START + 10.125
    await asyncio.sleep(0)
    assert task.state == "pending"
    await go_to(engine, clock, clock.due)
    assert task.state == "queued"


async def test_the_wall_clock_is_not_looked_at_in_between(engine, clock):
    spec = ScheduleSpec(parse_cron("0 0 1 * *", "UTC"), "UTC", Submission("ann", "report"))
    await engine.schedules.create("default", "monthly", spec, show=live)
    await settled(engine)
    assert clock.due > START + 27 * DAY


async def test_a_host_at_rest_has_nothing_unfinished(engine):
    session = await connect(engine)
    await settled(engine)
    # It has not said yet that it takes tasks.
    (left,) = engine.idle.unfinished()
    assert (left.host_id, left.task_id) == ("host", None)
    await engine.hosts.give_credit(session, 1)
    assert not list(engine.idle.unfinished())
    task = await engine.tasks.submit("default", Submission("ann", "click"), show=live)
    await settled(engine)
    (left,) = engine.idle.unfinished()
    assert (left.host_id, left.task_id, left.is_running) == ("host", task.id, False)
    assert engine.idle.connected("default") == {"host"}


async def test_streams_are_heard_of_however_far_the_time_jumps(engine, clock):
    session = await connect(engine)
    await engine.hosts.give_credit(session, 1)
    task = await engine.tasks.submit("default", Submission("ann", "click"), show=live)
    await settled(engine)
    clock.move_to(START + 8)
    engine.idle.hear_all()
    clock.ring()
    await settled(engine)
    assert task.state == "assigned"
    assert task.lease.expires_at == START + 8 + task.lease.secs
