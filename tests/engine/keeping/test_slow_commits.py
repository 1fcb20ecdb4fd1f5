"""What happens while a commit is under way, and while it takes long.

See docs/operate/durability.md, The way of a change.
"""

import asyncio
from typing import Any

import pytest

from taskyard_server.core.errors import Conflict, Internal, Unavailable
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.streams import Hello
from taskyard_server.engine import namespace as namespace_module
from taskyard_server.store.port import CommitDelayed, StoreError, Table
from tests.live import live

NS = "default"


@pytest.fixture
def begin(clock):
    """Starts a call and lets it go as far as it can."""
    begun: list[asyncio.Task[Any]] = []

    async def begin(call: Any) -> asyncio.Task[Any]:
        begun.append(asyncio.ensure_future(call))
        await clock.run_pending()
        return begun[-1]

    yield begin
    for each in begun:
        each.cancel()


@pytest.fixture
async def connect(engine):
    async def connect(host_id: str = "host", held: tuple[tuple[str, int], ...] = ()) -> Any:
        hello = Hello(host_id, "instance", HostProfile(), held=held, lease_secs=30)
        session, _ = await engine.hosts.connect(NS, hello, lambda: None, show=live)
        return session

    return connect


def state(task):
    return task.state


def sent(session):
    """The tokens of the leases that the stream of a session may send."""
    leases = session.next_leases(100)
    for lease in leases:
        session.mark_sent(lease)
    return [lease.token for lease in leases]


# Nobody learns of what is not committed


async def test_a_submission_is_answered_after_its_commit(engine, store, begin, submission):
    store.gate.clear()
    call = await begin(engine.tasks.submit(NS, submission(), show=state))
    assert not call.done()
    store.gate.set()
    assert await call == "queued"
    assert store.meta.number == 1


async def test_a_read_waits_for_the_commit_of_what_it_sees(engine, store, begin, submission):
    kept = await engine.tasks.submit(NS, submission(), show=live)
    store.gate.clear()
    await begin(engine.tasks.cancel(NS, kept.id, show=state))
    read = await begin(engine.tasks.get(NS, kept.id, show=state))
    listing = await begin(engine.admin.stats(NS))
    assert not read.done()
    assert not listing.done()
    store.gate.set()
    assert await read == "cancelled"


async def test_a_read_of_a_task_that_has_not_changed_waits_for_nothing(engine, store, begin, submission):
    kept = await engine.tasks.submit(NS, submission(), show=live)
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=state))
    assert await engine.tasks.get(NS, kept.id, show=state) == "queued"


async def test_other_namespaces_wait_for_nothing(engine, store, begin, submission):
    await engine.tasks.submit("other", submission(), show=live)
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=state))
    assert (await engine.admin.stats("other")).queued == 1


async def test_a_refusal_waits_for_the_commit_of_its_reason(engine, store, begin, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    store.gate.clear()
    await begin(engine.tasks.cancel(NS, task.id, show=state))
    again = await begin(engine.tasks.cancel(NS, task.id, show=state))
    assert not again.done()
    store.gate.set()
    with pytest.raises(Conflict):
        await again


async def test_listeners_hear_of_a_change_after_its_commit(engine, store, begin, submission, clock):
    heard = []
    engine.subscribe(lambda _, events: heard.extend(event.state for event in events))
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=state))
    assert heard == []
    store.gate.set()
    await clock.run_pending()
    assert heard == ["queued"]


async def test_what_an_answer_shows_was_true_at_its_command(engine, store, begin, submission, connect):
    session = await connect()
    await engine.hosts.give_credit(session, 1)
    store.gate.clear()
    call = await begin(engine.tasks.submit(NS, submission(), show=state))
    # The task is handed out while its submission waits.
    assert engine.admin.totals(NS).inflight == 1
    store.gate.set()
    assert await call == "queued"


async def test_all_turns_that_came_meanwhile_are_one_commit(engine, store, begin, submission):
    store.gate.clear()
    calls = [await begin(engine.tasks.submit(NS, submission(), show=state)) for _ in range(10)]
    store.gate.set()
    await asyncio.gather(*calls)
    assert store.meta.number == 2


async def test_a_stream_gets_a_task_after_the_commit_of_its_lease(engine, store, begin, submission, connect, clock):
    session = await connect()
    await engine.hosts.give_credit(session, 1)
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=state))
    assert not session.has_leases
    store.gate.set()
    await clock.run_pending()
    assert sent(session) == [1]


async def test_a_waiting_claim_is_answered_after_the_commit_of_its_lease(engine, store, begin, submission):
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    claim = await begin(engine.leases.claim(NS, "host", wait_secs=60, show=list))
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=state))
    assert not claim.done()
    store.gate.set()
    assert len(await claim) == 1


