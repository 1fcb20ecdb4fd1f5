"""Commands about tasks that have left memory: failed ones come back, and others are refused."""

import asyncio

import pytest

from taskyard_server.core.errors import Conflict, NotFound, Unavailable
from taskyard_server.core.task_options import IdempotencyKey
from taskyard_server.store.port import Table
from tests import reporting
from tests.engine.keeping.history_yard import HOST, NS, TTL_SECS, state, waiting
from tests.live import live

KEY = IdempotencyKey("order 5", b"print")


async def test_a_failed_task_of_the_history_can_be_resumed_and_runs_again(yard):
    task_id = await yard.past(params=b"{}")
    assert await yard.tasks.resume(NS, task_id, show=state) == "queued"
    assert yard.in_memory(task_id) == "queued"
    await yard.done(task_id)
    runs = await yard.tasks.get(NS, task_id, show=lambda task: (task.state.value, task.history.run, task.params))
    assert runs == ("done", 2, b"{}")
    await yard.leave_memory(task_id)
    assert (await yard.get(task_id))[1] == "done"
    assert await yard.store.check() == []


async def test_a_failed_task_of_the_history_can_be_resolved(yard):
    task_id = await yard.past()
    assert await yard.tasks.resolve(NS, task_id, b"by hand", show=state) == "done"
    assert (await yard.get(task_id))[1::2] == ("done", b"by hand")
    again = await yard.restarted()
    assert (await again.get(task_id))[1::2] == ("done", b"by hand")
    assert await yard.store.check() == []
    await again.engine.admin.close()


async def test_a_resumed_task_is_live_after_a_restart(yard):
    task_id = await yard.past()
    await yard.tasks.resume(NS, task_id, show=state)
    again = await yard.restarted()
    assert again.in_memory(task_id) == "queued"
    await again.done(task_id)
    await again.engine.admin.close()


@pytest.mark.parametrize("command", ["cancel", "pause", "resume", "resolve"])
async def test_commands_refuse_a_task_of_the_history_as_they_do_one_in_memory(yard, command):
    done, cancelled = await yard.submit(), await yard.submit()
    await yard.done(done)
    await yard.tasks.cancel(NS, cancelled, show=state)
    arguments = (None,) if command == "resolve" else ()

    async def refusals():
        said = []
        for task_id in (done, cancelled):
            with pytest.raises(Conflict) as refused:
                await getattr(yard.tasks, command)(NS, task_id, *arguments, show=live)
            said.append(str(refused.value))
        return said

    before = await refusals()
    await yard.leave_memory(done, cancelled)
    assert await refusals() == before
    assert yard.in_memory(done) is None


@pytest.mark.parametrize("command", ["cancel", "pause"])
async def test_a_failed_task_of_the_history_cannot_be_cancelled_or_paused(yard, command):
    task_id = await yard.past()
    with pytest.raises(Conflict, match="failed"):
        await getattr(yard.tasks, command)(NS, task_id, show=live)
    assert yard.in_memory(task_id) is None


async def test_a_resume_that_is_refused_leaves_the_task_in_the_history(yard, clock):
    task_id = await yard.submit(token_limit=5)
    await yard.failed(task_id, tokens=6)
    await yard.leave_memory(task_id)
    for arguments, refusal in ((("other",), NotFound), ((), Conflict)):
        with pytest.raises(refusal):
            await yard.tasks.resume(NS, task_id, *arguments, show=live)
    await clock.run_pending()
    assert yard.in_memory(task_id) is None
    assert (await yard.get(task_id))[1] == "failed"
    assert await yard.tasks.resume(NS, task_id, token_limit=10, show=state) == "queued"


async def test_no_task_is_resumed_from_the_history_of_a_draining_engine(yard, clock):
    task_id = await yard.past()
    yard.engine.admin.drain()
    with pytest.raises(Unavailable, match="draining"):
        await yard.tasks.resume(NS, task_id, show=live)
    await clock.run_pending()
    assert (await yard.get(task_id))[1] == "failed"


async def test_of_many_resumes_at_once_one_succeeds_and_its_row_is_read_once(yard, clock):
    task_id = await yard.past()
    yard.store.answers.clear()
    calls = await waiting(clock, *[yard.tasks.resume(NS, task_id, show=state) for _ in range(20)])
    yard.store.answers.set()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert outcomes.count("queued") == 1
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 19
    assert yard.store.tasks_read == 1


async def test_a_resume_and_a_resolve_at_once_come_one_after_the_other(yard, clock):
    task_id = await yard.past()
    yard.store.answers.clear()
    calls = await waiting(
        clock, yard.tasks.resume(NS, task_id, show=state), yard.tasks.resolve(NS, task_id, None, show=state)
    )
    yard.store.answers.set()
    resumed, resolved = await asyncio.gather(*calls, return_exceptions=True)
    assert resumed == "queued"
    assert isinstance(resolved, Conflict)


async def test_a_call_that_is_given_up_lets_the_next_one_load(yard, clock):
    task_id = await yard.past()
    yard.store.answers.clear()
    first, second = await waiting(clock, *[yard.tasks.resume(NS, task_id, show=state) for _ in range(2)])
    first.cancel()
    yard.store.answers.set()
    assert await second == "queued"


