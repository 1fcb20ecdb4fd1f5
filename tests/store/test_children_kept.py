"""Children by name: one a name, found by later runs and after restarts (docs/rules.md, Children)."""

from __future__ import annotations

import pytest

from taskyard_server.core.errors import BadRequest, LeaseLost, NotFound, TooLarge, Unavailable
from taskyard_server.core.leases import Lease
from taskyard_server.core.runs import child_tasks
from taskyard_server.core.task import Existing, Submission, Task
from taskyard_server.core.task_options import AfterPolicy, IdempotencyKey, OnParentEnd, TaskExtras, TaskOptions
from tests.store.kept_yard import KeptYard

TTL = 10.0
FAR = 1e9


@pytest.fixture
def yard() -> KeptYard:
    yard = KeptYard(result_ttl_secs=TTL, default_deadline_secs=FAR, lease_secs=1000.0, heartbeat_timeout_secs=FAR)
    yard.host()
    return yard


def restart(yard: KeptYard, after: float = 0.0) -> None:
    """As the engine does: only tasks whose time in memory is not over are loaded, and those that others need."""
    yard.commit()
    yard.now += after
    yard.restart(ended_since_ms=int((yard.now - TTL) * 1000))


def child(yard: KeptYard, lease: Lease, name: str, agent: str = "", **options) -> Task | Existing:
    extras = TaskExtras(child_name=name, **options.pop("extras", {}))
    params = options.pop("params", None)
    submission = Submission(agent, "click", params=params, options=TaskOptions(extras=extras, **options))
    children, now = yard.scheduler.children, yard.now
    made, is_repeated = children.submit(now, lease.host.id, lease.task.id, lease.token, submission, {})
    return Existing(made) if is_repeated else made


def found(yard: KeptYard, lease: Lease, name: str) -> Task | None:
    return yard.scheduler.children.find(yard.now, lease.host.id, lease.task.id, lease.token, name).task


def again(yard: KeptYard, lease: Lease) -> Lease:
    """The next run of a task whose lease is given back."""
    yard.scheduler.reports.release(yard.now, lease.host.id, lease.task.id, lease.token)
    lease = yard.claim()
    assert lease.task.options.extras.child_name is None
    return lease


def running_parent(yard: KeptYard, **options) -> Lease:
    yard.submit(**options)
    return yard.claim()


def test_a_child_is_of_its_parents_agent_and_ends_with_it(yard):
    lease = running_parent(yard)
    made = child(yard, lease, "page")
    assert (made.agent_id, made.options.parent_id) == (lease.task.agent_id, lease.task.id)
    kept = child(yard, lease, "other", extras={"on_parent_end": OnParentEnd.KEEP})
    assert lease.task.state == "running"
    yard.scheduler.cancel(yard.now, lease.task.id)
    yard.pass_time(0)
    assert (made.state, kept.state) == ("cancelled", "queued")


@pytest.mark.parametrize("secs", [None, 0.0, 10 * TTL], ids=["no restart", "a restart", "a restart long after"])
def test_a_name_is_used_once_over_all_runs(yard, secs):
    lease = running_parent(yard)
    made = child(yard, lease, "page")
    running = yard.claim()
    assert running.task is made
    yard.complete(running)
    lease = again(yard, lease)
    if secs is None:
        yard.pass_time(10 * TTL)
    else:
        restart(yard, secs)
        lease = yard.scheduler.get(lease.task.id).lease
    repeated = child(yard, lease, "page")
    assert isinstance(repeated, Existing)
    assert (repeated.task.id, repeated.task.state) == (made.id, "done")
    assert found(yard, lease, "page").result == b"1"
    assert lease.task.history.children == (made.seq,)
    assert child(yard, lease, "other").id != made.id


@pytest.mark.parametrize("has_restarted", [False, True])
def test_a_held_child_has_the_params_of_the_last_repeat_and_is_let_go_by_one_that_is_not_held(yard, has_restarted):
    lease = running_parent(yard)
    made = child(yard, lease, "page", hold=True, params=b"first", input=b"typed")
    lease = again(yard, lease)
    repeated = child(yard, lease, "page", hold=True, params=b"second").task
    assert (repeated.id, repeated.is_held, repeated.params, repeated.options.input) == (made.id, True, b"second", None)
    if has_restarted:
        restart(yard)
        lease = yard.scheduler.get(lease.task.id).lease
    assert found(yard, lease, "page").params == b"second"
    repeated = child(yard, lease, "page", params=b"third", project="other").task
    assert (repeated.state, repeated.is_held, repeated.params, repeated.options.project) == (
        "queued",
        False,
        b"third",
        None,
    )
    if has_restarted:
        restart(yard)
        lease = yard.scheduler.get(lease.task.id).lease
    assert yard.claim().task.params == b"third"
    assert child(yard, lease, "page", hold=True, params=b"fourth").task.params == b"third"
    assert not found(yard, lease, "page").is_held


def test_in_a_drain_no_child_is_let_go(yard):
    lease = running_parent(yard)
    made = child(yard, lease, "page", hold=True, params=b"first")
    yard.scheduler.drain()
    with pytest.raises(Unavailable, match="the scheduler is draining"):
        child(yard, lease, "page", params=b"second")
    assert (made.is_held, made.params) == (True, b"first")


