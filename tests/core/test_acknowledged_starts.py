"""A lease of a stream without an acknowledged start frees its target as soon as it ends.

See docs/rules.md, Acknowledged starts.

Its host begins a task that has a target only when the start was acknowledged. Work under any other lease may go on
after its end, until the host reports that it has stopped or the time of the lease is over.
"""

import pytest

from taskyard_server.core.errors import Conflict, LeaseLost
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.process_end import end_all
from taskyard_server.core.targets import TargetStatus
from taskyard_server.core.task import TERMINAL
from tests.cases import every_case
from tests.core.target_yard import TargetYard
from tests.core.yard import TICK

DEADLINE_SECS = 50.0


class StreamYard(TargetYard):
    """A target yard with a host that has a stream, and two tasks of the target, the first one leased."""

    def __init__(self, by: str, acknowledged: bool, **options):
        super().__init__(start_timeout_secs=80, reconnect_grace_secs=5)
        self.task = self.serial(deadline=self.now + DEADLINE_SECS, **options)
        self.behind = self.serial()
        self.open = self.stream("streamer", credit=1 if by == "stream" else 0)
        self.lease = self.dispatch_one() if by == "stream" else self.claim_one("streamer")
        assert self.lease.task is self.task
        if acknowledged:
            self.start(self.lease)

    def next_tasks(self):
        """What another host may claim now. The task itself is cancelled first if it waits or blocks."""
        if self.task.state not in TERMINAL or self.scheduler.targets.blocks(self.task):
            self.cancel(self.task)
        return self.claimed()


def cancel(yard):
    yard.cancel(yard.task)


def pause(yard):
    yard.pause(yard.task)


def deadline(yard):
    yard.pass_time(DEADLINE_SECS + TICK)
    assert yard.task.error == "deadline exceeded"


def deregistration(yard):
    yard.deregister("streamer")


def silence(yard):
    yard.reconfigure(heartbeat_timeout_secs=2)
    yard.pass_time(4 + TICK)
    assert yard.lease.host.leases == {}


def host_drain(yard):
    yard.scheduler.drain_host("streamer", yard.now + 1)
    yard.pass_time(1 + TICK)
    assert yard.task.state == "paused"


def shutdown(yard):
    end_all(yard.scheduler, yard.now)


WAYS = [cancel, pause, deadline, deregistration, silence, host_drain]


@every_case("end", WAYS)
def test_a_lease_of_a_stream_without_an_acknowledged_start_frees_its_target_at_once(end):
    yard = StreamYard("stream", acknowledged=False)
    end(yard)
    assert yard.standing()[0] is not TargetStatus.STOPPING
    assert yard.next_tasks() == [yard.behind]


@every_case("end", WAYS)
@every_case(("by", "acknowledged"), [("stream", True), ("call", True), ("call", False)])
def test_an_acknowledged_lease_and_one_of_a_call_keep_their_target_until_their_host_has_stopped(end, by, acknowledged):
    yard = StreamYard(by, acknowledged)
    end(yard)
    assert yard.next_tasks() == []
    assert yard.standing() == (TargetStatus.STOPPING, yard.task)
    yard.report_stopped(yard.lease)
    assert yard.claimed() == [yard.behind]


@every_case("end", WAYS)
@every_case(("by", "acknowledged"), [("stream", True), ("call", True), ("call", False)])
def test_they_keep_it_no_longer_than_their_lease_would_have_lasted(end, by, acknowledged):
    yard = StreamYard(by, acknowledged)
    end(yard)
    yard.pass_time(yard.lease.expires_at - yard.now)
    assert yard.next_tasks() == []
    yard.pass_time(TICK)
    assert yard.claimed() == [yard.behind]


@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_broken_stream_frees_the_target_of_an_unacknowledged_lease_when_its_grace_is_over(acknowledged):
    yard = StreamYard("stream", acknowledged)
    yard.disconnect(yard.open)
    yard.pass_time(5)
    assert yard.task.lease is yard.lease, "the host may come back"
    yard.pass_time(TICK)
    assert yard.task.lease is None
    assert yard.next_tasks() == ([] if acknowledged else [yard.behind])


@pytest.mark.parametrize("instance", ["process 1", "process 2"])
@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_host_that_comes_back_without_the_lease_frees_the_target_in_both_cases(instance, acknowledged):
    yard = StreamYard("stream", acknowledged)
    yard.disconnect(yard.open)
    yard.connect("streamer", instance=instance)
    assert yard.next_tasks() == [yard.behind]


