"""Hosts that were not heard of for long, and that hold nothing, are forgotten (docs/rules.md, Forgotten hosts)."""

import pytest

from taskyard_server.core.errors import AlreadyExists, LeaseLost, NotFound
from tests.core.yard import TICK

FORGET_SECS = 1_000.0


@pytest.fixture
def make_yard(make_yard):
    """Makes a yard where hosts are forgotten after a while, with deadlines and leases that are longer."""
    long = {"default_deadline_secs": 1e6, "lease_secs": 3_600, "heartbeat_timeout_secs": 1e6, "result_ttl_secs": 1e6}
    return lambda **limits: make_yard(**{"forget_hosts_secs": FORGET_SECS, **long, **limits})


@pytest.fixture
def yard(make_yard):
    return make_yard()


def is_known(yard, host_id="host"):
    return any(host.id == host_id for host in yard.scheduler.hosts)


def test_by_default_a_host_is_forgotten_after_a_day(make_yard):
    yard = make_yard(forget_hosts_secs=86_400.0)
    yard.register()
    yard.pass_time(86_400)
    assert is_known(yard)
    yard.pass_time(TICK)
    assert not is_known(yard)


def test_a_silent_host_is_forgotten_at_its_time_and_at_most_a_tick_later(yard):
    yard.register()
    yard.pass_time(FORGET_SECS)
    assert is_known(yard)
    assert yard.now < yard.scheduler.next_due() <= yard.now + TICK
    yard.pass_time(TICK)
    assert not is_known(yard)
    assert yard.scheduler.next_due() is None


def test_a_forgotten_host_is_not_found_until_it_registers_again(yard):
    began = yard.register().registered_at
    yard.pass_time(FORGET_SECS + TICK)
    for call in (yard.claim, yard.deregister, lambda: yard.scheduler.heartbeat(yard.now, "host")):
        with pytest.raises(NotFound, match="runtime host not found"):
            call()
    assert yard.register().registered_at > began
    assert yard.claim() == []


SIGNS = {
    "heartbeat": lambda yard: yard.scheduler.heartbeat(yard.now, "host"),
    "claim": lambda yard: yard.claim(),
    "register": lambda yard: yard.register(),
    "late report": lambda yard: late_report(yard),
    "stopped report of an unknown lease": lambda yard: yard.scheduler.reports.stopped(yard.now, "host", "tsk_0", 1),
}


def late_report(yard):
    with pytest.raises(LeaseLost):
        yard.scheduler.reports.complete(yard.now, "host", yard.submit().id, 1, None)


@pytest.mark.parametrize("sign", SIGNS)
def test_every_sign_of_life_puts_the_forgetting_off(yard, sign):
    yard.register()
    for _ in range(5):
        yard.pass_time(FORGET_SECS - 1)
        SIGNS[sign](yard)
    assert is_known(yard)
    yard.pass_time(FORGET_SECS + TICK)
    assert not is_known(yard)


def test_signs_of_life_set_no_timers(yard):
    yard.register()
    due = yard.scheduler.next_due()
    for _ in range(100):
        yard.now += 1
        yard.scheduler.heartbeat(yard.now, "host")
        assert yard.scheduler.next_due() == due


def holds_a_lease(yard):
    yard.submit()
    return yard.claim_one()


def has_a_stream(yard):
    return yard.stream()


def waits_with_a_claim(yard):
    return yard.offer()


def gave_no_credit(yard):
    return yard.stream(credit=0)


LET_GO = {
    holds_a_lease: lambda yard, lease: yard.cancel(lease.task),
    has_a_stream: lambda yard, stream: yard.disconnect(stream),
    waits_with_a_claim: lambda yard, offer: yard.scheduler.withdraw(offer),
    gave_no_credit: lambda yard, stream: yard.disconnect(stream),
}


@pytest.mark.parametrize("hold", LET_GO)
def test_a_host_that_holds_anything_is_kept_in_any_silence_and_forgotten_after_it_holds_nothing(yard, hold):
    yard.register()
    held = hold(yard)
    for _ in range(3):
        yard.pass_time(FORGET_SECS)
        assert is_known(yard)
    LET_GO[hold](yard, held)
    yard.pass_time(FORGET_SECS + TICK)
    assert not is_known(yard)


