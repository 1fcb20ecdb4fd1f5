"""Namespaces as things of their own: what they show, their own limits, and their end (docs/rules.md, Namespaces)."""

import asyncio

import pytest

from taskyard_server.cadence import parse_interval
from taskyard_server.core.errors import AlreadyExists, Conflict, NotFound, QueueFull
from taskyard_server.core.history import Wait
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import StopReason
from taskyard_server.core.limits import OWN_LIMITS, Limits, limits_with
from taskyard_server.core.schedules.schedule import ScheduleSpec
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.streams import Hello
from taskyard_server.engine.views import NamespaceTotals
from tests.live import live

NS = "red"


def hourly(submission):
    return ScheduleSpec(parse_interval("1h"), "UTC", submission())


async def names(engine, after="", limit=10, is_visible=lambda _: True):
    return [each.name for each in await engine.namespaces.list_namespaces(after, limit, is_visible=is_visible)]


async def own(engine, name=NS):
    return dict((await engine.namespaces.get(name)).served.own_limits)


async def stream(engine, clock):
    session, _ = await engine.hosts.connect(NS, Hello("host", "i", HostProfile(), lease_secs=30), _nothing, show=live)
    await engine.hosts.give_credit(session, 1)
    await clock.run_pending()
    return session


def _nothing():
    pass


async def test_a_namespace_is_made_by_the_first_submit(engine, clock, submission):
    with pytest.raises(NotFound):
        await engine.namespaces.get(NS)
    await engine.tasks.submit(NS, submission(), show=live)
    served = (await engine.namespaces.get(NS)).served
    assert served.created_at == clock.now
    assert served.totals == NamespaceTotals(queued=1, inflight=0, paused=0, parked=0, retained=0, hosts=0, schedules=0)
    assert (dict(served.own_limits), served.limits) == ({}, Limits())


async def test_namespaces_are_listed_by_name_page_by_page(engine, submission):
    for name in ("c", "a", "d", "b"):
        await engine.tasks.submit(name, submission(), show=live)
    assert await names(engine) == ["a", "b", "c", "d"]
    assert await names(engine, limit=2) == ["a", "b"]
    assert await names(engine, after="b", limit=2) == ["c", "d"]
    assert await names(engine, limit=2, is_visible=lambda name: name > "a") == ["b", "c"]


async def test_a_namespace_that_is_created_is_there_without_anything_in_it(engine):
    await engine.namespaces.create(NS, {"max_queue_size": 1})
    assert await names(engine) == [NS]
    assert await own(engine) == {"max_queue_size": 1}


async def test_creating_it_again_answers_the_same_unless_its_limits_are_others(engine):
    first = await engine.namespaces.create(NS, {"max_queue_size": 1})
    assert await engine.namespaces.create(NS, {"max_queue_size": 1}) == first
    for limits in ({}, {"max_queue_size": 2}):
        with pytest.raises(AlreadyExists):
            await engine.namespaces.create(NS, limits)


