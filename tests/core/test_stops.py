"""When the host of a stream is told to stop its work, and for which reason (docs/rules.md, Host stream)."""

import pytest

from taskyard_server.core.errors import LeaseLost
from taskyard_server.core.process_end import end_all
from tests.core.yard import TICK


def ways_to_lose(yard):
    """The ways in which a lease of a stream ends without a report of its host: how, the reason and the message."""
    return {
        "cancel": (lambda lease: yard.cancel(lease.task), "cancelled", "task cancelled"),
        "deadline": (lambda _: yard.pass_time(20), "deadline_exceeded", "deadline exceeded"),
        "expiry": (lambda _: yard.pass_time(10 + TICK), "lease_ended", "lease expired"),
        "deregister": (lambda lease: yard.deregister(lease.host.id), "lease_ended", "the host was deregistered"),
        "shutdown": (lambda _: end_all(yard.scheduler, yard.now), "shutdown", "Job was interrupted by user"),
    }


@pytest.mark.parametrize("way", ["cancel", "deadline", "expiry", "deregister", "shutdown"])
def test_a_host_is_told_to_stop_a_task_that_did_not_end_by_its_report(yard, way):
    end, reason, message = ways_to_lose(yard)[way]
    yard.stream(lease_secs=30 if way == "deadline" else 10)
    yard.submit(deadline=yard.now + 15)
    lease = yard.dispatch_one()
    yard.start(lease)
    end(lease)
    assert yard.stops() == [(lease, reason, message)]
    assert yard.stops() == []


@pytest.mark.parametrize("report", ["complete", "fail", "release"])
def test_a_host_is_not_told_to_stop_a_task_whose_end_it_reported(yard, report):
    _, lease = yard.work_on_stream()
    getattr(yard, report)(lease)
    assert yard.stops() == []


def test_a_host_that_claimed_learns_of_a_cancellation_by_its_lost_lease_and_by_no_stop(yard):
    yard.stream(credit=0)
    yard.submit()
    lease = yard.claim_one()
    yard.cancel(lease.task)
    assert yard.stops() == []
    with pytest.raises(LeaseLost):
        yard.complete(lease)


def test_a_task_that_waits_ends_without_a_stop(yard):
    yard.stream(credit=0)
    yard.cancel(yard.submit())
    assert yard.stops() == []
