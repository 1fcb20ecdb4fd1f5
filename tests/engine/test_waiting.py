"""What waits: claims for a task, callers for the end of one, a drain for the last lease."""

import asyncio

import pytest

from taskyard_server.core.errors import NotFound, Unavailable
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from tests import reporting

NS = "default"


@pytest.fixture
async def begin(clock):
    """Begins a call that will wait; what is still waiting at the end of a test is cancelled."""
    begun = []

    async def begin(call):
        begun.append(asyncio.ensure_future(call))
        await clock.settle()
        return begun[-1]

    yield begin
    for each in begun:
        each.cancel()
    await asyncio.gather(*begun, return_exceptions=True)


def waiting_claim(engine, host, count=1, lease_secs=None, wait_secs=30):
    return engine.leases.claim(NS, host, count, lease_secs, wait_secs)


async def held(engine, host, asked, lease_secs=3600):
    """A task that the host has in flight already."""
    await engine.tasks.submit(NS, asked(deadline=engine.now() + 10_000))
    (lease,) = await engine.leases.claim(NS, host, 1, lease_secs)
    return lease


# A claim that waits


async def test_a_claim_that_finds_a_task_does_not_wait(engine, host, asked):
    task = await engine.tasks.submit(NS, asked())
    (lease,) = await waiting_claim(engine, host)
    assert lease.task.id == task.id


async def test_a_waiting_claim_is_served_by_a_submit(engine, host, begin, clock, asked):
    claim = await begin(waiting_claim(engine, host))
    assert not claim.done()
    task = await engine.tasks.submit(NS, asked())
    await clock.settle()
    (lease,) = claim.result()
    assert (lease.task.id, lease.host.id) == (task.id, host)
    assert (await engine.tasks.get(NS, task.id)).state == "assigned"


async def test_a_waiting_claim_is_served_by_a_batch_up_to_its_count(engine, host, begin, clock, asked):
    claim = await begin(waiting_claim(engine, host, count=3))
    await engine.tasks.submit_batch(NS, [asked(agent) for agent in ("ann", "ann", "bob", "bob")])
    await clock.settle()
    assert [lease.task.agent_id for lease in claim.result()] == ["ann", "bob", "ann"]


async def test_a_waiting_claim_goes_with_the_first_task_and_does_not_wait_for_more(engine, host, begin, clock, asked):
    claim = await begin(waiting_claim(engine, host, count=3))
    await engine.tasks.submit(NS, asked())
    await clock.settle()
    assert len(claim.result()) == 1


async def test_a_waiting_claim_grants_the_length_of_lease_that_it_asked_for_from_when_it_is_served(
    engine, host, begin, clock, asked
):
    claim = await begin(waiting_claim(engine, host, lease_secs=7))
    await clock.pass_time(20)
    await engine.tasks.submit(NS, asked())
    await clock.settle()
    (lease,) = claim.result()
    assert (lease.claimed_at, lease.expires_at) == (clock.now, clock.now + 7)


async def test_a_waiting_claim_times_out_empty_at_its_time(engine, host, begin, clock, asked):
    claim = await begin(waiting_claim(engine, host, wait_secs=30))
    await clock.pass_time(29.875)
    assert not claim.done()
    await clock.pass_time(0.125)
    assert claim.result() == []
    task = await engine.tasks.submit(NS, asked())
    await clock.settle()
    assert (await engine.tasks.get(NS, task.id)).state == "queued"


@pytest.mark.parametrize("secs", [0, -1])
async def test_a_claim_without_time_to_wait_comes_back_at_once(engine, host, secs):
    assert await waiting_claim(engine, host, wait_secs=secs) == []


async def completed(engine, lease):
    await reporting.complete(engine, NS, lease.host.id, lease.task.id, lease.token, None)


async def failed(engine, lease):
    await reporting.fail(engine, NS, lease.host.id, lease.task.id, lease.token, "broken")


async def cancelled(engine, lease):
    await engine.tasks.cancel(NS, lease.task.id)


async def raised(engine, _):
    engine.admin.reconfigure(Limits(max_inflight=2, max_per_agent_inflight=2))


