"""Where a task goes whose lease ran out: to another host, else after a rest (docs/rules.md, Redelivery)."""

from itertools import pairwise

import pytest

from tests.core.yard import TICK

FAR = 100_000
LEASE_SECS = 5


@pytest.fixture
def roomy_yard(make_yard):
    """A yard in which a task may be handed out many times, and no host is dead while its stream stands."""
    return make_yard(max_deliveries=100, heartbeat_timeout_secs=3600)


def hung(yard, stream, secs=6):
    """Let a host start its task and then block its loop for so long: it is heard of again after that."""
    lease = yard.dispatch_one()
    yard.start(lease)
    yard.pass_time(secs)
    yard.beat(stream, lease)
    return lease


def handed_after(yard, stream, limit_secs=200.0):
    """The seconds until a task is handed out to the host, whose heartbeats come on time."""
    began = yard.now
    while not (leases := yard.dispatch()):
        yard.pass_time(TICK)
        yard.beat(stream)
        assert yard.now - began < limit_secs
    return yard.now - began, leases[0]


def test_a_task_whose_lease_ran_out_goes_to_another_host(roomy_yard):
    yard = roomy_yard
    first = yard.stream("first", lease_secs=LEASE_SECS)
    task = yard.submit(deadline=yard.now + FAR)
    hung(yard, first)
    yard.stream("second")
    yard.submit(deadline=yard.now + FAR)
    # The first is heard of again and has given credit, yet nothing more goes to it.
    yard.give_credit(first, 5)
    assert [lease.host.id for lease in yard.dispatch()] == ["second"]
    assert task.host_id == "second"


def test_a_handler_that_blocks_its_host_is_not_handed_the_task_five_times_at_once(roomy_yard):
    yard = roomy_yard
    stream = yard.stream(credit=1, lease_secs=LEASE_SECS)
    task = yard.submit(deadline=yard.now + FAR)
    lease = yard.dispatch_one()
    waits = []
    for _ in range(5):
        yard.start(lease)
        yard.pass_time(LEASE_SECS + TICK)
        assert task.state == "queued"
        lost_at = yard.now
        yard.give_credit(stream)
        _, lease = handed_after(yard, stream)
        waits.append(lease.claimed_at - lost_at)
    assert waits == pytest.approx([2, 4, 8, 16, 32], abs=2 * TICK)


def test_the_longest_rest_is_a_minute(roomy_yard):
    yard = roomy_yard
    stream = yard.stream(credit=20, lease_secs=LEASE_SECS)
    yard.submit(deadline=yard.now + FAR)
    waits = []
    for _ in range(9):
        secs, lease = handed_after(yard, stream)
        waits.append(secs)
        yard.start(lease)
        yard.pass_time(LEASE_SECS + TICK)
    assert all(before <= after for before, after in pairwise(waits))
    assert waits[-3:] == pytest.approx([60, 60, 60], abs=2 * TICK)


def test_leases_that_run_out_together_are_one_loss(roomy_yard):
    yard = roomy_yard
    stream = yard.stream(credit=10, lease_secs=LEASE_SECS)
    for _ in range(10):
        yard.submit(deadline=yard.now + FAR)
    for lease in yard.dispatch():
        yard.start(lease)
    yard.pass_time(LEASE_SECS + TICK)
    yard.give_credit(stream)
    secs, _ = handed_after(yard, stream)
    assert secs == pytest.approx(2, abs=2 * TICK)


def test_a_completed_report_sets_the_count_back(roomy_yard):
    yard = roomy_yard
    stream = yard.stream(credit=20, lease_secs=LEASE_SECS)
    yard.submit(deadline=yard.now + FAR)
    for _ in range(4):
        _, lease = handed_after(yard, stream)
        yard.start(lease)
        yard.pass_time(LEASE_SECS + TICK)
    _, lease = handed_after(yard, stream)
    yard.start(lease)
    yard.complete(lease)
    yard.submit(deadline=yard.now + FAR)
    hung(yard, stream)
    secs, _ = handed_after(yard, stream)
    assert secs == pytest.approx(2, abs=2 * TICK)


