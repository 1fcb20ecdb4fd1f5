"""What the engine does as time passes, without calls and without polling."""

import asyncio

from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task_options import IdempotencyKey
from tests.live import live

NS = "default"


async def test_a_queued_task_fails_at_its_deadline(engine, clock, submission):
    task = await engine.tasks.submit(NS, submission(deadline=clock.now + 10), show=live)
    await clock.advance(10)
    assert (await engine.tasks.get(NS, task.id, show=live)).state == "queued"
    await clock.advance(0.125)
    assert (await engine.tasks.get(NS, task.id, show=live)).error == "deadline exceeded while queued"


async def test_a_task_in_flight_fails_at_its_deadline(engine, host, clock, submission):
    task = await engine.tasks.submit(NS, submission(deadline=clock.now + 10), show=live)
    await engine.leases.claim(NS, host, show=live)
    await clock.advance(10.125)
    assert (await engine.tasks.get(NS, task.id, show=live)).error == "deadline exceeded"


async def test_an_expired_lease_requeues_its_task(engine, host, clock, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    await engine.leases.claim(NS, host, 1, 10, show=live)
    await clock.advance(10)
    assert (await engine.tasks.get(NS, task.id, show=live)).state == "assigned"
    await clock.advance(0.125)
    assert (await engine.tasks.get(NS, task.id, show=live)).state == "queued"


async def test_a_task_fails_once_its_last_delivery_expires(make_engine, clock, submission):
    engine = make_engine(max_deliveries=2)
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    task = await engine.tasks.submit(NS, submission(), show=live)
    for _ in range(2):
        await engine.leases.claim(NS, "host", 1, 10, show=live)
        await clock.advance(10.125)
    assert (await engine.tasks.get(NS, task.id, show=live)).error == "lease expired"


async def test_a_renewed_lease_does_not_expire(engine, host, clock, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    (lease,) = await engine.leases.claim(NS, host, 1, 10, show=live)
    await clock.advance(5)
    await engine.leases.renew(NS, host, lease.task.id, lease.token, show=live)
    await clock.advance(10)
    assert (await engine.tasks.get(NS, lease.task.id, show=live)).state == "assigned"
    await clock.advance(0.125)
    assert (await engine.tasks.get(NS, lease.task.id, show=live)).state == "queued"


async def test_an_ended_task_leaves_memory_after_its_ttl(engine, clock, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    await engine.tasks.cancel(NS, task.id, show=live)
    await clock.advance(299.875)
    assert engine.tasks.state_of(NS, task.id) == "cancelled"
    await clock.advance(0.125)
    assert engine.tasks.state_of(NS, task.id) is None


async def test_a_new_ttl_applies_to_retained_tasks(engine, clock, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    await engine.tasks.cancel(NS, task.id, show=live)
    await clock.advance(20)
    engine.admin.reconfigure(Limits(result_ttl_secs=10))
    await clock.run_pending()
    assert engine.tasks.state_of(NS, task.id) is None


async def test_a_key_is_dropped_when_its_time_is_over(make_engine, clock, submission):
    engine = make_engine(result_ttl_secs=10, idempotency_secs=60)
    key = IdempotencyKey("key", b"print")
    task = await engine.tasks.submit(NS, submission(key=key), show=live)
    await engine.tasks.cancel(NS, task.id, show=live)
    await clock.advance(20)
    assert engine.tasks.state_of(NS, task.id) is None
    await clock.advance(40)
    assert (await engine.tasks.submit(NS, submission(key=key), show=live)).id == task.id
    await clock.advance(0.125)
    assert (await engine.tasks.submit(NS, submission(key=key), show=live)).id != task.id


async def test_an_earlier_deadline_moves_the_alarm_forward(engine, clock, submission):
    await engine.tasks.submit(NS, submission(deadline=clock.now + 1_000), show=live)
    await clock.run_pending()
    early = await engine.tasks.submit(NS, submission(deadline=clock.now + 5), show=live)
    await clock.advance(5.125)
    assert (await engine.tasks.get(NS, early.id, show=live)).state == "failed"


async def test_a_cancelled_deadline_does_not_delay_the_next_one(engine, clock, submission):
    early = await engine.tasks.submit(NS, submission(deadline=clock.now + 5), show=live)
    late = await engine.tasks.submit(NS, submission(deadline=clock.now + 10), show=live)
    await clock.run_pending()
    await engine.tasks.cancel(NS, early.id, show=live)
    await clock.advance(10.125)
    assert (await engine.tasks.get(NS, late.id, show=live)).state == "failed"


async def test_every_namespace_has_its_own_alarms(engine, clock, submission):
    tasks = {}
    for number in range(20):
        secs = 1 + number * 7 % 20
        tasks[secs] = await engine.tasks.submit(f"space-{number}", submission(deadline=clock.now + secs), show=live)
        await clock.run_pending()
    for secs in range(1, 21):
        await clock.advance(1)
        states = {due: task.state.value for due, task in tasks.items()}
        assert states == {due: "failed" if due < secs else "queued" for due in tasks}
    await clock.advance(0.125)
    assert {task.state.value for task in tasks.values()} == {"failed"}


async def test_after_a_stall_events_happen_in_order_of_their_due_times(engine, host, clock, submission):
    leased = await engine.tasks.submit(NS, submission(deadline=clock.now + 30), show=live)
    await engine.leases.claim(NS, host, 1, 10, show=live)
    first = await engine.tasks.submit(NS, submission(deadline=clock.now + 5), show=live)
    await clock.run_pending()
    received = []
    engine.subscribe(
        lambda _, events: received.extend(
            (event.task.id, event.state.value) for event in events if event.kind != "evicted"
        )
    )
    await clock.advance(1_000)
    assert received == [(first.id, "failed"), (leased.id, "queued"), (leased.id, "failed")]


async def test_other_coroutines_run_while_very_many_timers_are_due(make_engine, clock, submission):
    engine = make_engine(max_queue_size=10_000, max_per_agent=10_000)
    await engine.tasks.submit_each(NS, [submission(deadline=clock.now + 1) for _ in range(5_000)], show=len)
    await clock.run_pending()
    clock.now += 2
    queued = []
    while not queued or queued[-1]:
        queued.append(engine.admin.totals(NS).queued)
        await asyncio.sleep(0)
        assert len(queued) < 1_000
    assert len(set(queued)) >= 5


async def test_nothing_comes_due_in_a_closed_engine(engine, clock, submission):
    task = await engine.tasks.submit(NS, submission(deadline=clock.now + 5), show=live)
    await engine.tasks.cancel(NS, task.id, show=live)
    await engine.admin.close()
    received = []
    engine.subscribe(lambda _, events: received.extend(events))
    await clock.advance(1_000)
    assert received == []
    assert (await engine.tasks.get(NS, task.id, show=live)).state == "cancelled"


async def test_on_its_own_clock_a_task_fails_at_its_deadline_in_real_time(make_real_engine, submission):
    engine = make_real_engine()
    begin = engine.now()
    task = await engine.tasks.submit(NS, submission(deadline=begin + 0.05), show=live)
    assert (await engine.tasks.wait(NS, task.id, 10, show=live)).state == "failed"
    assert begin + 0.05 <= task.completed_at < begin + 1


async def test_on_its_own_clock_a_waiting_claim_gets_a_task_with_an_expired_lease_in_real_time(
    make_real_engine, submission
):
    engine = make_real_engine()
    await engine.hosts.register(NS, "silent", None, HostProfile(), show=live)
    await engine.hosts.register(NS, "eager", None, HostProfile(), show=live)
    await engine.tasks.submit(NS, submission(), show=live)
    (lost,) = await engine.leases.claim(NS, "silent", 1, 1, show=live)
    (lease,) = await engine.leases.claim(NS, "eager", wait_secs=10, show=live)
    assert lease.task is lost.task
    assert lost.expires_at <= lease.claimed_at < lost.expires_at + 1
