"""Idempotency keys: a repeated submission answers with the first task (docs/rules.md, Idempotency)."""

import pytest

from taskyard_server.core.batches import BatchSubmission
from taskyard_server.core.errors import AlreadyExists, BadRequest, NotFound, QueueFull, Unavailable
from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.task import Submission, Task, TaskState
from taskyard_server.core.task_options import IdempotencyKey, TaskOptions
from tests.core.yard import TICK


def key(name="k", body=b"body"):
    return IdempotencyKey(name, body)


def batch(yard, *keys, agent="ann", deadline=None) -> BatchSubmission:
    """Submit a batch of one task for each of these keys."""
    submissions = [Submission(agent, "click", deadline=deadline, options=TaskOptions(key=each)) for each in keys]
    return yard.scheduler.submit_batch(yard.now, submissions)


def test_a_repeat_answers_the_first_task_and_changes_nothing(yard, watch):
    first = yard.submit(key=key())
    changes = watch(yard.scheduler)
    yard.now += 5
    assert yard.submit(key=key()) is first
    assert changes() == []


def test_a_repeat_of_another_body_is_refused_and_changes_nothing(yard, watch):
    yard.submit(key=key())
    changes = watch(yard.scheduler)
    with pytest.raises(AlreadyExists):
        yard.submit(key=key(body=b"other"))
    assert changes() == []


def test_a_key_belongs_to_its_agent(yard):
    first = yard.submit("ann", key=key())
    assert yard.submit("bob", key=key(body=b"other")) is not first
    assert yard.submit("ann", key=key()) is first


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "deadline"])
def test_a_key_lives_as_long_as_its_task_is_retained(make_yard, end):
    yard = make_yard(result_ttl_secs=300.0)
    yard.register()
    first = yard.submit(key=key())
    lease = yard.claim_one()
    match end:
        case "complete":
            yard.complete(lease)
        case "fail":
            yard.fail(lease)
        case "cancel":
            yard.cancel(first)
        case "deadline":
            yard.pass_time(61)
    yard.pass_time(299)
    assert yard.submit(key=key()) is first
    yard.pass_time(2)
    second = yard.submit(key=key(body=b"other"))
    assert second is not first
    assert second.state is TaskState.QUEUED


def test_a_task_that_lives_keeps_its_key_for_ever(yard):
    first = yard.submit(key=key(), deadline=yard.now + 1e6)
    yard.pass_time(9e5)
    assert yard.submit(key=key(), deadline=first.deadline) is first


def test_eviction_for_space_frees_the_key(make_yard):
    yard = make_yard(max_retained_tasks=2)
    tasks = [yard.submit(key=key(name)) for name in "abc"]
    for task in tasks:
        yard.cancel(task)
    assert yard.submit(key=key("a")) is not tasks[0]
    assert [yard.submit(key=key(name)) for name in "bc"] == tasks[1:]


def test_a_rejection_consumes_no_key(make_yard):
    yard = make_yard(max_queue_size=1)
    blocker = yard.submit()
    with pytest.raises(QueueFull):
        yard.submit(key=key())
    yard.cancel(blocker)
    first = yard.submit(key=key(body=b"other"))
    assert first.state is TaskState.QUEUED
    assert yard.submit(key=key(body=b"other")) is first


def test_when_a_rejected_task_is_evicted_the_key_of_its_successor_stays(make_yard):
    yard = make_yard(max_queue_size=1, result_ttl_secs=300.0)
    blocker = yard.submit()
    with pytest.raises(QueueFull):
        yard.submit(key=key())
    yard.pass_time(1)
    yard.cancel(blocker)
    first = yard.submit(key=key(), deadline=yard.now + 1e6)
    yard.pass_time(400)
    assert [task.state for task in yard.tasks()] == [TaskState.QUEUED]
    assert yard.submit(key=key()) is first


def test_a_deadline_in_the_past_consumes_no_key(yard):
    with pytest.raises(BadRequest):
        yard.submit(key=key(), deadline=yard.now)
    assert yard.submit(key=key(body=b"other")).state is TaskState.QUEUED


