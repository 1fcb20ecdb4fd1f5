"""Leases: what a claim grants, who may report under it, and what ends it."""

import pytest

from taskyard_server.core.errors import BadRequest, Conflict, LeaseLost, NotFound

LATE = 0.125
"""What has come due is done at most so much later."""


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


EVERY_REPORT = pytest.mark.parametrize("report", ["start", "renew", "progress", "complete", "fail", "release"])


def leased(yard, lease_secs=None):
    yard.register()
    yard.submit(deadline=yard.now + 100_000)
    return yard.claim_one(lease_secs=lease_secs)


# What a claim grants


def test_a_claim_grants_the_task_to_the_host_for_a_minute(yard):
    host = yard.register()
    task = yard.submit()
    lease = yard.claim_one()
    assert lease.task is task
    assert lease.host is host
    assert (lease.claimed_at, lease.expires_at, lease.token) == (yard.now, yard.now + 60, 1)
    assert task.state == "assigned"
    assert task.lease is lease
    assert host.leases == {task.id: lease}


def test_a_claim_of_a_host_that_is_not_registered_is_not_found(yard):
    yard.submit()
    with pytest.raises(NotFound, match="runtime host not found"):
        yard.claim("stranger")


def test_a_claim_finds_nothing_where_nothing_waits(yard):
    yard.register()
    assert yard.claim() == []


def test_a_claim_grants_no_more_than_it_asks_for(yard):
    yard.register()
    for _ in range(5):
        yard.submit()
    assert len(yard.claim(count=3)) == 3
    assert yard.claim(count=0) == []
    assert len(yard.claim(count=3)) == 2


def test_a_lease_blocks_claims_of_all_hosts_while_it_lives(yard):
    yard.register("one")
    yard.register("two")
    yard.submit(deadline=yard.now + 1_000)
    yard.claim_one("one", lease_secs=60)
    yard.pass_time(60)
    assert yard.claim("two") == yard.claim("one") == []


@pytest.mark.parametrize("secs", [1, 1.5, 60, 3600])
def test_a_lease_may_be_asked_for_from_one_second_to_an_hour(yard, secs):
    lease = leased(yard, secs)
    assert lease.expires_at == yard.now + secs
    assert yard.renew(lease, secs).expires_at == yard.now + secs


@pytest.mark.parametrize("secs", [-1, 0, 0.999, 3600.001, 1e9, float("inf"), float("nan")])
def test_a_lease_outside_of_one_second_to_an_hour_is_refused(yard, watch, secs):
    lease = leased(yard)
    yard.submit()
    changes = watch(yard.scheduler)
    with pytest.raises(BadRequest, match="lease_secs"):
        yard.claim(lease_secs=secs)
    with pytest.raises(BadRequest, match="lease_secs"):
        yard.renew(lease, secs)
    assert changes() == []


def test_the_length_of_leases_is_a_limit(make_yard):
    yard = make_yard(lease_secs=5)
    assert leased(yard).expires_at == yard.now + 5


# Reports


def test_a_started_task_runs_from_then_on(yard):
    lease = leased(yard)
    yard.now += 2
    task = yard.start(lease)
    assert (task.state, task.started_at) == ("running", yard.now)


def test_a_second_start_is_a_conflict_and_changes_nothing(yard, watch):
    lease = leased(yard)
    yard.start(lease)
    changes = watch(yard.scheduler)
    with pytest.raises(Conflict, match="task is already running"):
        yard.start(lease)
    assert changes() == []


def test_a_completed_task_is_done_with_its_result(yard):
    lease = leased(yard)
    yard.start(lease)
    yard.now += 1.5
    task = yard.complete(lease, b"result")
    assert (task.state, task.result, task.error) == ("done", b"result", None)
    assert (task.completed_at, task.latency_ms) == (yard.now, 1500)


def test_a_failed_task_holds_the_error_of_the_host(yard):
    lease = leased(yard)
    yard.start(lease)
    yard.now += 1
    task = yard.fail(lease, "no such element")
    assert (task.state, task.result, task.error) == ("failed", None, "no such element")
    assert (task.completed_at, task.latency_ms) == (yard.now, 1000)


