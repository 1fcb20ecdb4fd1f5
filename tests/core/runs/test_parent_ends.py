"""Tasks that end with the task whose work submitted them (docs/rules.md, Parents)."""

import pytest

from taskyard_server.core.errors import Conflict, NotFound, Unavailable
from taskyard_server.core.names import names
from taskyard_server.core.predecessors import Known
from taskyard_server.core.task import Submission, TaskState
from taskyard_server.core.task_options import IdempotencyKey, OnParentEnd, TaskExtras, TaskOptions

CANCEL, KEEP = OnParentEnd.CANCEL, OnParentEnd.KEEP


@pytest.fixture
def yard(yard):
    """The yard with a host, and deadlines that are far off."""
    yard.reconfigure(default_deadline_secs=1e9, heartbeat_timeout_secs=1e9, lease_secs=1e3, result_ttl_secs=1e9)
    yard.register()
    return yard


def child_of(yard, parent, policy=CANCEL, **fields):
    return yard.submit(parent_id=parent.id, on_parent_end=policy, **fields)


def run(yard, task):
    """Let the host run a task, which is the next one."""
    lease = yard.start_one()
    assert lease.task is task
    return lease


def settle(yard):
    yard.pass_time(0)


def is_empty(yard):
    ends, retention = yard.scheduler.life.children.ends, yard.scheduler.life.retention
    return ends.bound == ends.ending == retention.aside == {}