async def test_a_claim_that_leaves_before_its_commit_gives_its_task_back(engine, store, begin, submission, clock):
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    task = await engine.tasks.submit(NS, submission(), show=live)
    store.gate.clear()
    claim = await begin(engine.leases.claim(NS, "host", show=list))
    claim.cancel()
    await clock.run_pending()
    store.gate.set()
    await clock.run_pending()
    assert await engine.tasks.get(NS, task.id, show=state) == "queued"


async def test_a_lease_that_ended_before_its_commit_is_never_sent(engine, store, begin, submission, connect, clock):
    session = await connect()
    await engine.hosts.give_credit(session, 1)
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=state))
    (task,) = engine.tasks._namespaces.find(NS).scheduler.tasks_after(0)
    await begin(engine.tasks.cancel(NS, task.id, show=state))
    store.gate.set()
    await clock.run_pending()
    assert sent(session) == []
    assert session.take_stops() == []
    # Its credit is there for the next task.
    await engine.tasks.submit(NS, submission(), show=state)
    await clock.run_pending()
    assert sent(session) == [2]


# A slow disk costs time, never a lease


async def test_a_lease_counts_from_its_commit(engine, store, begin, submission, connect, clock):
    session = await connect()
    await engine.hosts.give_credit(session, 1)
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=state))
    await clock.advance(5)
    store.gate.set()
    await clock.run_pending()
    (lease,) = session.next_leases(1)
    assert lease.expires_at == clock.now + 30
    assert lease.start_by == clock.now + engine.limits.start_timeout_secs


@pytest.mark.parametrize("secs", [12, 70])
async def test_no_healthy_host_loses_a_lease_to_a_slow_commit(engine, store, begin, submission, connect, clock, secs):
    session = await connect()
    await engine.hosts.give_credit(session, 1)
    task = await engine.tasks.submit(NS, submission(deadline=clock.now + 1_000), show=live)
    await clock.run_pending()
    (lease,) = session.next_leases(1)
    session.mark_sent(lease)
    await engine.leases.report(NS, "host", [Report(ReportKind.STARTED, task.id, lease.token)])
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=state))
    for _ in range(secs // 2):
        await clock.advance(2)
    store.gate.set()
    await clock.run_pending()
    assert await engine.hosts.beat(session, [(task.id, lease.token)]) == []
    await clock.advance(1)
    assert await engine.tasks.get(NS, task.id, show=state) == "running"


@pytest.mark.parametrize("secs", [12, 70])
async def test_a_host_that_calls_loses_no_lease_to_a_slow_commit(engine, store, begin, submission, clock, secs):
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    task = await engine.tasks.submit(NS, submission(deadline=clock.now + 1_000), show=live)
    (token,) = await engine.leases.claim(NS, "host", lease_secs=5, show=lambda leases: [each.token for each in leases])
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=state))
    for _ in range(secs // 2):
        await clock.advance(2)
        # It changes nothing that is kept, so that it waits for nothing.
        renewal = await begin(engine.leases.renew(NS, "host", task.id, token, show=lambda lease: lease.expires_at))
        assert renewal.result() == clock.now + 5
    store.gate.set()
    await clock.run_pending()
    await clock.advance(1)
    assert await engine.tasks.get(NS, task.id, show=state) == "assigned"


async def test_a_heartbeat_counts_while_the_store_does_not_answer(engine, store, begin, submission, clock):
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=state))
    await clock.advance(11)
    with pytest.raises(Unavailable):
        await engine.hosts.heartbeat(NS, "host", show=live)
    store.gate.set()
    await clock.run_pending()
    (heard,) = await engine.hosts.list_hosts(NS, 0, show=lambda hosts: [host.last_heartbeat_at for host in hosts])
    assert heard == clock.now


async def test_heartbeats_take_no_memory_while_the_store_does_not_answer(engine, store, begin, connect, clock):
    session = await connect()
    store.gate.clear()
    await begin(engine.hosts.register(NS, "other", None, HostProfile(), show=live))
    for _ in range(100):
        await engine.hosts.beat(session, [])
        await clock.advance(0.1)
    (turns,) = engine.tasks._namespaces.driver.committer._open.values()
    assert len(turns.publishes) == 1


async def test_a_heartbeat_is_answered_at_once_and_names_no_end_that_is_not_committed(
    engine, store, begin, submission, connect, clock
):
    session = await connect()
    await engine.hosts.give_credit(session, 1)
    task = await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    assert sent(session) == [1]
    store.gate.clear()
    await begin(engine.tasks.cancel(NS, task.id, show=state))
    assert await engine.hosts.beat(session, [(task.id, 1)]) == []
    assert session.take_stops() == []
    store.gate.set()
    await clock.run_pending()
    assert [stop.lease.token for stop in session.take_stops()] == [1]
    assert await engine.hosts.beat(session, [(task.id, 1)]) == [(task.id, 1)]