def test_a_task_that_is_not_started_in_time_is_claimable_at_once():
    yard = StreamYard("stream", acknowledged=False)
    yard.reconfigure(start_timeout_secs=20)
    yard.release(yard.lease)
    yard.give_credit(yard.open)
    yard.lease = yard.dispatch_one()
    yard.pass_time(20 + TICK)
    assert yard.claimed() == [yard.task]


def test_a_shutdown_leaves_no_target_taken_by_an_unacknowledged_lease():
    yard = StreamYard("stream", acknowledged=False)
    shutdown(yard)
    assert yard.standing() == (TargetStatus.BLOCKED, yard.task)
    assert yard.scheduler._life.grants.stopping.of("streamer") == []


# What counts as an acknowledged start


def start(yard):
    yard.start(yard.lease)


def progress(yard):
    yard.progress(yard.lease, b"half")


def renewal_with_tokens(yard):
    yard.renew(yard.lease, tokens=5)


def repeated_start(yard):
    yard.start(yard.lease)
    with pytest.raises(Conflict):
        yard.start(yard.lease)


@pytest.mark.parametrize("report", [start, progress, renewal_with_tokens, repeated_start])
def test_every_report_that_counts_as_a_start_keeps_the_target(report):
    yard = StreamYard("stream", acknowledged=False)
    report(yard)
    yard.cancel(yard.task)
    assert yard.claimed() == []


def wrong_token(yard):
    with pytest.raises(LeaseLost):
        yard.scheduler.reports.start(yard.now, "streamer", yard.task.id, yard.lease.token + 1)


def another_host(yard):
    with pytest.raises(LeaseLost):
        yard.scheduler.reports.start(yard.now, "other", yard.task.id, yard.lease.token)


def renewal(yard):
    yard.renew(yard.lease)


def heartbeat(yard):
    yard.beat(yard.open, yard.lease, tokens=[(yard.task.id, yard.lease.token, 5)])


def adoption(yard):
    yard.disconnect(yard.open)
    assert yard.connect("streamer", held=[yard.lease]).kept == [yard.lease]


@every_case("report", [wrong_token, another_host, renewal, heartbeat, adoption])
def test_nothing_else_does(report):
    yard = StreamYard("stream", acknowledged=False)
    report(yard)
    assert yard.lease.started_at is None
    yard.cancel(yard.task)
    assert yard.claimed() == [yard.behind]


def test_a_start_that_comes_after_the_lease_has_ended_is_refused_and_the_next_task_runs_alone():
    """The cancellation and the start report cross on the wire."""
    yard = StreamYard("stream", acknowledged=False)
    yard.cancel(yard.task)
    assert yard.claimed() == [yard.behind]
    with pytest.raises(LeaseLost):
        yard.start(yard.lease)
    assert yard.standing() == (TargetStatus.RUNNING, yard.behind)


def test_a_stop_of_a_freed_lease_that_its_host_reports_later_frees_nothing_else():
    yard = StreamYard("stream", acknowledged=False)
    yard.cancel(yard.task)
    third = yard.serial()
    assert yard.claimed() == [yard.behind]
    yard.report_stopped(yard.lease)
    assert yard.claimed() == []
    assert third.state == "queued"


def test_each_lease_of_a_task_needs_a_start_of_its_own():
    yard = StreamYard("stream", acknowledged=True)
    yard.release(yard.lease)
    yard.give_credit(yard.open)
    second = yard.dispatch_one()
    assert (second.task, second.started_at) == (yard.task, None)
    yard.cancel(yard.task)
    assert yard.claimed() == [yard.behind]


def test_a_failure_without_a_start_lets_the_next_attempt_run_alone():
    yard = StreamYard("stream", acknowledged=False, retry=RetryPolicy(2, 1.0))
    yard.fail(yard.lease)
    assert yard.standing() == (TargetStatus.WAITING, yard.task)
    yard.pass_time(1 + TICK)
    assert yard.claimed() == [yard.task]


def test_after_an_adopted_start_the_target_is_kept_over_the_next_break():
    yard = StreamYard("stream", acknowledged=False)
    yard.disconnect(yard.open)
    again = yard.connect("streamer", held=[yard.lease]).offer
    yard.start(yard.lease)
    yard.disconnect(again)
    yard.pass_time(5 + TICK)
    assert yard.next_tasks() == []


def test_an_unacknowledged_lease_whose_start_is_reported_in_the_grace_is_acknowledged():
    """The start report may come by a call while the stream is broken."""
    yard = StreamYard("stream", acknowledged=False)
    yard.disconnect(yard.open)
    yard.pass_time(4)
    yard.start(yard.lease)
    yard.pass_time(2)
    assert yard.task.lease is None
    assert yard.next_tasks() == []
