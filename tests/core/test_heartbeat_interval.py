"""A changed heartbeat time-out holds for streams that are connected (docs/rules.md, Heartbeats)."""

import pytest

from taskyard_server.core.errors import AlreadyExists


def test_the_interval_of_a_connected_stream_follows_the_time_out(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    welcome = yard.connect(lease_secs=90)
    assert welcome.heartbeat_secs == yard.scheduler.heartbeat_secs(welcome.offer) == 20
    yard.reconfigure(heartbeat_timeout_secs=6)
    assert yard.scheduler.heartbeat_secs(welcome.offer) == 2
    yard.reconfigure(heartbeat_timeout_secs=600)
    assert yard.scheduler.heartbeat_secs(welcome.offer) == 30, "a third of the lease, which is shorter now"


def test_the_interval_stays_where_the_lease_is_the_shorter(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    stream = yard.stream(lease_secs=9)
    yard.reconfigure(heartbeat_timeout_secs=10)
    assert yard.scheduler.heartbeat_secs(stream) == 3


def is_handed_a_task(yard):
    yard.submit(deadline=yard.now + 1_000)
    return len(yard.dispatch()) == 1


@pytest.mark.parametrize(("silence", "handed"), [(4, True), (4.001, False)])
def test_a_lowered_time_out_shortens_the_silence_that_a_stream_may_have(make_yard, silence, handed):
    yard = make_yard(heartbeat_timeout_secs=60)
    yard.stream(lease_secs=90)
    yard.reconfigure(heartbeat_timeout_secs=6)
    yard.now += silence
    assert is_handed_a_task(yard) is handed


def test_a_stream_whose_silence_is_too_long_by_a_lowered_time_out_is_handed_tasks_after_its_next_heartbeat(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    stream = yard.stream(lease_secs=90)
    yard.now += 15
    yard.reconfigure(heartbeat_timeout_secs=6)
    task = yard.submit()
    assert yard.dispatch() == []
    yard.beat(stream)
    assert [lease.task for lease in yard.dispatch()] == [task]


def test_a_raised_time_out_lengthens_it_and_wakes_a_stream_that_was_silent_for_too_long(make_yard):
    yard = make_yard(heartbeat_timeout_secs=6)
    yard.stream(lease_secs=90)
    yard.now += 10
    yard.submit(deadline=yard.now + 1_000)
    assert yard.dispatch() == []
    yard.reconfigure(heartbeat_timeout_secs=60)
    assert len(yard.dispatch()) == 1


@pytest.mark.parametrize(("before", "after", "taken_over"), [(60, 6, True), (6, 60, False)])
def test_another_instance_takes_over_by_the_present_time_out(make_yard, before, after, taken_over):
    yard = make_yard(heartbeat_timeout_secs=before)
    yard.stream(lease_secs=90)
    yard.now += 10
    yard.reconfigure(heartbeat_timeout_secs=after)
    if taken_over:
        assert yard.connect(instance="process 2").offer.host.instance == "process 2"
    else:
        with pytest.raises(AlreadyExists):
            yard.connect(instance="process 2")


def test_other_changed_limits_leave_the_silence_as_it_is(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    stream = yard.stream(lease_secs=90)
    yard.reconfigure(max_inflight=5)
    assert yard.scheduler.heartbeat_secs(stream) == 20
    yard.now += 40
    assert is_handed_a_task(yard)


def test_a_stream_that_has_ended_and_a_claim_that_waits_are_not_touched(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    ended = yard.stream("gone")
    yard.disconnect(ended)
    yard.register()
    yard.offer()
    yard.reconfigure(heartbeat_timeout_secs=6)
    yard.now += 5
    assert is_handed_a_task(yard), "a claim that waits is no stream"
