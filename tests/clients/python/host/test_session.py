"""The rules of the host stream, without a stream: what is held, what is said next, what is stopped."""

import pytest

from taskyard.session import Session
from taskyard.v1.lease_pb2 import Assignment, Lease
from taskyard.v1.runtime_host_pb2 import (
    Cancellation,
    HeartbeatAck,
    HeldLease,
    Report,
    ReportResult,
    ReportResults,
    TaskCompleted,
    TaskFailed,
    Welcome,
)
from taskyard.v1.task_pb2 import Error, Progress, Task

A, B, C = ("a", 1), ("b", 1), ("c", 1)


class Played:
    """A session, and the moves of its server and its handlers in short words. Leases are of 60 s, the grace is 5 s."""

    def __init__(self, slots=10, **welcome):
        self.session = Session(slots)
        self.welcome(**welcome)

    def welcome(self, *kept, at=0.0, **fields):
        leases = [Lease(task_id=task, fencing_token=token, lease_secs=60) for task, token in kept]
        told = Welcome(**{"lease_secs": 60, "reconnect_grace_ms": 5_000, "kept": leases, **fields})
        return self.session.welcomed(told, at)

    def assign(self, *keys):
        for task, token in keys:
            lease = Lease(task_id=task, fencing_token=token, lease_secs=60)
            self.session.assigned(Assignment(lease=lease, task=Task(task_id=task)))

    def turn(self):
        """Write what there is; answers what was said, and notes which handlers begin."""
        self.begun, said = [], []
        for message in self.session.turn():
            self.begun += [each.task.task_id for each in self.session.written(message)]
            if message.HasField("credit"):
                said.append(f"credit {message.credit.count}")
            else:
                said += [f"{report.task_id} {report.WhichOneof('event')}" for report in message.reports.reports]
        return said

    def begin(self, *keys):
        """Tasks that were handed out, reported as started and so answered."""
        self.assign(*keys)
        self.turn()
        self.answer(*[None] * len(keys))

    def answer(self, *errors):
        results = [ReportResult(error=error and Error(code=error, error="for a reason")) for error in errors]
        return self.session.answered(ReportResults(results=results))

    def end(self, *keys):
        for key in keys:
            self.session.ended(key, report(key, completed=TaskCompleted()))

    def beat(self, now=0.0):
        """The leases that a heartbeat lists."""
        beat = self.session.heartbeat(now, None).heartbeat
        self.sequence = beat.sequence
        return [(lease.task_id, lease.fencing_token) for lease in beat.leases]

    def acknowledge(self, *lost, sequence=None):
        ack = HeartbeatAck(
            sequence=sequence or self.sequence, lost=[HeldLease(task_id=t, fencing_token=n) for t, n in lost]
        )
        return self.session.acknowledged(ack)

    def cancel(self, key):
        return self.session.cancelled(Cancellation(task_id=key[0], fencing_token=key[1]))

    def held(self):
        return [(lease.task_id, lease.fencing_token) for lease in self.session.held()]


def report(key, **event):
    return Report(task_id=key[0], fencing_token=key[1], **event)


@pytest.fixture
def played():
    return Played()


# Credit


def test_all_slots_are_credited_at_first_and_only_once(played):
    assert played.turn() == ["credit 10"]
    assert played.turn() == []


def test_what_was_handed_out_and_what_is_credited_never_exceed_the_slots():
    played = Played(slots=3)
    assert played.turn() == ["credit 3"]
    played.assign(A, B)
    assert played.turn() == ["a started", "b started"]


def test_a_slot_is_credited_again_after_the_report_that_freed_it(played):
    played.turn()
    played.begin(A, B, C)
    played.end(A, C)
    assert played.turn() == ["a completed", "c completed", "credit 2"]


def test_a_slot_stays_taken_while_the_handler_of_a_lost_lease_runs_on(played):
    played.turn()
    played.begin(A)
    assert played.cancel(A) == [A]
    assert played.turn() == []
    played.session.ended(A, None)
    assert played.turn() == ["a released", "credit 1"]


def test_a_new_stream_begins_without_credit(played):
    played.turn()
    played.begin(A)
    played.session.broken(0.0)
    played.welcome(A)
    assert played.turn() == ["credit 9"]


# Starting


def test_a_handler_begins_only_when_its_started_report_was_written(played):
    played.turn()
    played.assign(A)
    (message,) = played.session.turn()
    assert [each.WhichOneof("event") for each in message.reports.reports] == ["started"]
    assert [each.task.task_id for each in played.session.written(message)] == ["a"]
    assert played.session.written(message) == []


