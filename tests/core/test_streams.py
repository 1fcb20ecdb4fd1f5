"""The stream of a host: who may open it, and what outlives its break (docs/rules.md, Host stream)."""

import pytest

from taskyard_server.core.errors import AlreadyExists, BadRequest, LeaseLost
from taskyard_server.core.hosts import HostProfile, HostStatus
from taskyard_server.core.streams import Hello
from tests.core.yard import TICK

# Opening


def test_a_stream_registers_its_host(yard):
    hello = Hello("h1", "process 1", HostProfile(frozenset({"gpu"})), "Host One", 4, (("zone", "eu"),), machine=b"cpu")
    welcome = yard.scheduler.connect(yard.now, hello)
    (host,) = yard.scheduler.hosts
    assert (host.id, host.display_name, host.slots, host.labels) == ("h1", "Host One", 4, (("zone", "eu"),))
    assert (host.profile, host.machine, host.instance) == (hello.profile, b"cpu", "process 1")
    assert host.stream is welcome.offer
    assert (welcome.kept, welcome.lost) == ([], [])


@pytest.mark.parametrize(("lease_secs", "timeout", "beat"), [(60, 90, 20), (90, 60, 20), (None, 6, 2)])
def test_heartbeats_come_at_a_third_of_the_shorter_of_lease_and_host_time_out(make_yard, lease_secs, timeout, beat):
    yard = make_yard(heartbeat_timeout_secs=timeout, lease_secs=60)
    assert yard.connect(lease_secs=lease_secs).heartbeat_secs == beat


@pytest.mark.parametrize("secs", [0.5, 3601])
def test_a_stream_with_leases_outside_of_one_second_to_an_hour_is_refused_and_changes_nothing(yard, watch, secs):
    yard.stream()
    changes = watch(yard.scheduler)
    with pytest.raises(BadRequest, match="lease_secs"):
        yard.connect(lease_secs=secs)
    assert changes() == []


def test_leases_of_a_stream_have_the_length_of_its_hello(yard):
    yard.stream(lease_secs=30)
    yard.submit()
    assert yard.dispatch_one().expires_at == yard.now + 30


def test_a_new_stream_is_handed_nothing_until_it_gives_credit(yard):
    stream = yard.stream(credit=0)
    yard.submit()
    assert yard.dispatch() == []
    yard.give_credit(stream)
    assert len(yard.dispatch()) == 1


def test_a_second_stream_of_the_same_instance_supersedes_the_first(yard):
    first = yard.stream(credit=5)
    second = yard.stream(credit=1)
    for _ in range(3):
        yard.submit()
    given = yard.scheduler.dispatch(yard.now)
    assert (list(given), len(given[second])) == ([second], 1)
    assert first.room == 0


def test_another_instance_is_refused_while_the_stream_lives_and_changes_nothing(make_yard, watch):
    yard = make_yard(heartbeat_timeout_secs=60)
    yard.stream(lease_secs=30)
    yard.now += 20
    changes = watch(yard.scheduler)
    with pytest.raises(AlreadyExists, match="host_id"):
        yard.connect(instance="process 2")
    assert changes() == []