@pytest.mark.parametrize("free", [completed, failed, cancelled, raised])
@pytest.mark.parametrize("limit", ["max_inflight", "max_per_agent_inflight"])
async def test_a_waiting_claim_is_served_by_a_freed_limit(make_engine, begin, clock, asked, limit, free):
    engine = make_engine(**{limit: 1})
    await engine.hosts.register(NS, "host", None, HostProfile())
    lease = await held(engine, "host", asked)
    task = await engine.tasks.submit(NS, asked())
    claim = await begin(waiting_claim(engine, "host"))
    assert not claim.done()
    await free(engine, lease)
    await clock.settle()
    assert [lease.task.id for lease in claim.result()] == [task.id]


async def released(engine, lease, _):
    await reporting.release(engine, NS, lease.host.id, lease.task.id, lease.token)


async def deregistered(engine, lease, _):
    await engine.hosts.deregister(NS, lease.host.id)


async def expired(_, lease, clock):
    await clock.pass_time(lease.expires_at + 0.125 - clock.now)


@pytest.mark.parametrize("come_back", [released, deregistered, expired])
async def test_a_waiting_claim_is_served_by_a_task_that_comes_back(engine, host, begin, clock, asked, come_back):
    await engine.hosts.register(NS, "other", None, HostProfile())
    lease = await held(engine, "other", asked, 10)
    claim = await begin(waiting_claim(engine, host))
    await come_back(engine, lease, clock)
    await clock.settle()
    (again,) = claim.result()
    assert (again.task.id, again.token, again.host.id) == (lease.task.id, 2, host)


async def test_a_waiting_claim_is_served_by_new_capabilities_of_its_host(engine, host, begin, clock, asked):
    await engine.tasks.submit(NS, asked(requires=frozenset({"gpu"})))
    claim = await begin(waiting_claim(engine, host))
    assert not claim.done()
    await engine.hosts.register(NS, host, None, HostProfile(frozenset({"gpu"})))
    await clock.settle()
    assert len(claim.result()) == 1


async def test_a_waiting_claim_is_passed_over_by_what_its_host_may_not_run(engine, begin, clock, asked):
    await engine.hosts.register(NS, "gpu", None, HostProfile(frozenset({"gpu"})))
    await engine.hosts.register(NS, "plain", None, HostProfile())
    plain = await begin(waiting_claim(engine, "plain"))
    gpu = await begin(waiting_claim(engine, "gpu"))
    await engine.tasks.submit(NS, asked(requires=frozenset({"gpu"})))
    await clock.settle()
    assert len(gpu.result()) == 1
    assert not plain.done()


async def test_claims_that_wait_are_served_first_come_first_served_each_task_once(engine, host, begin, clock, asked):
    claims = [await begin(waiting_claim(engine, host)) for _ in range(3)]
    for number in range(2):
        await engine.tasks.submit(NS, asked(action=f"action-{number}"))
    await clock.settle()
    assert [claim.result()[0].task.action for claim in claims[:2]] == ["action-0", "action-1"]
    assert not claims[2].done()
    await engine.tasks.submit(NS, asked(action="action-2"))
    await clock.settle()
    assert claims[2].result()[0].task.action == "action-2"


async def test_claims_that_wait_in_one_namespace_are_not_served_by_another(engine, host, begin, clock, asked):
    claim = await begin(waiting_claim(engine, host))
    await engine.hosts.register("other", host, None, HostProfile())
    await engine.tasks.submit("other", asked())
    await clock.settle()
    assert not claim.done()


async def test_a_claim_whose_host_is_deregistered_while_it_waits_is_not_found(engine, host, begin, clock):
    claim = await begin(waiting_claim(engine, host))
    await engine.hosts.deregister(NS, host)
    await clock.settle()
    with pytest.raises(NotFound, match="runtime host not found"):
        claim.result()


async def test_the_tab_executors_waiting_claim_is_served_when_the_last_runtime_host_leaves(
    engine, host, begin, clock, asked
):
    await engine.hosts.register(NS, "tabs", None, HostProfile(), built_in=True)
    await engine.tasks.submit(NS, asked())
    claim = await begin(waiting_claim(engine, "tabs"))
    assert not claim.done()
    await engine.hosts.deregister(NS, host)
    await clock.settle()
    assert len(claim.result()) == 1


