"""The handler of a task with a target is started only once its start was accepted (docs/rules.md, Acknowledged starts).

Otherwise it might run beside the next task of the target: the server frees the target of a task whose start it never
saw, if the report was lost with its stream.
"""

import pytest

from taskyard.v1.runtime_host_pb2 import TaskCompleted
from tests.clients.python.host.session_driver import A, B, SessionDriver, report


@pytest.fixture
def driver():
    """A session that was assigned the task `a` of a target, and has written its start report."""
    driver = SessionDriver()
    driver.write()
    driver.assign(A, target="t")
    assert driver.write() == ["a started"]
    return driver


def test_the_handler_is_started_when_the_start_report_is_answered_not_when_it_is_written(driver):
    assert driver.started == []
    assert driver.answer(None) == []
    assert driver.started == ["a"]


def test_a_task_with_an_empty_target_has_none():
    driver = SessionDriver()
    driver.assign(A, target="")
    driver.write()
    assert driver.started == ["a"]


def test_tasks_without_a_target_do_not_wait_for_those_with_one(driver):
    driver.assign(B)
    assert driver.write() == ["b started"]
    assert driver.started == ["b"]
    driver.answer(None)
    assert driver.started == ["a"]


def test_the_handler_is_started_once(driver):
    driver.answer(None)
    driver.session.handle_disconnect(0.0)
    driver.welcome(A)
    driver.write()
    assert driver.started == []
    driver.end(A)
    assert driver.write() == ["a completed", "credit 1"]


def test_a_task_that_waits_for_the_answer_occupies_its_slot_and_is_renewed(driver):
    assert driver.session.active == 1
    assert driver.heartbeat(now=20.0) == [A]
    driver.acknowledge()
    assert driver.session.expire_leases(79.9) == []
    driver.answer(None)
    assert driver.started == ["a"]


# What ends the wait


@pytest.mark.parametrize("code", ["lease_lost", "not_found"])
def test_a_start_report_of_a_lost_lease_drops_the_task(driver, code):
    assert driver.answer(code) == []
    assert driver.started == []
    assert driver.held() == []
    assert driver.write() == ["a released", "credit 1"]
    driver.answer(code)
    assert driver.session.is_finished


def test_a_start_report_that_is_refused_for_good_gives_the_task_back(driver):
    assert driver.answer("bad_request") == []
    assert driver.started == []
    assert driver.write() == ["a released", "credit 1"]


def test_a_start_report_that_is_refused_for_now_is_sent_again_with_the_next_heartbeat(driver):
    driver.answer("unavailable", retryable=True)
    assert driver.started == []
    assert driver.write() == []
    assert driver.heartbeat() == [A]
    assert driver.write() == ["a started"]
    assert driver.started == []
    driver.answer(None)
    assert driver.started == ["a"]


def test_a_start_report_that_is_refused_for_now_is_not_sent_again_for_a_task_given_back_meanwhile(driver):
    driver.answer("unavailable", retryable=True)
    driver.session.drain()
    driver.heartbeat()
    assert driver.write() == ["a released"]


@pytest.mark.parametrize("answer", [None, "lease_lost"])
def test_a_task_that_is_cancelled_during_the_wait_is_given_back(driver, answer):
    assert driver.cancel(A) == []
    assert driver.write() == ["a released", "credit 1"]
    assert driver.answer(answer) == []
    assert driver.started == []
    driver.answer(None)
    assert driver.session.is_finished


def test_a_task_whose_lease_expires_during_the_wait_is_given_back(driver):
    assert driver.session.expire_leases(60.0) == []
    driver.answer(None)
    assert driver.started == []
    assert driver.write() == ["a released", "credit 1"]


def test_a_task_that_waits_when_the_host_drains_is_given_back(driver):
    driver.session.drain()
    assert driver.write() == ["a released"]
    driver.answer(None)
    assert driver.started == []
    driver.answer(None)
    assert driver.session.is_finished


def test_a_task_that_a_heartbeat_answer_names_as_lost_is_given_back(driver):
    driver.heartbeat()
    assert driver.acknowledge(A) == []
    driver.answer(None)
    assert driver.started == []
    assert driver.write() == ["a released", "credit 1"]


# Breaks of the stream


def test_over_a_break_the_lease_is_held_and_its_start_is_reported_again_if_it_was_kept(driver):
    driver.session.handle_disconnect(10.0)
    assert driver.held() == [A]
    assert driver.welcome(A, at=11.0) == []
    assert driver.write() == ["a started", "credit 9"]
    assert driver.started == []
    driver.answer(None)
    assert driver.started == ["a"]


def test_it_is_held_over_every_further_break(driver):
    for secs in (1.0, 2.0, 3.0):
        driver.session.handle_disconnect(secs)
        assert driver.held() == [A]
        driver.welcome(A, at=secs)
    assert driver.write() == ["a started", "credit 9"]


def test_a_lease_that_is_lost_in_the_break_is_released_and_nothing_runs(driver):
    driver.session.handle_disconnect(10.0)
    assert driver.welcome(at=11.0) == []
    assert driver.write() == ["a released", "credit 10"]
    driver.answer(None)
    assert driver.started == []
    assert driver.session.is_finished


def test_a_lease_that_expires_in_the_break_is_not_listed_and_nothing_runs(driver):
    driver.session.handle_disconnect(10.0)
    assert driver.session.expire_leases(15.0) == []
    assert driver.held() == []
    driver.welcome(at=16.0)
    assert driver.write() == ["a released", "credit 10"]
    driver.answer(None)
    assert driver.started == []


def test_a_task_that_is_drained_in_the_break_is_listed_and_only_released(driver):
    driver.session.handle_disconnect(10.0)
    driver.session.drain()
    assert driver.held() == [A]
    driver.welcome(A, at=11.0)
    assert driver.write() == ["a released"]


def test_a_task_that_was_given_back_just_before_the_break_is_not_reported_as_started_after_it(driver):
    driver.session.drain()
    driver.session.handle_disconnect(10.0)
    driver.welcome(A, at=11.0)
    assert driver.write() == ["a released"]


def test_a_lease_whose_start_was_refused_for_now_is_held_over_a_break(driver):
    driver.answer("unavailable", retryable=True)
    driver.session.handle_disconnect(10.0)
    assert driver.held() == [A]
    driver.welcome(A, at=11.0)
    driver.heartbeat()
    assert driver.write() == ["a started", "credit 9"]
    driver.answer(None)
    assert driver.started == ["a"]


def test_a_lease_whose_start_may_have_been_written_only_in_part_is_held_over_a_break():
    driver = SessionDriver()
    driver.write()
    driver.assign(A, target="t")
    driver.session.next_messages()
    driver.session.handle_disconnect(0.0)
    assert driver.held() == [A]


def test_a_lease_whose_start_was_never_handed_to_the_stream_is_forgotten_at_a_break():
    driver = SessionDriver()
    driver.write()
    driver.assign(A, target="t")
    driver.session.handle_disconnect(0.0)
    assert driver.held() == []
    assert driver.session.is_finished


def test_a_host_that_was_deregistered_drops_the_task(driver):
    driver.session.handle_disconnect(10.0)
    assert driver.session.lose(list(driver.session.leases)) == []
    assert driver.held() == []
    driver.welcome()
    driver.write()
    assert driver.started == []


def test_a_started_task_goes_on_over_a_break_and_reports_its_outcome(driver):
    driver.answer(None)
    driver.session.handle_disconnect(10.0)
    driver.session.handler_ended(A, report(A, completed=TaskCompleted()))
    driver.welcome(A, at=11.0)
    assert driver.write() == ["a completed", "credit 10"]
