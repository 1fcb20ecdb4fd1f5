"""Tasks that are handed the results of others (docs/rules.md, Inputs)."""

import pytest

from taskyard_server.core.errors import Conflict, NotFound
from taskyard_server.core.runs.inputs import find_input, inputs_of
from taskyard_server.core.task_options import AfterPolicy

TTL = 10.0


@pytest.fixture
def yard(yard):
    """The yard with a host, and deadlines that are far off."""
    yard.reconfigure(default_deadline_secs=1e9, heartbeat_timeout_secs=1e9, lease_secs=1e6, result_ttl_secs=TTL)
    yard.register()
    return yard


def inputs(**tasks):
    return {"inputs": tuple(sorted((name, task.id) for name, task in tasks.items()))}


def finish(yard, task, result=None):
    lease = yard.start_one()
    assert lease.task is task
    yard.complete(lease, result=result)
    yard.pass_time(0)


def handed(lease):
    return {each.name: each.task for each in inputs_of(lease)}


def is_kept(yard, task):
    return yard.scheduler.find(task.id) is task


def is_empty(yard):
    predecessors, retention = yard.scheduler.life.predecessors, yard.scheduler.life.retention
    return predecessors.followers == predecessors._waiting == predecessors.inputs == retention.aside == {}


def test_a_task_comes_after_its_inputs_and_is_handed_them(yard):
    page, image = yard.submit(), yard.submit()
    task = yard.submit(**inputs(page=page, image=image))
    assert task.state == "pending"
    finish(yard, page, b"result")
    assert task.state == "pending"
    finish(yard, image)
    assert task.state == "queued"
    lease = yard.claim_one()
    assert handed(lease) == {"image": image, "page": page}
    assert find_input(lease, "page").task.result == b"result"
    with pytest.raises(NotFound, match="input not found"):
        find_input(lease, "other")


def test_one_task_may_be_several_inputs_and_a_predecessor_too(yard):
    first = yard.submit()
    names = (("a", first.id), ("b", first.id))
    task = yard.submit(after=(first.id,), inputs=names)
    finish(yard, first)
    lease = yard.start_one()
    assert handed(lease) == {"a": first, "b": first}
    yard.complete(lease)
    assert task.state == "done"
    assert is_empty(yard)


@pytest.mark.parametrize("end", ["done", "cancelled", "resolved"])
def test_an_input_is_kept_until_its_task_has_ended(yard, end):
    first = yard.submit()
    task = yard.submit(**inputs(it=first))
    finish(yard, first)
    yard.pass_time(10 * TTL)
    assert is_kept(yard, first)
    lease = yard.start_one()
    yard.pass_time(10 * TTL)
    if end == "done":
        yard.complete(lease)
    elif end == "cancelled":
        yard.cancel(task)
    else:
        yard.pause(task)
        yard.pass_time(10 * TTL)
        assert is_kept(yard, first)
        yard.resolve(task)
    yard.pass_time(0)
    assert not is_kept(yard, first)
    yard.pass_time(TTL + 1)
    assert is_empty(yard)


def test_a_task_that_failed_has_its_inputs_when_it_is_resumed(yard):
    first = yard.submit()
    task = yard.submit(**inputs(it=first))
    finish(yard, first)
    yard.fail(yard.start_one())
    yard.pass_time(TTL - 1)
    assert is_kept(yard, first)
    yard.resume(task)
    assert handed(yard.claim_one()) == {"it": first}


def test_the_inputs_of_a_failed_task_go_with_it(yard):
    first = yard.submit()
    yard.submit(**inputs(it=first))
    finish(yard, first)
    yard.fail(yard.start_one())
    yard.pass_time(TTL + 1)
    yard.pass_time(0)
    assert not is_kept(yard, first)
    assert is_empty(yard)


def test_a_second_attempt_is_handed_the_same(yard):
    first = yard.submit()
    yard.submit(**inputs(it=first))
    finish(yard, first)
    yard.release(yard.claim_one())
    assert handed(yard.claim_one()) == {"it": first}


def test_a_task_whose_input_failed_is_cancelled_and_keeps_nothing(yard):
    first = yard.submit()
    task = yard.submit(**inputs(it=first))
    yard.fail(yard.start_one())
    yard.pass_time(0)
    assert (task.state, task.error) == ("cancelled", f"predecessor {first.id} failed")
    assert is_empty(yard)


def test_after_any_end_a_task_is_handed_what_failed(yard):
    first = yard.submit()
    yard.submit(after_policy=AfterPolicy.ENDED, **inputs(it=first))
    yard.fail(yard.start_one())
    yard.pass_time(0)
    (found,) = inputs_of(yard.claim_one())
    assert (found.name, found.task.state) == ("it", "failed")


def test_an_input_that_is_not_there_is_refused_by_its_field(yard):
    with pytest.raises(NotFound, match="inputs: task tsk_nope not found"):
        yard.submit(inputs=(("it", "tsk_nope"),))
    yard.reconfigure(max_queue_size=1)
    yard.submit()
    with pytest.raises(Exception, match="full"):
        yard.submit()
    rejected = next(task for task in yard.scheduler.tasks_after(0) if task.state == "rejected")
    with pytest.raises(Conflict, match=f"inputs: task {rejected.id} was rejected"):
        yard.submit(**inputs(it=rejected))
    assert is_empty(yard)


def test_a_task_without_inputs_has_none(yard):
    yard.submit()
    assert list(inputs_of(yard.claim_one())) == []
