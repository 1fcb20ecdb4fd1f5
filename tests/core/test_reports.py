"""Reports of hosts, and the fencing tokens that they carry (docs/rules.md, Reports, Fencing tokens)."""

import pytest

from taskyard_server.core.errors import Conflict, LeaseLost, NotFound
from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.history import RetryPolicy
from tests.cases import every_case
from tests.core.yard import TICK


def reports(yard):
    """Every report that a host can make under a lease."""
    scheduler = yard.scheduler
    return {
        "start": lambda host, task, token: scheduler.reports.start(yard.now, host, task, token),
        "renew": lambda host, task, token: scheduler.reports.renew(yard.now, host, task, token),
        "progress": lambda host, task, token: scheduler.reports.progress(yard.now, host, task, token, b"late"),
        "complete": lambda host, task, token: scheduler.reports.complete(yard.now, host, task, token, b"late"),
        "fail": lambda host, task, token: scheduler.reports.fail(yard.now, host, task, token, "late"),
        "release": lambda host, task, token: scheduler.reports.release(yard.now, host, task, token),
    }


EVERY_REPORT = every_case("report", ["start", "renew", "progress", "complete", "fail", "release"])


# Reports


def test_a_started_task_runs_from_then_on(yard):
    lease = yard.leased()
    yard.now += 2
    task = yard.start(lease)
    assert (task.state, task.started_at) == ("running", yard.now)


def test_a_second_start_is_a_conflict_and_changes_nothing(yard, watch):
    lease = yard.leased()
    yard.start(lease)
    changes = watch(yard.scheduler)
    with pytest.raises(Conflict, match="task is already running"):
        yard.start(lease)
    assert changes() == []


def test_a_completed_task_is_done_with_its_result(yard):
    lease = yard.leased()
    yard.start(lease)
    yard.now += 1.5
    task = yard.complete(lease, b"result")
    assert (task.state, task.result, task.error) == ("done", b"result", None)
    assert (task.completed_at, task.latency_ms) == (yard.now, 1500)


def test_a_failed_task_holds_the_error_of_the_host(yard):
    lease = yard.leased()
    yard.start(lease)
    yard.now += 1
    task = yard.fail(lease, "no such element")
    assert (task.state, task.result, task.error) == ("failed", None, "no such element")
    assert (task.completed_at, task.latency_ms) == (yard.now, 1000)


def test_a_completion_without_a_start_counts_as_both(yard):
    lease = yard.leased()
    yard.transitions()
    yard.now += 3
    task = yard.complete(lease)
    assert (task.started_at, task.completed_at, task.latency_ms) == (yard.now, yard.now, 0)
    assert yard.transitions() == [(task.id, "running"), (task.id, "done")]


def test_a_failure_without_a_start_is_no_start(yard):
    lease = yard.leased()
    yard.transitions()
    yard.now += 3
    task = yard.fail(lease)
    assert (task.started_at, task.completed_at, task.latency_ms) == (None, yard.now, None)
    assert yard.transitions() == [(task.id, "failed")]


def test_a_repeated_failure_without_a_start_is_lease_lost(yard):
    lease = yard.leased()
    yard.fail(lease)
    for report in (yard.start, yard.fail, yard.complete):
        with pytest.raises(LeaseLost):
            report(lease)
    assert (lease.task.state, lease.task.started_at) == ("failed", None)


def test_the_attempt_of_a_failure_without_a_start_has_no_start(yard):
    yard.register()
    task = yard.submit(retry=RetryPolicy(1))
    yard.fail(yard.claim_one())
    (attempt,) = task.history.attempts
    assert (attempt.started_at, attempt.ended_at, attempt.error) == (None, yard.now, "broken")


@pytest.mark.parametrize(
    ("end", "states"), [("complete", ["running", "done"]), ("fail", ["failed"])], ids=["complete", "fail"]
)
def test_an_end_without_a_start_leaves_the_start_of_an_earlier_lease(yard, end, states):
    lease = yard.leased()
    started_at = yard.start(lease).started_at
    yard.now += 1
    yard.release(lease)
    again = yard.claim_one()
    yard.transitions()
    task = getattr(yard, end)(again)
    assert yard.transitions() == [(task.id, state) for state in states]
    assert task.started_at == started_at


def test_started_at_is_the_first_execution(yard):
    lease = yard.leased()
    began = yard.now
    yard.start(lease)
    yard.release(lease)
    yard.now += 5
    task = yard.start(yard.claim_one())
    assert task.started_at == began
    yard.now += 5
    assert yard.complete(task.lease).latency_ms == 10_000


def test_an_end_of_a_task_ends_its_lease(yard):
    lease = yard.leased()
    task = yard.complete(lease)
    assert task.lease is None
    assert lease.host.leases == {}
    yard.pass_time(61)
    assert task.state == "done"