def test_a_repeat_is_answered_where_a_new_task_would_be_refused(make_yard):
    yard = make_yard(max_queue_size=1)
    deadline = yard.now + 30
    yard.register()
    first = yard.submit(key=key(), deadline=deadline)
    assert yard.submit(key=key(), deadline=deadline) is first
    yard.claim_one()
    yard.pass_time(31)
    assert first.state is TaskState.FAILED
    assert yard.submit(key=key(), deadline=deadline) is first
    yard.scheduler.drain()
    assert yard.submit(key=key(), deadline=deadline) is first
    with pytest.raises(AlreadyExists):
        yard.submit(key=key(body=b"other"))
    with pytest.raises(Unavailable):
        yard.submit(key=key("new"))


def test_a_task_that_was_requeued_keeps_its_key(yard):
    yard.register()
    first = yard.submit(key=key())
    yard.release(yard.claim_one())
    assert yard.submit(key=key()) is first
    yard.claim_one()
    yard.deregister()
    assert yard.submit(key=key()) is first


def test_counters_count_a_repeated_submission_once(yard):
    for _ in range(3):
        yard.submit(key=key())
    batch(yard, key(), key())
    stats = stats_of(yard.scheduler)
    assert (stats.counters.submitted, stats.queued, stats.agents["ann"].submitted) == (1, 1, 1)
    assert len(yard.transitions()) == 1


def test_keys_are_forgotten_with_their_tasks(make_yard):
    yard = make_yard(result_ttl_secs=10.0)
    for number in range(50):
        yard.cancel(yard.submit(f"agent-{number}", key=key(f"k{number}")))
    assert len(yard.scheduler._life.tasks.by_key) == 50
    yard.pass_time(20)
    assert not yard.scheduler._life.tasks.by_key


# Keys that are known longer than their task


def gone(yard, agent="ann", **options) -> Task:
    """A task under a key that was cancelled, and has left memory."""
    task = yard.submit(agent, **{"key": key()} | options)
    yard.cancel(task)
    yard.pass_time(yard.scheduler.limits.result_ttl_secs + TICK)
    with pytest.raises(NotFound):
        yard.scheduler.get(task.id)
    return task


def told(task) -> tuple[object, ...]:
    """What the answer to a submission shows."""
    return (task.id, task.state, task.position, task.created_at)


@pytest.fixture
def long_yard(make_yard):
    """Keys are known for an hour, tasks for ten seconds."""
    return make_yard(result_ttl_secs=10.0, idempotency_secs=3600.0)


def test_a_repeat_after_its_task_left_memory_answers_its_id_and_final_state_and_makes_nothing(long_yard, watch):
    long_yard.submit()
    first = gone(long_yard)
    changes = watch(long_yard.scheduler)
    again = long_yard.submit(key=key())
    assert told(again) == (first.id, TaskState.CANCELLED, 2, first.created_at)
    assert changes() == []


def test_another_body_under_a_key_of_the_past_is_refused(long_yard, watch):
    gone(long_yard)
    changes = watch(long_yard.scheduler)
    with pytest.raises(AlreadyExists):
        long_yard.submit(key=key(body=b"other"))
    assert changes() == []


def test_a_key_of_the_past_belongs_to_its_agent(long_yard):
    first = gone(long_yard)
    assert long_yard.submit("bob", key=key()).id != first.id


def test_a_key_of_the_past_counts_from_the_submission_and_is_free_afterwards(long_yard):
    submitted_at = long_yard.now
    first = gone(long_yard)
    long_yard.pass_time(submitted_at + 3600 - long_yard.now)
    assert long_yard.submit(key=key()).id == first.id
    long_yard.pass_time(TICK)
    second = long_yard.submit(key=key(body=b"other"))
    assert second.state is TaskState.QUEUED
    assert long_yard.submit(key=key(body=b"other")) is second


def test_a_key_whose_time_is_over_when_its_task_leaves_memory_goes_with_it(make_yard):
    yard = make_yard(result_ttl_secs=10.0, idempotency_secs=10.0)
    gone(yard)
    assert not yard.scheduler.life.past_keys
    assert yard.submit(key=key(body=b"other")).state is TaskState.QUEUED


def test_eviction_for_space_leaves_the_key(make_yard):
    yard = make_yard(max_retained_tasks=1, idempotency_secs=3600.0)
    tasks = [yard.submit(key=key(name)) for name in "abc"]
    for task in tasks:
        yard.cancel(task)
    assert [yard.submit(key=key(name)).id for name in "abc"] == [task.id for task in tasks]


def test_a_rejected_task_leaves_no_key(make_yard):
    yard = make_yard(max_queue_size=1, result_ttl_secs=10.0, idempotency_secs=3600.0)
    blocker = yard.submit(deadline=yard.now + 1e6)
    with pytest.raises(QueueFull):
        yard.submit(key=key())
    yard.pass_time(11)
    yard.cancel(blocker)
    assert yard.submit(key=key()).state is TaskState.QUEUED


