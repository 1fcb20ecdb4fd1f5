"""Ends of tasks that parked tasks wait for: these go on one by one (docs/rules.md, Parked tasks, Questions)."""

import pytest

from taskyard_server.core.errors import NotFound
from taskyard_server.core.figures.explain import explain
from taskyard_server.core.history import Wait
from taskyard_server.core.task_options import OnParentEnd

from .test_parks import ends, is_empty, parked, question, time


@pytest.fixture
def yard(yard):
    """The yard with a host, whose leases and deadlines are far off."""
    yard.reconfigure(default_deadline_secs=1e6, heartbeat_timeout_secs=1e9, lease_secs=1e6, result_ttl_secs=1e6)
    yard.register()
    return yard


def running(yard, count=1):
    """The leases of new tasks."""
    for _ in range(count):
        yard.submit()
    return [yard.start_one() for _ in range(count)]


def settle(yard):
    """Let all have their turns."""
    yard.pass_time(0)


def take_turns(yard, count):
    """Let so many have their turns; returns the ids of those that go on."""
    yard.transitions()
    for _ in range(count):
        yard.scheduler.follow(yard.now, 1)
    return [task_id for task_id, state in yard.transitions() if state == "queued"]


def states(*tasks):
    return [task.state for task in tasks]


def came(yard):
    """The kind and name of each step that was taken since the last call."""
    return [(step.kind, step.name) for step in yard.steps()]


# What is waited for


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_it_goes_on_when_all_tasks_have_ended(yard, end):
    leases = running(yard, 2)
    task = parked(yard, ends(*[lease.task for lease in leases]))
    yard.complete(leases[0])
    settle(yard)
    assert task.state == "parked"
    getattr(yard, end)(leases[1].task if end == "cancel" else leases[1])
    settle(yard)
    assert task.state == "queued"
    assert [(step.kind, step.name, step.is_expired) for step in yard.steps()] == [("ends", "all", False)]
    assert task.history.park.waits == ()
    assert is_empty(yard)


def test_tasks_that_have_ended_or_are_unknown_are_not_waited_for(yard):
    child = yard.submit()
    yard.complete(yard.start_one())
    task = parked(yard, ends(child, "tsk_unknown"))
    assert task.state == "queued"
    assert is_empty(yard)


def test_the_end_of_a_stranger_is_not_waited_for(yard):
    (lease,) = running(yard)
    stranger = yard.submit(agent="bob")
    with pytest.raises(NotFound, match=f"waits: task {stranger.id} not found"):
        yard.park(lease, ends(stranger))
    assert lease.task.state == "running"


def test_a_child_of_another_agent_is_waited_for(yard):
    parent = yard.submit()
    lease = yard.start_one()
    child = yard.submit(agent="bob", parent_id=parent.id)
    yard.park(lease, ends(child))
    yard.complete(yard.start_one())
    settle(yard)
    assert parent.state == "queued"


@pytest.mark.parametrize("first", [0, 1])
def test_the_end_of_one_set_of_tasks_is_enough(yard, first):
    leases = running(yard, 2)
    task = parked(yard, *[ends(lease.task, name=name) for lease, name in zip(leases, ("one", "two"), strict=True)])
    yard.complete(leases[first])
    settle(yard)
    assert task.state == "queued"
    assert [wait.name for wait in task.history.park.waits] == [["two", "one"][first]]
    yard.complete(leases[1 - first])
    assert is_empty(yard)


def test_a_task_may_be_in_two_sets(yard):
    child, other = running(yard, 2)
    task = parked(yard, ends(child.task, other.task, name="one"), ends(child.task, name="two"), time(yard, 100))
    yard.complete(child)
    settle(yard)
    assert task.state == "queued"
    assert is_empty(yard)


def test_an_end_that_does_not_come_in_time_is_a_step_too(yard):
    (lease,) = running(yard)
    task = parked(yard, Wait("ends", "all", yard.now + 5, (lease.task.id,)))
    yard.pass_time(6)
    assert task.state == "queued"
    assert [(step.kind, step.name, step.is_expired) for step in yard.steps()] == [("ends", "all", True)]
    assert is_empty(yard)


