"""Parked tasks: they hold nothing, wake once, and go on where they were (docs/rules.md, Parked tasks)."""

import pytest

from taskyard_server.core.errors import Conflict, LeaseLost, NotFound, TooLarge, Unavailable
from taskyard_server.core.figures.explain import explain
from taskyard_server.core.history import Wait
from taskyard_server.core.runs.steps import MAX_STEPS, MAX_STEPS_BYTES, NewStep

DEADLINE = 60.0


@pytest.fixture
def yard(yard):
    """The yard with a host, whose leases and deadlines are far off unless a test says so."""
    yard.reconfigure(default_deadline_secs=DEADLINE, heartbeat_timeout_secs=1e9, lease_secs=1e6)
    yard.register()
    return yard


def question(name="go", until=None, default=None):
    return Wait("answer", name, until, (), b"question", default)


def time(yard, secs, name="pause"):
    return Wait("time", name, yard.now + secs)


def ends(*tasks, name="all"):
    return Wait("ends", name, None, tuple(each if isinstance(each, str) else each.id for each in tasks))


def parked(yard, *waits, **fields):
    """A new task that waits for any of these."""
    task = yard.submit(**fields)
    lease = yard.start_one()
    assert lease.task is task
    yard.park(lease, *waits)
    return task


def counts(yard):
    view = yard.scheduler.view
    return view.queued, view.inflight, view.parked


def is_empty(yard):
    parks = yard.scheduler.life.parks
    ends = parks.ends
    return ends._awaited == ends._noted == ends._unended == {} and parks._timers.next_tick() is None


# What it holds


def test_a_parked_task_holds_no_lease_no_slot_and_no_key(yard):
    yard.reconfigure(max_inflight=1, max_per_agent_inflight=1)
    task = parked(yard, question(), concurrency_keys=("site",))
    assert (task.state, task.lease, task.deliveries) == ("parked", None, 0)
    assert counts(yard) == (0, 0, 1)
    assert yard.scheduler.life.ready.keys.seen(yard.now, "site").inflight == 0
    yard.submit()
    yard.start_one()


def test_a_park_counts_as_the_start(yard):
    task = yard.submit()
    yard.park(yard.claim_one(), question())
    assert task.started_at == yard.now
    assert yard.transitions()[-2:] == [(task.id, "running"), (task.id, "parked")]


def test_nothing_is_taken_under_the_lease_after_that(yard):
    yard.submit()
    lease = yard.start_one()
    yard.park(lease, question())
    step = NewStep(lease.task.id, lease.token, "a")
    for late in (
        lambda: yard.complete(lease),
        lambda: yard.fail(lease),
        lambda: yard.progress(lease),
        lambda: yard.renew(lease),
        lambda: yard.scheduler.reports.record_step(yard.now, "host", step),
    ):
        with pytest.raises(LeaseLost):
            late()
    assert lease.task.state == "parked"


def test_a_park_may_be_repeated(yard):
    task = yard.submit()
    lease = yard.start_one()
    yard.park(lease, question())
    assert yard.park(lease, question()) is task
    yard.answer(task, "go")
    assert yard.park(lease, question()) is task
    assert task.state == "queued"
    yard.start_one()
    with pytest.raises(LeaseLost):
        yard.park(lease, question())


def test_neither_an_attempt_nor_a_delivery_is_counted(yard):
    yard.reconfigure(max_deliveries=1)
    task = parked(yard, question("a"))
    for name in "abc":
        yard.answer(task, name)
        lease = yard.start_one()
        assert (lease.task, task.deliveries, task.history.last_number) == (task, 1, 0)
        yard.park(lease, question(chr(ord(name) + 1)))
    assert task.history.attempts == ()


# Answers


def test_an_answer_wakes_it_once_and_is_kept(yard):
    task = parked(yard, question())
    yard.pass_time(5)
    yard.answer(task, "go", b"yes", "bob")
    assert task.state == "queued"
    assert counts(yard) == (1, 0, 0)
    (step,) = yard.steps()
    assert (step.kind, step.name, step.result, step.by, step.at) == ("answer", "go", b"yes", "bob", yard.now)
    assert (step.question, step.is_expired) == (b"question", False)
    with pytest.raises(Conflict, match="question was answered"):
        yard.answer(task, "go")
    assert yard.transitions()[-2:] == [(task.id, "parked"), (task.id, "queued")]
    assert is_empty(yard)


def test_a_question_that_was_never_asked_is_not_found(yard):
    task = parked(yard, question())
    with pytest.raises(NotFound, match="question not found"):
        yard.answer(task, "other")
    with pytest.raises(NotFound, match="question not found"):
        yard.answer(yard.submit(), "go")
    assert task.state == "parked"


