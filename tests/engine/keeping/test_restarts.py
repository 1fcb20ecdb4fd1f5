"""What goes on after a restart: docs/operate/durability.md, After a restart."""

import asyncio

import pytest

from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import RESTART_GRACE_SECS, Limits
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.streams import Hello
from taskyard_server.core.task_options import IdempotencyKey
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from taskyard_server.store.port import EPOCH_JUMP, StoreError, StoreMeta
from tests.live import live

NS = "default"


@pytest.fixture
async def restarted(store, clock):
    """Starts another engine on what was committed, after so many seconds without one."""
    started = []

    async def restart(down_secs: float = 1.0, idempotency_secs: float = 0.0, **keeping) -> Engine:
        kept = store.copy()
        clock.now += down_secs
        limits = Limits(idempotency_secs=idempotency_secs)
        again = Engine(limits, clock, store=kept, store_options=StoreOptions(**keeping))
        started.append(again)
        await again.open()
        return again

    yield restart
    for each in started:
        await each.admin.close()


def state(task):
    return task.state


async def stream(engine, clock, *, held=(), host_id="host", credit=1):
    hello = Hello(host_id, "instance", HostProfile(), held=tuple(held), lease_secs=30)
    session, welcome = await engine.hosts.connect(NS, hello, lambda: None, show=live)
    await engine.hosts.give_credit(session, credit)
    await clock.run_pending()
    return session, welcome


def take(session):
    leases = session.next_leases(100)
    for lease in leases:
        session.mark_sent(lease)
    return leases


async def begin(engine, lease):
    return await engine.leases.report(NS, lease.host.id, [Report(ReportKind.STARTED, lease.task.id, lease.token)])


async def test_everything_acknowledged_is_there_in_order(engine, restarted, submission):
    tasks = [await engine.tasks.submit(NS, submission(params=b"%d" % number), show=live) for number in range(5)]
    again = await restarted()
    page = await again.tasks.list_tasks(NS, TaskFilter(), 0, 10)
    assert [(task.id, task.params) for task in page.tasks] == [(task.id, task.params) for task in tasks]


async def test_a_hello_adopts_the_leases_of_its_host(engine, restarted, submission, clock):
    session, _ = await stream(engine, clock)
    await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    (lease,) = take(session)
    await begin(engine, lease)
    again = await restarted()
    held = [(lease.task.id, lease.token)]
    session, welcome = await stream(again, clock, held=held)
    assert [kept.task.id for kept in welcome.kept] == [lease.task.id]
    assert await again.hosts.beat(session, held) == []
    assert await again.leases.report(NS, "host", [Report(ReportKind.COMPLETED, lease.task.id, lease.token)]) == ["done"]


async def test_a_streamed_lease_that_no_hello_names_is_lost_after_the_grace(engine, restarted, submission, clock):
    session, _ = await stream(engine, clock)
    task = await engine.tasks.submit(NS, submission(deadline=clock.now + 1000), show=live)
    await clock.run_pending()
    (lease,) = take(session)
    await begin(engine, lease)
    again = await restarted()
    await clock.advance(1)
    assert await again.tasks.get(NS, task.id, show=state) == "running"
    await clock.advance(RESTART_GRACE_SECS + 1)
    assert await again.tasks.get(NS, task.id, show=state) == "queued"


async def test_the_target_of_a_lost_lease_stays_taken_until_its_host_says_that_it_stopped(
    engine, restarted, submission, clock
):
    session, _ = await stream(engine, clock)
    retry = RetryPolicy(max_attempts=5, first_delay_secs=0)
    first = await engine.tasks.submit(NS, submission(target="lock", deadline=clock.now + 1000, retry=retry), show=live)
    await clock.run_pending()
    (lease,) = take(session)
    await begin(engine, lease)
    again = await restarted()
    other, _ = await stream(again, clock, host_id="other")
    await clock.advance(RESTART_GRACE_SECS + 1)
    assert take(other) == []
    _, welcome = await stream(again, clock, held=[(first.id, lease.token)], credit=0)
    assert [task_id for task_id, _ in welcome.lost] == [first.id]
    assert take(other) == []
    await again.leases.report(NS, "host", [Report(ReportKind.RELEASED, first.id, lease.token)])
    await clock.advance(1)
    (second,) = take(other)
    assert second.token > lease.token


