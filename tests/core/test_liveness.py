"""Signs of life, and what a silent host loses (docs/rules.md, Liveness, Orphan sweep)."""

import pytest

from taskyard_server.core.errors import LeaseLost
from taskyard_server.core.hosts import HostFigures, HostProfile, HostStatus, host_figures
from tests.core.yard import TICK

# Signs of life


def status(yard, host):
    limits = yard.scheduler.limits
    return host.status(yard.now, limits.heartbeat_timeout_secs, limits.dead_heartbeat_threshold)


def online(yard, host):
    return host.online(yard.now, yard.scheduler.limits.heartbeat_timeout_secs)


def test_a_host_is_online_until_the_time_out_after_its_last_sign_of_life(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    host = yard.register()
    yard.now += 60
    assert online(yard, host)
    yard.now += 0.001
    assert not online(yard, host)
    yard.scheduler.heartbeat(yard.now, "host")
    assert online(yard, host)


def test_a_host_whose_stream_broke_is_lost_until_it_is_heard_of_or_dead(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    stream = yard.stream()
    host = stream.host
    yard.now += 1
    yard.disconnect(stream)
    limits = yard.scheduler.limits
    assert (host.lost_at, online(yard, host)) == (yard.now, False)
    assert host_figures(yard.scheduler.hosts, yard.now, limits) == HostFigures(1, 0, 1, 0, 0)
    yard.scheduler.heartbeat(yard.now, "host")
    assert (host.lost_at, online(yard, host)) == (None, True)
    yard.disconnect(yard.stream())
    assert not online(yard, host)
    yard.stream()
    assert online(yard, host), "it has come back"
    yard.disconnect(host.stream)
    yard.now += 121
    assert (status(yard, host), host_figures(yard.scheduler.hosts, yard.now, limits).lost) == ("dead", 0)


def test_the_end_of_a_stream_that_was_superseded_loses_nobody(make_yard):
    yard = make_yard()
    before = yard.stream()
    yard.stream()
    yard.disconnect(before)
    assert online(yard, before.host)


def test_a_host_is_dead_once_it_is_silent_for_over_twice_the_time_out(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    host = yard.register()
    yard.now += 120
    assert status(yard, host) != "dead"
    yard.now += 0.001
    assert status(yard, host) == "dead"
    yard.scheduler.heartbeat(yard.now, "host")
    assert status(yard, host) != "dead"


def test_a_host_has_the_status_that_it_reports_unless_it_is_dead(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    host = yard.register()
    yard.scheduler.heartbeat(yard.now, "host", HostStatus.BUSY)
    assert status(yard, host) == "busy"
    yard.now += 121
    assert status(yard, host) == "dead"
    yard.scheduler.heartbeat(yard.now, "host")
    assert status(yard, host) == "idle"


def test_a_host_without_leases_is_idle_and_one_whose_slots_are_all_taken_is_busy(yard):
    host = yard.scheduler.register(yard.now, "host", None, HostProfile(), slots=2)
    for _ in range(2):
        yard.submit()
    statuses = [status(yard, host)]
    for _ in range(2):
        yard.claim_one()
        statuses.append(status(yard, host))
    assert statuses == ["idle", "alive", "busy"]


def test_a_host_without_slots_is_never_busy_by_its_leases(yard):
    host = yard.register()
    for _ in range(50):
        yard.submit()
    yard.claim(count=50)
    assert (host.slots, status(yard, host)) == (None, "alive")


# Dead hosts

LATE = 0.125
DEAD = 120
"""Seconds after which a host is dead: two time-outs of 60 s."""
LOST = "lease expired: runtime host host missed 2 heartbeats"


@pytest.fixture
def yard(make_yard):
    """Leases last for an hour, so that only silence ends them."""
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
    yard.pass_time(TICK)
    assert [(lease.task.state, lease.task.error) for lease in leases] == [("queued", None)] * 3
    assert [lease.task.history.attempts[-1].error for lease in leases] == [LOST] * 3
    with pytest.raises(LeaseLost):
        yard.complete(leases[0])


def test_the_error_names_the_missed_heartbeats_of_the_limits(make_yard):
    yard = make_yard(heartbeat_timeout_secs=10, dead_heartbeat_threshold=5, lease_secs=3600)
    (lease,) = held(yard)
    yard.pass_time(50 + TICK)
    assert lease.task.history.attempts[-1].error == "lease expired: runtime host host missed 5 heartbeats"


def test_a_task_whose_hosts_all_died_fails_after_its_deliveries(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60, lease_secs=3600, max_deliveries=2, default_deadline_secs=100_000)
    task = held(yard)[0].task
    yard.pass_time(DEAD + TICK)
    assert task.state == "queued"
    yard.start(yard.claim_one())
    yard.pass_time(DEAD + TICK)
    assert (task.state, task.error, task.deliveries) == ("failed", LOST, 2)


def test_a_task_that_a_dead_host_never_started_goes_back_uncounted(yard):
    yard.stream()
    task = yard.submit()
    lease = yard.dispatch_one()
    yard.pass_time(DEAD + TICK)
    assert (task.state, task.error, task.deliveries) == ("queued", None, 0)
    assert yard.stops() == [(lease, "lease_ended", "not started by its host")]


def test_a_dead_host_is_told_to_stop_the_tasks_that_it_lost(yard):
    yard.stream()
    yard.submit()
    lease = yard.dispatch_one()
    yard.start(lease)
    yard.pass_time(DEAD + TICK)
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
    yard.pass_time(DEAD + TICK)
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
    yard.pass_time(DEAD + TICK)
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


def test_a_silence_has_one_timer_and_not_one_for_each_call(yard):
    (lease,) = held(yard)
    due = yard.scheduler.next_due()
    for _ in range(50):
        yard.now += 1
        yard.renew(lease, 3600)
        assert yard.scheduler.next_due() == due
    assert DEAD - 50 < due - yard.now <= DEAD - 50 + TICK


def test_a_silent_host_without_leases_has_no_timer_but_that_of_its_forgetting(yard):
    (lease,) = held(yard)
    yard.complete(lease)
    yard.pass_time(300)
    yard.reconfigure(result_ttl_secs=1)
    yard.pass_time(0)
    assert yard.scheduler.next_due() > yard.now + 80_000, "only the host is to be forgotten then"


def test_a_deregistered_host_has_no_timer(yard):
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
    yard.pass_time(TICK)
    assert lease.task.state == "queued"


def test_a_raised_time_out_holds_for_silences_that_have_begun(yard):
    (lease,) = held(yard)
    yard.pass_time(15)
    yard.reconfigure(heartbeat_timeout_secs=100)
    yard.pass_time(185)
    assert lease.task.state == "running"
    yard.pass_time(TICK)
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