def test_the_other_question_stays_open_while_it_runs(yard):
    task = parked(yard, question("a"), question("b"))
    yard.answer(task, "a")
    lease = yard.start_one()
    yard.scheduler.take_events()
    yard.answer(task, "b")
    assert task.state == "running"
    assert [event.kind for event in yard.scheduler.take_events()] == ["progressed"]
    yard.park(lease, question("b"))
    assert task.state == "queued"
    assert [step.name for step in yard.steps()] == ["a", "b"]
    assert task.history.park.met == ("answer:a", "answer:b")


def test_a_question_that_is_asked_again_keeps_its_time(yard):
    task = parked(yard, question("a", yard.now + 10, b"no"), time(yard, 5))
    yard.pass_time(6)
    assert task.state == "queued"
    yard.pass_time(3)
    yard.park(yard.start_one(), question("a", yard.now + 100, b"never"))
    yard.pass_time(2)
    assert task.state == "queued"
    assert yard.steps()[-1].result == b"no"


def test_a_question_that_is_asked_no_more_is_not_open(yard):
    task = parked(yard, question("a"), question("b"))
    yard.answer(task, "a")
    yard.park(yard.start_one(), question("c"))
    with pytest.raises(NotFound):
        yard.answer(task, "b")


def test_the_default_counts_when_nobody_answers(yard):
    task = parked(yard, question("go", yard.now + 10, b"no"))
    yard.pass_time(9)
    assert task.state == "parked"
    yard.pass_time(2)
    assert task.state == "queued"
    (step,) = yard.steps()
    assert (step.result, step.by, step.is_expired) == (b"no", None, True)


def test_after_its_time_a_question_takes_no_answer_while_the_task_runs(yard):
    task = parked(yard, question("go", yard.now + 10, b"no"), time(yard, 5))
    yard.pass_time(6)
    lease = yard.start_one()
    yard.pass_time(5)
    with pytest.raises(Conflict, match="the time of the question is over"):
        yard.answer(task, "go")
    yard.park(lease, question("go"))
    step = yard.steps()[-1]
    assert (step.name, step.result, step.is_expired) == ("go", b"no", True)


def test_without_a_default_the_task_fails_whatever_its_retry_policy(yard):
    task = parked(yard, question("go", yard.now + 10), question("other"))
    yard.pass_time(11)
    assert (task.state, task.history.code) == ("failed", "question_expired")
    assert task.error == "nobody answered the question go in time"
    assert counts(yard) == (0, 0, 0)
    assert task.history.park.waits == ()
    with pytest.raises(NotFound):
        yard.answer(task, "other")
    assert is_empty(yard)


def test_answers_have_their_room_with_the_other_steps(yard):
    task = parked(yard, question())
    with pytest.raises(TooLarge, match="answer: the steps of a task may have"):
        yard.answer(task, "go", bytes(MAX_STEPS_BYTES + 1))
    assert task.state == "parked"
    yard.answer(task, "go", bytes(1000))


# Times


def test_it_goes_on_when_its_time_has_come(yard):
    task = parked(yard, time(yard, 100))
    yard.pass_time(99)
    assert task.state == "parked"
    yard.pass_time(1.2)
    assert task.state == "queued"
    (step,) = yard.steps()
    assert (step.kind, step.name, step.result, step.is_expired) == ("time", "pause", None, False)
    yard.park(yard.start_one(), time(yard, 100))
    assert task.state == "queued"


def test_a_time_that_is_over_is_no_wait(yard):
    task = parked(yard, time(yard, 0))
    assert task.state == "queued"
    assert is_empty(yard)


# Deadlines and ends


def test_a_default_deadline_stands_still(yard):
    task = yard.submit()
    lease = yard.start_one()
    yard.pass_time(20)
    yard.park(lease, question())
    assert task.deadline is None
    yard.pass_time(1000)
    assert task.state == "parked"
    yard.answer(task, "go")
    assert task.deadline == yard.now + DEADLINE - 20
    yard.pass_time(DEADLINE - 19)
    assert task.state == "failed"


def test_a_deadline_of_the_submitter_goes_on(yard):
    task = parked(yard, question(), deadline=yard.now + 100)
    yard.pass_time(99)
    assert task.state == "parked"
    yard.pass_time(2)
    assert (task.state, task.error) == ("failed", "deadline exceeded")
    assert counts(yard) == (0, 0, 0)
    assert is_empty(yard)