async def test_a_unary_lease_has_its_full_length_again(engine, restarted, submission, clock):
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    task = await engine.tasks.submit(NS, submission(deadline=clock.now + 1000), show=live)
    await engine.leases.claim(NS, "host", lease_secs=20, show=list)
    await clock.advance(19)
    again = await restarted(100)
    (lease,) = await again.leases.list_leases(NS, 0, show=list)
    assert lease.expires_at == clock.now + 20
    assert await again.tasks.get(NS, task.id, show=state) == "assigned"


async def test_a_deadline_of_a_caller_goes_on_while_nobody_serves(engine, restarted, submission, clock):
    task = await engine.tasks.submit(NS, submission(deadline=clock.now + 30), show=live)
    again = await restarted(31)
    assert await again.tasks.get(NS, task.id, show=state) == "failed"


async def test_a_default_deadline_stands_still_while_nobody_serves(engine, restarted, submission, clock):
    task = await engine.tasks.submit(NS, submission(), show=live)
    left = task.deadline - clock.now
    again = await restarted(3600)
    assert await again.tasks.get(NS, task.id, show=lambda task: task.deadline) == clock.now + left


async def test_tokens_and_orders_jump_after_a_restore_and_leases_end(engine, store, restarted, submission, clock):
    session, _ = await stream(engine, clock)
    task = await engine.tasks.submit(NS, submission(deadline=clock.now + 1000), show=live)
    await clock.run_pending()
    (lease,) = take(session)
    await begin(engine, lease)
    store.meta = StoreMeta(store.meta.number + EPOCH_JUMP, store.meta.at, 1)
    again = await restarted()
    session, welcome = await stream(again, clock, held=[(task.id, lease.token)])
    assert [token for _, token in welcome.lost] == [lease.token]
    (regranted,) = take(session)
    assert regranted.task.id == task.id
    assert regranted.token == EPOCH_JUMP + 2
    young = await again.tasks.submit(NS, submission(), show=live)
    assert young.seq == EPOCH_JUMP + 2


async def test_a_clock_that_is_behind_the_last_commit_stops_the_start(engine, restarted, submission, clock):
    await engine.tasks.submit(NS, submission(), show=live)
    with pytest.raises(StoreError, match="--accept-clock"):
        await restarted(-60)
    again = await restarted(0, accept_clock=True)
    (task,) = (await again.tasks.list_tasks(NS, TaskFilter(), 0, 10)).tasks
    assert task.created_at == pytest.approx(clock.now, abs=1)


async def test_a_clock_a_little_behind_goes_on_from_the_last_commit(store, engine, submission, clock):
    await engine.tasks.submit(NS, submission(), show=live)
    kept = store.copy()
    kept.meta = StoreMeta(kept.meta.number, kept.meta.at + 3, 0)
    again = Engine(Limits(), store=kept, wall=clock)
    kept.meta = StoreMeta(kept.meta.number, again.now() + 3, 0)
    at = kept.meta.at
    await again.open()
    assert again.now() >= at
    await again.admin.close()


async def test_a_counter_goes_on(engine, restarted, submission):
    for _ in range(3):
        await engine.tasks.submit(NS, submission(), show=live)
    again = await restarted()
    await again.tasks.submit(NS, submission(), show=live)
    assert (await again.admin.stats(NS)).counters.submitted == 4


async def test_what_was_not_committed_is_not_there(engine, store, restarted, submission, clock):
    kept = await engine.tasks.submit(NS, submission(), show=live)
    store.gate.clear()
    lost = asyncio.ensure_future(engine.tasks.submit(NS, submission(), show=live))
    await clock.run_pending()
    again = await restarted()
    page = await again.tasks.list_tasks(NS, TaskFilter(), 0, 10)
    assert [task.id for task in page.tasks] == [kept.id]
    lost.cancel()


async def test_a_key_is_known_for_its_seconds_though_its_task_is_loaded_no_more(engine, restarted, submission, clock):
    key = IdempotencyKey("key", b"print")
    task = await engine.tasks.submit(NS, submission(key=key), show=live)
    await engine.tasks.cancel(NS, task.id, show=live)
    again = await restarted(down_secs=1000, idempotency_secs=3600)
    answer = await again.tasks.submit(NS, submission(key=key), show=live)
    assert (answer.id, answer.state, answer.created_at) == (task.id, "cancelled", task.created_at)
    assert (await again.tasks.list_tasks(NS, TaskFilter(), 0, 10)).tasks == []
    await clock.advance(3600)
    assert (await again.tasks.submit(NS, submission(key=key), show=live)).id != task.id
