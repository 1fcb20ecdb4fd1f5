"""Calls that wait: claims for a task, waits for the end of a task, a drain for the last lease."""

import asyncio

import pytest

from taskyard_server.core.errors import NotFound, Unavailable
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from tests import reporting
from tests.live import live

NS = "default"


@pytest.fixture
async def start(clock):
    """Starts a call that will wait. Calls that still wait at the end of the test are cancelled."""
    calls = []

    async def start(call):
        calls.append(asyncio.ensure_future(call))
        await clock.run_pending()
        return calls[-1]

    yield start
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


def waiting_claim(engine, host, count=1, lease_secs=None, wait_secs=30):
    return engine.leases.claim(NS, host, count, lease_secs, wait_secs, show=live)


async def in_flight(engine, host, submission, lease_secs=3600):
    """The lease of a new task in flight at the host."""
    await engine.tasks.submit(NS, submission(deadline=engine.now() + 10_000), show=live)
    (lease,) = await engine.leases.claim(NS, host, 1, lease_secs, show=live)
    return lease


# Waiting claims


async def test_a_claim_that_finds_a_task_does_not_wait(engine, host, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    (lease,) = await waiting_claim(engine, host)
    assert lease.task.id == task.id


async def test_a_waiting_claim_is_served_by_a_submit(engine, host, start, clock, submission):
    claim = await start(waiting_claim(engine, host))
    assert not claim.done()
    task = await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    (lease,) = claim.result()
    assert (lease.task.id, lease.host.id) == (task.id, host)
    assert (await engine.tasks.get(NS, task.id, show=live)).state == "assigned"


async def test_a_waiting_claim_is_served_by_a_batch_up_to_its_count(engine, host, start, clock, submission):
    claim = await start(waiting_claim(engine, host, count=3))
    await engine.tasks.submit_batch(NS, [submission(agent) for agent in ("ann", "ann", "bob", "bob")], show=live)
    await clock.run_pending()
    assert [lease.task.agent_id for lease in claim.result()] == ["ann", "bob", "ann"]


async def test_a_waiting_claim_returns_with_the_first_task_and_does_not_wait_for_more(
    engine, host, start, clock, submission
):
    claim = await start(waiting_claim(engine, host, count=3))
    await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    assert len(claim.result()) == 1


async def test_a_lease_granted_to_a_waiting_claim_starts_when_it_is_granted(engine, host, start, clock, submission):
    claim = await start(waiting_claim(engine, host, lease_secs=7))
    await clock.advance(20)
    await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    (lease,) = claim.result()
    assert (lease.claimed_at, lease.expires_at) == (clock.now, clock.now + 7)


async def test_a_waiting_claim_returns_empty_after_its_timeout(engine, host, start, clock, submission):
    claim = await start(waiting_claim(engine, host, wait_secs=30))
    await clock.advance(29.875)
    assert not claim.done()
    await clock.advance(0.125)
    assert claim.result() == []
    task = await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    assert (await engine.tasks.get(NS, task.id, show=live)).state == "queued"


@pytest.mark.parametrize("secs", [0, -1])
async def test_a_claim_with_no_time_to_wait_returns_at_once(engine, host, secs):
    assert await waiting_claim(engine, host, wait_secs=secs) == []


async def completed(engine, lease):
    await reporting.complete(engine, NS, lease.host.id, lease.task.id, lease.token, None)


async def failed(engine, lease):
    await reporting.fail(engine, NS, lease.host.id, lease.task.id, lease.token, "broken")


async def cancelled(engine, lease):
    await engine.tasks.cancel(NS, lease.task.id, show=live)


async def limit_raised(engine, _):
    engine.admin.reconfigure(Limits(max_inflight=2, max_per_agent_inflight=2))


@pytest.mark.parametrize("free", [completed, failed, cancelled, limit_raised])
@pytest.mark.parametrize("limit", ["max_inflight", "max_per_agent_inflight"])
async def test_a_waiting_claim_is_served_by_a_freed_limit(make_engine, start, clock, submission, limit, free):
    engine = make_engine(**{limit: 1})
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    lease = await in_flight(engine, "host", submission)
    task = await engine.tasks.submit(NS, submission(), show=live)
    claim = await start(waiting_claim(engine, "host"))
    assert not claim.done()
    await free(engine, lease)
    await clock.run_pending()
    assert [lease.task.id for lease in claim.result()] == [task.id]


async def released(engine, lease, _):
    await reporting.release(engine, NS, lease.host.id, lease.task.id, lease.token)


async def deregistered(engine, lease, _):
    await engine.hosts.deregister(NS, lease.host.id)


async def expired(_, lease, clock):
    await clock.advance(lease.expires_at + 0.125 - clock.now)


@pytest.mark.parametrize("requeue", [released, deregistered, expired])
async def test_a_waiting_claim_is_served_by_a_requeued_task(engine, host, start, clock, submission, requeue):
    await engine.hosts.register(NS, "other", None, HostProfile(), show=live)
    lease = await in_flight(engine, "other", submission, 10)
    claim = await start(waiting_claim(engine, host))
    await requeue(engine, lease, clock)
    await clock.run_pending()
    (again,) = claim.result()
    assert (again.task.id, again.token, again.host.id) == (lease.task.id, 2, host)


async def test_a_waiting_claim_is_served_by_new_capabilities_of_its_host(engine, host, start, clock, submission):
    await engine.tasks.submit(NS, submission(requires=frozenset({"gpu"})), show=live)
    claim = await start(waiting_claim(engine, host))
    assert not claim.done()
    await engine.hosts.register(NS, host, None, HostProfile(frozenset({"gpu"})), show=live)
    await clock.run_pending()
    assert len(claim.result()) == 1


async def test_a_waiting_claim_is_not_served_tasks_that_its_host_may_not_run(engine, start, clock, submission):
    await engine.hosts.register(NS, "gpu", None, HostProfile(frozenset({"gpu"})), show=live)
    await engine.hosts.register(NS, "plain", None, HostProfile(), show=live)
    plain = await start(waiting_claim(engine, "plain"))
    gpu = await start(waiting_claim(engine, "gpu"))
    await engine.tasks.submit(NS, submission(requires=frozenset({"gpu"})), show=live)
    await clock.run_pending()
    assert len(gpu.result()) == 1
    assert not plain.done()


async def test_waiting_claims_are_served_in_order_each_task_once(engine, host, start, clock, submission):
    claims = [await start(waiting_claim(engine, host)) for _ in range(3)]
    for number in range(2):
        await engine.tasks.submit(NS, submission(action=f"action-{number}"), show=live)
    await clock.run_pending()
    assert [claim.result()[0].task.action for claim in claims[:2]] == ["action-0", "action-1"]
    assert not claims[2].done()
    await engine.tasks.submit(NS, submission(action="action-2"), show=live)
    await clock.run_pending()
    assert claims[2].result()[0].task.action == "action-2"


async def test_waiting_claims_are_not_served_from_another_namespace(engine, host, start, clock, submission):
    claim = await start(waiting_claim(engine, host))
    await engine.hosts.register("other", host, None, HostProfile(), show=live)
    await engine.tasks.submit("other", submission(), show=live)
    await clock.run_pending()
    assert not claim.done()


async def test_a_claim_whose_host_is_deregistered_while_it_waits_is_not_found(engine, host, start, clock):
    claim = await start(waiting_claim(engine, host))
    await engine.hosts.deregister(NS, host)
    await clock.run_pending()
    with pytest.raises(NotFound, match="runtime host not found"):
        claim.result()


async def test_the_tab_executors_waiting_claim_is_served_when_the_last_runtime_host_leaves(
    engine, host, start, clock, submission
):
    await engine.hosts.register(NS, "tabs", None, HostProfile(), built_in=True, show=live)
    await engine.tasks.submit(NS, submission(), show=live)
    claim = await start(waiting_claim(engine, "tabs"))
    assert not claim.done()
    await engine.hosts.deregister(NS, host)
    await clock.run_pending()
    assert len(claim.result()) == 1


async def test_the_tab_executors_waiting_claim_is_served_whenever_the_last_runtime_host_falls_silent(
    make_engine, start, clock, submission
):
    engine = make_engine(heartbeat_timeout_secs=60)
    await engine.hosts.register(NS, "tabs", None, HostProfile(), built_in=True, show=live)
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    await engine.tasks.submit(NS, submission(deadline=clock.now + 1_000), show=live)
    for _ in range(2):
        await engine.hosts.heartbeat(NS, "host", show=live)
        claim = await start(waiting_claim(engine, "tabs", wait_secs=100))
        await clock.advance(60)
        assert not claim.done()
        await clock.advance(2)
        (lease,) = claim.result()
        await reporting.release(engine, NS, "tabs", lease.task.id, lease.token)


# Cancelled claims


@pytest.mark.parametrize("turns", range(8))
async def test_a_cancelled_claim_loses_no_task_at_any_stage(engine, host, start, submission, turns):
    """The cancellation comes before the claim is served, in the same turn, or after it."""
    claim = await start(waiting_claim(engine, host, count=2))
    tasks = engine.tasks.submit_each(NS, [submission(), submission()], show=live).value
    for _ in range(turns):
        await asyncio.sleep(0)
    claim.cancel()
    try:
        leases = await claim
    except asyncio.CancelledError:
        leases = await engine.leases.claim(NS, host, 5, show=live)
    assert [lease.task.id for lease in leases] == [task.id for task in tasks]
    assert await engine.leases.claim(NS, host, show=live) == []


async def test_a_claim_cancelled_in_the_turn_in_which_it_is_served_loses_no_task(
    engine, host, start, clock, submission
):
    """The listener is called before the caller of the claim continues."""
    claim = await start(waiting_claim(engine, host))
    engine.subscribe(lambda _, events: [claim.cancel() for event in events if event.state == "assigned"])
    task = await engine.tasks.submit(NS, submission(), show=live)
    with pytest.raises(asyncio.CancelledError):
        await claim
    await clock.run_pending()
    got = await engine.tasks.get(NS, task.id, show=live)
    assert (got.state, got.deliveries) == ("queued", 0)
    (lease,) = await engine.leases.claim(NS, host, show=live)
    assert (lease.task.id, lease.token) == (task.id, 2)


async def test_a_task_released_by_a_cancelled_claim_goes_to_the_next_waiting_claim(
    engine, host, start, clock, submission
):
    first = await start(waiting_claim(engine, host))
    second = await start(waiting_claim(engine, host))
    engine.subscribe(lambda _, events: [first.cancel() for event in events if event.state == "assigned"])
    task = await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    assert first.cancelled()
    assert [lease.task.id for lease in second.result()] == [task.id]


async def test_a_cancelled_claim_is_never_served(engine, host, start, clock, submission):
    claim = await start(waiting_claim(engine, host))
    claim.cancel()
    await clock.run_pending()
    await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    stats = await engine.admin.stats(NS)
    assert (stats.queued, stats.counters.dispatched) == (1, 0)


async def test_a_claim_that_timed_out_is_never_served(engine, host, start, clock, submission):
    await start(waiting_claim(engine, host, wait_secs=1))
    await clock.advance(1)
    await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    assert (await engine.admin.stats(NS)).counters.dispatched == 0


@pytest.mark.parametrize("turns", range(6))
async def test_a_claim_served_as_it_times_out_loses_no_task(engine, host, start, clock, submission, turns):
    claim = await start(waiting_claim(engine, host, wait_secs=1))
    clock.now += 1
    for _ in range(turns):
        await asyncio.sleep(0)
    task = await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    leases = claim.result() or await engine.leases.claim(NS, host, show=live)
    assert [lease.task.id for lease in leases] == [task.id]


# Waits for the end of a task


async def test_waiting_for_an_ended_task_returns_at_once(engine, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    await engine.tasks.cancel(NS, task.id, show=live)
    assert (await engine.tasks.wait(NS, task.id, 30, show=live)).state == "cancelled"


async def test_waiting_with_no_time_returns_the_current_task_at_once(engine, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    assert (await engine.tasks.wait(NS, task.id, 0, show=live)).state == "queued"


@pytest.mark.parametrize("end", [completed, failed, cancelled])
async def test_all_waits_for_a_task_return_at_its_end(engine, host, start, clock, submission, end):
    lease = await in_flight(engine, host, submission)
    waits = [await start(engine.tasks.wait(NS, lease.task.id, 30, show=live)) for _ in range(3)]
    await reporting.start(engine, NS, host, lease.task.id, lease.token)
    await clock.run_pending()
    assert not any(wait.done() for wait in waits)
    await end(engine, lease)
    await clock.run_pending()
    assert {wait.result().id for wait in waits} == {lease.task.id}
    assert {wait.result().completed_at for wait in waits} == {clock.now}


async def test_waiting_ends_with_the_tasks_deadline(engine, start, clock, submission):
    task = await engine.tasks.submit(NS, submission(deadline=clock.now + 10), show=live)
    wait = await start(engine.tasks.wait(NS, task.id, 30, show=live))
    await clock.advance(10.125)
    assert wait.result().error == "deadline exceeded while queued"


async def test_waiting_returns_the_current_task_after_its_timeout(engine, start, clock, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    wait = await start(engine.tasks.wait(NS, task.id, 5, show=live))
    await clock.advance(4.875)
    assert not wait.done()
    await clock.advance(0.125)
    assert wait.result().state == "queued"


async def test_a_cancelled_wait_does_not_affect_the_others(engine, start, clock, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    cancelled_wait, short, kept = [await start(engine.tasks.wait(NS, task.id, secs, show=live)) for secs in (30, 5, 30)]
    cancelled_wait.cancel()
    await clock.advance(5)
    assert short.done()
    await engine.tasks.cancel(NS, task.id, show=live)
    await clock.run_pending()
    assert kept.result().state == "cancelled"


# Drains


async def test_an_engine_with_nothing_in_flight_is_drained_at_once(engine, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    engine.admin.drain()
    assert await engine.admin.drained(30) is True


async def test_a_drain_ends_with_the_last_lease_of_any_namespace(engine, host, start, clock, submission):
    lease = await in_flight(engine, host, submission)
    await engine.hosts.register("other", "host", None, HostProfile(), show=live)
    await engine.tasks.submit("other", submission(), show=live)
    (other,) = await engine.leases.claim("other", "host", show=live)
    engine.admin.drain()
    drained = await start(engine.admin.drained(30))
    await completed(engine, lease)
    await clock.run_pending()
    assert not drained.done()
    await reporting.fail(engine, "other", "host", other.task.id, other.token, "broken")
    await clock.run_pending()
    assert drained.result() is True


async def test_a_drain_ends_after_its_timeout(engine, host, start, clock, submission):
    await in_flight(engine, host, submission)
    engine.admin.drain()
    drained = await start(engine.admin.drained(30))
    await clock.advance(29.875)
    assert not drained.done()
    await clock.advance(0.125)
    assert drained.result() is False


# Closing


async def test_closing_releases_every_waiting_call_empty(engine, host, start, clock, submission):
    lease = await in_flight(engine, host, submission)
    claims = [await start(waiting_claim(engine, host)) for _ in range(3)]
    wait = await start(engine.tasks.wait(NS, lease.task.id, 30, show=live))
    await engine.admin.close()
    await clock.run_pending()
    assert [claim.result() for claim in claims] == [[], [], []]
    assert wait.result().id == lease.task.id


async def test_calls_of_a_closed_engine_do_not_wait(engine, host, submission):
    lease = await in_flight(engine, host, submission)
    await engine.admin.close()
    with pytest.raises(Unavailable):
        await waiting_claim(engine, host)
    assert (await engine.tasks.wait(NS, lease.task.id, 30, show=live)).id == lease.task.id


async def test_closing_is_idempotent(engine, host, start, clock, submission):
    lease = await in_flight(engine, host, submission)
    claim = await start(waiting_claim(engine, host))
    wait = await start(engine.tasks.wait(NS, lease.task.id, 30, show=live))
    await engine.admin.close()
    await engine.admin.close()
    await clock.run_pending()
    assert claim.result() == []
    assert wait.done()