def test_a_completion_without_a_start_counts_as_both(yard):
    lease = leased(yard)
    yard.transitions()
    yard.now += 3
    task = yard.complete(lease)
    assert (task.started_at, task.completed_at, task.latency_ms) == (yard.now, yard.now, 0)
    assert yard.transitions() == [(task.id, "running"), (task.id, "done")]


def test_a_failure_without_a_start_is_no_start(yard):
    lease = leased(yard)
    yard.transitions()
    yard.now += 3
    task = yard.fail(lease)
    assert (task.started_at, task.completed_at, task.latency_ms) == (None, yard.now, None)
    assert yard.transitions() == [(task.id, "failed")]


@pytest.mark.parametrize(
    ("end", "states"), [("complete", ["running", "done"]), ("fail", ["failed"])], ids=["complete", "fail"]
)
def test_an_end_without_a_start_leaves_the_start_of_an_earlier_lease(yard, end, states):
    lease = leased(yard)
    started_at = yard.start(lease).started_at
    yard.now += 1
    yard.release(lease)
    again = yard.claim_one()
    yard.transitions()
    task = getattr(yard, end)(again)
    assert yard.transitions() == [(task.id, state) for state in states]
    assert task.started_at == started_at


def test_started_at_is_the_first_execution(yard):
    lease = leased(yard)
    began = yard.now
    yard.start(lease)
    yard.release(lease)
    yard.now += 5
    task = yard.start(yard.claim_one())
    assert task.started_at == began
    yard.now += 5
    assert yard.complete(task.lease).latency_ms == 10_000


def test_an_end_of_a_task_ends_its_lease(yard):
    lease = leased(yard)
    task = yard.complete(lease)
    assert task.lease is None
    assert lease.host.leases == {}
    yard.pass_time(61)
    assert task.state == "done"


def test_progress_is_kept_as_it_came_and_counts_as_a_start(yard):
    lease = leased(yard)
    yard.now += 2
    task = yard.scheduler.reports.progress(yard.now, "host", lease.task.id, lease.token, b"\xffhalf")
    assert (task.state, task.started_at, task.progress) == ("running", yard.now, b"\xffhalf")
    yard.now += 2
    yard.scheduler.reports.progress(yard.now, "host", lease.task.id, lease.token, b"done")
    assert (task.state, task.started_at, task.progress) == ("running", yard.now - 2, b"done")


# Fencing


def test_fencing_tokens_grow_with_each_claim_of_the_task(yard):
    lease = leased(yard, 5)
    tokens = [lease.token]
    yard.release(lease)
    tokens.append(yard.claim_one(lease_secs=5).token)
    yard.pass_time(5 + LATE)
    tokens.append(yard.claim_one().token)
    yard.deregister()
    yard.register()
    tokens.append(yard.claim_one().token)
    assert tokens == [1, 2, 3, 4]


def late(changes):
    """What changed beyond the count of late reports."""
    return [line for line in changes() if ".late_reports" not in line]


@EVERY_REPORT
@pytest.mark.parametrize("token", [0, 1, 3, -1, 1 << 70])
def test_a_report_with_another_token_is_lease_lost_and_changes_nothing(yard, watch, report, token):
    first = leased(yard)
    yard.release(first)
    second = yard.claim_one()
    assert second.token == 2
    changes = watch(yard.scheduler)
    with pytest.raises(LeaseLost):
        reports(yard)[report]("host", second.task.id, token)
    assert late(changes) == []


@EVERY_REPORT
def test_a_report_of_another_host_with_the_right_token_is_lease_lost_and_changes_nothing(yard, watch, report):
    lease = leased(yard)
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
    yard.pass_time(60 + LATE)


def past_its_deadline(yard, lease):
    yard.reconfigure(forget_hosts_secs=1e9)
    yard.pass_time(lease.task.deadline + LATE - yard.now)


def done(yard, lease):
    yard.complete(lease)


def host_registered_anew(yard, _):
    yard.deregister()
    yard.register()


def taken_by_another(yard, _):
    yard.pass_time(60 + LATE)
    yard.register("another")
    yard.claim_one("another")