def test_a_lease_that_a_dead_host_lost_does_not_keep_it(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    yard.register()
    task = yard.submit()
    yard.start_one()
    yard.pass_time(121)
    assert task.state == "queued"
    yard.pass_time(FORGET_SECS - 121 + TICK)
    assert not is_known(yard)


def test_a_target_stays_taken_by_the_lease_of_a_forgotten_host(make_yard):
    """Its process may still work, though nothing was heard of it."""
    yard = make_yard(forget_hosts_secs=100.0)
    yard.register()
    task, behind = yard.submit(target="t"), yard.submit(target="t")
    lease = yard.start_one()
    yard.cancel(task)
    yard.pass_time(100 + TICK)
    assert not is_known(yard)
    yard.register("other")
    assert yard.claim("other") == []
    yard.report_stopped(lease)
    assert yard.claim_one("other").task is behind


def test_the_built_in_host_is_never_forgotten(yard):
    yard.register("tabs", built_in=True)
    yard.pass_time(10 * FORGET_SECS)
    assert is_known(yard, "tabs")
    assert yard.scheduler.next_due() is None


def test_a_drain_and_its_time_are_forgotten_with_the_host(yard):
    yard.register()
    yard.scheduler.drain_host("host", yard.now + 5 * FORGET_SECS)
    yard.pass_time(FORGET_SECS + TICK)
    assert yard.scheduler.next_due() is None
    assert not yard.register().draining


def test_a_limit_that_held_up_a_forgotten_host_is_no_longer_named(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    yard.register("other")
    yard.submit(), yard.submit()
    yard.claim_one("other")
    yard.claim()
    assert yard.scheduler.limited_by == "maxInflight"
    yard.pass_time(FORGET_SECS + TICK)
    assert not is_known(yard)
    assert yard.scheduler.limited_by is None


def test_other_hosts_are_kept(yard):
    yard.register()
    yard.pass_time(10)
    yard.register("other")
    yard.pass_time(FORGET_SECS - 10 + TICK)
    assert [host.id for host in yard.scheduler.hosts] == ["other"]


def test_a_host_that_was_deregistered_and_came_back_has_its_whole_time_again(yard):
    yard.register()
    yard.pass_time(FORGET_SECS - 1)
    yard.deregister()
    yard.register()
    yard.pass_time(FORGET_SECS)
    assert is_known(yard)
    yard.pass_time(TICK)
    assert not is_known(yard)


def test_a_lowered_limit_holds_for_silences_that_have_begun(yard):
    yard.register()
    yard.pass_time(500)
    yard.reconfigure(forget_hosts_secs=501.0)
    yard.pass_time(1)
    assert is_known(yard)
    yard.pass_time(TICK)
    assert not is_known(yard)


def test_a_limit_that_is_lowered_below_a_silence_forgets_its_host_at_once(yard):
    yard.register()
    yard.pass_time(500)
    yard.reconfigure(forget_hosts_secs=100.0)
    yard.pass_time(0)
    assert not is_known(yard)


def test_a_raised_limit_holds_for_silences_that_have_begun(yard):
    yard.register()
    yard.pass_time(500)
    yard.reconfigure(forget_hosts_secs=5_000.0)
    yard.pass_time(4_500)
    assert is_known(yard)
    yard.pass_time(TICK)
    assert not is_known(yard)


def test_the_instance_of_a_forgotten_host_keeps_no_other_out(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60, forget_hosts_secs=100.0)
    stream = yard.stream(instance="process 1")
    with pytest.raises(AlreadyExists):
        yard.connect(instance="process 2")
    yard.disconnect(stream)
    yard.pass_time(100 + TICK)
    assert not is_known(yard)
    assert yard.connect(instance="process 2").offer.host.instance == "process 2"


def test_hosts_with_made_up_names_leave_nothing_behind(yard, object_count):
    def come_and_go(count):
        for number in range(count):
            yard.register(f"host-{number}", f"skill-{number}")
        yard.pass_time(FORGET_SECS + TICK)
        return object_count(yard.scheduler)

    assert come_and_go(2_000) <= come_and_go(20) + 20


def test_while_no_runtime_host_is_known_the_tab_executor_takes_plain_tasks(yard):
    yard.register("tabs", built_in=True)
    yard.register()
    yard.submit()
    assert yard.claim("tabs") == []
    yard.pass_time(FORGET_SECS + TICK)
    assert len(yard.claim("tabs")) == 1