# One by one


def test_the_call_that_ends_a_task_lets_nobody_go_on(yard):
    (lease,) = running(yard)
    tasks = [parked(yard, ends(lease.task)) for _ in range(3)]
    assert yard.scheduler.life.agenda.next_due(is_rough=True) > yard.now
    yard.complete(lease)
    assert states(*tasks) == ["parked"] * 3
    assert yard.scheduler.next_due() == yard.now


def test_those_that_wait_go_on_one_by_one_the_oldest_first(yard):
    tasks = [yard.submit(hold=True) for _ in range(5)]
    (lease,) = running(yard)
    # The youngest is parked first.
    for task in reversed(tasks):
        yard.resume(task)
        yard.park(yard.start_one(), ends(lease.task))
    yard.complete(lease)
    assert take_turns(yard, 2) == [task.id for task in tasks[:2]]
    assert states(*tasks) == ["queued"] * 2 + ["parked"] * 3
    assert yard.scheduler.next_due() == yard.now
    assert yard.scheduler.advance(yard.now, 2)
    assert states(*tasks) == ["queued"] * 4 + ["parked"]
    assert take_turns(yard, 2) == [tasks[4].id]
    assert is_empty(yard)


def test_the_end_that_came_first_is_told_first(yard):
    leases = running(yard, 3)
    tasks = [parked(yard, ends(lease.task)) for lease in leases]
    yard.complete(leases[1])
    yard.complete(leases[2])
    yard.complete(leases[0])
    assert take_turns(yard, 3) == [tasks[number].id for number in (1, 2, 0)]


def test_one_that_waits_for_several_has_its_turn_with_the_last_of_them(yard):
    leases = running(yard, 3)
    both = parked(yard, ends(leases[0].task, leases[2].task))
    one = parked(yard, ends(leases[1].task))
    for lease in leases:
        yard.complete(lease)
    assert take_turns(yard, 1) == []
    assert take_turns(yard, 2) == [one.id, both.id]
    assert is_empty(yard)


def test_ends_come_before_events_and_what_is_cancelled_with_its_parent_before_both(yard):
    (lease,) = running(yard)
    orphan = parked(yard, ends(lease.task), parent_id=lease.task.id, on_parent_end=OnParentEnd.CANCEL)
    told = parked(yard, Wait("event", "paid", None, ("paid",)))
    task = parked(yard, ends(lease.task))
    yard.send("paid", life_secs=0)
    yard.complete(lease)
    take_turns(yard, 1)
    assert states(orphan, task, told) == ["cancelled", "parked", "parked"]
    assert take_turns(yard, 2) == [task.id, told.id]
    assert is_empty(yard)


def test_explain_names_no_task_of_a_wait_that_is_over(yard):
    (lease,) = running(yard)
    task = parked(yard, ends(lease.task))
    yard.complete(lease)
    (reason,) = explain(yard.scheduler, yard.now, task).reasons
    assert (reason.message, reason.task_ids) == ("the task is parked, and waits for 0 of 1 tasks to end", ())


# In between


def test_what_is_resumed_in_between_is_waited_for(yard):
    (lease,) = running(yard)
    tasks = [parked(yard, ends(lease.task)) for _ in range(3)]
    yard.fail(lease)
    assert take_turns(yard, 1) == [tasks[0].id]
    yard.resume(lease.task)
    assert take_turns(yard, 3) == []
    assert states(*tasks) == ["queued", "parked", "parked"]
    assert yard.scheduler.life.parks.ends.next_due() is None
    again, woken = yard.start_one(), yard.start_one()
    assert (again.task, woken.task) == (lease.task, tasks[0])
    yard.park(woken, ends(lease.task, name="again"))
    yard.complete(again)
    assert take_turns(yard, 3) == [task.id for task in tasks]
    assert is_empty(yard)


