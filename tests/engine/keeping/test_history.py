"""Tasks that have left memory are found in the store, and failed ones can be resumed and resolved."""

import asyncio

import pytest

from taskyard_server.core.errors import BadRequest, Internal, NotFound, Unavailable
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import IdempotencyKey
from taskyard_server.store.port import Table
from tests.engine.keeping.history_yard import NS, state, waiting
from tests.live import live

ALL = TaskFilter()
KEY = IdempotencyKey("order 5", b"print")


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