def test_a_parked_task_can_be_cancelled(yard):
    child = yard.submit()
    yard.start_one()
    task = parked(yard, question(until=yard.now + 5), ends(child))
    yard.cancel(task)
    assert task.state == "cancelled"
    assert counts(yard) == (0, 1, 0)
    assert is_empty(yard)
    yard.pass_time(10)


@pytest.mark.parametrize("command", ["pause", "resume", "resolve"])
def test_other_commands_are_a_conflict(yard, command):
    task = parked(yard, question())
    with pytest.raises(Conflict, match="task is parked"):
        getattr(yard, command)(task)


def test_a_resumed_task_is_not_asked_what_was_answered(yard):
    task = parked(yard, question("a"), question("b"))
    yard.answer(task, "a")
    yard.fail(yard.start_one())
    yard.resume(task)
    yard.park(yard.start_one(), question("a"))
    assert task.state == "queued"


# The order, the host and the target


def test_it_comes_back_to_its_old_place(yard):
    task = parked(yard, question())
    others = [yard.submit(), yard.submit()]
    yard.answer(task, "go")
    assert [lease.task for lease in yard.claim(count=3)] == [task, *others]


def test_it_goes_to_the_host_where_it_was_if_that_has_room(yard):
    yard.deregister()
    first, second = yard.stream("one"), yard.stream("two", credit=0)
    task = yard.submit()
    lease = yard.dispatch_one()
    yard.start(lease)
    yard.park(lease, question())
    yard.give_credit(first)
    yard.give_credit(second, 5)
    yard.answer(task, "go")
    # The other host is as free, and was handed nothing for longer.
    assert yard.dispatched_hosts() == ["one"]


def test_it_goes_to_another_host_where_that_has_none(yard):
    yard.deregister()
    yard.stream("one")
    task = yard.submit()
    lease = yard.dispatch_one()
    yard.start(lease)
    yard.park(lease, question())
    yard.answer(task, "go")
    yard.stream("two")
    assert yard.dispatched_hosts() == ["two"]


def test_the_target_stays_taken_until_it_has_ended(yard):
    task = parked(yard, question(), target="tab")
    other = yard.submit(target="tab")
    assert yard.claim() == []
    yard.answer(task, "go")
    lease = yard.claim_one()
    assert lease.task is task
    assert yard.claim() == []
    yard.complete(lease)
    assert yard.claim_one().task is other


@pytest.mark.parametrize("when", ["parked", "woken"])
def test_the_target_is_free_once_it_was_cancelled(yard, when):
    task = parked(yard, question(), target="tab")
    other = yard.submit(target="tab")
    if when == "woken":
        yard.answer(task, "go")
    yard.cancel(task)
    assert yard.claim_one().task is other


def test_a_target_may_be_released(yard):
    task = yard.submit(target="tab")
    other = yard.submit(target="tab")
    yard.park(yard.start_one(), question(), keeps_target=False)
    lease = yard.start_one()
    assert lease.task is other
    yard.answer(task, "go")
    assert yard.claim() == []
    yard.complete(lease)
    assert yard.claim_one().task is task


def test_a_parked_task_that_fails_blocks_its_target(yard):
    task = parked(yard, question(until=yard.now + 1), target="tab")
    other = yard.submit(target="tab")
    yard.pass_time(2)
    assert task.state == "failed"
    assert yard.claim() == []
    yard.cancel(task)
    assert yard.claim_one().task is other


# Bounds, explanations


def test_a_park_has_its_room_with_the_steps(yard):
    yard.submit()
    lease = yard.start_one()
    with pytest.raises(TooLarge, match="waits: a task has at most 1000 steps"):
        yard.park(lease, *[question(f"{number}") for number in range(MAX_STEPS + 1)])
    assert lease.task.state == "running"


def test_while_an_earlier_version_may_serve_none_is_taken(yard):
    yard.scheduler.readers.allow_fields(added=True, extras=True, output=True, artifacts=False)
    yard.submit()
    lease = yard.claim_one()
    with pytest.raises(Unavailable, match="parked"):
        yard.park(lease, question())
    assert lease.task.state == "assigned"


def test_it_is_explained_by_what_it_waits_for(yard):
    child = yard.submit()
    yard.start_one()
    until = yard.now + 100
    task = parked(yard, question("go", until, b"no"), ends(child), time(yard, 50))
    told = explain(yard.scheduler, yard.now, task)
    assert (told.state, told.runnable, told.ahead) == ("parked", False, None)
    assert [(reason.kind, reason.name, reason.until, reason.task_ids) for reason in told.reasons] == [
        ("answer", "go", until, ()),
        ("ends", "all", None, (child.id,)),
        ("time", "pause", yard.now + 50, ()),
    ]
