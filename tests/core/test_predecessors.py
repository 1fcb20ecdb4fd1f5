"""Tasks that come after others (docs/rules.md, Predecessors)."""

import pytest

from taskyard_server.core.errors import Conflict, NotFound, QueueFull
from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.names import names
from taskyard_server.core.predecessors import Known
from taskyard_server.core.task import Submission, TaskState
from taskyard_server.core.task_options import AfterPolicy, TaskExtras, TaskOptions

ENDED = AfterPolicy.ENDED


@pytest.fixture
def yard(yard):
    """The yard with a host, and deadlines that are far off."""
    yard.reconfigure(default_deadline_secs=1e9, heartbeat_timeout_secs=1e9, lease_secs=1e3, result_ttl_secs=1e9)
    yard.register()
    return yard


def after(*tasks):
    return {"after": tuple(task.id for task in tasks)}


def run(yard, task):
    """Let the host run a task, which is the next one."""
    lease = yard.start_one()
    assert lease.task is task
    return lease


def finish(yard, task):
    yard.complete(run(yard, task))
    yard.pass_time(0)


def fail(yard, task):
    yard.fail(run(yard, task))
    yard.pass_time(0)


def waits(yard):
    return stats_of(yard.scheduler).after_others


def is_empty(yard):
    predecessors, retention = yard.scheduler.life.predecessors, yard.scheduler.life.retention
    return predecessors.followers == predecessors._waiting == predecessors._clear == retention.aside == {}


def test_a_task_is_pending_until_all_that_it_comes_after_have_ended(yard):
    first, second = yard.submit(), yard.submit()
    third = yard.submit(**after(first, second))
    assert (third.state, third.options.extras.after, waits(yard)) == ("pending", (first.id, second.id), 1)
    finish(yard, first)
    assert (third.state, waits(yard)) == ("pending", 1)
    finish(yard, second)
    assert (third.state, waits(yard)) == ("queued", 0)
    assert yard.claim_one().task is third
    assert is_empty(yard)


def test_a_task_after_what_is_done_already_is_queued_at_once(yard):
    first = yard.submit()
    finish(yard, first)
    assert yard.submit(**after(first)).state == "queued"
    assert is_empty(yard)


def test_a_chain_runs_in_its_order_whatever_the_priorities(yard):
    tasks = [yard.submit(priority=5)]
    for priority in (4, 3, 2, 1):
        tasks.append(yard.submit(priority=priority, **after(tasks[-1])))
    for task in tasks:
        finish(yard, task)
    assert {task.state for task in tasks} == {"done"}


def test_a_name_that_is_given_twice_counts_once(yard):
    first = yard.submit()
    second = yard.submit(**after(first, first))
    finish(yard, first)
    assert second.state == "queued"


def test_a_task_that_is_not_known_is_not_found(yard):
    with pytest.raises(NotFound, match=r"^after: task tsk_nope not found$"):
        yard.submit(after=("tsk_nope",))
    assert yard.tasks() == []


def test_a_task_that_was_rejected_is_a_conflict(yard):
    yard.reconfigure(max_queue_size=1)
    yard.submit()
    with pytest.raises(QueueFull) as refused:
        yard.submit()
    yard.reconfigure(max_queue_size=10)
    with pytest.raises(Conflict, match=f"^after: task {refused.value.task.id} was rejected$"):
        yard.submit(**after(refused.value.task))


def test_a_task_of_another_agent_than_the_callers_is_not_found(yard):
    other = yard.submit("bob")
    submission = Submission("ann", "click", options=TaskOptions(extras=TaskExtras(**after(other))))
    with pytest.raises(NotFound, match=f"^after: task {other.id} not found$"):
        yard.scheduler.submit(yard.now, submission, Known(names(["ann"])))
    assert yard.scheduler.submit(yard.now, submission, Known(names(["ann", "bob"]))).state == "pending"


@pytest.mark.parametrize(
    ("ended", "policy", "state"),
    [
        ("done", None, "queued"),
        ("failed", None, "cancelled"),
        ("cancelled", None, "cancelled"),
        ("done", ENDED, "queued"),
        ("failed", ENDED, "queued"),
        ("cancelled", ENDED, "queued"),
    ],
)
def test_what_has_left_memory_counts_by_how_it_ended(yard, ended, policy, state):
    submission = Submission(
        "ann", "click", options=TaskOptions(extras=TaskExtras(after=("tsk_past",), after_policy=policy))
    )
    task = yard.scheduler.submit(yard.now, submission, Known(None, {"tsk_past": TaskState(ended)}))
    assert task.state == state
    assert task.error == ("predecessor tsk_past failed" if state == "cancelled" else None)
    assert is_empty(yard)