async def test_the_tab_executors_waiting_claim_is_served_whenever_the_last_runtime_host_falls_silent(
    make_engine, begin, clock, asked
):
    engine = make_engine(heartbeat_timeout_secs=60)
    await engine.hosts.register(NS, "tabs", None, HostProfile(), built_in=True)
    await engine.hosts.register(NS, "host", None, HostProfile())
    await engine.tasks.submit(NS, asked(deadline=clock.now + 1_000))
    for _ in range(2):
        await engine.hosts.heartbeat(NS, "host")
        claim = await begin(waiting_claim(engine, "tabs", wait_secs=100))
        await clock.pass_time(60)
        assert not claim.done()
        await clock.pass_time(2)
        (lease,) = claim.result()
        await reporting.release(engine, NS, "tabs", lease.task.id, lease.token)


# A claim whose caller goes away


@pytest.mark.parametrize("turns", range(8))
async def test_a_claim_that_is_cancelled_loses_nothing_however_far_it_had_come(engine, host, begin, asked, turns):
    """Before it was served, in the turn in which it was, and after."""
    claim = await begin(waiting_claim(engine, host, count=2))
    tasks = [await engine.tasks.submit(NS, asked()) for _ in range(2)]
    for _ in range(turns):
        await asyncio.sleep(0)
    claim.cancel()
    try:
        leases = await claim
    except asyncio.CancelledError:
        leases = await engine.leases.claim(NS, host, 5)
    assert [lease.task.id for lease in leases] == [task.id for task in tasks]
    assert await engine.leases.claim(NS, host) == []


async def test_a_claim_that_is_cancelled_in_the_very_turn_in_which_it_was_served_loses_nothing(
    engine, host, begin, clock, asked
):
    """The listener hears of the hand-out before the claim's caller does."""
    claim = await begin(waiting_claim(engine, host))
    engine.subscribe(lambda _, happened: [claim.cancel() for event in happened if event.state == "assigned"])
    task = await engine.tasks.submit(NS, asked())
    with pytest.raises(asyncio.CancelledError):
        await claim
    await clock.settle()
    got = await engine.tasks.get(NS, task.id)
    assert (got.state, got.deliveries) == ("queued", 0)
    (lease,) = await engine.leases.claim(NS, host)
    assert (lease.task.id, lease.token) == (task.id, 2)


async def test_what_a_cancelled_claim_gives_back_goes_to_the_next_that_waits(engine, host, begin, clock, asked):
    first = await begin(waiting_claim(engine, host))
    second = await begin(waiting_claim(engine, host))
    engine.subscribe(lambda _, happened: [first.cancel() for event in happened if event.state == "assigned"])
    task = await engine.tasks.submit(NS, asked())
    await clock.settle()
    assert first.cancelled()
    assert [lease.task.id for lease in second.result()] == [task.id]


async def test_a_claim_that_was_cancelled_is_never_served(engine, host, begin, clock, asked):
    claim = await begin(waiting_claim(engine, host))
    claim.cancel()
    await clock.settle()
    await engine.tasks.submit(NS, asked())
    await clock.settle()
    stats = await engine.admin.stats(NS)
    assert (stats.queued, stats.counters.dispatched) == (1, 0)


async def test_a_claim_that_timed_out_is_never_served(engine, host, begin, clock, asked):
    await begin(waiting_claim(engine, host, wait_secs=1))
    await clock.pass_time(1)
    await engine.tasks.submit(NS, asked())
    await clock.settle()
    assert (await engine.admin.stats(NS)).counters.dispatched == 0


@pytest.mark.parametrize("turns", range(6))
async def test_a_claim_that_is_served_as_its_time_runs_out_loses_nothing(engine, host, begin, clock, asked, turns):
    claim = await begin(waiting_claim(engine, host, wait_secs=1))
    clock.now += 1
    for _ in range(turns):
        await asyncio.sleep(0)
    task = await engine.tasks.submit(NS, asked())
    await clock.settle()
    leases = claim.result() or await engine.leases.claim(NS, host)
    assert [lease.task.id for lease in leases] == [task.id]


# A caller who waits for the end of a task


async def test_waiting_for_a_task_that_has_ended_comes_back_at_once(engine, asked):
    task = await engine.tasks.submit(NS, asked())
    await engine.tasks.cancel(NS, task.id)
    assert (await engine.tasks.wait(NS, task.id, 30)).state == "cancelled"


async def test_waiting_without_time_comes_back_at_once_with_the_task_as_it_is(engine, asked):
    task = await engine.tasks.submit(NS, asked())
    assert (await engine.tasks.wait(NS, task.id, 0)).state == "queued"


