"""Runtime hosts: registration, signs of life, and what the tab executor may take while they are there."""

import pytest

from taskyard_server.core.errors import LeaseLost, NotFound
from taskyard_server.core.hosts import HostProfile, HostStatus


def test_a_host_is_what_it_was_registered_as(yard):
    profile = HostProfile(frozenset({"gpu"}), "red")
    host = yard.scheduler.register(yard.now, "h1", "Host One", profile)
    assert (host.id, host.display_name, host.profile) == ("h1", "Host One", profile)
    assert (host.registered_at, host.last_heartbeat_at) == (yard.now, yard.now)
    assert list(yard.scheduler.hosts) == [host]


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_display_name_defaults_to_the_id(yard, nothing):
    assert yard.scheduler.register(yard.now, "h1", nothing, HostProfile()).display_name == "h1"


def test_a_second_register_keeps_registered_at_and_replaces_the_rest(yard):
    first = yard.scheduler.register(yard.now, "h1", "Host One", HostProfile(frozenset({"gpu"})))
    began = yard.now
    yard.now += 10
    again = yard.scheduler.register(yard.now, "h1", None, HostProfile())
    assert again is first
    assert list(yard.scheduler.hosts) == [again]
    assert (again.registered_at, again.last_heartbeat_at) == (began, yard.now)
    assert (again.display_name, again.profile) == ("h1", HostProfile())


def test_a_second_register_keeps_the_leases(yard):
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.register("host", "gpu")
    assert yard.complete(lease).state == "done"


def test_a_heartbeat_of_a_host_that_is_not_registered_is_not_found(yard):
    with pytest.raises(NotFound, match="runtime host not found"):
        yard.scheduler.heartbeat(yard.now, "stranger")


def test_a_heartbeat_is_liveness_only_and_renews_no_lease(yard):
    yard.register()
    task = yard.submit()
    yard.claim_one(lease_secs=10)
    yard.pass_time(9)
    assert yard.scheduler.heartbeat(yard.now, "host").last_heartbeat_at == yard.now
    yard.pass_time(1.125)
    assert task.state == "queued"


def test_deregistering_a_host_that_is_not_registered_is_not_found(yard):
    with pytest.raises(NotFound, match="runtime host not found"):
        yard.deregister()
    yard.register()
    yard.deregister()
    with pytest.raises(NotFound):
        yard.deregister()
    assert list(yard.scheduler.hosts) == []


def test_a_deregistered_host_gets_and_reports_nothing(yard):
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.deregister()
    for call in (yard.claim, lambda: yard.renew(lease), lambda: yard.complete(lease)):
        with pytest.raises(NotFound, match="runtime host not found"):
            call()


def test_a_host_that_comes_back_after_it_was_deregistered_is_new(yard):
    yard.register()
    yard.deregister()
    yard.now += 10
    assert yard.register().registered_at == yard.now


