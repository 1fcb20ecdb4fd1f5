"""A target stays taken while work on a stopped task may still go on (docs/rules.md, Stopping leases)."""

import pytest

from taskyard_server.core.streams import Hello
from taskyard_server.core.targets import TargetStatus
from tests.core.target_yard import TargetYard


@pytest.fixture
def yard():
    return TargetYard()


def cancel(yard, lease):
    yard.cancel(lease.task)


def pause(yard, lease):
    yard.pause(lease.task)
    yard.cancel(lease.task)


def pass_the_deadline(yard, lease):
    yard.pass_time(lease.task.deadline - yard.now + 0.2)
    yard.cancel(lease.task) if yard.scheduler.targets.blocks(lease.task) else None


def deregister(yard, lease):
    yard.deregister(lease.host.id)
    yard.cancel(lease.task)


STOPS = [cancel, pause, pass_the_deadline, deregister]


def stop_one(yard, how, started=True):
    """The lease of a task that was stopped, and the task behind it."""
    yard.serial(deadline=yard.now + 20)
    behind = yard.serial()
    lease = yard.start_one() if started else yard.claim_one()
    how(yard, lease)
    return lease, behind


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("started", [True, False], ids=["running", "assigned"])
def test_a_stopped_task_keeps_its_target_until_its_host_reports_that_it_stopped(yard, how, started):
    lease, behind = stop_one(yard, how, started)
    assert yard.claimed() == []
    assert yard.standing() == (TargetStatus.STOPPING, lease.task)
    yard.report_stopped(lease)
    assert yard.claimed() == [behind]


@pytest.mark.parametrize("how", STOPS)
def test_a_stopped_task_keeps_its_target_no_longer_than_until_its_lease_would_have_ended(yard, how):
    lease, behind = stop_one(yard, how)
    yard.pass_time(lease.expires_at - yard.now)
    assert yard.claimed() == []
    yard.pass_time(0.2)
    assert yard.claimed() == [behind]


@pytest.mark.parametrize("how", STOPS)
def test_only_its_own_host_can_report_that_a_task_has_stopped_and_only_with_its_token(yard, how):
    lease, _ = stop_one(yard, how)
    yard.scheduler.reports.stopped(yard.now, "other", lease.task.id, lease.token)
    yard.scheduler.reports.stopped(yard.now, "host", lease.task.id, lease.token + 1)
    yard.scheduler.reports.stopped(yard.now, "host", "tsk_0", lease.token)
    assert yard.claimed() == []


def test_a_task_that_is_paused_and_resumed_at_once_does_not_run_beside_itself(yard):
    task = yard.serial()
    lease = yard.start_one()
    yard.resume(yard.pause(task))
    assert yard.claimed() == []
    assert yard.standing() == (TargetStatus.STOPPING, task)
    yard.report_stopped(lease)
    assert yard.claimed() == [task]


def test_a_host_that_reports_the_end_itself_frees_the_target_at_once(yard):
    yard.serial()
    behind = yard.serial()
    yard.complete(yard.start_one())
    assert yard.claimed() == [behind]


def hello(*held, host_id="streamer", instance="i1"):
    return Hello(host_id, instance, held=held)


def run_on_stream(yard):
    """A stream, and the lease of a task that its host started."""
    stream = yard.scheduler.connect(yard.now, hello()).offer
    yard.scheduler.give_credit(yard.now, stream, 1)
    ((lease,),) = yard.scheduler.dispatch(yard.now).values()
    yard.start(lease)
    return stream, lease


@pytest.mark.parametrize("instance", ["i1", "i2"])
def test_a_host_that_reconnects_without_listing_a_stopped_task_frees_its_target(yard, instance):
    yard.serial()
    behind = yard.serial()
    stream, lease = run_on_stream(yard)
    yard.cancel(lease.task)
    yard.scheduler.disconnect(yard.now, stream)
    assert yard.claimed() == []
    yard.scheduler.connect(yard.now, hello(instance=instance))
    assert yard.claimed() == [behind]


def test_a_host_that_reconnects_and_still_works_on_a_stopped_task_keeps_its_target(yard):
    yard.serial()
    behind = yard.serial()
    stream, lease = run_on_stream(yard)
    yard.cancel(lease.task)
    yard.scheduler.disconnect(yard.now, stream)
    welcome = yard.scheduler.connect(yard.now, hello((lease.task.id, lease.token)))
    assert welcome.lost == [(lease.task.id, lease.token)]
    assert yard.claimed() == []
    yard.report_stopped(lease)
    assert yard.claimed() == [behind]


def test_a_new_stream_frees_no_target_of_a_lease_that_was_claimed_by_a_call(yard):
    yard.serial()
    yard.serial()
    yard.register("streamer")
    lease = yard.start_one("streamer")
    yard.cancel(lease.task)
    yard.scheduler.connect(yard.now, hello())
    assert yard.claimed() == []


def test_a_task_that_was_handed_out_and_not_started_in_time_is_claimable_at_once(make_yard):
    yard = make_yard(start_timeout_secs=5.0)
    task = yard.submit(target="t")
    stream = yard.scheduler.connect(yard.now, hello()).offer
    yard.scheduler.give_credit(yard.now, stream, 1)
    yard.scheduler.dispatch(yard.now)
    yard.pass_time(5.2)
    yard.register()
    assert (task.state, task.error) == ("queued", None)
    assert yard.claim_one().task is task