def test_another_instance_takes_over_from_a_stream_that_missed_two_heartbeats(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    _, lease = yard.work_on_stream(lease_secs=30)
    yard.now += 20 + 0.001
    welcome = yard.connect(instance="process 2", credit=1)
    assert lease.host.stream is welcome.offer
    assert lease.task.state == "queued"


def test_another_instance_takes_over_at_once_from_a_stream_that_broke(yard):
    yard.disconnect(yard.stream())
    assert yard.connect(instance="process 2").offer.host.instance == "process 2"


@pytest.mark.parametrize("sign", ["beat", "credit", "heartbeat", "start"])
def test_every_sign_of_life_of_its_host_keeps_a_stream_alive(yard, sign):
    stream = yard.stream(lease_secs=30)
    yard.submit()
    lease = yard.dispatch_one()
    signs = {
        "beat": lambda: yard.beat(stream),
        "credit": lambda: yard.give_credit(stream),
        "heartbeat": lambda: yard.scheduler.heartbeat(yard.now, "host"),
        "start": lambda: yard.start(lease),
    }
    yard.now += 15
    signs[sign]()
    yard.now += 15
    with pytest.raises(AlreadyExists):
        yard.connect(instance="process 2")


# Adoption


def test_a_host_that_is_back_in_time_keeps_the_leases_that_it_lists(make_yard):
    yard = make_yard(reconnect_grace_secs=5)
    stream, lease = yard.work_on_stream()
    yard.disconnect(stream)
    yard.pass_time(5)
    welcome = yard.connect(held=[lease])
    assert (welcome.kept, welcome.lost) == ([lease], [])
    assert lease.expires_at == yard.now + 60
    yard.pass_time(59)
    assert yard.complete(lease).state == "done"


def test_a_host_that_supersedes_its_stream_keeps_the_leases_that_it_lists(yard):
    _, lease = yard.work_on_stream()
    assert yard.connect(held=[lease]).kept == [lease]
    yard.pass_time(30)
    assert yard.complete(lease).state == "done"
    assert yard.stops() == []


def test_leases_of_an_earlier_stream_that_are_not_listed_are_lost_at_once(yard):
    _, lease = yard.work_on_stream()
    welcome = yard.connect()
    assert (welcome.kept, welcome.lost) == ([], [])
    assert (lease.task.state, lease.task.error, lease.task.deliveries) == ("queued", None, 1)
    assert lease.task.history.attempts[-1].error == "lease expired"
    with pytest.raises(LeaseLost):
        yard.complete(lease)


def test_leases_that_were_claimed_need_no_listing(yard):
    yard.stream(credit=0)
    yard.submit()
    lease = yard.claim_one()
    assert yard.connect().kept == []
    assert yard.complete(lease).state == "done"


def test_a_claimed_lease_that_is_listed_becomes_one_of_the_stream(make_yard):
    yard = make_yard(reconnect_grace_secs=5)
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.start(lease)
    yard.disconnect(yard.connect(held=[lease]).offer)
    yard.pass_time(5 + TICK)
    assert lease.task.state == "queued"


def test_a_lease_of_another_token_or_host_or_of_no_task_is_lost(yard):
    _, lease = yard.work_on_stream()
    yard.register("other")
    yard.submit("bob")
    foreign = yard.claim_one("other")
    held = [(lease.task.id, lease.token + 1), (foreign.task.id, foreign.token), ("tsk_nope", 1)]
    welcome = yard.connect(held=held)
    assert (welcome.kept, welcome.lost) == ([], held)
    assert lease.task.state == "queued"
    assert foreign.task.lease is foreign


@pytest.mark.parametrize("order", [1, -1])
def test_a_host_that_lists_two_tokens_of_a_task_keeps_the_present_lease(yard, order):
    _, lease = yard.work_on_stream()
    held = [(lease.task.id, lease.token), (lease.task.id, lease.token - 1)][::order]
    welcome = yard.connect(held=held)
    assert (welcome.kept, welcome.lost) == ([lease], [(lease.task.id, lease.token - 1)])


def test_an_adopted_lease_that_was_not_started_has_its_whole_start_time_again(make_yard):
    yard = make_yard(start_timeout_secs=10)
    yard.stream()
    yard.submit()
    lease = yard.dispatch_one()
    yard.pass_time(9)
    yard.connect(held=[lease])
    yard.pass_time(9)
    assert lease.task.state == "assigned"
    yard.pass_time(1 + TICK)
    assert lease.task.state == "queued"


# A break


def test_started_work_outlives_a_break_for_the_grace_and_ends_as_an_expired_lease(make_yard):
    yard = make_yard(reconnect_grace_secs=5, max_deliveries=2)
    stream, lease = yard.work_on_stream()
    task = lease.task
    yard.disconnect(stream)
    yard.pass_time(5)
    assert task.state == "running"
    yard.pass_time(TICK)
    assert (task.state, task.error, task.deliveries) == ("queued", None, 1)
    stream = yard.stream()
    yard.start(yard.dispatch_one())
    yard.disconnect(stream)
    yard.pass_time(5 + TICK)
    assert (task.state, task.error, task.deliveries) == ("failed", "lease expired", 2)


def test_no_lease_outlives_its_own_end_by_the_grace(make_yard):
    yard = make_yard(reconnect_grace_secs=60)
    stream, lease = yard.work_on_stream(lease_secs=10)
    yard.disconnect(stream)
    yard.pass_time(10 + TICK)
    assert lease.task.state == "queued"


def test_work_that_was_not_started_before_a_break_goes_back_uncounted(make_yard):
    yard = make_yard(reconnect_grace_secs=5)
    stream = yard.stream()
    task = yard.submit()
    lease = yard.dispatch_one()
    yard.disconnect(stream)
    yard.pass_time(5 + TICK)
    assert (task.state, task.error, task.deliveries) == ("queued", None, 0)
    assert yard.stops() == [(lease, "lease_ended", "not started by its host")]


def test_a_report_during_the_grace_is_taken(make_yard):
    yard = make_yard(reconnect_grace_secs=5)
    stream, lease = yard.work_on_stream()
    yard.disconnect(stream)
    yard.pass_time(4)
    assert yard.complete(lease).state == "done"


def test_the_break_of_a_superseded_stream_touches_nothing(yard, watch):
    first, lease = yard.work_on_stream()
    yard.connect(held=[lease])
    changes = watch(yard.scheduler)
    yard.disconnect(first)
    assert changes() == []


def test_a_claim_is_not_touched_by_the_break_of_a_stream(make_yard):
    yard = make_yard(reconnect_grace_secs=5)
    stream = yard.stream(credit=0)
    yard.submit()
    lease = yard.claim_one()
    yard.disconnect(stream)
    yard.pass_time(30)
    assert lease.task.lease is lease


# Starting in time


def test_a_task_that_is_not_started_in_time_goes_back_and_is_not_counted_as_delivered(make_yard):
    yard = make_yard(start_timeout_secs=10, max_deliveries=1)
    stream = yard.stream()
    task = yard.submit(deadline=yard.now + 1_000)
    for _ in range(3):
        lease = yard.dispatch_one()
        yard.pass_time(10)
        assert task.state == "assigned"
        yard.pass_time(TICK)
        assert (task.state, task.error, task.deliveries) == ("queued", None, 0)
        assert yard.stops() == [(lease, "lease_ended", "not started by its host")]
        yard.give_credit(stream)
        # Until its host has rested.
        yard.pass_time(10)


def test_a_claimed_task_has_until_the_end_of_its_lease_to_start(make_yard):
    yard = make_yard(start_timeout_secs=10)
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.pass_time(59)
    assert yard.start(lease).state == "running"


def test_a_started_task_has_no_start_to_miss(make_yard):
    yard = make_yard(start_timeout_secs=10)
    _, lease = yard.work_on_stream()
    yard.pass_time(59)
    assert lease.task.state == "running"


# Heartbeats


def test_a_heartbeat_renews_just_the_leases_that_it_lists(yard):
    stream, listed = yard.work_on_stream(credit=2)
    yard.submit(deadline=yard.now + 1_000)
    left_out = yard.dispatch_one()
    yard.start(left_out)
    yard.pass_time(50)
    assert yard.beat(stream, listed) == []
    assert (listed.expires_at, left_out.expires_at) == (yard.now + 60, yard.now + 10)
    yard.pass_time(10 + TICK)
    assert (listed.task.state, left_out.task.state) == ("running", "queued")


def test_a_heartbeat_never_shortens_a_lease(yard):
    stream, lease = yard.work_on_stream()
    yard.renew(lease, 3600)
    until = lease.expires_at
    yard.renew(lease, 10)
    yard.beat(stream, lease)
    assert lease.expires_at == until


def test_a_heartbeat_answers_the_leases_that_have_ended(yard):
    stream, lease = yard.work_on_stream()
    yard.cancel(lease.task)
    held = [(lease.task.id, lease.token), ("tsk_nope", 7)]
    assert yard.beat(stream, *held) == held


def test_a_heartbeat_reports_the_status_and_the_machine_figures_of_its_host(yard):
    stream = yard.stream()
    yard.scheduler.beat(yard.now, stream, [], HostStatus.BUSY, b"cpu")
    assert (stream.host.reported_status, stream.host.machine) == ("busy", b"cpu")
    yard.scheduler.beat(yard.now, stream, [])
    assert (stream.host.reported_status, stream.host.machine) == (None, b"cpu")
