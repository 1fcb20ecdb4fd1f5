"""Idempotency keys of tasks that have left memory, over restarts and back from the history."""

from __future__ import annotations

import pytest

from taskyard_server.core.errors import AlreadyExists
from taskyard_server.core.task import Task
from taskyard_server.core.task_options import IdempotencyKey
from taskyard_server.store.loading import adopt
from tests.store.kept_yard import START, KeptYard

KEY = IdempotencyKey("key", b"print")
SECS = 3600.0
TTL = 10.0


@pytest.fixture
def yard() -> KeptYard:
    return _yard()


def _yard(idempotency_secs: float = SECS, keep_history: bool = True) -> KeptYard:
    yard = KeptYard(keep_history, result_ttl_secs=TTL, idempotency_secs=idempotency_secs)
    yard.host()
    return yard


def failed_and_gone(yard: KeptYard, **options: object) -> Task:
    """A task that has failed, and has left memory."""
    task = yard.submit(**options)
    yard.fail(yard.claim())
    leave(yard, task)
    return task


def leave(yard: KeptYard, *tasks: Task) -> None:
    """Let the time of ended tasks in memory pass."""
    yard.commit()
    yard.pass_time(TTL + 1)
    yard.commit()
    assert all(yard.scheduler.find(task.id) is None for task in tasks)


def restart(yard: KeptYard, after: float = 0.0, shift: float = 0.0) -> None:
    """As the engine does: only tasks whose time in memory is not over are loaded."""
    yard.now += after
    yard.restart(ended_since_ms=int((yard.now - TTL) * 1000), shift=shift)


def test_a_key_of_the_past_is_known_after_a_restart(yard):
    first = failed_and_gone(yard, key=KEY)
    restart(yard, after=100)
    assert yard.scheduler.find(first.id) is None
    again = yard.submit(key=KEY)
    assert (again.id, again.state, again.position, again.created_at) == (first.id, "failed", 1, START)
    with pytest.raises(AlreadyExists):
        yard.submit(key=KEY._replace(fingerprint=b"other"))
    assert list(yard.scheduler.tasks_after(0)) == []
    assert yard.scheduler.life.agents.by_id == {}


def test_a_key_whose_task_ends_and_leaves_while_nobody_serves_is_known_too(yard):
    first = yard.submit(key=KEY)
    yard.fail(yard.claim())
    yard.commit()
    restart(yard, after=100)
    assert yard.submit(key=KEY).id == first.id


def test_a_key_counts_from_the_submission_though_its_task_ended_late(yard):
    first = yard.submit(key=KEY, deadline=START + 2 * SECS)
    late = yard.submit(key=KEY._replace(key="late"), deadline=START + 2 * SECS)
    yard.pass_time(SECS - 100)
    assert {yard.claim(secs=SECS).task, yard.claim(secs=SECS).task} == {first, late}
    for lease in list(yard.scheduler.leases_after(0)):
        yard.complete(lease)
    leave(yard, first, late)
    restart(yard, after=20)
    assert yard.submit(key=KEY).id == first.id
    restart(yard, after=100)
    assert yard.submit(key=KEY).id != first.id


def test_a_key_that_was_loaded_is_dropped_when_its_time_is_over(yard):
    failed_and_gone(yard, key=KEY)
    restart(yard)
    assert len(yard.scheduler.life.past_keys) == 1
    yard.pass_time(SECS)
    assert not yard.scheduler.life.past_keys


def test_tasks_without_a_key_and_those_of_triggers_leave_none(yard):
    failed_and_gone(yard)
    failed_and_gone(yard, key=KEY, trigger_id="trg_1")
    restart(yard)
    assert not yard.scheduler.life.past_keys


def test_seconds_that_were_raised_meanwhile_count_at_a_restart():
    yard = _yard(idempotency_secs=0.0)
    first = failed_and_gone(yard, key=KEY)
    second = failed_and_gone(yard, key=KEY)
    third = yard.submit(key=KEY._replace(key="other"))
    yard.commit()
    yard.limits = _yard().limits
    restart(yard)
    assert first.id != second.id
    assert yard.submit(key=KEY).id == second.id
    assert yard.submit(key=KEY._replace(key="other")).id == third.id


def test_a_task_in_memory_keeps_its_key_at_a_restart_though_one_of_the_past_had_it():
    yard = _yard(idempotency_secs=0.0)
    failed_and_gone(yard, key=KEY)
    second = yard.submit(key=KEY)
    yard.commit()
    yard.limits = _yard().limits
    restart(yard)
    assert yard.submit(key=KEY).id == second.id
    assert not yard.scheduler.life.past_keys


def test_without_history_keys_of_the_past_end_with_the_process():
    yard = _yard(keep_history=False)
    first = failed_and_gone(yard, key=KEY)
    assert yard.submit(key=KEY).id == first.id
    restart(yard)
    assert yard.submit(key=KEY).id != first.id


def test_the_time_of_a_key_is_moved_with_the_clock(yard):
    first = failed_and_gone(yard, key=KEY)
    yard.now -= 1000
    restart(yard, shift=-1000)
    assert yard.submit(key=KEY).created_at == START - 1000
    yard.now = START - 1000 + SECS
    yard.pass_time(0)
    assert yard.submit(key=KEY).id == first.id
    yard.pass_time(1)
    assert yard.submit(key=KEY).id != first.id


# Back from the history


def test_a_task_that_comes_back_has_its_key_and_leaves_it_behind_again(yard):
    first = failed_and_gone(yard, key=KEY)
    task = adopt(yard.scheduler, yard.rows(first))
    assert yard.submit(key=KEY) is task
    assert not yard.scheduler.life.past_keys
    yard.pass_time(0)
    assert yard.scheduler.find(task.id) is None
    again = yard.submit(key=KEY)
    assert again is not task
    assert again.id == task.id
    assert len(yard.scheduler.life.past_keys) == 1


def test_a_task_that_comes_back_and_lives_has_its_key_beyond_its_time(yard):
    first = failed_and_gone(yard, key=KEY)
    task = adopt(yard.scheduler, yard.rows(first))
    yard.scheduler.pause(yard.now, _resumed(yard, task).id)
    yard.pass_time(SECS)
    assert yard.submit(key=KEY) is task


def test_a_task_that_comes_back_leaves_its_key_to_a_later_one_of_the_past():
    yard = _yard(idempotency_secs=30.0)
    first = failed_and_gone(yard, key=KEY)
    yard.pass_time(30)
    second = failed_and_gone(yard, key=KEY)
    task = adopt(yard.scheduler, yard.rows(first))
    assert yard.submit(key=KEY).id == second.id
    yard.scheduler.pause(yard.now, _resumed(yard, task).id)
    yard.commit()
    assert yard.submit(key=KEY).id == second.id
    restart(yard)
    assert yard.submit(key=KEY).id == second.id


def _resumed(yard: KeptYard, task: Task) -> Task:
    yard.scheduler.resume(yard.now, task.id)
    assert yard.claim().task is task
    return task