ENDS = {
    "done": lambda yard, lease: yard.complete(lease),
    "failed": lambda yard, lease: yard.fail(lease, retryable=False),
    "cancelled": lambda yard, lease: yard.cancel(lease.task),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_child_is_cancelled_however_its_parent_ends(yard, end):
    lease = run(yard, yard.submit())
    child = child_of(yard, lease.task)
    ENDS[end](yard, lease)
    settle(yard)
    assert (lease.task.state, child.state, child.error) == (end, "cancelled", f"parent {lease.task.id} ended")
    assert is_empty(yard)


def test_a_child_is_cancelled_when_its_parent_expires_or_is_resolved(yard):
    late = yard.submit(deadline=yard.now + 5, hold=True)
    stopped = run(yard, yard.submit()).task
    yard.pause(stopped)
    children = [child_of(yard, late), child_of(yard, stopped)]
    yard.pass_time(6)
    assert (late.state, children[0].state, children[1].state) == ("failed", "cancelled", "queued")
    yard.resolve(stopped)
    settle(yard)
    assert children[1].state == "cancelled"


@pytest.mark.parametrize("policy", [None, KEEP])
def test_others_go_on(yard, policy):
    lease = run(yard, yard.submit())
    child = child_of(yard, lease.task, policy)
    yard.complete(lease)
    settle(yard)
    assert child.state == "queued"
    assert is_empty(yard)


def test_children_in_every_live_state_are_cancelled_and_their_hosts_told(yard):
    parent = run(yard, yard.submit())
    running = child_of(yard, parent.task)
    run(yard, running)
    assigned = child_of(yard, parent.task)
    yard.claim_one()
    paused = child_of(yard, parent.task)
    run(yard, paused)
    yard.pause(paused)
    held, queued = child_of(yard, parent.task, hold=True), child_of(yard, parent.task)
    tasks = [running, assigned, paused, held, queued]
    assert [task.state for task in tasks] == ["running", "assigned", "paused", "pending", "queued"]
    yard.scheduler.take_losses()
    yard.complete(parent)
    settle(yard)
    assert {task.state for task in tasks} == {"cancelled"}
    assert [task.lease for task in tasks] == [None] * 5
    assert yard.scheduler.life.counts.inflight == yard.scheduler.life.counts.queued == 0


def test_a_stream_is_told_to_stop_a_child(yard):
    parent = run(yard, yard.submit())
    yard.stream("streamed")
    child = child_of(yard, parent.task)
    lease = yard.dispatch_one()
    assert lease.task is child
    yard.complete(parent)
    settle(yard)
    assert yard.stops() == [(lease, "cancelled", f"parent {parent.task.id} ended")]


def test_ends_go_down_as_far_as_each_ends_with_the_one_above(yard):
    parent = run(yard, yard.submit())
    child = child_of(yard, parent.task)
    grandchild = child_of(yard, child)
    kept = child_of(yard, child, KEEP)
    below_kept = child_of(yard, kept)
    yard.complete(parent)
    settle(yard)
    assert (grandchild.state, grandchild.error) == ("cancelled", f"parent {child.id} ended")
    assert (kept.state, below_kept.state) == ("queued", "queued")


def test_an_attempt_that_fails_is_no_end_of_a_parent(yard):
    yard.reconfigure(max_deliveries=5)
    parent = yard.submit()
    child = child_of(yard, parent, hold=True)
    yard.release(run(yard, parent))
    yard.fail(run(yard, parent), retry_after_secs=1.0)
    settle(yard)
    assert (parent.state, child.state) == ("pending", "pending")
    yard.pass_time(2)
    yard.pause(run(yard, parent).task)
    yard.resume(parent)
    settle(yard)
    assert child.state == "pending"


def test_a_failure_that_blocks_its_target_is_an_end_and_a_resume_brings_no_child_back(yard):
    parent = run(yard, yard.submit(target="t"))
    child = child_of(yard, parent.task)
    yard.fail(parent)
    settle(yard)
    assert yard.scheduler.targets.blocks(parent.task)
    assert child.state == "cancelled"
    yard.resume(parent.task)
    settle(yard)
    assert child.state == "cancelled"
    again = child_of(yard, parent.task)
    yard.cancel(parent.task)
    settle(yard)
    assert again.state == "cancelled"


def test_a_parent_is_not_resumed_before_its_children_are_cancelled(yard):
    parent = run(yard, yard.submit())
    child = child_of(yard, parent.task)
    yard.fail(parent)
    with pytest.raises(Unavailable, match="the children that end with the task are being cancelled"):
        yard.resume(parent.task)
    settle(yard)
    assert child.state == "cancelled"
    assert yard.resume(parent.task).state == "queued"


def test_thousands_of_children_are_cancelled_a_few_at_a_time_while_their_parent_is_kept(yard):
    yard.reconfigure(max_retained_tasks=0)
    parent = run(yard, yard.submit())
    children = [child_of(yard, parent.task) for _ in range(50)]
    yard.complete(parent)
    assert yard.scheduler.find(parent.task.id) is parent.task
    yard.scheduler.follow(yard.now, 20)
    assert [task.state for task in children] == ["cancelled"] * 20 + ["queued"] * 30
    assert yard.scheduler.next_due() == yard.now
    assert yard.scheduler.advance(yard.now, 10)
    assert [task.state for task in children] == ["cancelled"] * 30 + ["queued"] * 20
    settle(yard)
    assert {task.state for task in children} == {"cancelled"}
    yard.cancel(yard.submit())
    assert yard.scheduler.find(parent.task.id) is None
    assert is_empty(yard)


def test_a_child_that_ends_meanwhile_stays_as_it_is(yard):
    parent = run(yard, yard.submit())
    lease = run(yard, child_of(yard, parent.task))
    resumed = run(yard, child_of(yard, parent.task))
    yard.complete(parent)
    yard.complete(lease)
    yard.fail(resumed)
    yard.resume(resumed.task)
    settle(yard)
    assert (lease.task.state, resumed.task.state) == ("done", "queued")


def test_a_child_that_failed_and_is_resumed_after_the_end_lives_by_itself(yard):
    parent = run(yard, yard.submit())
    child = child_of(yard, parent.task)
    yard.fail(run(yard, child))
    yard.resume(child)
    assert child.options.extras.on_parent_end is CANCEL
    yard.fail(run(yard, child))
    yard.complete(parent)
    settle(yard)
    assert child.state == "failed"
    yard.resume(child)
    settle(yard)
    assert (child.state, child.options.extras.on_parent_end) == ("queued", KEEP)


def test_a_parent_that_has_ended_is_a_conflict_for_a_child_that_would_end_with_it(yard):
    parent = run(yard, yard.submit())
    yard.complete(parent)
    with pytest.raises(Conflict, match=r"^parentId: the task has ended$"):
        child_of(yard, parent.task)
    assert child_of(yard, parent.task, KEEP).state == child_of(yard, parent.task, None).state == "queued"


def test_a_parent_in_the_history_has_ended_and_one_that_is_nowhere_may_be_named(yard):
    extras = TaskExtras(on_parent_end=CANCEL)
    submission = Submission("ann", "click", options=TaskOptions(parent_id="tsk_old", extras=extras))
    with pytest.raises(Conflict, match=r"^parentId: the task has ended$"):
        yard.scheduler.submit(yard.now, submission, Known(past={"tsk_old": TaskState.FAILED}))
    task = yard.scheduler.submit(yard.now, submission)
    settle(yard)
    assert task.state == "queued"
    yard.cancel(task)
    assert is_empty(yard)


def test_of_other_agents_than_the_callers_nothing_is_told(yard):
    """An end would be told by the child's, so that such a parent is as one that never was."""
    alive, ended = yard.submit("bob"), yard.submit("bob")
    yard.cancel(ended)
    for parent_id in (alive.id, ended.id, "tsk_nope"):
        options = TaskOptions(parent_id=parent_id, extras=TaskExtras(on_parent_end=CANCEL))
        with pytest.raises(NotFound, match=f"^parentId: task {parent_id} not found$"):
            yard.scheduler.submit(yard.now, Submission("ann", "click", options=options), Known(names(["ann"])))
        kept = options._replace(extras=TaskExtras(on_parent_end=KEEP))
        yard.scheduler.submit(yard.now, Submission("ann", "click", options=kept), Known(names(["ann"])))


def test_a_repeat_under_its_key_is_answered_after_the_end_of_its_parent(yard):
    parent = run(yard, yard.submit())
    key = IdempotencyKey("key", b"print")
    first = child_of(yard, parent.task, key=key)
    yard.complete(parent)
    settle(yard)
    assert child_of(yard, parent.task, key=key) is first


def test_a_cancel_with_children_reaches_those_that_end_with_their_parents_once(yard):
    parent = yard.submit()
    child = child_of(yard, parent)
    grandchild = child_of(yard, child)
    assert yard.cancel_with_children(parent) == 2
    settle(yard)
    assert {task.state for task in (parent, child, grandchild)} == {"cancelled"}
    assert yard.scheduler.life.counters.cancelled == 3
    assert is_empty(yard)


def test_what_comes_after_a_child_is_cancelled_with_it(yard):
    parent = run(yard, yard.submit())
    child = child_of(yard, parent.task)
    follower = yard.submit(after=(child.id,))
    child_of_follower = child_of(yard, follower)
    yard.complete(parent)
    yard.scheduler.follow(yard.now, 100)
    assert (follower.state, child_of_follower.state) == ("cancelled", "cancelled")


def test_not_before_an_earlier_version_could_read_it(yard):
    yard.scheduler.readers.allow_fields(added=True, extras=True, output=True, artifacts=False)
    for policy in OnParentEnd:
        with pytest.raises(
            Unavailable, match=r"^onParentEnd: not before all replicas of this store are of this version$"
        ):
            yard.submit(parent_id="tsk_any", on_parent_end=policy)
    assert yard.submit(parent_id="tsk_any").state == "queued"