@EVERY_REPORT
@pytest.mark.parametrize(
    "lose", [cancelled, released, expired, past_its_deadline, done, host_registered_anew, taken_by_another]
)
def test_a_report_after_the_lease_has_ended_is_lease_lost_and_changes_nothing(yard, watch, report, lose):
    lease = leased(yard, 60)
    lose(yard, lease)
    yard.scheduler.heartbeat(yard.now, "host")
    changes = watch(yard.scheduler)
    with pytest.raises(LeaseLost, match="fencing token 1 is not its lease"):
        reports(yard)[report]("host", lease.task.id, lease.token)
    assert late(changes) == []


def test_every_late_report_is_counted(yard):
    lease = leased(yard)
    yard.cancel(lease.task)
    for report in reports(yard).values():
        with pytest.raises(LeaseLost):
            report("host", lease.task.id, lease.token)
    assert yard.scheduler.stats().counters.late_reports == 6


@EVERY_REPORT
def test_a_report_of_a_host_that_is_not_registered_is_not_found(yard, watch, report):
    lease = leased(yard)
    changes = watch(yard.scheduler)
    with pytest.raises(NotFound, match="runtime host not found"):
        reports(yard)[report]("stranger", lease.task.id, lease.token)
    assert changes() == []


@EVERY_REPORT
def test_a_report_about_a_task_that_is_no_longer_retained_is_not_found(make_yard, report):
    yard = make_yard(result_ttl_secs=10)
    lease = leased(yard)
    yard.complete(lease)
    yard.pass_time(10)
    with pytest.raises(NotFound, match="task not found"):
        reports(yard)[report]("host", lease.task.id, lease.token)


def test_one_outcome_is_recorded_however_many_hosts_report(yard):
    first = leased(yard, 5)
    yard.start(first)
    yard.pass_time(5 + LATE)
    yard.register("another")
    second = yard.claim_one("another")
    task = yard.complete(second, b"second")
    with pytest.raises(LeaseLost):
        yard.complete(first, b"first")
    with pytest.raises(LeaseLost):
        yard.complete(second, b"again")
    assert (task.state, task.result) == ("done", b"second")
    assert yard.scheduler.stats().counters.completed == 1


# The end of a lease


def test_a_lease_lives_to_its_last_moment_and_ends_at_most_an_eighth_of_a_second_later(yard):
    lease = leased(yard, 10)
    yard.pass_time(10)
    assert lease.task.lease is lease
    yard.pass_time(LATE)
    assert (lease.task.state, lease.task.lease, lease.host.leases) == ("queued", None, {})


@pytest.mark.parametrize("started", [False, True])
def test_an_expired_lease_can_be_claimed_by_another_host(yard, started):
    lease = leased(yard, 10)
    if started:
        yard.start(lease)
    yard.pass_time(10 + LATE)
    yard.register("another")
    again = yard.claim_one("another")
    assert again.task is lease.task
    assert again.host.id == "another"


def test_a_task_whose_leases_expire_is_handed_out_max_deliveries_times_and_then_fails(make_yard):
    yard = make_yard(max_deliveries=3)
    task = leased(yard, 10).task
    for _ in range(2):
        yard.pass_time(10 + LATE)
        assert task.state == "queued"
        yard.claim_one(lease_secs=10)
    yard.pass_time(10 + LATE)
    assert (task.state, task.error, task.completed_at) == ("failed", "lease expired", yard.now)
    assert task.lease is None
    assert yard.claim() == []


def test_by_default_a_task_is_handed_out_five_times(yard):
    task = leased(yard, 1).task
    hand_outs = 1
    while task.state != "failed":
        yard.pass_time(1 + LATE)
        hand_outs += len(yard.claim(lease_secs=1))
    assert hand_outs == 5


def test_a_release_puts_the_task_back_at_once_and_does_not_count_as_a_delivery(make_yard):
    yard = make_yard(max_deliveries=1)
    lease = leased(yard)
    for _ in range(10):
        task = yard.release(lease)
        assert (task.state, task.lease) == ("queued", None)
        lease = yard.claim_one(lease_secs=5)
    yard.pass_time(5 + LATE)
    assert (task.state, task.error) == ("failed", "lease expired")


def test_a_running_task_may_be_released_too(yard):
    lease = leased(yard)
    yard.start(lease)
    assert yard.release(lease).state == "queued"