async def test_a_task_that_is_resumed_and_leaves_memory_at_once_is_not_overwritten_by_an_older_row(make_yard, clock):
    yard = await make_yard(max_retained_tasks=0)
    task_id = await yard.submit()
    await yard.failed(task_id)
    await clock.run_pending()
    yard.store.answers.clear()
    # The first one resolves it; it leaves memory in that turn, while the others wait to load it.
    calls = await waiting(
        clock,
        yard.tasks.resolve(NS, task_id, b"first", show=state),
        yard.tasks.resolve(NS, task_id, b"second", show=state),
        yard.tasks.resume(NS, task_id, show=state),
    )
    yard.store.commits.clear()
    yard.store.answers.set()
    await clock.run_pending()
    assert not any(call.done() for call in calls)
    yard.store.commits.set()
    first, *others = await asyncio.gather(*calls, return_exceptions=True)
    assert first == "done"
    assert [type(outcome) for outcome in others] == [Conflict, Conflict]
    assert (await yard.get(task_id))[1::2] == ("done", b"first")
    assert await yard.store.check() == []


async def test_a_task_whose_row_is_removed_after_it_was_loaded_is_written_anew(yard, clock):
    task_id = await yard.past()
    yard.store.answers.clear()
    (resuming,) = await waiting(clock, yard.tasks.resume(NS, task_id, show=state))
    assert await yard.store.forget(int((clock.now + 1) * 1000), 10) == 1
    yard.store.answers.set()
    assert await resuming == "queued"
    again = await yard.restarted()
    assert again.in_memory(task_id) == "queued"
    assert await yard.store.check() == []
    await again.engine.admin.close()


async def test_a_row_that_is_removed_before_the_commit_of_its_resume_is_written_anew(yard, clock):
    task_id = await yard.past()
    yard.store.commits.clear()
    (resuming,) = await waiting(clock, yard.tasks.resume(NS, task_id, show=state))
    assert await yard.store.forget(int((clock.now + 1) * 1000), 10) == 1
    yard.store.commits.set()
    assert await resuming == "queued"
    assert len(yard.store.tables[Table.TASKS]) == len(yard.store.tables[Table.STATES]) == 1
    await yard.done(task_id)
    assert await yard.store.check() == []


# What a task that comes back finds


async def test_a_resumed_task_has_its_key_again(yard):
    task_id = await yard.past(key=KEY)
    await yard.tasks.resume(NS, task_id, show=state)
    assert await yard.submit(key=KEY) == task_id
    again = await yard.restarted()
    assert await again.submit(key=KEY) == task_id
    await again.engine.admin.close()


async def test_a_key_stays_with_the_younger_task_that_has_it(yard):
    old = await yard.past(key=KEY)
    young = await yard.submit(key=KEY)
    assert young != old
    await yard.tasks.resume(NS, old, show=state)
    assert await yard.submit(key=KEY) == young
    again = await yard.restarted()
    assert await again.submit(key=KEY) == young
    assert (again.in_memory(old), again.in_memory(young)) == ("queued", "queued")
    await again.engine.admin.close()


async def test_a_resumed_task_of_a_target_waits_for_it_and_blocks_it_when_it_fails_again(yard, clock):
    expired = await yard.submit(target="t", deadline=clock.now + 10)
    await clock.advance(11)
    assert yard.in_memory(expired) == "failed"
    await yard.leave_memory(expired)
    running = await yard.submit(target="t")
    (lease,) = await yard.engine.leases.claim(NS, HOST, show=live)
    await reporting.start(yard.engine, NS, HOST, running, lease.token)
    assert await yard.tasks.resume(NS, expired, show=state) == "queued"
    assert await yard.engine.leases.claim(NS, HOST, show=live) == []
    await reporting.complete(yard.engine, NS, HOST, running, lease.token, None)
    await yard.failed(expired, "again")
    behind = await yard.submit(target="t")
    await yard.clock.advance(TTL_SECS / 6)
    assert await yard.engine.leases.claim(NS, HOST, show=live) == []
    assert (yard.in_memory(expired), yard.in_memory(behind)) == ("failed", "queued")
    again = await yard.restarted()
    assert await again.engine.leases.claim(NS, HOST, show=live) == []
    await again.tasks.cancel(NS, expired, show=state)
    await again.done(behind)
    assert await again.store.check() == []
    await again.engine.admin.close()


async def test_a_batch_is_known_again_with_the_tasks_that_came_back(yard):
    batch_id, (first, second) = await yard.batch("one", "two")
    await yard.failed(first)
    await yard.done(second)
    await yard.leave_memory(first, second)
    with pytest.raises(NotFound, match="batch not found"):
        await yard.tasks.get_batch(NS, batch_id, show=live)
    await yard.tasks.resume(NS, first, show=state)
    assert await yard.tasks.get_batch(NS, batch_id, show=lambda batch: list(batch.tasks)) == [first]


async def test_a_resumed_task_counts_as_failed_no_more(yard):
    task_id = await yard.past()
    before = await yard.engine.admin.stats(NS)
    await yard.tasks.resume(NS, task_id, show=state)
    after = await yard.engine.admin.stats(NS)
    assert (before.agents["ann"].failed, after.agents["ann"].failed) == (1, 0)
    assert (after.counters.reopened, after.queued) == (1, 1)