@pytest.mark.parametrize("end", [completed, failed, cancelled])
async def test_everyone_who_waits_for_a_task_is_told_its_end(engine, host, begin, clock, asked, end):
    lease = await held(engine, host, asked)
    waits = [await begin(engine.tasks.wait(NS, lease.task.id, 30)) for _ in range(3)]
    await reporting.start(engine, NS, host, lease.task.id, lease.token)
    await clock.settle()
    assert not any(wait.done() for wait in waits)
    await end(engine, lease)
    await clock.settle()
    assert {wait.result().id for wait in waits} == {lease.task.id}
    assert {wait.result().completed_at for wait in waits} == {clock.now}


async def test_waiting_ends_with_the_tasks_deadline(engine, begin, clock, asked):
    task = await engine.tasks.submit(NS, asked(deadline=clock.now + 10))
    wait = await begin(engine.tasks.wait(NS, task.id, 30))
    await clock.pass_time(10.125)
    assert wait.result().error == "deadline exceeded while queued"


async def test_waiting_is_over_after_its_time_with_the_task_as_it_is(engine, begin, clock, asked):
    task = await engine.tasks.submit(NS, asked())
    wait = await begin(engine.tasks.wait(NS, task.id, 5))
    await clock.pass_time(4.875)
    assert not wait.done()
    await clock.pass_time(0.125)
    assert wait.result().state == "queued"


async def test_one_who_stops_waiting_does_not_disturb_the_others(engine, begin, clock, asked):
    task = await engine.tasks.submit(NS, asked())
    gone, short, kept = [await begin(engine.tasks.wait(NS, task.id, secs)) for secs in (30, 5, 30)]
    gone.cancel()
    await clock.pass_time(5)
    assert short.done()
    await engine.tasks.cancel(NS, task.id)
    await clock.settle()
    assert kept.result().state == "cancelled"


# A drain that waits for what is in flight


async def test_what_has_nothing_in_flight_is_drained_at_once(engine, asked):
    await engine.tasks.submit(NS, asked())
    engine.admin.drain()
    assert await engine.admin.drained(30) is True


async def test_a_drain_ends_with_the_last_lease_of_any_namespace(engine, host, begin, clock, asked):
    lease = await held(engine, host, asked)
    await engine.hosts.register("other", "host", None, HostProfile())
    await engine.tasks.submit("other", asked())
    (other,) = await engine.leases.claim("other", "host")
    engine.admin.drain()
    drained = await begin(engine.admin.drained(30))
    await completed(engine, lease)
    await clock.settle()
    assert not drained.done()
    await reporting.fail(engine, "other", "host", other.task.id, other.token, "broken")
    await clock.settle()
    assert drained.result() is True


async def test_a_drain_waits_no_longer_than_asked(engine, host, begin, clock, asked):
    await held(engine, host, asked)
    engine.admin.drain()
    drained = await begin(engine.admin.drained(30))
    await clock.pass_time(29.875)
    assert not drained.done()
    await clock.pass_time(0.125)
    assert drained.result() is False


# The end of the engine


async def test_closing_lets_everything_that_waits_go_empty_handed(engine, host, begin, clock, asked):
    lease = await held(engine, host, asked)
    claims = [await begin(waiting_claim(engine, host)) for _ in range(3)]
    wait = await begin(engine.tasks.wait(NS, lease.task.id, 30))
    await engine.admin.close()
    await clock.settle()
    assert [claim.result() for claim in claims] == [[], [], []]
    assert wait.result().id == lease.task.id


async def test_a_closed_engine_makes_nobody_wait(engine, host, asked):
    lease = await held(engine, host, asked)
    await engine.admin.close()
    with pytest.raises(Unavailable):
        await waiting_claim(engine, host)
    assert (await engine.tasks.wait(NS, lease.task.id, 30)).id == lease.task.id


async def test_closing_twice_is_closing_once(engine, host, begin, clock, asked):
    lease = await held(engine, host, asked)
    claim = await begin(waiting_claim(engine, host))
    wait = await begin(engine.tasks.wait(NS, lease.task.id, 30))
    await engine.admin.close()
    await engine.admin.close()
    await clock.settle()
    assert claim.result() == []
    assert wait.done()
