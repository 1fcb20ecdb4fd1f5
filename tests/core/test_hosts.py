"""Runtime hosts: registration, and what a host reports of itself (docs/rules.md, Registration)."""

import pytest

from taskyard_server.core.errors import LeaseLost, NotFound
from taskyard_server.core.hosts import HostFigures, HostProfile, host_figures
from taskyard_server.core.limits import Limits


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


def test_the_last_figures_of_a_hosts_machine_are_kept_and_never_opened(yard):
    host = yard.register()
    yard.scheduler.heartbeat(yard.now, "host", machine=b"\xffcpu")
    yard.scheduler.heartbeat(yard.now, "host")
    assert host.machine == b"\xffcpu"


def test_figures_leave_out_what_is_part_of_the_server_and_tell_who_is_online(yard):
    yard.scheduler.register(yard.now, "h1", None, HostProfile())
    yard.now += 10
    yard.scheduler.register(yard.now, "h2", None, HostProfile())
    limits = Limits(heartbeat_timeout_secs=10)
    assert host_figures(yard.scheduler.hosts, yard.now, limits) == HostFigures(2, 2, 0, 0, 0)
    for host in yard.scheduler.hosts:
        host.built_in = host.id == "h2"
    limits = Limits(heartbeat_timeout_secs=9)
    assert host_figures(yard.scheduler.hosts, yard.now, limits) == HostFigures(1, 0, 0, 0, 0)
