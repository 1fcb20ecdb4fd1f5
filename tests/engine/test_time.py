"""What the engine does by itself as time passes: nobody calls it, and nothing polls."""

import asyncio

import pytest

from taskyard_server.core.errors import NotFound
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits

NS = "default"


async def test_a_queued_task_fails_at_its_deadline(engine, clock, asked):
    task = await engine.tasks.submit(NS, asked(deadline=clock.now + 10))
    await clock.pass_time(10)
    assert (await engine.tasks.get(NS, task.id)).state == "queued"
    await clock.pass_time(0.125)
    assert (await engine.tasks.get(NS, task.id)).error == "deadline exceeded while queued"


async def test_a_task_in_flight_fails_at_its_deadline(engine, host, clock, asked):
    task = await engine.tasks.submit(NS, asked(deadline=clock.now + 10))
    await engine.leases.claim(NS, host)
    await clock.pass_time(10.125)
    assert (await engine.tasks.get(NS, task.id)).error == "deadline exceeded"


async def test_an_expired_lease_puts_the_task_back(engine, host, clock, asked):
    task = await engine.tasks.submit(NS, asked())
    await engine.leases.claim(NS, host, 1, 10)
    await clock.pass_time(10)
    assert (await engine.tasks.get(NS, task.id)).state == "assigned"
    await clock.pass_time(0.125)
    assert (await engine.tasks.get(NS, task.id)).state == "queued"


async def test_a_task_fails_once_its_last_delivery_expires(make_engine, clock, asked):
    engine = make_engine(max_deliveries=2)
    await engine.hosts.register(NS, "host", None, HostProfile())
    task = await engine.tasks.submit(NS, asked())
    for _ in range(2):
        await engine.leases.claim(NS, "host", 1, 10)
        await clock.pass_time(10.125)
    assert (await engine.tasks.get(NS, task.id)).error == "lease expired"


async def test_a_renewed_lease_does_not_expire(engine, host, clock, asked):
    await engine.tasks.submit(NS, asked())
    (lease,) = await engine.leases.claim(NS, host, 1, 10)
    await clock.pass_time(5)
    await engine.leases.renew(NS, host, lease.task.id, lease.token)
    await clock.pass_time(10)
    assert (await engine.tasks.get(NS, lease.task.id)).state == "assigned"
    await clock.pass_time(0.125)
    assert (await engine.tasks.get(NS, lease.task.id)).state == "queued"


async def test_an_ended_task_is_forgotten_after_its_ttl(engine, clock, asked):
    task = await engine.tasks.submit(NS, asked())
    await engine.tasks.cancel(NS, task.id)
    await clock.pass_time(299.875)
    await engine.tasks.get(NS, task.id)
    await clock.pass_time(0.125)
    with pytest.raises(NotFound):
        await engine.tasks.get(NS, task.id)


async def test_a_new_ttl_holds_for_what_is_retained_already(engine, clock, asked):
    task = await engine.tasks.submit(NS, asked())
    await engine.tasks.cancel(NS, task.id)
    await clock.pass_time(20)
    engine.admin.reconfigure(Limits(result_ttl_secs=10))
    await clock.settle()
    with pytest.raises(NotFound):
        await engine.tasks.get(NS, task.id)


async def test_an_earlier_deadline_moves_the_alarm_forward(engine, clock, asked):
    await engine.tasks.submit(NS, asked(deadline=clock.now + 1_000))
    await clock.settle()
    early = await engine.tasks.submit(NS, asked(deadline=clock.now + 5))
    await clock.pass_time(5.125)
    assert (await engine.tasks.get(NS, early.id)).state == "failed"


async def test_a_deadline_that_is_gone_does_not_keep_the_next_from_its_time(engine, clock, asked):
    early = await engine.tasks.submit(NS, asked(deadline=clock.now + 5))
    late = await engine.tasks.submit(NS, asked(deadline=clock.now + 10))
    await clock.settle()
    await engine.tasks.cancel(NS, early.id)
    await clock.pass_time(10.125)
    assert (await engine.tasks.get(NS, late.id)).state == "failed"


async def test_every_namespace_has_its_own_alarms(engine, clock, asked):
    tasks = {}
    for number in range(20):
        secs = 1 + number * 7 % 20
        tasks[secs] = await engine.tasks.submit(f"space-{number}", asked(deadline=clock.now + secs))
        await clock.settle()
    for secs in range(1, 21):
        await clock.pass_time(1)
        states = {due: task.state.value for due, task in tasks.items()}
        assert states == {due: "failed" if due < secs else "queued" for due in tasks}
    await clock.pass_time(0.125)
    assert {task.state.value for task in tasks.values()} == {"failed"}


async def test_after_a_stall_everything_happens_in_order_of_time(engine, host, clock, asked):
    leased = await engine.tasks.submit(NS, asked(deadline=clock.now + 30))
    await engine.leases.claim(NS, host, 1, 10)
    first = await engine.tasks.submit(NS, asked(deadline=clock.now + 5))
    await clock.settle()
    heard = []
    engine.subscribe(
        lambda _, happened: heard.extend(
            (event.task.id, event.state.value) for event in happened if event.kind != "evicted"
        )
    )
    await clock.pass_time(1_000)
    assert heard == [(first.id, "failed"), (leased.id, "queued"), (leased.id, "failed")]


async def test_others_get_their_turn_while_very_much_comes_due(make_engine, clock, asked):
    engine = make_engine(max_queue_size=10_000, max_per_agent=10_000)
    for _ in range(5_000):
        await engine.tasks.submit(NS, asked(deadline=clock.now + 1))
    await clock.settle()
    clock.now += 2
    left = []
    while not left or left[-1]:
        left.append((await engine.admin.stats(NS)).queued)
        await asyncio.sleep(0)
        assert len(left) < 1_000
    assert len(set(left)) >= 5


async def test_a_closed_engine_does_nothing_more(engine, clock, asked):
    task = await engine.tasks.submit(NS, asked(deadline=clock.now + 5))
    await engine.tasks.cancel(NS, task.id)
    await engine.admin.close()
    heard = []
    engine.subscribe(lambda _, happened: heard.extend(happened))
    await clock.pass_time(1_000)
    assert heard == []
    assert (await engine.tasks.get(NS, task.id)).state == "cancelled"


async def test_on_its_own_clock_a_deadline_is_met_in_real_time(make_real_engine, asked):
    engine = make_real_engine()
    begin = engine.now()
    task = await engine.tasks.submit(NS, asked(deadline=begin + 0.05))
    assert (await engine.tasks.wait(NS, task.id, 10)).state == "failed"
    assert begin + 0.05 <= task.completed_at < begin + 1


async def test_on_its_own_clock_a_waiting_claim_gets_an_expired_lease_in_real_time(make_real_engine, asked):
    engine = make_real_engine()
    await engine.hosts.register(NS, "silent", None, HostProfile())
    await engine.hosts.register(NS, "eager", None, HostProfile())
    await engine.tasks.submit(NS, asked())
    (lost,) = await engine.leases.claim(NS, "silent", 1, 1)
    (lease,) = await engine.leases.claim(NS, "eager", wait_secs=10)
    assert lease.task is lost.task
    assert lost.expires_at <= lease.claimed_at < lost.expires_at + 1