def test_progress_is_kept_as_it_came_and_counts_as_a_start(yard):
    lease = yard.leased()
    yard.now += 2
    task = yard.scheduler.reports.progress(yard.now, "host", lease.task.id, lease.token, b"\xffhalf")
    assert (task.state, task.started_at, task.progress) == ("running", yard.now, b"\xffhalf")
    yard.now += 2
    yard.scheduler.reports.progress(yard.now, "host", lease.task.id, lease.token, b"done")
    assert (task.state, task.started_at, task.progress) == ("running", yard.now - 2, b"done")


# Fencing


def test_fencing_tokens_grow_with_each_claim_of_the_task(yard):
    lease = yard.leased(5)
    tokens = [lease.token]
    yard.release(lease)
    tokens.append(yard.claim_one(lease_secs=5).token)
    yard.pass_time(5 + TICK)
    tokens.append(yard.claim_one().token)
    yard.deregister()
    yard.register()
    tokens.append(yard.claim_one().token)
    assert tokens == [1, 2, 3, 4]


def late(changes):
    """What changed beyond the count of late reports."""
    return [line for line in changes() if ".late_reports" not in line]


@EVERY_REPORT
@every_case("token", [0, 1, 3, -1, 1 << 70])
def test_a_report_with_another_token_is_lease_lost_and_changes_nothing(make_yard, watch, report, token):
    yard = make_yard()
    first = yard.leased()
    yard.release(first)
    second = yard.claim_one()
    assert second.token == 2
    changes = watch(yard.scheduler)
    with pytest.raises(LeaseLost):
        reports(yard)[report]("host", second.task.id, token)
    assert late(changes) == []


@EVERY_REPORT
def test_a_report_of_another_host_with_the_right_token_is_lease_lost_and_changes_nothing(make_yard, watch, report):
    yard = make_yard()
    lease = yard.leased()
    yard.register("thief")
    changes = watch(yard.scheduler)
    with pytest.raises(LeaseLost):
        reports(yard)[report]("thief", lease.task.id, lease.token)
    assert late(changes) == []


def cancelled(yard, lease):
    yard.cancel(lease.task)


def released(yard, lease):
    yard.release(lease)


def expired(yard, _):
    yard.pass_time(60 + TICK)


def past_its_deadline(yard, lease):
    yard.reconfigure(forget_hosts_secs=1e9)
    yard.pass_time(lease.task.deadline + TICK - yard.now)


def done(yard, lease):
    yard.complete(lease)


def host_registered_anew(yard, _):
    yard.deregister()
    yard.register()


def taken_by_another(yard, _):
    yard.pass_time(60 + TICK)
    yard.register("another")
    yard.claim_one("another")


@EVERY_REPORT
@every_case("lose", [cancelled, released, expired, past_its_deadline, done, host_registered_anew, taken_by_another])
def test_a_report_after_the_lease_has_ended_is_lease_lost_and_changes_nothing(make_yard, watch, report, lose):
    yard = make_yard()
    lease = yard.leased(60)
    lose(yard, lease)
    yard.scheduler.heartbeat(yard.now, "host")
    changes = watch(yard.scheduler)
    with pytest.raises(LeaseLost, match="fencing token 1 is not its lease"):
        reports(yard)[report]("host", lease.task.id, lease.token)
    assert late(changes) == []


def test_every_late_report_is_counted(yard):
    lease = yard.leased()
    yard.cancel(lease.task)
    for report in reports(yard).values():
        with pytest.raises(LeaseLost):
            report("host", lease.task.id, lease.token)
    assert stats_of(yard.scheduler).counters.late_reports == 6


@EVERY_REPORT
def test_a_report_of_a_host_that_is_not_registered_is_not_found(make_yard, watch, report):
    yard = make_yard()
    lease = yard.leased()
    changes = watch(yard.scheduler)
    with pytest.raises(NotFound, match="runtime host not found"):
        reports(yard)[report]("stranger", lease.task.id, lease.token)
    assert changes() == []


@EVERY_REPORT
def test_a_report_about_a_task_that_is_no_longer_retained_is_not_found(make_yard, report):
    yard = make_yard(result_ttl_secs=10)
    lease = yard.leased()
    yard.complete(lease)
    yard.pass_time(10)
    with pytest.raises(NotFound, match="task not found"):
        reports(yard)[report]("host", lease.task.id, lease.token)


def test_one_outcome_is_recorded_however_many_hosts_report(yard):
    first = yard.leased(5)
    yard.start(first)
    yard.pass_time(5 + TICK)
    yard.register("another")
    second = yard.claim_one("another")
    task = yard.complete(second, b"second")
    with pytest.raises(LeaseLost):
        yard.complete(first, b"first")
    with pytest.raises(LeaseLost):
        yard.complete(second, b"again")
    assert (task.state, task.result) == ("done", b"second")
    assert stats_of(yard.scheduler).counters.completed == 1