async def test_its_own_limits_hold_at_once_and_the_others_are_the_servers(engine, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    view = await engine.namespaces.update(NS, lambda _: {"max_queue_size": 1})
    assert view.served.limits == limits_with(Limits(), {"max_queue_size": 1})
    with pytest.raises(QueueFull):
        await engine.tasks.submit(NS, submission(), show=live)
    await engine.tasks.submit("blue", submission(), show=live)
    await engine.tasks.submit("blue", submission(), show=live)


async def test_a_reload_changes_only_what_is_not_its_own(engine):
    await engine.namespaces.create(NS, {"max_queue_size": 1})
    engine.admin.reconfigure(Limits(max_queue_size=7, max_inflight=3))
    assert (await engine.namespaces.get(NS)).served.limits == Limits(max_queue_size=1, max_inflight=3)


async def test_a_limit_that_is_given_back_is_the_servers_again(engine):
    await engine.namespaces.create(NS, {"max_queue_size": 1, "max_inflight": 2})
    view = await engine.namespaces.update(NS, lambda limits: {"max_inflight": limits["max_inflight"]})
    assert view.served.limits == Limits(max_inflight=2)


async def test_limits_of_a_namespace_that_is_not_there_cannot_be_changed(engine):
    with pytest.raises(NotFound):
        await engine.namespaces.update(NS, lambda _: {"max_inflight": 2})
    assert await names(engine) == []


def test_own_limits_are_limits():
    assert limits_with(Limits(), dict.fromkeys(OWN_LIMITS, 7)) != Limits()
    assert limits_with(Limits(), {"of_a_later_version": 7}) == Limits()


# Its end


async def test_an_empty_namespace_is_deleted(engine):
    await engine.namespaces.create(NS, {})
    await engine.namespaces.delete(NS, force=False)
    assert await names(engine) == []
    with pytest.raises(NotFound):
        await engine.namespaces.delete(NS, force=False)


async def test_what_is_in_use_is_deleted_by_force_alone(engine, clock, submission):
    for _ in range(3):
        await engine.tasks.submit(NS, submission(), show=live)
    await stream(engine, clock)
    await engine.schedules.create(NS, None, hourly(submission), show=live)
    with pytest.raises(Conflict, match="2 queued tasks, 1 task in flight, 1 online host, 1 schedule; with force=true"):
        await engine.namespaces.delete(NS, force=False)
    await engine.namespaces.delete(NS, force=True)
    assert await names(engine) == []


async def test_one_with_a_parked_task_alone_is_deleted_by_force_alone(engine, clock, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    await stream(engine, clock)
    reports = engine._namespaces.here(NS).scheduler.reports
    reports.park(clock.now, "host", task.id, task.token, (Wait("answer", "go"),))
    await clock.advance(Limits().heartbeat_timeout_secs + 1)
    with pytest.raises(Conflict, match="has 1 parked task; with force=true"):
        await engine.namespaces.delete(NS, force=False)


async def test_a_host_that_is_no_longer_online_is_no_reason_to_keep_it(engine, clock):
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    with pytest.raises(Conflict, match="1 online host"):
        await engine.namespaces.delete(NS, force=False)
    await clock.advance(Limits().heartbeat_timeout_secs + 1)
    await engine.namespaces.delete(NS, force=False)


async def test_the_next_one_of_its_name_has_nothing_of_it(engine, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    batch = await engine.tasks.submit_batch(NS, [submission()], show=live)
    await engine.namespaces.create("blue", {"max_queue_size": 5})
    await engine.namespaces.update(NS, lambda _: {"max_queue_size": 5})
    await engine.namespaces.delete(NS, force=True)
    await engine.tasks.submit(NS, submission(), show=live)
    with pytest.raises(NotFound):
        await engine.tasks.get(NS, task.id, show=live)
    with pytest.raises(NotFound):
        await engine.tasks.get_batch(NS, batch.batch.id, show=live)
    assert (await engine.admin.stats(NS)).counters.submitted == 1
    assert await own(engine) == {}
    assert await own(engine, "blue") == {"max_queue_size": 5}


async def test_the_counters_of_all_namespaces_together_never_go_back(engine, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    await engine.namespaces.delete(NS, force=True)
    totals = engine.admin.totals()
    assert (totals.namespaces, totals.queued, totals.counters.submitted) == (0, 0, 1)


async def test_calls_that_wait_in_it_end_as_not_found(engine, clock, submission):
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    claim = asyncio.create_task(engine.leases.claim(NS, "host", wait_secs=60, show=live))
    held = await engine.tasks.submit(NS, submission(hold=True), show=live)
    wait = asyncio.create_task(engine.tasks.wait(NS, held.id, 60, show=live))
    await clock.run_pending()
    await engine.namespaces.delete(NS, force=True)
    for call in (claim, wait):
        with pytest.raises(NotFound, match="the namespace was deleted"):
            await call


async def test_hosts_are_told_to_stop_and_their_streams_end(engine, clock, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    session = await stream(engine, clock)
    (lease,) = session.next_leases(10)
    session.mark_sent(lease)
    await engine.namespaces.delete(NS, force=True)
    (stop,) = session.take_stops()
    assert (stop.lease.task.id, stop.reason) == (task.id, StopReason.CANCELLED)
    assert isinstance(session.ended, NotFound)
    # What a stream still does then changes nothing.
    await engine.hosts.give_credit(session, 1)
    held = [(task.id, lease.token)]
    assert await engine.hosts.beat(session, held) is None
    await engine.hosts.disconnect(session)
    assert await names(engine) == []


async def test_nothing_of_it_comes_due_any_more(engine, clock, submission):
    seen = []
    engine.subscribe(lambda _, events: seen.extend(events))
    await engine.tasks.submit(NS, submission(), show=live)
    await engine.schedules.create(NS, None, hourly(submission), show=live)
    await clock.run_pending()
    seen.clear()
    await engine.namespaces.delete(NS, force=True)
    await clock.advance(7200)
    assert seen == []
    assert await names(engine) == []


async def test_listeners_learn_its_name_once(engine, submission):
    heard = []
    stop = engine.namespaces.subscribe(heard.append)
    await engine.tasks.submit(NS, submission(), show=live)
    await engine.namespaces.delete(NS, force=True)
    stop()
    await engine.tasks.submit(NS, submission(), show=live)
    await engine.namespaces.delete(NS, force=True)
    assert heard == [NS]


async def test_a_report_of_before_is_about_nothing_in_the_next_one(engine, clock, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    await stream(engine, clock)
    await engine.namespaces.delete(NS, force=True)
    await engine.tasks.submit(NS, submission(), show=live)
    page = await engine.tasks.list_tasks(NS, TaskFilter(), 0, 10)
    assert [task.state for task in page.tasks] == ["queued"]
    assert await engine.hosts.list_hosts(NS, 0, show=live) == []