def test_with_the_host_its_leases_go_and_their_tasks_can_be_claimed_at_once(yard):
    yard.register()
    yard.register("another")
    assigned, running, kept = [yard.submit() for _ in range(3)]
    leases = yard.claim(count=2)
    yard.start(leases[1])
    other = yard.claim_one("another")
    yard.deregister()
    assert (assigned.state, running.state, kept.state) == ("queued", "queued", "assigned")
    assert other.host.leases == {kept.id: other}
    assert [lease.task for lease in yard.claim("another", 5)] == [assigned, running]


# Renewal


def test_a_renewed_lease_lives_for_its_own_length_from_now(yard):
    lease = leased(yard, 10)
    yard.pass_time(7)
    assert yard.renew(lease) is lease
    assert (lease.expires_at, lease.token) == (yard.now + 10, 1)
    yard.pass_time(10)
    assert lease.task.lease is lease
    yard.pass_time(LATE)
    assert lease.task.state == "queued"


def test_a_lease_may_be_renewed_for_a_given_length(yard):
    lease = leased(yard, 10)
    yard.renew(lease, 3600)
    assert lease.expires_at == yard.now + 3600


def test_a_renewal_never_shortens_a_lease(yard):
    lease = leased(yard, 100)
    yard.pass_time(10)
    yard.renew(lease, 5)
    assert lease.expires_at == yard.now + 90
    yard.pass_time(90)
    assert lease.task.lease is lease
    yard.pass_time(LATE)
    assert lease.task.state == "queued"


def test_a_renewal_for_a_given_length_is_a_new_length_of_the_lease(yard):
    lease = leased(yard, 10)
    yard.renew(lease, 20)
    yard.pass_time(15)
    yard.renew(lease)
    assert lease.expires_at == yard.now + 20


def test_a_lease_that_is_renewed_in_time_never_ends(yard):
    lease = leased(yard, 10)
    for _ in range(100):
        yard.pass_time(9)
        yard.renew(lease)
    assert lease.task.deliveries == 1
    assert yard.complete(lease).state == "done"


def test_a_renewal_is_no_start(yard):
    lease = leased(yard)
    yard.transitions()
    yard.renew(lease)
    assert lease.task.state == "assigned"
    assert yard.transitions() == []


# A claim for one project


def test_a_claim_may_ask_for_one_project(yard):
    yard.register()
    yard.submit()
    yard.submit(project="blue")
    red = yard.submit(project="red")
    (lease,) = yard.scheduler.claim(yard.now, "host", 5, project="red")
    assert lease.task is red
    assert len(yard.claim(count=5)) == 2


def test_a_host_of_a_project_may_ask_for_its_own_and_no_other(yard, watch):
    yard.register(project="red")
    yard.submit(project="red")
    yard.submit(project="blue")
    changes = watch(yard.scheduler)
    with pytest.raises(BadRequest, match="project"):
        yard.scheduler.claim(yard.now, "host", project="blue")
    assert changes() == []
    assert len(yard.scheduler.claim(yard.now, "host", 5, project="red")) == 1


# The list of leases


def test_live_leases_are_listed_in_the_order_in_which_they_were_granted(yard):
    yard.register("one")
    yard.register("two")
    for _ in range(6):
        yard.submit()
    leases = [yard.claim_one(("one", "two")[number % 2]) for number in range(6)]
    listed = yard.scheduler.leases_after(0)
    assert listed == leases
    assert yard.scheduler.leases_after(0, "two") == leases[1::2]
    assert yard.scheduler.leases_after(listed[2].number) == leases[3:]
    assert yard.scheduler.leases_after(listed[2].number, "one") == leases[4:5]


def test_a_lease_that_has_ended_is_not_listed_and_a_new_one_of_its_task_is_the_last(yard):
    yard.register()
    for _ in range(3):
        yard.submit()
    first, second, third = yard.claim(count=3)
    yard.complete(second)
    yard.release(first)
    again = yard.claim_one()
    assert yard.scheduler.leases_after(0) == [third, again]


def test_the_leases_of_a_host_that_is_not_registered_are_not_found(yard):
    with pytest.raises(NotFound, match="runtime host not found"):
        yard.scheduler.leases_after(0, "stranger")