CALLS = {
    "claim": lambda yard, _: yard.claim(),
    "start": lambda yard, lease: yard.start(lease),
    "renew": lambda yard, lease: yard.renew(lease),
    "complete": lambda yard, lease: yard.complete(lease),
    "fail": lambda yard, lease: yard.fail(lease),
    "release": lambda yard, lease: yard.release(lease),
    "heartbeat": lambda yard, _: yard.scheduler.heartbeat(yard.now, "host"),
    "register": lambda yard, _: yard.register(),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_a_host_counts_as_a_sign_of_life(yard, call):
    host = yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.now += 10
    CALLS[call](yard, lease)
    assert host.last_heartbeat_at == yard.now


def test_a_late_report_counts_as_a_sign_of_life(yard):
    host = yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.cancel(lease.task)
    yard.now += 10
    with pytest.raises(LeaseLost):
        yard.complete(lease)
    assert host.last_heartbeat_at == yard.now


# What a host says of itself


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


def test_a_host_is_dead_once_it_is_silent_for_over_twice_the_time_out(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    host = yard.register()
    yard.now += 120
    assert status(yard, host) != "dead"
    yard.now += 0.001
    assert status(yard, host) == "dead"
    yard.scheduler.heartbeat(yard.now, "host")
    assert status(yard, host) != "dead"


def test_a_host_without_leases_is_idle_and_one_whose_slots_are_all_taken_is_busy(yard):
    host = yard.scheduler.register(yard.now, "host", None, HostProfile(), slots=2)
    for _ in range(2):
        yard.submit()
    statuses = [status(yard, host)]
    for _ in range(2):
        yard.claim_one()
        statuses.append(status(yard, host))
    assert statuses == ["idle", "alive", "busy"]


def test_a_host_that_did_not_say_how_many_slots_it_has_is_never_busy_by_itself(yard):
    host = yard.register()
    for _ in range(50):
        yard.submit()
    yard.claim(count=50)
    assert (host.slots, status(yard, host)) == (None, "alive")


def test_a_host_is_what_it_says_of_itself_unless_it_is_dead(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    host = yard.register()
    yard.scheduler.heartbeat(yard.now, "host", HostStatus.BUSY)
    assert status(yard, host) == "busy"
    yard.now += 121
    assert status(yard, host) == "dead"
    yard.scheduler.heartbeat(yard.now, "host")
    assert status(yard, host) == "idle"


def test_the_last_figures_of_a_hosts_machine_are_kept_and_never_opened(yard):
    host = yard.register()
    yard.scheduler.heartbeat(yard.now, "host", machine=b"\xffcpu")
    yard.scheduler.heartbeat(yard.now, "host")
    assert host.machine == b"\xffcpu"


# Drain of one host


def test_a_draining_host_gets_nothing_new_and_may_finish_what_it_holds(yard):
    yard.register()
    yard.register("other")
    for _ in range(2):
        yard.submit()
    lease = yard.claim_one()
    assert yard.scheduler.drain_host("host").draining
    assert yard.claim() == []
    yard.start(lease)
    yard.renew(lease)
    assert yard.complete(lease).state == "done"
    assert len(yard.claim("other")) == 1


def test_a_draining_host_that_registers_again_gets_tasks_again(yard):
    yard.register()
    yard.submit()
    yard.scheduler.drain_host("host")
    assert not yard.register().draining
    assert len(yard.claim()) == 1


def test_draining_a_host_that_is_not_registered_is_not_found(yard):
    with pytest.raises(NotFound, match="runtime host not found"):
        yard.scheduler.drain_host("stranger")


def test_no_limit_is_said_to_hold_up_a_draining_host(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    for _ in range(2):
        yard.submit()
    yard.claim(count=2)
    assert yard.scheduler.stats().limited_by == "maxInflight"
    yard.scheduler.drain_host("host")
    yard.claim(count=2)
    assert yard.scheduler.stats().limited_by is None


# The tab executor, a host in the server's process


@pytest.fixture
def executor(make_yard):
    """A yard with the tab executor, tasks of every kind, and hosts that are offline after 60 s."""
    yard = make_yard(heartbeat_timeout_secs=60, default_deadline_secs=10_000)
    yard.register("tabs", built_in=True)
    for name, tab_id, requires in [
        ("tab", "tab", ()),
        ("plain", None, ()),
        ("gpu", None, ("gpu",)),
        ("tab and gpu", "tab", ("gpu",)),
    ]:
        yard.submit(action=name, tab_id=tab_id, requires=frozenset(requires))
    return yard


def taken(yard, host="tabs"):
    """What the executor takes now; it is given back at once."""
    leases = yard.claim(host, 10)
    for lease in leases:
        yard.release(lease)
    return [lease.task.action for lease in leases]


def test_while_no_runtime_host_is_online_the_tab_executor_takes_tabs_and_tasks_that_ask_for_nothing(executor):
    assert taken(executor) == ["tab", "plain"]


def test_while_a_runtime_host_is_online_the_tab_executor_takes_tabs_only(executor):
    executor.register("host")
    assert taken(executor) == ["tab"]


def test_a_runtime_host_is_online_until_the_time_out_after_its_last_sign_of_life(executor):
    executor.register("host")
    executor.pass_time(60)
    assert taken(executor) == ["tab"]
    executor.pass_time(0.125)
    assert taken(executor) == ["tab", "plain"]
    executor.scheduler.heartbeat(executor.now, "host")
    assert taken(executor) == ["tab"]


def test_one_runtime_host_of_many_is_enough(executor):
    executor.register("one")
    executor.pass_time(50)
    executor.register("two")
    executor.pass_time(50)
    assert taken(executor) == ["tab"]
    executor.deregister("two")
    assert taken(executor) == ["tab", "plain"]


def test_with_the_last_runtime_host_deregistered_the_tab_executor_takes_plain_tasks_again(executor):
    executor.register("one")
    executor.register("two")
    executor.deregister("one")
    assert taken(executor) == ["tab"]
    executor.deregister("two")
    assert taken(executor) == ["tab", "plain"]


def test_the_tab_executor_itself_is_no_runtime_host(executor):
    executor.scheduler.heartbeat(executor.now, "tabs")
    executor.register("other tabs", built_in=True)
    assert taken(executor) == taken(executor, "other tabs") == ["tab", "plain"]


def test_a_host_that_cannot_run_plain_tasks_keeps_the_tab_executor_off_them_all_the_same(executor):
    """Online is online: DESIGN speaks of any runtime host."""
    executor.register("host", project="red")
    assert taken(executor) == ["tab"]


def test_a_runtime_host_takes_tasks_with_and_without_a_tab(executor):
    executor.register("host", "gpu")
    assert taken(executor, "host") == ["tab", "plain", "gpu", "tab and gpu"]


def test_a_new_heartbeat_time_out_holds_at_once(executor):
    executor.register("host")
    executor.pass_time(30)
    executor.reconfigure(heartbeat_timeout_secs=10)
    assert taken(executor) == ["tab", "plain"]