def test_the_task_of_a_trigger_leaves_no_key(long_yard):
    gone(long_yard, trigger_id="trg_1")
    assert not long_yard.scheduler.life.past_keys


def test_a_task_without_a_key_leaves_nothing(long_yard):
    gone(long_yard, key=None)
    assert not long_yard.scheduler.life.past_keys
    assert long_yard.scheduler.life.timers.next_due() is None


def test_the_seconds_in_force_when_a_task_leaves_memory_count_for_its_key(long_yard):
    first = gone(long_yard)
    long_yard.reconfigure(result_ttl_secs=10.0, idempotency_secs=0.0)
    assert long_yard.submit(key=key()).id == first.id
    gone(long_yard, key=key("another"))
    assert long_yard.submit(key=key("another")).state is TaskState.QUEUED


def test_a_repeat_of_a_task_of_the_past_is_answered_while_draining_and_full(make_yard):
    yard = make_yard(max_queue_size=1, result_ttl_secs=10.0, idempotency_secs=3600.0)
    first = gone(yard)
    yard.submit(deadline=yard.now + 1e6)
    assert yard.submit(key=key()).id == first.id
    yard.scheduler.drain()
    assert yard.submit(key=key()).id == first.id


def test_keys_of_the_past_are_dropped_when_their_time_is_over(long_yard):
    for number in range(50):
        gone(long_yard, f"agent-{number}", key=key(f"k{number}"))
    assert len(long_yard.scheduler.life.past_keys) == 50
    long_yard.pass_time(3600)
    assert not long_yard.scheduler.life.past_keys
    assert long_yard.scheduler.next_due() is None


# Batches


def test_a_batch_repeats_tasks_of_the_past_beside_new_ones(long_yard):
    first = gone(long_yard, key=key("a"))
    deadline = long_yard.now - 1
    again = batch(long_yard, key("a"), key("a", b"other"), key("b"))
    assert [getattr(outcome, "state", None) for outcome in again.outcomes] == ["cancelled", None, "queued"]
    assert told(again.outcomes[0]) == told(first)
    assert isinstance(again.outcomes[1], AlreadyExists)
    assert list(long_yard.scheduler.batch(again.batch.id).tasks.values()) == [again.outcomes[2]]
    alone = batch(long_yard, key("a"), deadline=deadline)
    assert told(alone.outcomes[0]) == told(first)


def test_a_batch_of_repeats_only_answers_the_first_tasks_and_is_not_kept(yard):
    first = batch(yard, key("a"), key("b"))
    again = batch(yard, key("a"), key("b"))
    assert again.outcomes == first.outcomes
    assert {task.options.batch_id for task in again.outcomes} == {first.batch.id}
    with pytest.raises(NotFound):
        yard.scheduler.batch(again.batch.id)
    assert len(yard.scheduler.batch(first.batch.id).tasks) == 2


def test_a_repeat_in_a_batch_stays_in_the_batch_that_it_came_in(yard):
    alone = yard.submit(key=key("a"))
    mixed = batch(yard, key("a"), key("b"))
    assert mixed.outcomes[0] is alone
    assert alone.options.batch_id is None
    assert list(yard.scheduler.batch(mixed.batch.id).tasks.values()) == [mixed.outcomes[1]]


def test_a_key_twice_in_one_batch_is_one_task(yard):
    first, same, other = batch(yard, key(), key(), key(body=b"other")).outcomes
    assert first is same
    assert isinstance(other, AlreadyExists)
    assert len(yard.tasks()) == 1


def test_a_batch_of_repeats_is_answered_while_draining_and_one_with_anything_new_is_not(yard, watch):
    first = batch(yard, key("a"), key("b"))
    yard.scheduler.drain()
    assert batch(yard, key("a"), key("b")).outcomes == first.outcomes
    changes = watch(yard.scheduler)
    with pytest.raises(Unavailable):
        batch(yard, key("a"), key("new"))
    assert changes() == []


def test_a_batch_of_repeats_is_answered_though_its_deadline_has_passed_since(yard):
    deadline = yard.now + 10
    first = batch(yard, key("a"), deadline=deadline)
    yard.pass_time(20)
    assert batch(yard, key("a"), deadline=deadline).outcomes == first.outcomes