def test_what_is_resumed_once_others_were_told_is_waited_for(yard):
    leases = running(yard, 2)
    task = parked(yard, ends(*[lease.task for lease in leases]))
    yard.fail(leases[0])
    settle(yard)
    yard.resume(leases[0].task)
    yard.complete(leases[1])
    settle(yard)
    # As it would be after a restart.
    assert task.state == "parked"
    yard.complete(yard.start_one())
    settle(yard)
    assert task.state == "queued"
    assert is_empty(yard)


def test_a_failed_task_that_is_resolved_keeps_its_place(yard):
    leases = running(yard, 2)
    tasks = [parked(yard, ends(lease.task)) for lease in leases]
    for lease in leases:
        yard.fail(lease)
    yard.resolve(leases[0].task)
    assert take_turns(yard, 2) == [task.id for task in tasks]
    assert is_empty(yard)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_task_that_is_cancelled_before_its_turn_leaves_nothing(yard, which):
    leases = running(yard, 2)
    tasks = [parked(yard, ends(leases[0].task), ends(leases[1].task, name="other")) for _ in range(3)]
    yard.complete(leases[0])
    yard.cancel(tasks[which])
    assert take_turns(yard, 3) == [task.id for task in tasks if task is not tasks[which]]
    assert tasks[which].state == "cancelled"
    assert is_empty(yard)


def test_one_that_alone_waits_and_is_cancelled_leaves_nothing_to_do(yard):
    (lease,) = running(yard)
    task = parked(yard, ends(lease.task))
    yard.complete(lease)
    yard.cancel(task)
    assert is_empty(yard)
    assert yard.scheduler.life.parks.ends.next_due() is None


def test_an_answer_before_its_turn_finds_the_end_there(yard):
    (lease,) = running(yard)
    task = parked(yard, question(), ends(lease.task))
    yard.complete(lease)
    yard.answer(task, "go")
    assert task.state == "queued"
    assert came(yard) == [("answer", "go"), ("ends", "all")]
    assert task.history.park.waits == ()
    assert is_empty(yard)


def test_an_end_that_left_memory_before_the_turn_is_an_end(yard):
    yard.reconfigure(max_retained_tasks=0)
    (lease,) = running(yard)
    task = parked(yard, ends(lease.task))
    yard.complete(lease)
    assert yard.scheduler.find(lease.task.id) is None
    settle(yard)
    assert task.state == "queued"


def test_a_time_limit_before_its_turn_is_too_late(yard):
    (lease,) = running(yard)
    task = parked(yard, Wait("ends", "all", yard.now + 5, (lease.task.id,)), time(yard, 5))
    yard.complete(lease)
    # Times come first in the agenda.
    yard.pass_time(6)
    assert task.state == "queued"
    assert [(step.name, step.is_expired) for step in yard.steps()] == [("all", False), ("pause", False)]
    assert is_empty(yard)


@pytest.mark.parametrize("kind", ["ends", "event"])
def test_what_came_before_the_time_of_a_question_is_over_lets_the_task_go_on(yard, kind):
    (lease,) = running(yard)
    wait = ends(lease.task) if kind == "ends" else Wait("event", "all", None, ("paid",))
    task = parked(yard, question(until=yard.now + 5), question("more", yard.now + 5, b"no"), wait)
    yard.complete(lease)
    yard.send("paid", life_secs=0)
    yard.pass_time(6)
    assert task.state == "queued"
    assert came(yard) == [(kind, "all"), ("answer", "more")]
    assert [wait.name for wait in task.history.park.waits] == ["go"]
    # It asks again, and nobody has answered in time.
    yard.park(yard.start_one(), question())
    assert (task.state, task.history.code) == ("failed", "question_expired")
    assert is_empty(yard)


def test_the_time_of_a_question_is_over_though_another_time_has_come(yard):
    task = parked(yard, question(until=yard.now + 5), time(yard, 5))
    yard.pass_time(6)
    assert (task.state, task.history.code) == ("failed", "question_expired")
    assert came(yard) == []
