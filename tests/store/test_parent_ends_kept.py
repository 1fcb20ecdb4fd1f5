"""Tasks that end with their parents, over restarts between the one end and the other (docs/rules.md, Parents)."""

from __future__ import annotations

import pytest

from taskyard_server.core.task import Task
from taskyard_server.core.task_options import OnParentEnd
from tests.store.kept_yard import KeptYard

TTL = 10.0
FAR = 1e9
CANCEL, KEEP = OnParentEnd.CANCEL, OnParentEnd.KEEP


@pytest.fixture
def yard() -> KeptYard:
    yard = KeptYard(result_ttl_secs=TTL, default_deadline_secs=FAR, lease_secs=1000.0, heartbeat_timeout_secs=FAR)
    yard.host()
    return yard


def restart(yard: KeptYard, after: float = 0.0, shift: float = 0.0) -> None:
    """As the engine does: only tasks whose time in memory is not over are loaded, and those that others need."""
    yard.commit()
    yard.now += after
    yard.restart(ended_since_ms=int((yard.now - TTL) * 1000), shift=shift)


def child_of(yard: KeptYard, parent: Task, policy: OnParentEnd = CANCEL, **options) -> Task:
    return yard.submit(parent_id=parent.id, on_parent_end=policy, **options)


def state(yard: KeptYard, task: Task) -> str | None:
    found = yard.scheduler.find(task.id)
    return None if found is None else found.state.value


def states(yard: KeptYard, *tasks: Task) -> list[str | None]:
    return [state(yard, task) for task in tasks]


def is_empty(yard: KeptYard) -> bool:
    ends = yard.scheduler.life.children.ends
    return ends.bound == ends.ending == {}


@pytest.mark.parametrize("secs", [0, 10 * TTL], ids=["at once", "after long"])
@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
def test_what_was_to_end_at_the_end_of_the_process_ends_at_the_next(yard, end, secs):
    parent = yard.submit()
    lease = yard.claim()
    child, kept = child_of(yard, parent), child_of(yard, parent, KEEP)
    running = yard.claim()
    grandchild = child_of(yard, child)
    assert running.task is child
    if end == "done":
        yard.complete(lease)
    elif end == "failed":
        yard.fail(lease)
    else:
        yard.scheduler.cancel(yard.now, parent.id)
    # Nobody has looked at the children yet.
    assert child.state == "assigned"
    restart(yard, after=secs)
    yard.pass_time(0)
    assert states(yard, child, grandchild, kept) == ["cancelled", "cancelled", "queued"]
    assert yard.scheduler.get(child.id).error == f"parent {parent.id} ended"
    assert is_empty(yard)
    restart(yard)
    yard.pass_time(0)
    assert states(yard, child, grandchild, kept) == ["cancelled", "cancelled", "queued"]


def test_ends_that_were_cut_off_go_on_though_their_parent_would_have_left_memory(yard):
    yard.limits = KeptYard(max_retained_tasks=0, default_deadline_secs=FAR).limits
    yard.scheduler.reconfigure(yard.limits)
    yard.keep_history = False
    parent = yard.submit(hold=True)
    children = [child_of(yard, parent, hold=True) for _ in range(50)]
    yard.scheduler.cancel(yard.now, parent.id)
    yard.scheduler.follow(yard.now, 20)
    restart(yard)
    assert len(yard.scheduler.life.children.ends.ending[yard.scheduler.get(parent.id)]) == 30
    yard.pass_time(0)
    assert {state(yard, task) for task in children} <= {"cancelled", None}
    assert is_empty(yard)


def test_a_child_still_ends_with_its_parent_after_a_restart(yard):
    parent = yard.submit(hold=True)
    child, paused = child_of(yard, parent, hold=True), child_of(yard, parent)
    yard.scheduler.pause(yard.now, yard.claim().task.id)
    restart(yard, after=10 * TTL, shift=0.5)
    yard.scheduler.cancel(yard.now, parent.id)
    yard.pass_time(0)
    assert states(yard, child, paused) == ["cancelled", "cancelled"]


def test_a_failure_of_long_ago_that_blocks_its_target_is_an_end(yard):
    parent = yard.submit(target="till")
    lease = yard.claim()
    yard.start(lease)
    child = child_of(yard, parent)
    yard.fail(lease)
    restart(yard, after=10 * TTL)
    yard.pass_time(0)
    assert states(yard, parent, child) == ["failed", "cancelled"]


def test_a_child_of_a_resumed_parent_lives(yard):
    parent = yard.submit()
    yard.fail(yard.claim())
    yard.scheduler.resume(yard.now, parent.id)
    child = child_of(yard, parent)
    restart(yard)
    yard.pass_time(0)
    assert states(yard, parent, child) == ["queued", "queued"]


@pytest.mark.parametrize("target", [None, "till"])
def test_a_child_that_was_resumed_after_the_end_lives_on(yard, target):
    parent = yard.submit(hold=True)
    child = child_of(yard, parent, target=target)
    lease = yard.claim()
    yard.start(lease)
    yard.fail(lease)
    yard.scheduler.cancel(yard.now, parent.id)
    yard.pass_time(0)
    yard.commit()
    yard.scheduler.resume(yard.now, child.id)
    restart(yard, after=10 * TTL)
    yard.pass_time(0)
    assert state(yard, child) == "queued"
    assert yard.scheduler.get(child.id).options.extras.on_parent_end is KEEP


def test_a_parent_that_is_stored_nowhere_has_not_ended(yard):
    foreign = f"tsk_{'f' * 32}"
    its = [yard.submit(parent_id=name, on_parent_end=CANCEL) for name in ("job 7", foreign, "tsk_0")]
    restart(yard, after=1)
    yard.pass_time(0)
    assert states(yard, *its) == ["queued"] * 3
    assert list(yard.scheduler.life.children.ends.bound) == ["job 7", foreign, "tsk_0"]


@pytest.mark.parametrize("secs", [0, 10 * TTL], ids=["in memory", "in the history"])
def test_a_name_that_has_the_order_of_another_task_is_not_that_task(yard, secs):
    other = yard.submit()
    name = other.id[:26] + "0" * 10
    assert name != other.id
    child = yard.submit(parent_id=name, on_parent_end=CANCEL, hold=True)
    yard.complete(yard.claim())
    restart(yard, after=secs)
    yard.pass_time(0)
    assert state(yard, child) == "pending"
    found = [task.id for task in yard.scheduler.tasks_after(0)]
    assert len(found) == len(set(found))
