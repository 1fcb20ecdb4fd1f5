"""The rules of the host stream: what lives on over a break, and how a host drains."""

import pytest

from taskyard.v1.lease_pb2 import Lease
from taskyard.v1.runtime_host_pb2 import TaskParked, Welcome
from taskyard.v1.task_pb2 import Progress
from tests.clients.python.host.session_driver import A, B, C, SessionDriver, report


@pytest.fixture
def driver():
    return SessionDriver()


# Breaks


def test_after_a_break_the_outcomes_of_kept_leases_are_sent_again_and_those_of_lost_ones_dropped(driver):
    driver.write()
    driver.start(A, B)
    driver.end(A, B)
    driver.write()
    driver.session.handle_disconnect(10.0)
    assert driver.held() == [A, B]
    assert driver.welcome(A, at=11.0) == []
    assert driver.write() == ["a completed", "credit 10"]
    assert driver.held() == [A]


def test_an_unanswered_park_is_sent_again_until_its_lease_is_lost(driver):
    driver.write()
    driver.start(A, B)
    for key in (A, B):
        driver.session.handler_ended(key, report(key, parked=TaskParked()))
    driver.write()
    driver.session.handle_disconnect(1.0)
    assert driver.welcome(A) == []
    assert driver.write() == ["a parked", "credit 10"]
    assert driver.held() == [A]


def test_an_answered_outcome_is_not_sent_again(driver):
    driver.write()
    driver.start(A)
    driver.end(A)
    driver.write()
    driver.answer(None)
    driver.session.handle_disconnect(10.0)
    driver.welcome()
    assert driver.write() == ["credit 10"]


def test_reports_made_since_the_break_follow_the_unanswered_ones(driver):
    driver.write()
    driver.assign(A)
    driver.write()
    driver.session.report_progress(report(A, progress=Progress(fraction=0.1)))
    driver.write()
    driver.session.handle_disconnect(10.0)
    driver.end(A)
    driver.welcome(A)
    assert driver.write() == ["a started", "a progress", "a completed", "credit 10"]
    assert driver.started == []


def test_leases_outlive_a_break_for_the_grace(driver):
    driver.write()
    driver.start(A)
    driver.session.handle_disconnect(10.0)
    assert driver.session.expire_leases(14.9) == []
    assert driver.session.expire_leases(15.0) == [A]


def test_a_try_that_fails_does_not_prolong_the_grace(driver):
    driver.write()
    driver.start(A)
    driver.session.handle_disconnect(10.0)
    driver.session.handle_disconnect(14.0)
    assert driver.session.expire_leases(15.0) == [A]


def test_the_grace_never_outlasts_the_lease(driver):
    driver.write()
    driver.start(A)
    driver.session.handle_disconnect(58.0)
    assert driver.session.expire_leases(60.0) == [A]


def test_a_kept_lease_counts_from_when_the_hello_was_sent(driver):
    driver.write()
    driver.start(A)
    driver.session.handle_disconnect(10.0)
    driver.welcome(A, at=12.0)
    assert driver.session.expire_leases(71.9) == []
    assert driver.session.expire_leases(72.0) == [A]


def test_a_kept_lease_has_the_length_that_the_server_names(driver):
    driver.write()
    driver.start(A)
    driver.session.handle_disconnect(10.0)
    kept = Lease(task_id="a", fencing_token=1, lease_secs=20)
    driver.session.handle_welcome(Welcome(lease_secs=60, kept=[kept]), 12.0)
    assert driver.session.expire_leases(31.9) == []
    assert driver.session.expire_leases(32.0) == [A]


def test_the_answer_to_a_heartbeat_of_an_earlier_stream_renews_nothing(driver):
    driver.write()
    driver.start(A)
    driver.heartbeat(now=20.0)
    driver.session.handle_disconnect(21.0)
    driver.welcome(A, at=15.0)
    driver.acknowledge()
    assert driver.session.expire_leases(75.0) == [A]


def test_handlers_of_leases_that_a_welcome_does_not_keep_are_stopped(driver):
    driver.write()
    driver.start(A, B)
    driver.session.handle_disconnect(10.0)
    assert driver.welcome(B) == [A]


