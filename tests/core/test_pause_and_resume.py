"""Pause, resume and resolve: what a resumed task keeps and what begins anew (docs/rules.md, Pause, Resume, Resolve)."""

import pytest

from taskyard_server.core.errors import Conflict, LeaseLost, Unavailable
from taskyard_server.core.figures.figures import stats_of
from tests.core.task_cases import STATES, complete, pause, report_failure, resume, start

# Pause


def test_a_paused_task_has_an_error_and_no_lease(yard):
    case = STATES["paused"](yard)
    assert (case.task.error, case.task.lease) == ("Job was interrupted by user", None)
    assert case.task.completed_at is None
    assert yard.scheduler.hosts.get("host").leases == {}


def test_a_paused_task_has_no_deadline_that_could_pass(yard):
    case = STATES["paused"](yard)
    assert case.task.deadline is None
    yard.pass_time(1_000_000)
    assert case.task.state == "paused"
    assert yard.scheduler.get(case.task.id) is case.task


@pytest.mark.parametrize("report", [complete, report_failure])
def test_a_pause_that_races_with_the_end_has_one_outcome(make_yard, report):
    for first, second in ((pause, report), (report, pause)):
        yard = make_yard()
        case = STATES["running"](yard)
        first(case)
        outcome = case.task.state
        with pytest.raises((Conflict, LeaseLost)):
            second(case)
        assert case.task.state is outcome
        counters = stats_of(yard.scheduler).counters
        assert counters.completed + counters.failed == (first is report)


# Resume and resolve


def test_a_resumed_task_has_a_fresh_deadline_of_its_original_length(yard):
    case = STATES["paused"](yard)
    yard.pass_time(777)
    resume(case)
    assert case.task.deadline == yard.now + 1_000


def test_a_default_deadline_counts_from_the_resume(make_yard):
    yard = make_yard(default_deadline_secs=60.0)
    yard.register()
    task = yard.submit()
    yard.pause(yard.start_one().task)
    yard.pass_time(100)
    yard.resume(task)
    assert task.deadline == yard.now + 60
    yard.pass_time(60.2)
    assert (task.state, task.error) == ("failed", "deadline exceeded while queued")


@pytest.mark.parametrize("state", ["paused", "failed", "failed, blocks"])
def test_a_resumed_task_has_no_trace_of_its_last_end(yard, state):
    case = STATES[state](yard)
    case.yard.pass_time(1)
    resume(case)
    task = case.task
    assert (task.error, task.completed_at, task.result, task.progress) == (None, None, None, None)
    assert task.history.attempts == ()


@pytest.mark.parametrize("state", ["paused", "failed"])
def test_a_resumed_task_gets_a_fresh_lease_and_the_old_one_stays_lost(yard, state):
    case = STATES[state](yard)
    old = case.lease
    resume(case)
    case.claim()
    assert case.lease.token > old.token
    for report in (yard.start, yard.complete, yard.fail, yard.release, yard.renew):
        with pytest.raises(LeaseLost):
            report(old)
    start(case)
    complete(case)
    assert case.task.state == "done"


def test_every_resume_is_another_run_and_deliveries_count_from_zero(make_yard):
    yard = make_yard(max_deliveries=2)
    yard.register()
    task = yard.submit(deadline=yard.now + 100_000)
    for run in range(1, 5):
        assert task.history.run == run
        for state in ("queued", "failed"):
            yard.claim_one()
            yard.pass_time(61)
            assert task.state == state
        yard.resume(task)


def test_the_first_start_and_the_last_host_stay(yard):
    case = STATES["paused"](yard)
    started_at = case.task.started_at
    yard.pass_time(10)
    resume(case)
    assert (case.task.started_at, case.task.host_id) == (started_at, "host")


def test_a_resumed_task_takes_its_old_place(yard):
    yard.register()
    first = yard.submit("ann")
    yard.pause(yard.start_one().task)
    second, urgent = yard.submit("ann"), yard.submit("ann", priority=-1)
    yard.resume(first)
    assert [lease.task for lease in yard.claim(count=3)] == [urgent, first, second]


def test_admission_limits_do_not_apply_to_a_resume(make_yard):
    yard = make_yard(max_queue_size=2, max_per_agent=2)
    yard.register()
    task = yard.submit()
    yard.pause(yard.start_one().task)
    yard.submit(), yard.submit()
    yard.resume(task)
    assert stats_of(yard.scheduler).queued == 3


def test_while_the_scheduler_drains_a_resume_is_unavailable_and_changes_nothing(yard, watch):
    stopped, held, running = STATES["paused"](yard), STATES["pending, held"](yard), STATES["running"](yard)
    yard.scheduler.drain()
    changes = watch(yard.scheduler)
    for case in (stopped, held):
        with pytest.raises(Unavailable):
            resume(case)
    assert changes() == []
    with pytest.raises(Conflict):
        resume(running)


def test_a_resolved_task_is_done_with_the_given_result(yard):
    for state in ("paused", "failed"):
        case = STATES[state](yard)
        yard.pass_time(5)
        yard.resolve(case.task, b"by hand")
        task = case.task
        assert (task.state, task.result, task.error, task.completed_at) == ("done", b"by hand", None, yard.now)


# Events


def test_an_event_shows_the_task_as_it_was_before_later_changes_of_the_same_moment(yard):
    case = STATES["running"](yard)
    yard.scheduler.take_events()
    first_deadline = case.task.deadline
    report_failure(case)
    yard.pass_time(3)
    resume(case)
    case.claim().start()
    failed, queued, assigned, running = yard.scheduler.take_events()
    assert (failed.state, failed.deadline, failed.history.run) == ("failed", first_deadline, 1)
    assert (queued.state, queued.deadline, queued.history.run) == ("queued", yard.now + 1_000, 2)
    assert (assigned.attempt_started_at, running.attempt_started_at) == (None, yard.now)
