"""Parked tasks over restarts (docs/rules.md, Parked tasks)."""

from __future__ import annotations

import pytest

from taskyard_server.core.history import Wait
from taskyard_server.core.leases import Lease
from taskyard_server.core.task import Task
from taskyard_server.core.task_options import OnTargetFailure
from tests.store.kept_yard import KeptYard

FAR = 1e9


@pytest.fixture
def yard() -> KeptYard:
    yard = KeptYard(default_deadline_secs=60.0, lease_secs=1000.0, heartbeat_timeout_secs=FAR)
    yard.host()
    return yard


def park(yard: KeptYard, lease: Lease, *waits: Wait, keeps_target: bool = True) -> None:
    yard.scheduler.reports.park(yard.now, "host", lease.task.id, lease.token, waits, keeps_target=keeps_target)


def parked(yard: KeptYard, *waits: Wait, **options) -> Task:
    task = yard.submit(**options)
    park(yard, yard.claim(), *waits)
    return task


def restart(yard: KeptYard, task: Task, after: float = 0.0) -> Task:
    yard.commit()
    yard.restart(after)
    return yard.scheduler.get(task.id)


def answer(yard: KeptYard, task: Task, name: str = "go") -> None:
    yard.scheduler.parks.answer(yard.now, task, name, b"yes", None)


def test_it_waits_on_and_is_answered(yard):
    before = parked(yard, Wait("answer", "go", None, (), b"which?"))
    task = restart(yard, before, 1000.0)
    assert (task.state, task.history) == ("parked", before.history)
    assert yard.scheduler.view.parked == 1
    answer(yard, task)
    assert task.deadline == yard.now + 60
    assert yard.claim().task is task


def test_a_time_that_was_over_meanwhile_lets_it_go_on(yard):
    task = restart(yard, parked(yard, Wait("time", "soon", yard.now + 5)), 10.0)
    yard.pass_time(1)
    assert task.state == "queued"


def test_tasks_whose_end_it_waits_for_are_known(yard):
    children = [yard.submit(), yard.submit()]
    leases = [yard.claim(), yard.claim()]
    task = parked(yard, Wait("ends", "all", None, tuple(child.id for child in children)))
    yard.complete(leases[0])
    task = restart(yard, task)
    assert task.state == "parked"
    yard.scheduler.cancel(yard.now, children[1].id)
    yard.pass_time(0)
    assert task.state == "queued"


def test_what_had_ended_before_a_restart_lets_it_go_on_the_oldest_first(yard):
    child = yard.submit()
    lease = yard.claim()
    waits = [Wait("ends", "one", None, (child.id,)), Wait("ends", "two", None, (child.id, "tsk_gone"))]
    tasks = [parked(yard, *waits) for _ in range(3)]
    yard.complete(lease)
    yard.commit()
    yard.restart(0.0)
    assert yard.scheduler.next_due() == yard.now
    yard.scheduler.advance(yard.now, 2)
    assert [yard.scheduler.get(task.id).state for task in tasks] == ["queued", "queued", "parked"]
    yard.scheduler.advance(yard.now, 2)
    assert yard.scheduler.get(tasks[2].id).state == "queued"


def test_what_had_ended_and_is_resumed_after_a_restart_is_waited_for(yard):
    child = yard.submit()
    lease = yard.claim()
    before = parked(yard, Wait("ends", "all", None, (child.id,)))
    yard.fail(lease)
    task = restart(yard, before)
    yard.scheduler.resume(yard.now, child.id)
    yard.pass_time(0)
    assert task.state == "parked"
    yard.scheduler.cancel(yard.now, child.id)
    yard.pass_time(0)
    assert task.state == "queued"


@pytest.mark.parametrize("woken", [False, True])
def test_it_keeps_its_target(yard, woken):
    task, at = parked(yard, Wait("answer", "go"), target="tab"), yard.now
    other = yard.submit(target="tab")
    yard.now += 5
    if woken:
        answer(yard, task)
    task = restart(yard, task)
    target = yard.scheduler.targets.find("tab")
    assert (target.standing[0], target.standing[1], target.since) == ("running", task, at)
    if not woken:
        assert yard.scheduler.claim(yard.now, "host", 1) == []
        answer(yard, task)
    lease = yard.claim()
    assert lease.task is task
    yard.complete(lease)
    assert yard.claim().task.id == other.id


def test_a_target_that_was_released_is_free(yard):
    task = yard.submit(target="tab")
    park(yard, yard.claim(), Wait("answer", "go"), keeps_target=False)
    other = yard.submit(target="tab")
    restart(yard, task)
    assert yard.claim().task.id == other.id


def test_one_that_failed_while_it_was_parked_has_its_target_no_more(yard):
    other = yard.submit(target="tab", hold=True)
    continues = OnTargetFailure.CONTINUE
    task = parked(yard, Wait("answer", "go", yard.now + 1), target="tab", on_target_failure=continues)
    yard.pass_time(2)
    yard.scheduler.resume(yard.now, other.id)
    assert yard.claim().task is other
    yard.scheduler.resume(yard.now, task.id)
    restart(yard, task)
    assert yard.scheduler.claim(yard.now, "host", 1) == []