async def test_nothing_comes_due_while_a_commit_takes_over_a_second(engine, store, begin, submission, clock):
    task = await engine.tasks.submit(NS, submission(deadline=clock.now + 2), show=live)
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=state))
    await clock.advance(1.5)
    await clock.advance(5)
    assert not engine.tasks._namespaces.find(NS).is_unkept(task.id)
    store.gate.set()
    await clock.run_pending()
    await clock.advance(1)
    assert await engine.tasks.get(NS, task.id, show=state) == "failed"


# A commit that does not succeed


async def test_a_delayed_commit_is_repeated_as_it_is(engine, store, begin, submission, clock):
    store.faults = [CommitDelayed("the disk is full"), CommitDelayed("the disk is full")]
    call = await begin(engine.tasks.submit(NS, submission(), show=state))
    assert not call.done()
    await clock.advance(0.3)
    await clock.advance(0.3)
    assert await call == "queued"
    assert store.tried == [1, 1, 1]


async def test_calls_that_wait_too_long_are_told_that_their_outcome_is_unknown(engine, store, begin, submission, clock):
    store.gate.clear()
    call = await begin(engine.tasks.submit(NS, submission(), show=live))
    await clock.advance(10)
    with pytest.raises(Unavailable, match="not known"):
        await call


async def test_new_commands_are_refused_while_the_store_does_not_answer(engine, store, begin, submission, clock):
    kept = await engine.tasks.submit(NS, submission(), show=live)
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=live))
    await clock.advance(10)
    for call in (engine.tasks.submit(NS, submission(), show=live), engine.tasks.cancel(NS, kept.id, show=live)):
        with pytest.raises(Unavailable, match="does not answer"):
            await call
    assert await engine.tasks.get(NS, kept.id, show=state) == "queued"
    store.gate.set()
    await clock.run_pending()
    assert await engine.tasks.submit(NS, submission(), show=state) == "queued"
    # What was told to be unknown did take effect, as it may.
    assert (await engine.admin.stats(NS)).queued == 3


async def test_the_reports_of_a_stream_wait_as_long_as_it_takes(engine, store, submission, connect, clock):
    session = await connect()
    await engine.hosts.give_credit(session, 1)
    task = await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    assert sent(session) == [1]
    store.gate.clear()
    answer = engine.leases.report(NS, "host", [Report(ReportKind.STARTED, task.id, 1)], patient=True)
    await clock.advance(60)
    assert not answer.kept.done()
    store.gate.set()
    assert await answer == ["running"]


async def test_the_end_waits_for_the_store_no_longer_than_a_call(engine, store, begin, submission, clock):
    store.gate.clear()
    await begin(engine.tasks.submit(NS, submission(), show=live))
    closing = await begin(engine.admin.close())
    assert not closing.done()
    await clock.advance(10)
    assert closing.done()
    assert (await begin(engine.release())).done()


async def test_after_a_final_failure_nobody_is_told_anything(engine, store, begin, submission):
    running = await begin(engine.run())
    store.faults = [StoreError("yard.db: disk I/O error")]
    call = await begin(engine.tasks.submit(NS, submission(), show=state))
    with pytest.raises(Unavailable):
        await call
    with pytest.raises(StoreError, match="disk I/O error"):
        await running
    with pytest.raises(Unavailable):
        await engine.tasks.submit(NS, submission(), show=state)


@pytest.mark.python_core
async def test_a_fault_in_the_records_of_a_namespace_closes_it_alone(engine, store, submission, monkeypatch):
    await engine.tasks.submit("well", submission(), show=live)
    rows = namespace_module.add_rows

    def faulty(group, number, name, *details):
        rows(group, number, name, *details)
        if name == NS:
            raise ValueError("no record of this")

    monkeypatch.setattr(namespace_module, "add_rows", faulty)
    with pytest.raises(Internal):
        await engine.tasks.submit(NS, submission(), show=live)
    with pytest.raises(Internal):
        await engine.tasks.get(NS, "tsk_x", show=live)
    assert await engine.tasks.submit("well", submission(), show=state) == "queued"
    monkeypatch.undo()
    assert len(store.tables[Table.TASKS]) == 2


async def test_a_full_queue_is_told_at_once(engine, store, begin, submission):
    engine.admin.reconfigure(Limits(max_queue_size=1))
    await engine.tasks.submit(NS, submission(), show=live)
    store.gate.clear()
    call = await begin(engine.tasks.submit(NS, submission(), show=live))
    assert call.done()
    with pytest.raises(Exception, match="queue full"):
        await call