@pytest.mark.parametrize("end", ["cancelled", "failed", "expired"])
def test_what_comes_after_a_task_that_did_not_succeed_is_cancelled(yard, end):
    first = yard.submit(deadline=yard.now + 10)
    second = yard.submit(**after(first))
    third = yard.submit(**after(second))
    if end == "cancelled":
        yard.cancel(first)
    elif end == "failed":
        yard.fail(run(yard, first))
    yard.pass_time(11)
    assert (second.state, second.error) == ("cancelled", f"predecessor {first.id} failed")
    assert (third.state, third.error) == ("cancelled", f"predecessor {second.id} failed")
    assert is_empty(yard)


def test_a_task_after_what_has_failed_already_is_cancelled_in_the_same_step(yard):
    first = yard.submit()
    yard.cancel(first)
    second = yard.submit(target="till", **after(first))
    assert (second.state, second.error) == ("cancelled", f"predecessor {first.id} failed")
    assert yard.transitions()[-2:] == [(second.id, "pending"), (second.id, "cancelled")]
    assert is_empty(yard)


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_with_the_policy_ended_any_end_will_do(yard, end):
    first = yard.submit()
    second = yard.submit(after_policy=ENDED, **after(first))
    if end == "cancelled":
        yard.cancel(first)
    else:
        yard.fail(run(yard, first))
    yard.pass_time(0)
    assert second.state == "queued"


def test_a_failure_that_is_tried_again_is_no_end(yard):
    yard.reconfigure(max_deliveries=2)
    first = yard.submit()
    second = yard.submit(**after(first))
    yard.fail(run(yard, first), retry_after_secs=5)
    yard.pass_time(0)
    assert (first.state, second.state) == ("pending", "pending")
    yard.pass_time(6)
    finish(yard, first)
    assert second.state == "queued"


def test_a_paused_task_is_waited_for(yard):
    first = yard.submit()
    second = yard.submit(**after(first))
    run(yard, first)
    yard.pause(first)
    yard.pass_time(1)
    assert (second.state, waits(yard)) == ("pending", 1)
    yard.resume(first)
    finish(yard, first)
    assert second.state == "queued"


@pytest.mark.parametrize("then", ["resume", "resolve", "cancel"])
def test_a_failure_that_blocks_its_target_keeps_what_comes_after_it_waiting(yard, then):
    first = yard.submit(target="till")
    second = yard.submit(**after(first))
    fail(yard, first)
    assert (first.state, second.state) == ("failed", "pending")
    late = yard.submit(**after(first))
    assert late.state == "pending"
    if then == "resume":
        yard.resume(first)
        finish(yard, first)
    elif then == "resolve":
        yard.resolve(first)
    else:
        yard.cancel(first)
    yard.pass_time(0)
    assert {second.state, late.state} == {"cancelled" if then == "cancel" else "queued"}


def test_with_the_policy_ended_a_failure_that_blocks_its_target_is_an_end(yard):
    first = yard.submit(target="till")
    second = yard.submit(after_policy=ENDED, **after(first))
    fail(yard, first)
    assert second.state == "queued"


def test_a_resume_brings_back_no_task_that_was_cancelled(yard):
    first = yard.submit()
    second = yard.submit(**after(first))
    fail(yard, first)
    assert second.state == "cancelled"
    yard.resume(first)
    finish(yard, first)
    assert second.state == "cancelled"


def test_a_failure_that_is_resumed_before_its_followers_are_looked_at_is_waited_for(yard):
    first = yard.submit()
    second = yard.submit(**after(first))
    yard.fail(run(yard, first))
    yard.resume(first)
    yard.pass_time(0)
    assert second.state == "pending"
    finish(yard, first)
    assert second.state == "queued"


def test_all_have_to_have_ended_at_once(yard):
    first, second = yard.submit(priority=-1), yard.submit()
    third = yard.submit(after_policy=ENDED, **after(first, second))
    fail(yard, first)
    yard.resume(first)
    run(yard, first)
    yard.pause(first)
    yard.pass_time(0)
    finish(yard, second)
    assert (third.state, waits(yard)) == ("pending", 1)
    yard.cancel(first)
    yard.pass_time(0)
    assert third.state == "queued"