@pytest.mark.parametrize("has_restarted", [False, True])
def test_children_are_forgotten_once_their_parent_has_ended(yard, has_restarted):
    lease = running_parent(yard)
    made = child(yard, lease, "page")
    yard.complete(yard.claim())
    yard.pass_time(2 * TTL)
    assert yard.scheduler.find(made.id) is made
    if has_restarted:
        restart(yard)
        lease = yard.scheduler.get(lease.task.id).lease
    yard.complete(lease)
    yard.pass_time(0)
    assert yard.scheduler.find(made.id) is None
    assert yard.scheduler.find(lease.task.id) is not None
    assert not yard.scheduler.life.retention.aside


def test_a_parent_that_failed_finds_its_children_when_it_is_resumed(yard):
    lease = running_parent(yard)
    made = child(yard, lease, "page", extras={"on_parent_end": OnParentEnd.KEEP})
    yard.complete(yard.claim())
    yard.fail(lease)
    restart(yard, TTL / 2)
    yard.scheduler.resume(yard.now, lease.task.id)
    lease = yard.claim()
    assert found(yard, lease, "page").id == made.id


def test_a_failed_parent_that_is_forgotten_lets_its_children_go(yard):
    lease = running_parent(yard)
    made = child(yard, lease, "page", extras={"on_parent_end": OnParentEnd.KEEP})
    yard.complete(yard.claim())
    yard.fail(lease)
    yard.pass_time(2 * TTL)
    yard.pass_time(0)
    assert yard.scheduler.find(lease.task.id) is None
    assert yard.scheduler.find(made.id) is None
    assert yard.scheduler.life.children.named.find(lease.task, "page") is None


@pytest.mark.parametrize("has_restarted", [False, True])
def test_a_failed_parent_and_a_failed_child_that_is_handed_its_result_are_forgotten(yard, has_restarted):
    lease = running_parent(yard)
    first = child(yard, lease, "first", extras={"on_parent_end": OnParentEnd.KEEP})
    yard.complete(yard.claim())
    inputs = (("parent", lease.task.id),)
    ended = {"inputs": inputs, "after_policy": AfterPolicy.ENDED, "on_parent_end": OnParentEnd.KEEP}
    made = child(yard, lease, "last", extras=ended)
    yard.fail(lease)
    yard.pass_time(0)
    yard.fail(yard.claim())
    assert (lease.task.state, made.state) == ("failed", "failed")
    if has_restarted:
        restart(yard)
    for _ in range(3):
        yard.pass_time(2 * TTL)
    assert [yard.scheduler.find(task.id) for task in (lease.task, first, made)] == [None] * 3


def test_a_parent_that_failed_long_ago_and_is_resumed_keeps_the_children_that_are_left(yard):
    lease = running_parent(yard)
    yard.fail(lease)
    yard.scheduler.resume(yard.now, lease.task.id)
    lease = yard.claim()
    made = child(yard, lease, "page", extras={"on_parent_end": OnParentEnd.KEEP})
    handed = {"inputs": (("parent", lease.task.id),), "on_parent_end": OnParentEnd.KEEP}
    waiting = child(yard, lease, "last", hold=True, extras={**handed, "after_policy": AfterPolicy.ENDED})
    yard.fail(lease)
    yard.pass_time(2 * TTL)
    assert yard.scheduler.life.retention.aside == {lease.task: None}
    yard.complete(yard.claim())
    yard.scheduler.resume(yard.now, lease.task.id)
    yard.pass_time(2 * TTL)
    lease = yard.claim()
    assert found(yard, lease, "page") is made
    assert found(yard, lease, "last") is waiting


def test_what_is_no_child_is_refused_and_uses_no_name(yard):
    lease = running_parent(yard)
    with pytest.raises(BadRequest, match=r"child\.agentId: a child is of the agent of its parent"):
        child(yard, lease, "page", agent="somebody-else")
    with pytest.raises(BadRequest, match=r"child\.parentId: a child is one of the task that submits it"):
        child(yard, lease, "page", parent_id="tsk_0")
    with pytest.raises(BadRequest, match=r"child\.idempotencyKey: the name of a child is its key"):
        child(yard, lease, "page", key=IdempotencyKey("k", b"f" * 16))
    with pytest.raises(BadRequest, match=r"child\.uniqueKey: the name of a child is its key"):
        child(yard, lease, "page", extras={"unique_key": "k"})
    stale = Lease(lease.task, lease.host, lease.token - 1, yard.now, 1.0)
    with pytest.raises(LeaseLost):
        child(yard, stale, "page")
    with pytest.raises(NotFound, match="child not found"):
        found(yard, lease, "page")
    assert lease.task.history.children == ()


def test_a_task_has_a_thousand_children_by_name(yard):
    assert child_tasks.MAX_CHILDREN == 1_000
    yard.scheduler.reconfigure(KeptYard(max_queue_size=2_000, max_per_agent=2_000).limits)
    lease = running_parent(yard)
    for number in range(1_000):
        child(yard, lease, f"page-{number}")
    with pytest.raises(TooLarge, match="name: a task has at most 1000 children by name"):
        child(yard, lease, "page-1000")
    assert isinstance(child(yard, lease, "page-7"), Existing)


def test_no_child_is_taken_while_an_earlier_version_may_come_to_serve(yard):
    lease = running_parent(yard)
    yard.scheduler.readers.allow_fields(added=True, extras=True, output=True, artifacts=False)
    with pytest.raises(Unavailable, match="onParentEnd: "):
        child(yard, lease, "page")
