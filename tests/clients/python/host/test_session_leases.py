"""The rules of the host stream: how long leases live, and what ends them."""

import pytest

from tests.clients.python.host.session_driver import A, B, C, SessionDriver


@pytest.fixture
def driver():
    return SessionDriver()


# Renewal


def test_heartbeats_list_every_lease_until_its_outcome_was_answered(driver):
    driver.write()
    driver.start(A, B)
    driver.assign(C)
    driver.end(A)
    assert driver.heartbeat() == [A, B, C]
    driver.write()
    assert driver.heartbeat() == [A, B, C]
    driver.answer(None, None)
    assert driver.heartbeat() == [B, C]


def test_a_lease_counts_from_the_last_answered_heartbeat_before_it_came(driver):
    driver.write()
    driver.heartbeat(now=20.0)
    driver.acknowledge()
    driver.heartbeat(now=40.0)
    driver.start(A)
    assert driver.session.expire_leases(79.9) == []
    assert driver.session.expire_leases(80.0) == [A]


def test_a_renewal_counts_from_when_it_was_sent_not_from_its_answer(driver):
    driver.write()
    driver.start(A)
    driver.heartbeat(now=20.0)
    driver.acknowledge()
    assert driver.session.expire_leases(79.9) == []
    assert driver.session.expire_leases(80.0) == [A]


def test_an_answer_renews_only_what_its_heartbeat_listed(driver):
    driver.write()
    driver.heartbeat(now=20.0)
    driver.start(A)
    driver.acknowledge()
    assert driver.session.expire_leases(60.0) == [A]


def test_an_unanswered_heartbeat_renews_nothing(driver):
    driver.write()
    driver.start(A)
    driver.heartbeat(now=20.0)
    assert driver.session.expire_leases(60.0) == [A]


def test_an_answer_renews_the_heartbeat_of_its_sequence(driver):
    driver.write()
    driver.start(A)
    driver.heartbeat(now=20.0)
    first = driver.sequence
    driver.heartbeat(now=40.0)
    driver.acknowledge(sequence=first)
    assert driver.session.expire_leases(80.0) == [A]


def test_what_a_heartbeats_answer_names_as_lost_is_stopped_and_then_released(driver):
    driver.write()
    driver.start(A, B)
    driver.heartbeat(now=20.0)
    assert driver.acknowledge(A) == [A]
    assert driver.heartbeat() == [B]
    driver.end(A)
    assert driver.write() == ["a released", "credit 1"]


def test_a_lost_lease_is_stopped_only_once(driver):
    driver.write()
    driver.start(A)
    assert driver.cancel(A) == [A]
    assert driver.cancel(A) == []
    assert driver.session.expire_leases(1_000.0) == []


# Cancellations


def test_a_cancellation_is_answered_once_nothing_runs(driver):
    driver.write()
    driver.start(A)
    assert driver.cancel(A) == [A]
    assert driver.write() == []
    driver.end(A)
    assert driver.write() == ["a released", "credit 1"]
    driver.answer(None)
    assert driver.session.is_finished


def test_a_cancellation_of_what_does_not_run_is_answered_at_once(driver):
    driver.write()
    assert driver.cancel(A) == []
    assert driver.write() == ["a released"]


def test_a_cancellation_that_crosses_the_outcome_is_answered_too(driver):
    driver.write()
    driver.start(A)
    driver.end(A)
    driver.write()
    assert driver.cancel(A) == []
    assert driver.write() == ["a released"]
    driver.answer("lease_lost")
    driver.answer(None)
    assert driver.session.is_finished


@pytest.mark.parametrize("code", ["lease_lost", "not_found", "bad_request"])
def test_a_lost_lease_whose_release_is_refused_is_forgotten(driver, code):
    driver.write()
    driver.start(A)
    driver.cancel(A)
    driver.end(A)
    assert driver.write() == ["a released", "credit 1"]
    assert not driver.session.is_finished
    assert driver.answer(code) == []
    assert driver.session.is_finished


def test_a_release_of_a_lost_lease_refused_for_now_is_sent_again_with_the_next_heartbeat(driver):
    driver.write()
    driver.cancel(A)
    assert driver.write() == ["a released"]
    driver.answer("unavailable", retryable=True)
    assert driver.write() == []
    assert driver.heartbeat() == []
    assert driver.write() == ["a released"]
    driver.answer(None)
    assert driver.session.is_finished


def test_a_later_lease_of_the_same_task_is_another_one(driver):
    again = ("a", 2)
    driver.write()
    driver.start(A)
    driver.cancel(A)
    driver.start(again)
    assert driver.held() == [again]
    driver.end(A)
    driver.end(again)
    assert driver.write() == ["a released", "a completed", "credit 2"]