def test_a_task_whose_lease_was_over_before_its_start_was_written_never_begins(played):
    """It lay in a buffer while the process stood still."""
    played.turn()
    played.assign(A)
    (message,) = played.session.turn()
    assert played.session.expired(60.0) == []
    assert played.session.written(message) == []
    assert played.turn() == ["a released", "credit 1"]


def test_a_task_that_was_cancelled_while_its_start_was_written_never_begins(played):
    played.turn()
    played.assign(A)
    (message,) = played.session.turn()
    assert played.cancel(A) == []
    assert played.session.written(message) == []
    assert played.turn() == ["a released", "credit 1"]


def test_a_task_that_was_cancelled_before_its_start_was_said_is_only_released(played):
    played.turn()
    played.assign(A)
    played.cancel(A)
    assert played.turn() == ["a released", "credit 1"]
    assert played.begun == []


def test_a_task_that_had_not_begun_when_the_stream_broke_is_forgotten(played):
    played.turn()
    played.assign(A, B)
    (message,) = played.session.turn()
    played.session.broken(0.0)
    assert played.session.written(message) == []
    assert played.held() == []
    assert played.session.is_finished


# Reports


def test_reports_of_one_turn_go_out_in_one_message_in_their_order(played):
    played.turn()
    played.begin(A, B)
    played.session.progressed(report(B, progress=Progress(fraction=0.5)))
    played.end(A, B)
    (message, _) = played.session.turn()
    said = [(each.task_id, each.WhichOneof("event")) for each in message.reports.reports]
    assert said == [("b", "progress"), ("b", "completed"), ("a", "completed")]


def test_a_later_progress_takes_the_place_of_one_that_was_not_said(played):
    played.turn()
    played.begin(A)
    for tenth in range(10):
        played.session.progressed(report(A, progress=Progress(fraction=tenth / 10)))
    (message,) = played.session.turn()
    assert [each.progress.fraction for each in message.reports.reports] == [0.9]


def test_no_message_exceeds_the_most_bytes():
    played = Played(max_message_bytes=1_000)
    played.turn()
    keys = [(f"task-{number}", 1) for number in range(8)]
    played.begin(*keys)
    result = TaskCompleted()
    result.result.string_value = "x" * 300
    for key in keys:
        played.session.ended(key, report(key, completed=result))
    said = []
    while messages := played.session.turn():
        reports = [message for message in messages if message.HasField("reports")]
        assert len(reports) <= 1
        for message in reports:
            assert message.ByteSize() <= 1_000
            said += [each.task_id for each in message.reports.reports]
    assert said == [key[0] for key in keys]


def test_a_result_that_fits_no_message_fails_its_task_alone():
    played = Played(max_message_bytes=1_000)
    played.turn()
    played.begin(A, B)
    result = TaskCompleted()
    result.result.string_value = "x" * 1_000
    played.session.ended(A, report(A, completed=result))
    played.end(B)
    (message, _) = played.session.turn()
    assert [each.WhichOneof("event") for each in message.reports.reports] == ["failed", "completed"]
    failure = message.reports.reports[0].failed
    assert (failure.code, failure.retryable) == ("too_large", False)


def test_a_result_that_the_server_refuses_becomes_a_failure(played):
    played.turn()
    played.begin(A)
    played.end(A)
    played.turn()
    played.answer("too_large")
    (message,) = played.session.turn()
    (failure,) = [each.failed for each in message.reports.reports]
    assert (failure.error, failure.code, failure.retryable) == ("result refused: for a reason", "too_large", False)
    played.answer(None)
    assert played.session.is_finished


def test_a_failure_that_the_server_refuses_becomes_a_release_and_then_nothing(played):
    played.turn()
    played.begin(A)
    played.session.ended(A, report(A, failed=TaskFailed(error="no")))
    played.turn()
    played.answer("bad_request")
    assert played.turn() == ["a released"]
    played.answer("bad_request")
    assert played.session.is_finished


def test_an_outcome_refused_for_now_is_said_again_with_the_next_heartbeat(played):
    played.turn()
    played.begin(A)
    played.end(A)
    played.turn()
    refused = ReportResult(error=Error(code="unavailable", error="not now", retryable=True))
    played.session.answered(ReportResults(results=[refused]))
    assert played.turn() == []
    assert played.beat() == [A]
    assert played.turn() == ["a completed"]


def test_a_refused_progress_changes_nothing(played):
    played.turn()
    played.begin(A)
    played.session.progressed(report(A, progress=Progress()))
    played.turn()
    assert played.answer("too_large") == []
    assert played.held() == [A]


@pytest.mark.parametrize("error", ["lease_lost", "not_found"])
def test_a_report_whose_lease_is_lost_stops_the_handler(played, error):
    played.turn()
    played.begin(A)
    played.session.progressed(report(A, progress=Progress()))
    played.turn()
    assert played.answer(error) == [A]
    assert played.held() == []


