"""Dead hosts: who is silent for too long loses all that it holds (scheduler-daemon, Orphan Reconciliation)."""

import pytest

from taskyard_server.core.errors import LeaseLost

LATE = 0.125
"""What has come due is done at most so much later."""

DEAD = 120
"""With a time-out of 60 s, two of which may be missed."""

LOST = "lease expired: runtime host host missed 2 heartbeats"


@pytest.fixture
def yard(make_yard):
    """Two heartbeats missed are 120 s; leases last for an hour, so that only silence ends them."""
    return make_yard(
        heartbeat_timeout_secs=60,
        lease_secs=3600,
        start_timeout_secs=3600,
        default_deadline_secs=100_000,
        result_ttl_secs=100_000,
    )


def held(yard, count=1):
    """Leases that a host claimed and started."""
    yard.register()
    for _ in range(count):
        yard.submit()
    leases = yard.claim(count=count)
    for lease in leases:
        yard.start(lease)
    return leases


def test_a_dead_host_loses_all_its_leases_and_the_attempts_show_why(yard):
    leases = held(yard, 3)
    yard.pass_time(DEAD)
    assert [lease.task.state for lease in leases] == ["running"] * 3
    yard.pass_time(LATE)
    assert [(lease.task.state, lease.task.error) for lease in leases] == [("queued", None)] * 3
    assert [lease.task.history.attempts[-1].error for lease in leases] == [LOST] * 3
    with pytest.raises(LeaseLost):
        yard.complete(leases[0])


def test_the_missed_heartbeats_are_those_of_the_limits(make_yard):
    yard = make_yard(heartbeat_timeout_secs=10, dead_heartbeat_threshold=5, lease_secs=3600)
    (lease,) = held(yard)
    yard.pass_time(50 + LATE)
    assert lease.task.history.attempts[-1].error == "lease expired: runtime host host missed 5 heartbeats"


def test_a_task_whose_hosts_all_died_fails_after_its_deliveries(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60, lease_secs=3600, max_deliveries=2, default_deadline_secs=100_000)
    task = held(yard)[0].task
    yard.pass_time(DEAD + LATE)
    assert task.state == "queued"
    yard.start(yard.claim_one())
    yard.pass_time(DEAD + LATE)
    assert (task.state, task.error, task.deliveries) == ("failed", LOST, 2)


def test_what_a_dead_hosts_stream_never_started_goes_back_uncounted(yard):
    yard.stream()
    task = yard.submit()
    lease = yard.dispatch_one()
    yard.pass_time(DEAD + LATE)
    assert (task.state, task.error, task.deliveries) == ("queued", None, 0)
    assert yard.stops() == [(lease, "lease_ended", "not started by its host")]


def test_a_stream_is_told_to_stop_what_its_dead_host_lost(yard):
    yard.stream()
    yard.submit()
    lease = yard.dispatch_one()
    yard.start(lease)
    yard.pass_time(DEAD + LATE)
    assert yard.stops() == [(lease, "lease_ended", LOST)]


@pytest.mark.parametrize("sign", ["heartbeat", "claim", "renew", "late report", "register"])
def test_every_sign_of_life_puts_death_off(yard, sign):
    lease, other = held(yard, 2)
    yard.complete(other)

    def late_report():
        with pytest.raises(LeaseLost):
            yard.complete(other)

    signs = {
        "heartbeat": lambda: yard.scheduler.heartbeat(yard.now, "host"),
        "claim": yard.claim,
        "renew": lambda: yard.renew(lease, 3600),
        "late report": late_report,
        "register": yard.register,
    }
    for _ in range(3):
        yard.pass_time(DEAD - 1)
        signs[sign]()
    assert lease.task.state == "running"
    yard.pass_time(DEAD + LATE)
    assert lease.task.state == "queued"


def test_other_hosts_keep_what_they_hold(yard):
    (lease,) = held(yard)
    yard.register("other")
    yard.submit()
    others = yard.claim_one("other")
    yard.pass_time(100)
    yard.scheduler.heartbeat(yard.now, "other")
    yard.pass_time(100)
    assert (lease.task.state, others.task.state) == ("queued", "assigned")


def test_a_dead_host_that_is_back_is_handed_tasks_again(yard):
    (lease,) = held(yard)
    yard.pass_time(DEAD + LATE)
    again = yard.claim_one()
    assert (again.task, again.token) == (lease.task, lease.token + 1)
    yard.start(again)
    yard.pass_time(DEAD)
    assert again.task.state == "running"


def test_the_host_in_the_server_process_is_never_dead(yard):
    yard.register("tabs", built_in=True)
    yard.submit(tab_id="tab")
    lease = yard.claim_one("tabs")
    yard.pass_time(1_000)
    yard.scheduler.reconcile(yard.now)
    assert lease.task.state == "assigned"


def test_a_silence_is_looked_at_once_and_not_once_a_call(yard):
    (lease,) = held(yard)
    due = yard.scheduler.next_due()
    for _ in range(50):
        yard.now += 1
        yard.renew(lease, 3600)
        assert yard.scheduler.next_due() == due
    assert DEAD - 50 < due - yard.now <= DEAD - 50 + LATE


def test_a_silence_in_which_nothing_is_held_needs_no_look(yard):
    (lease,) = held(yard)
    yard.complete(lease)
    yard.pass_time(300)
    yard.reconfigure(result_ttl_secs=1)
    yard.pass_time(0)
    assert yard.scheduler.next_due() > yard.now + 80_000, "only the host is to be forgotten then"


def test_a_deregistered_host_is_not_looked_at(yard):
    (lease,) = held(yard)
    yard.deregister()
    yard.cancel(lease.task)
    assert yard.scheduler.next_due() == yard.now + yard.scheduler.limits.result_ttl_secs > yard.now + DEAD


def test_a_lowered_time_out_holds_for_silences_that_have_begun(yard):
    (lease,) = held(yard)
    yard.pass_time(15)
    yard.reconfigure(heartbeat_timeout_secs=10)
    yard.pass_time(5)
    assert lease.task.state == "running"
    yard.pass_time(LATE)
    assert lease.task.state == "queued"


def test_a_raised_time_out_holds_for_silences_that_have_begun(yard):
    (lease,) = held(yard)
    yard.pass_time(15)
    yard.reconfigure(heartbeat_timeout_secs=100)
    yard.pass_time(185)
    assert lease.task.state == "running"
    yard.pass_time(LATE)
    assert lease.task.state == "queued"


def test_reconciliation_ends_what_dead_hosts_hold_and_only_that(yard):
    (lease,) = held(yard)
    yard.now += DEAD - 10
    yard.register("other")
    yard.submit()
    others = yard.claim_one("other")
    yard.now += 10
    yard.scheduler.reconcile(yard.now)
    assert lease.task.state == "running"
    yard.now += 0.001
    yard.scheduler.reconcile(yard.now)
    assert (lease.task.state, lease.task.history.attempts[-1].error) == ("queued", LOST)
    assert others.task.state == "assigned"


def test_after_hours_at_once_everything_is_lost_once(yard):
    leases = held(yard, 3)
    yard.transitions()
    yard.pass_time(3 * 3600)
    assert sorted(yard.transitions()) == sorted((lease.task.id, "queued") for lease in leases)


def test_a_deadline_that_has_passed_too_wins(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60, lease_secs=3600, default_deadline_secs=110)
    (lease,) = held(yard)
    yard.pass_time(1_000)
    assert (lease.task.state, lease.task.error) == ("failed", "deadline exceeded")