def test_a_task_that_was_not_started_in_time_is_a_loss(roomy_yard):
    yard = roomy_yard
    stream = yard.stream(credit=5)
    yard.submit(deadline=yard.now + FAR)
    lease = yard.dispatch_one()
    while lease.task.lease is lease:
        yard.pass_time(TICK)
        yard.beat(stream, lease)
    secs, _ = handed_after(yard, stream)
    assert secs == pytest.approx(2, abs=2 * TICK)


def test_a_host_that_is_dead_with_its_stream_standing_rests_when_it_is_back(make_yard):
    yard = make_yard(heartbeat_timeout_secs=5, dead_heartbeat_threshold=1)
    stream = yard.stream(credit=5, lease_secs=60)
    yard.submit(deadline=yard.now + FAR)
    lease = yard.dispatch_one()
    yard.start(lease)
    yard.pass_time(5.5)
    assert lease.task.state == "queued"
    yard.beat(stream)
    assert yard.dispatch() == []
    assert handed_after(yard, stream)[0] == pytest.approx(2, abs=1)


def test_a_stream_that_broke_is_no_loss(roomy_yard):
    yard = roomy_yard
    stream, lease = yard.work_on_stream()
    yard.disconnect(stream)
    yard.pass_time(10)
    assert lease.task.state == "queued"
    yard.stream(held=[lease])
    assert yard.dispatched_hosts() == ["host"]


def test_a_rest_outlasts_a_reconnect_of_the_same_process(roomy_yard):
    yard = roomy_yard
    stream = yard.stream(lease_secs=LEASE_SECS)
    yard.submit(deadline=yard.now + FAR)
    hung(yard, stream, LEASE_SECS + TICK)
    yard.disconnect(stream)
    again = yard.stream(credit=1)
    assert yard.dispatch() == []
    assert handed_after(yard, again)[0] == pytest.approx(2, abs=2 * TICK)


def test_another_process_of_the_host_begins_anew(roomy_yard):
    yard = roomy_yard
    stream = yard.stream(lease_secs=LEASE_SECS)
    yard.submit(deadline=yard.now + FAR)
    lease = hung(yard, stream, LEASE_SECS + TICK)
    yard.disconnect(stream)
    yard.stream(credit=1, instance="process 2")
    assert yard.dispatched_hosts() == ["host"]
    assert lease.host.losses == 0


def test_claims_of_a_host_that_rests_are_answered(roomy_yard):
    yard = roomy_yard
    stream = yard.stream(credit=5, lease_secs=LEASE_SECS)
    task = yard.submit(deadline=yard.now + FAR)
    hung(yard, stream)
    assert yard.dispatch() == []
    assert yard.claim_one().task is task
    other = yard.submit(deadline=yard.now + FAR)
    yard.offer()
    assert yard.dispatch_one().task is other


def test_a_claimed_lease_that_runs_out_is_no_loss(roomy_yard):
    yard = roomy_yard
    stream = yard.stream(credit=0)
    yard.submit(deadline=yard.now + FAR)
    yard.claim_one(lease_secs=LEASE_SECS)
    yard.pass_time(LEASE_SECS + TICK)
    yard.give_credit(stream)
    assert yard.dispatched_hosts() == ["host"]


def test_the_end_of_a_rest_comes_due(roomy_yard):
    yard = roomy_yard
    stream = yard.stream(credit=5, lease_secs=LEASE_SECS)
    yard.submit(deadline=yard.now + FAR)
    hung(yard, stream, LEASE_SECS + TICK)
    assert yard.scheduler.next_due() == pytest.approx(yard.now + 2, abs=2 * TICK)


def test_a_host_that_is_deregistered_rests_no_more(roomy_yard):
    yard = roomy_yard
    stream = yard.stream(credit=5, lease_secs=LEASE_SECS)
    yard.submit(deadline=yard.now + FAR)
    hung(yard, stream)
    yard.deregister()
    yard.stream(credit=1)
    assert yard.dispatched_hosts() == ["host"]