def test_an_outcome_whose_lease_is_lost_is_dropped(played):
    played.turn()
    played.begin(A)
    played.end(A)
    played.turn()
    played.answer("lease_lost")
    assert played.session.is_finished


def test_an_answer_that_nobody_waits_for_is_ignored(played):
    assert played.answer(None) == []


# Leases and time


def test_heartbeats_list_every_lease_until_its_outcome_was_answered(played):
    played.turn()
    played.begin(A, B)
    played.assign(C)
    played.end(A)
    assert played.beat() == [A, B, C]
    played.turn()
    assert played.beat() == [A, B, C]
    played.answer(None, None)
    assert played.beat() == [B, C]


def test_a_lease_counts_from_the_last_answered_heartbeat_before_it_came(played):
    played.turn()
    played.beat(now=20.0)
    played.acknowledge()
    played.beat(now=40.0)
    played.begin(A)
    assert played.session.expired(79.9) == []
    assert played.session.expired(80.0) == [A]


def test_a_renewal_counts_from_when_it_was_sent_not_from_its_answer(played):
    played.turn()
    played.begin(A)
    played.beat(now=20.0)
    played.acknowledge()
    assert played.session.expired(79.9) == []
    assert played.session.expired(80.0) == [A]


def test_an_answer_renews_only_what_its_heartbeat_listed(played):
    played.turn()
    played.beat(now=20.0)
    played.begin(A)
    played.acknowledge()
    assert played.session.expired(60.0) == [A]


def test_an_unanswered_heartbeat_renews_nothing(played):
    played.turn()
    played.begin(A)
    played.beat(now=20.0)
    assert played.session.expired(60.0) == [A]


def test_answers_are_told_apart_by_their_sequence(played):
    played.turn()
    played.begin(A)
    played.beat(now=20.0)
    first = played.sequence
    played.beat(now=40.0)
    played.acknowledge(sequence=first)
    assert played.session.expired(80.0) == [A]


def test_what_a_heartbeats_answer_names_as_lost_is_stopped_and_then_released(played):
    played.turn()
    played.begin(A, B)
    played.beat(now=20.0)
    assert played.acknowledge(A) == [A]
    assert played.beat() == [B]
    played.end(A)
    assert played.turn() == ["a released", "credit 1"]


def test_a_lost_lease_is_stopped_only_once(played):
    played.turn()
    played.begin(A)
    assert played.cancel(A) == [A]
    assert played.cancel(A) == []
    assert played.session.expired(1_000.0) == []


# Cancellations


def test_a_cancellation_is_answered_once_nothing_runs(played):
    played.turn()
    played.begin(A)
    assert played.cancel(A) == [A]
    assert played.turn() == []
    played.end(A)
    assert played.turn() == ["a released", "credit 1"]
    played.answer(None)
    assert played.session.is_finished


def test_a_cancellation_of_what_does_not_run_is_answered_at_once(played):
    played.turn()
    assert played.cancel(A) == []
    assert played.turn() == ["a released"]


def test_a_cancellation_that_crosses_the_outcome_is_answered_too(played):
    played.turn()
    played.begin(A)
    played.end(A)
    played.turn()
    assert played.cancel(A) == []
    assert played.turn() == ["a released"]
    played.answer("lease_lost")
    played.answer(None)
    assert played.session.is_finished


@pytest.mark.parametrize("code", ["lease_lost", "not_found", "bad_request"])
def test_a_lost_lease_whose_release_is_refused_is_forgotten(played, code):
    played.turn()
    played.begin(A)
    played.cancel(A)
    played.end(A)
    assert played.turn() == ["a released", "credit 1"]
    assert not played.session.is_finished
    assert played.answer(code) == []
    assert played.session.is_finished


def test_a_release_of_a_lost_lease_refused_for_now_is_said_again_with_the_next_heartbeat(played):
    played.turn()
    played.cancel(A)
    assert played.turn() == ["a released"]
    refused = ReportResult(error=Error(code="unavailable", error="not now", retryable=True))
    played.session.answered(ReportResults(results=[refused]))
    assert played.turn() == []
    assert played.beat() == []
    assert played.turn() == ["a released"]
    played.answer(None)
    assert played.session.is_finished


def test_a_later_lease_of_the_same_task_is_another_one(played):
    again = ("a", 2)
    played.turn()
    played.begin(A)
    played.cancel(A)
    played.begin(again)
    assert played.held() == [again]
    played.end(A)
    played.end(again)
    assert played.turn() == ["a released", "a completed", "credit 2"]


# Breaks