def test_a_task_that_is_resumed_waits_for_nobody(yard):
    first = yard.submit()
    second = yard.submit(deadline=yard.now + 5, **after(first))
    yard.pass_time(6)
    assert (second.state, second.error) == ("failed", "deadline exceeded while queued")
    yard.resume(second)
    assert second.state == "queued"
    yard.cancel(first)
    yard.pass_time(0)
    assert second.state == "queued"


def test_a_task_that_waits_for_others_can_be_cancelled_and_not_resumed(yard):
    first = yard.submit()
    second = yard.submit(**after(first))
    third = yard.submit(**after(second))
    with pytest.raises(Conflict, match=r"^task is pending, only a paused, failed or held one can be resumed$"):
        yard.resume(second)
    yard.cancel(second)
    yard.pass_time(0)
    assert (first.state, third.state) == ("queued", "cancelled")
    assert is_empty(yard)


# Together with a hold, a time and a target


@pytest.mark.parametrize("release_first", [True, False])
def test_a_held_task_waits_for_its_release_and_for_others(yard, release_first):
    first = yard.submit()
    second = yard.submit(hold=True, **after(first))
    if release_first:
        yard.resume(second)
        assert (second.state, waits(yard)) == ("pending", 1)
        finish(yard, first)
    else:
        finish(yard, first)
        assert (second.state, waits(yard)) == ("pending", 0)
        yard.resume(second)
    assert second.state == "queued"
    assert is_empty(yard)


def test_a_held_task_is_cancelled_with_what_it_comes_after(yard):
    first = yard.submit()
    second = yard.submit(hold=True, **after(first))
    yard.cancel(first)
    yard.pass_time(0)
    assert second.state == "cancelled"


@pytest.mark.parametrize("end_first", [True, False])
def test_a_task_waits_for_its_time_and_for_others(yard, end_first):
    first = yard.submit()
    second = yard.submit(not_before=yard.now + 10, **after(first))
    if end_first:
        finish(yard, first)
        assert (second.state, second.history.not_before) == ("pending", yard.now + 10)
        yard.pass_time(10.2)
    else:
        yard.pass_time(10.2)
        assert second.state == "pending"
        finish(yard, first)
    assert (second.state, second.history.not_before) == ("queued", None)
    assert is_empty(yard)


def test_its_time_comes_while_what_it_comes_after_was_resumed(yard):
    first = yard.submit()
    second = yard.submit(not_before=yard.now + 10, after_policy=ENDED, **after(first))
    fail(yard, first)
    yard.resume(first)
    yard.pass_time(11)
    assert second.state == "pending"
    finish(yard, first)
    assert second.state == "queued"


def test_it_has_no_place_in_its_target_while_it_waits(yard):
    first = yard.submit()
    second = yard.submit(target="till", **after(first))
    younger = yard.submit(target="till")
    finish(yard, first)
    assert (second.lane is not None, younger.lane) == (True, None)
    finish(yard, second)
    finish(yard, younger)


def test_tasks_of_one_target_that_come_after_each_other_do_not_stop_it(yard):
    first = yard.submit(target="till", priority=1)
    second = yard.submit(target="till", **after(first))
    finish(yard, first)
    finish(yard, second)


def test_a_default_deadline_counts_from_the_release(yard):
    yard.reconfigure(default_deadline_secs=60.0)
    first = yard.submit(deadline=yard.now + 10_000)
    second = yard.submit(**after(first))
    yard.pass_time(1_000)
    assert second.deadline is None
    finish(yard, first)
    assert second.deadline == yard.now + 60


def test_a_task_that_waits_counts_as_queued(yard):
    yard.reconfigure(max_queue_size=2)
    first = yard.submit()
    yard.submit(**after(first))
    with pytest.raises(QueueFull):
        yard.submit()


def test_a_cancel_with_children_ends_what_comes_after_them_too(yard):
    parent = yard.submit()
    child = yard.submit(parent_id=parent.id)
    after_child = yard.submit("bob", **after(child))
    assert yard.cancel_with_children(parent) == 1
    yard.pass_time(0)
    assert after_child.state == "cancelled"
