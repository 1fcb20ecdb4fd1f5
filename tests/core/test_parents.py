"""Tasks that the work of others submits, and cancels from above (docs/rules.md, Parents)."""

import pytest

from taskyard_server.core.errors import Conflict, NotFound
from taskyard_server.core.names import names
from taskyard_server.core.task_options import IdempotencyKey


@pytest.fixture
def yard(yard):
    """The yard with a host, and deadlines that are far off."""
    yard.reconfigure(default_deadline_secs=1e9, heartbeat_timeout_secs=1e9, lease_secs=1e3)
    yard.register()
    return yard


def family(yard, levels=3):
    """A task, its child, the child of that ..."""
    tasks = [yard.submit()]
    while len(tasks) < levels:
        tasks.append(yard.submit(parent_id=tasks[-1].id))
    return tasks


def is_empty(yard):
    children = yard.scheduler.life.children
    return children._below == children._parents == {}


def run(yard, task):
    """Let the host run a task, which is the next one."""
    lease = yard.start_one()
    assert lease.task is task
    return lease


def test_a_cancel_alone_leaves_the_children(yard):
    parent, child = family(yard, 2)
    yard.cancel(parent)
    assert child.state == "queued"


def test_a_cancel_reaches_all_levels_and_counts_them(yard):
    parent, *descendants = family(yard, 5)
    other = yard.submit()
    assert yard.cancel_with_children(parent) == 4
    assert {task.state for task in (parent, *descendants)} == {"cancelled"}
    assert other.state == "queued"


def test_children_in_every_live_state_are_cancelled(yard):
    parent = yard.submit()
    running = run(yard, parent)
    states = {}
    for name in ("running", "assigned", "paused", "queued"):
        states[name] = yard.submit(parent_id=parent.id)
        if name != "queued":
            lease = yard.claim_one()
            if name == "running":
                yard.start(lease)
            if name == "paused":
                yard.pause(lease.task)
    states["held"] = yard.submit(parent_id=parent.id, hold=True)
    assert yard.cancel_with_children(running.task) == 5
    assert {task.state for task in states.values()} == {"cancelled"}


def test_what_has_ended_is_left_as_it_is(yard):
    parent, child = family(yard, 2)
    run(yard, parent)
    yard.fail(run(yard, child))
    assert yard.cancel_with_children(parent) == 0
    assert (parent.state, child.state) == ("cancelled", "failed")


def test_a_cancel_reaches_through_what_has_ended(yard):
    parent, child, grandchild = family(yard)
    run(yard, parent)
    yard.complete(run(yard, child))
    assert yard.cancel_with_children(parent) == 1
    assert grandchild.state == "cancelled"


def test_a_cancel_reaches_what_was_submitted_after_its_parent_had_ended(yard):
    parent, child = family(yard, 2)
    run(yard, parent)
    yard.complete(run(yard, child))
    late = yard.submit(parent_id=child.id)
    assert yard.cancel_with_children(parent) == 1
    assert late.state == "cancelled"


def test_a_resumed_child_is_one_again(yard):
    parent, child = family(yard, 2)
    run(yard, parent)
    yard.fail(run(yard, child))
    yard.resume(child)
    assert yard.cancel_with_children(parent) == 1


def test_a_task_that_has_ended_can_have_its_children_cancelled(yard):
    parent, child = family(yard, 2)
    yard.complete(run(yard, parent))
    assert yard.cancel_with_children(parent) == 1
    assert (parent.state, child.state) == ("done", "cancelled")


def test_where_nothing_is_left_to_cancel_it_is_a_conflict(yard, watch):
    parent, _ = family(yard, 2)
    yard.cancel_with_children(parent)
    changes = watch(yard.scheduler)
    with pytest.raises(Conflict, match="task is already cancelled"):
        yard.cancel_with_children(parent)
    assert changes() == []


def test_a_task_that_is_not_there_is_not_found_whatever_its_children(yard):
    child = yard.submit(parent_id="tsk_elsewhere")
    with pytest.raises(NotFound):
        yard.scheduler.cancel_with_children(yard.now, "tsk_elsewhere")
    assert child.state == "queued"


def test_only_tasks_of_the_agents_of_the_caller_are_cancelled_at_any_depth(yard):
    parent = yard.submit("ann")
    others = yard.submit("bob", parent_id=parent.id)
    own = yard.submit("ann", parent_id=others.id)
    assert yard.cancel_with_children(parent, names(["ann"])) == 1
    assert (others.state, own.state) == ("queued", "cancelled")


def test_a_circle_is_not_closed_and_nothing_of_it_is_left(make_yard):
    """Ids cannot be known before, but for that they are made the same way here."""
    ids = [task.id for task in family(make_yard(), 3)]
    yard = make_yard()
    first, second, own = (yard.submit(parent_id=parent) for parent in (ids[1], ids[0], ids[2]))
    assert [first.id, second.id, own.id] == ids
    assert yard.cancel_with_children(own) == 0
    assert yard.cancel_with_children(second) == 1
    assert {first.state, second.state} == {"cancelled"}
    assert is_empty(yard)


def test_a_repeat_under_an_idempotency_key_is_no_further_child(yard):
    parent = yard.submit()
    key = IdempotencyKey("key", b"print")
    first = yard.submit(parent_id=parent.id, key=key)
    assert yard.submit(parent_id=parent.id, key=key) is first
    assert yard.cancel_with_children(parent) == 1


def test_nothing_is_remembered_of_families_that_have_ended(yard):
    parent, child, grandchild = family(yard)
    lease = run(yard, parent)
    yard.complete(run(yard, child))
    yard.complete(run(yard, grandchild))
    assert is_empty(yard)
    yard.fail(lease)
    yard.resume(parent)
    assert is_empty(yard)


def test_a_rejected_task_is_no_child(make_yard):
    yard = make_yard(max_queue_size=1)
    parent = yard.submit()
    with pytest.raises(Exception, match="queue full"):
        yard.submit(parent_id=parent.id)
    assert yard.cancel_with_children(parent) == 0


def test_an_ancestor_that_has_left_memory_still_leads_to_what_lives(make_yard):
    yard = make_yard(result_ttl_secs=5.0, default_deadline_secs=1e9, lease_secs=1e3, heartbeat_timeout_secs=1e9)
    yard.register()
    parent, child, grandchild = family(yard)
    yard.start_one()
    yard.complete(yard.start_one())
    yard.pass_time(10)
    assert yard.scheduler.find(child.id) is None
    assert yard.cancel_with_children(parent) == 1
    assert grandchild.state == "cancelled"