def test_after_a_break_the_outcomes_of_kept_leases_are_said_again_and_those_of_lost_ones_dropped(played):
    played.turn()
    played.begin(A, B)
    played.end(A, B)
    played.turn()
    played.session.broken(10.0)
    assert played.held() == [A, B]
    assert played.welcome(A, at=11.0) == []
    assert played.turn() == ["a completed", "credit 10"]
    assert played.held() == [A]


def test_an_answered_outcome_is_not_said_again(played):
    played.turn()
    played.begin(A)
    played.end(A)
    played.turn()
    played.answer(None)
    played.session.broken(10.0)
    played.welcome()
    assert played.turn() == ["credit 10"]


def test_what_was_said_since_the_break_follows_what_had_no_answer(played):
    played.turn()
    played.assign(A)
    played.turn()
    played.session.progressed(report(A, progress=Progress(fraction=0.1)))
    played.turn()
    played.session.broken(10.0)
    played.end(A)
    played.welcome(A)
    assert played.turn() == ["a started", "a progress", "a completed", "credit 10"]
    assert played.begun == []


def test_leases_outlive_a_break_for_the_grace(played):
    played.turn()
    played.begin(A)
    played.session.broken(10.0)
    assert played.session.expired(14.9) == []
    assert played.session.expired(15.0) == [A]


def test_a_try_that_fails_does_not_prolong_the_grace(played):
    played.turn()
    played.begin(A)
    played.session.broken(10.0)
    played.session.broken(14.0)
    assert played.session.expired(15.0) == [A]


def test_the_grace_never_outlasts_the_lease(played):
    played.turn()
    played.begin(A)
    played.session.broken(58.0)
    assert played.session.expired(60.0) == [A]


def test_a_kept_lease_counts_from_when_the_hello_was_sent(played):
    played.turn()
    played.begin(A)
    played.session.broken(10.0)
    played.welcome(A, at=12.0)
    assert played.session.expired(71.9) == []
    assert played.session.expired(72.0) == [A]


def test_a_kept_lease_has_the_length_that_the_server_names(played):
    played.turn()
    played.begin(A)
    played.session.broken(10.0)
    kept = Lease(task_id="a", fencing_token=1, lease_secs=20)
    played.session.welcomed(Welcome(lease_secs=60, kept=[kept]), 12.0)
    assert played.session.expired(31.9) == []
    assert played.session.expired(32.0) == [A]


def test_the_answer_to_a_heartbeat_of_an_earlier_stream_renews_nothing(played):
    played.turn()
    played.begin(A)
    played.beat(now=20.0)
    played.session.broken(21.0)
    played.welcome(A, at=15.0)
    played.acknowledge()
    assert played.session.expired(75.0) == [A]


def test_handlers_of_leases_that_a_welcome_does_not_keep_are_stopped(played):
    played.turn()
    played.begin(A, B)
    played.session.broken(10.0)
    assert played.welcome(B) == [A]


def test_a_lease_that_ended_during_a_break_is_not_listed_and_is_released_after_it(played):
    played.turn()
    played.begin(A)
    played.session.broken(10.0)
    assert played.session.expired(15.0) == [A]
    assert played.held() == []
    played.session.ended(A, None)
    played.welcome()
    assert played.turn() == ["a released", "credit 10"]


def test_a_release_that_was_not_answered_is_said_again(played):
    played.turn()
    played.begin(A)
    played.cancel(A)
    played.session.ended(A, None)
    played.turn()
    played.session.broken(10.0)
    played.welcome()
    assert played.turn() == ["a released", "credit 10"]


def test_a_host_that_was_deregistered_stops_all(played):
    played.turn()
    played.begin(A, B)
    played.session.broken(10.0)
    assert played.session.deregistered() == [A, B]
    assert played.held() == []


# Draining


def test_a_draining_host_gives_no_credit_and_finishes_what_runs(played):
    played.turn()
    played.begin(A)
    played.session.drain()
    assert not played.session.is_finished
    played.end(A)
    assert played.turn() == ["a completed"]
    played.answer(None)
    assert played.session.is_finished


def test_a_draining_host_gives_back_what_has_not_begun(played):
    played.turn()
    played.assign(A)
    (message,) = played.session.turn()
    played.assign(B)
    played.session.drain()
    assert played.session.written(message) == []
    played.assign(C)
    assert played.turn() == ["b released", "a released", "c released"]
    assert played.begun == []


def test_a_draining_host_still_renews_what_it_gives_back_until_that_is_answered(played):
    played.turn()
    played.assign(A)
    played.session.drain()
    assert played.beat() == [A]
    played.turn()
    played.answer(None)
    assert played.beat() == []


def test_a_task_that_was_interrupted_for_leaving_is_given_back(played):
    played.turn()
    played.begin(A)
    played.session.drain()
    played.session.ended(A, None)
    assert played.turn() == ["a released"]