def test_a_lease_that_ended_during_a_break_is_not_listed_and_is_released_after_it(driver):
    driver.write()
    driver.start(A)
    driver.session.handle_disconnect(10.0)
    assert driver.session.expire_leases(15.0) == [A]
    assert driver.held() == []
    driver.session.handler_ended(A, None)
    driver.welcome()
    assert driver.write() == ["a released", "credit 10"]


def test_unanswered_progress_of_a_lost_lease_is_not_sent_again(driver):
    driver.write()
    driver.start(A)
    driver.session.report_progress(report(A, progress=Progress(fraction=0.1)))
    driver.write()
    assert driver.session.expire_leases(60.0) == [A]
    driver.session.handle_disconnect(61.0)
    driver.welcome()
    assert driver.write() == ["credit 9"]


def test_an_unanswered_release_is_sent_again(driver):
    driver.write()
    driver.start(A)
    driver.cancel(A)
    driver.session.handler_ended(A, None)
    driver.write()
    driver.session.handle_disconnect(10.0)
    driver.welcome()
    assert driver.write() == ["a released", "credit 10"]


def test_of_two_unanswered_progress_reports_the_newer_is_sent_again(driver):
    driver.write()
    driver.start(A)
    for fraction in (0.1, 0.9):
        driver.session.report_progress(report(A, progress=Progress(fraction=fraction)))
        assert driver.write() == ["a progress"]
    driver.session.handle_disconnect(10.0)
    driver.welcome(A)
    message, _ = driver.session.next_messages()
    assert [each.progress.fraction for each in message.reports.reports] == [0.9]


def test_an_outcome_that_crossed_a_cancellation_is_not_sent_again_in_place_of_its_release(driver):
    driver.write()
    driver.start(A)
    driver.end(A)
    assert driver.write() == ["a completed", "credit 1"]
    driver.cancel(A)
    assert driver.write() == ["a released"]
    driver.session.handle_disconnect(10.0)
    driver.welcome()
    assert driver.write() == ["a released", "credit 10"]


def test_a_release_is_sent_again_although_the_outcome_that_crossed_the_cancellation_was_answered(driver):
    driver.write()
    driver.start(A)
    driver.end(A)
    driver.write()
    driver.cancel(A)
    driver.write()
    assert driver.answer("lease_lost") == []
    driver.session.handle_disconnect(10.0)
    driver.welcome()
    assert driver.write() == ["a released", "credit 10"]
    driver.answer("lease_lost")
    assert driver.session.is_finished


def test_a_host_that_was_deregistered_stops_all(driver):
    driver.write()
    driver.start(A, B)
    driver.session.handle_disconnect(10.0)
    assert driver.session.lose(list(driver.session.leases)) == [A, B]
    assert driver.held() == []


# Draining


def test_a_draining_host_gives_no_credit_and_finishes_what_runs(driver):
    driver.write()
    driver.start(A)
    driver.session.drain()
    assert not driver.session.is_finished
    driver.end(A)
    assert driver.write() == ["a completed"]
    driver.answer(None)
    assert driver.session.is_finished


def test_a_draining_host_gives_back_what_was_not_started(driver):
    driver.write()
    driver.assign(A)
    (message,) = driver.session.next_messages()
    driver.assign(B)
    driver.session.drain()
    assert driver.session.message_written(message) == []
    driver.assign(C)
    assert driver.write() == ["a released", "b released", "c released"]
    assert driver.started == []


def test_a_draining_host_still_renews_what_it_gives_back_until_that_is_answered(driver):
    driver.write()
    driver.assign(A)
    driver.session.drain()
    assert driver.heartbeat() == [A]
    driver.write()
    driver.answer(None)
    assert driver.heartbeat() == []


def test_a_task_that_was_interrupted_for_leaving_is_given_back(driver):
    driver.write()
    driver.start(A)
    driver.session.drain()
    driver.session.handler_ended(A, None)
    assert driver.write() == ["a released"]
