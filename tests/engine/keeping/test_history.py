"""Tasks that have left memory are found in the store, and failed ones can be resumed and resolved."""

import asyncio

import pytest

from taskyard_server.core.errors import BadRequest, Conflict, Internal, NotFound, Unavailable
from taskyard_server.core.task import IdempotencyKey, Submission
from taskyard_server.engine.port import TaskFilter
from taskyard_server.store.port import Table
from tests import reporting
from tests.engine.keeping.history_yard import HOST, NS, TTL_SECS, HistoryYard
from tests.live import live

ALL = TaskFilter()
KEY = IdempotencyKey("order 5", b"print")


@pytest.fixture
async def make_yard(clock):
    yards = []

    async def make(**limits):
        yards.append(await HistoryYard(clock, **limits).open())
        return yards[-1]

    yield make
    for yard in yards:
        yard.store.commits.set()
        yard.store.answers.set()
        await yard.engine.admin.close()


@pytest.fixture
async def yard(make_yard):
    return await make_yard()


def state(task):
    return task.state.value


async def waiting(clock, *calls):
    """Calls under way."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    await clock.run_pending()
    return tasks


# Looking a task up


async def test_a_task_that_left_memory_is_shown_as_it_ended(yard):
    failed, done = await yard.submit(params=b"{}"), await yard.submit()
    await yard.failed(failed)
    await yard.done(done)
    cancelled = await yard.submit()
    await yard.tasks.cancel(NS, cancelled, show=state)
    before = [await yard.get(task_id) for task_id in (failed, done, cancelled)]
    await yard.leave_memory(failed, done, cancelled)
    assert [await yard.get(task_id) for task_id in (failed, done, cancelled)] == before
    assert [facts[1] for facts in before] == ["failed", "done", "cancelled"]
    assert [yard.in_memory(task_id) for task_id in (failed, done, cancelled)] == [None] * 3


async def test_a_task_is_found_after_a_restart(yard):
    task_id = await yard.past()
    again = await yard.restarted()
    assert again.in_memory(task_id) is None
    assert await again.get(task_id) == await yard.get(task_id)
    await again.engine.admin.close()


async def test_a_default_deadline_is_shown_as_it_was(yard):
    task_id = await yard.submit()
    await yard.failed(task_id)
    deadline = await yard.tasks.get(NS, task_id, show=lambda task: task.deadline)
    await yard.leave_memory(task_id)
    assert await yard.tasks.get(NS, task_id, show=lambda task: task.deadline) == deadline


async def test_waiting_for_a_task_of_the_history_answers_at_once(yard):
    task_id = await yard.past()
    assert await yard.tasks.wait(NS, task_id, 60, show=state) == "failed"


async def test_a_rejected_task_is_gone_with_its_time_in_memory(make_yard):
    yard = await make_yard(max_queue_size=1)
    await yard.submit(hold=True)
    refused = yard.tasks.submit_each(NS, [Submission("ann", "click")], show=live)
    rejected = (await refused)[0].task.id
    assert (await yard.get(rejected))[1] == "rejected"
    await yard.leave_memory(rejected)
    with pytest.raises(NotFound):
        await yard.get(rejected)


@pytest.mark.parametrize("command", ["get", "wait", "cancel", "pause", "resume", "resolve"])
async def test_a_wrong_id_is_not_found_and_reads_nothing(yard, command):
    task_id = await yard.past()
    wrong = [
        "",
        "tsk_",
        "tsk_1",
        "x" + task_id[1:],
        task_id + "0",
        task_id[:-1],
        task_id + "\n",
        task_id.upper(),
        "tsk_" + "g" * 32,
        "tsk_" + "\uff10" * 32,
        "tsk_" + "f" * 32,
        f"{task_id[:16]}{2:010x}{task_id[26:]}",
        "tsk_" + "0" * 32,
        "bat_" + task_id[4:],
        task_id.replace("tsk_", "tsk_ "),
    ]
    arguments = {"wait": (1,), "resolve": (None,)}.get(command, ())
    for each in wrong:
        with pytest.raises(NotFound, match="task not found"):
            await getattr(yard.tasks, command)(NS, each, *arguments, show=live)
    assert yard.store.tasks_read == 0


async def test_an_id_with_the_order_of_a_task_and_other_digits_is_not_found(yard):
    task_id = await yard.past()
    other_time = f"tsk_{int(task_id[4:16], 16) + 1:012x}{task_id[16:]}"
    other_tail = f"{task_id[:26]}{int(task_id[26:], 16) ^ 1:010x}"
    for wrong in (other_time, other_tail):
        with pytest.raises(NotFound):
            await yard.get(wrong)
        with pytest.raises(NotFound):
            await yard.tasks.resume(NS, wrong, show=live)
    assert yard.in_memory(task_id) is None


async def test_a_task_is_found_in_its_own_namespace_only(yard):
    task_id = await yard.past()
    for _ in range(3):
        await yard.submit("other")
    for namespace in ("other", "unknown"):
        with pytest.raises(NotFound):
            await yard.get(task_id, namespace)
        with pytest.raises(NotFound):
            await yard.tasks.resume(namespace, task_id, show=live)


async def test_a_task_is_gone_once_its_row_was_removed(yard, clock):
    task_id = await yard.past()
    assert await yard.store.forget(int((clock.now + 1) * 1000), 10) == 1
    with pytest.raises(NotFound):
        await yard.get(task_id)
    with pytest.raises(NotFound):
        await yard.tasks.resume(NS, task_id, show=live)


async def test_a_task_that_left_memory_before_its_end_was_committed_is_shown_once_it_is(make_yard, clock):
    yard = await make_yard(max_retained_tasks=0)
    task_id = await yard.submit()
    yard.store.commits.clear()
    (cancelling,) = await waiting(clock, yard.tasks.cancel(NS, task_id, show=state))
    assert yard.in_memory(task_id) is None
    getting, listing = await waiting(clock, yard.get(task_id), ids(yard, history=True))
    assert not any(call.done() for call in (cancelling, getting, listing))
    yard.store.commits.set()
    assert (await getting)[1] == "cancelled"
    assert await listing == [task_id]
    assert await cancelling == "cancelled"


async def test_a_task_that_came_and_went_in_one_turn_is_found(make_yard):
    yard = await make_yard(max_retained_tasks=0)
    answer = yard.tasks.submit_each(NS, [Submission("ann", "click")], show=lambda tasks: tasks[0].id)
    cancelling = asyncio.ensure_future(yard.tasks.cancel(NS, answer.value, show=state))
    assert await answer == answer.value
    assert await cancelling == "cancelled"
    assert (await yard.get(answer.value))[1] == "cancelled"


async def test_a_read_that_is_overtaken_by_a_resume_shows_the_task_in_memory(yard, clock):
    task_id = await yard.past()
    yard.store.answers.clear()
    (getting,) = await waiting(clock, yard.get(task_id))
    (resuming,) = await waiting(clock, yard.tasks.resume(NS, task_id, show=state))
    yard.store.answers.set()
    assert await resuming == "queued"
    assert (await getting)[1] in ("failed", "queued")
    assert (await yard.get(task_id))[1] == "queued"


# Commands


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


# A store that does not answer, or is wrong


async def test_what_the_store_does_not_answer_in_time_is_unavailable(make_yard, clock):
    yard = await make_yard(patience_secs=5)
    task_id = await yard.past()
    yard.store.answers.clear()
    calls = await waiting(clock, yard.get(task_id), yard.tasks.resume(NS, task_id, show=live), ids(yard, history=True))
    await clock.advance(5)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3


async def test_a_store_that_fails_is_unavailable(yard):
    task_id = await yard.past()
    yard.store.is_broken = True
    for call in (yard.get(task_id), yard.tasks.resume(NS, task_id, show=live)):
        with pytest.raises(Unavailable):
            await call


async def test_a_record_at_fault_is_an_internal_error_and_harms_no_other(yard):
    wrong, right = await yard.past(), await yard.past()
    key = min(yard.store.ended)
    yard.store.ended[key] = (yard.store.ended[key][0], b"\xc1")
    for call in (yard.get(wrong), yard.tasks.resume(NS, wrong, show=live), ids(yard, history=True)):
        with pytest.raises(Internal, match="at fault"):
            await call
    assert await yard.tasks.resume(NS, right, show=state) == "queued"


# Without history


async def test_nothing_is_kept_beyond_memory_where_history_days_are_0(make_yard, clock):
    yard = await make_yard(history_days=0)
    task_id = await yard.past()
    await clock.run_pending()
    assert yard.store.tables[Table.TASKS] == yard.store.ended == {}
    with pytest.raises(NotFound):
        await yard.get(task_id)
    with pytest.raises(NotFound):
        await yard.tasks.resume(NS, task_id, show=live)
    with pytest.raises(BadRequest, match="historyDays is 0"):
        await ids(yard, history=True)


async def ids(yard, **options):
    """The ids of one page."""
    page = await yard.tasks.list_tasks(NS, ALL, 0, 100, **options)
    return [task.id for task in page.tasks]
