"""What an operator does to a host is told to its stream once it is kept.

See docs/operate/durability.md, The way of a change.
"""

import asyncio

import pytest

from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.streams import Hello
from taskyard_server.core.task import Submission
from tests.live import live

NS = "default"


@pytest.fixture
async def session(engine):
    hello = Hello("host", "instance", HostProfile(), held=(), lease_secs=30)
    session, _ = await engine.hosts.connect(NS, hello, lambda: None, show=live)
    return session


async def test_a_stream_ends_once_the_deregistration_of_its_host_is_kept(engine, store, clock, session):
    store.gate.clear()
    deregistering = asyncio.ensure_future(engine.hosts.deregister(NS, "host"))
    await clock.run_pending()
    assert (session.ended, deregistering.done()) == (None, False)
    # Until then nothing that the host sends has an effect, and it loses no lease by a heartbeat.
    await engine.hosts.give_credit(session, 1)
    assert not await engine.hosts.beat(session, [("tsk_1", 1)])
    store.gate.set()
    await deregistering
    await clock.run_pending()
    assert session.ended.details == {"cause": "deregistered"}


async def test_a_stream_gets_the_stops_before_it_ends(engine, clock, session):
    task = await engine.tasks.submit(NS, Submission("ann", "click"), show=live)
    await engine.hosts.give_credit(session, 1)
    await clock.run_pending()
    (lease,) = session.next_leases(1)
    session.mark_sent(lease)
    await engine.hosts.deregister(NS, "host")
    await clock.run_pending()
    assert session.ended is not None
    assert [stop.lease.task for stop in session.take_stops()] == [task]


async def test_a_stream_gets_the_drain_of_its_host_once_it_is_kept(engine, store, clock, session):
    store.gate.clear()
    draining = asyncio.ensure_future(engine.hosts.drain(NS, "host", show=live))
    await clock.run_pending()
    assert session.take_drain() is None
    store.gate.set()
    await draining
    await clock.run_pending()
    assert session.take_drain().reason == "the host is drained"


async def test_at_shutdown_a_stream_gets_the_stops_before_it_ends(engine, store, clock, session):
    task = await engine.tasks.submit(NS, Submission("ann", "click"), show=live)
    await engine.hosts.give_credit(session, 1)
    await clock.run_pending()
    (lease,) = session.next_leases(1)
    session.mark_sent(lease)
    store.gate.clear()
    closing = asyncio.ensure_future(engine.admin.close())
    await clock.run_pending()
    assert (session.ended, session.take_stops()) == (None, [])
    store.gate.set()
    await closing
    assert session.ended is not None
    assert [stop.lease.task for stop in session.take_stops()] == [task]


async def test_a_shutdown_does_not_wait_for_ever_for_a_store(engine, store, clock, session):
    await engine.tasks.submit(NS, Submission("ann", "click"), show=live)
    await engine.hosts.give_credit(session, 1)
    await clock.run_pending()
    store.gate.clear()
    closing = asyncio.ensure_future(engine.admin.close())
    await clock.run_pending()
    await clock.advance(9)
    assert not closing.done()
    await clock.advance(2)
    assert closing.done()
    assert session.ended is not None
