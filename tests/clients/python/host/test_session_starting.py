"""The rules of the host stream: credit for free slots, and when handlers of tasks without a target are started."""

import pytest

from tests.clients.python.host.session_driver import A, B, C, SessionDriver


@pytest.fixture
def driver():
    return SessionDriver()


# Credit


def test_all_slots_are_credited_at_first_and_only_once(driver):
    assert driver.write() == ["credit 10"]
    assert driver.write() == []


def test_assigned_tasks_and_credit_together_never_exceed_the_slots():
    driver = SessionDriver(slots=3)
    assert driver.write() == ["credit 3"]
    driver.assign(A, B)
    assert driver.write() == ["a started", "b started"]


def test_a_slot_is_credited_again_after_the_report_that_freed_it(driver):
    driver.write()
    driver.start(A, B, C)
    driver.end(A, C)
    assert driver.write() == ["a completed", "c completed", "credit 2"]


def test_a_slot_stays_occupied_while_the_handler_of_a_lost_lease_runs_on(driver):
    driver.write()
    driver.start(A)
    assert driver.cancel(A) == [A]
    assert driver.write() == []
    driver.session.handler_ended(A, None)
    assert driver.write() == ["a released", "credit 1"]


def test_a_new_stream_begins_without_credit(driver):
    driver.write()
    driver.start(A)
    driver.session.handle_disconnect(0.0)
    driver.welcome(A)
    assert driver.write() == ["credit 9"]


# Starting


def test_a_handler_is_started_only_when_its_started_report_was_written(driver):
    driver.write()
    driver.assign(A)
    (message,) = driver.session.next_messages()
    assert [report.WhichOneof("event") for report in message.reports.reports] == ["started"]
    assert [assignment.task.task_id for assignment in driver.session.message_written(message)] == ["a"]
    assert driver.session.message_written(message) == []


def test_a_task_whose_lease_was_over_before_its_start_was_written_is_never_started(driver):
    """The report waited in a buffer while the process was suspended."""
    driver.write()
    driver.assign(A)
    (message,) = driver.session.next_messages()
    assert driver.session.expire_leases(60.0) == []
    assert driver.session.message_written(message) == []
    assert driver.write() == ["a released", "credit 1"]


def test_a_task_that_was_cancelled_while_its_start_was_written_is_never_started(driver):
    driver.write()
    driver.assign(A)
    (message,) = driver.session.next_messages()
    assert driver.cancel(A) == []
    assert driver.session.message_written(message) == []
    assert driver.write() == ["a released", "credit 1"]


def test_a_task_that_was_cancelled_before_its_start_was_written_is_only_released(driver):
    driver.write()
    driver.assign(A)
    driver.cancel(A)
    assert driver.write() == ["a released", "credit 1"]
    assert driver.started == []


def test_a_task_that_was_not_started_when_the_stream_broke_is_forgotten(driver):
    driver.write()
    driver.assign(A, B)
    (message,) = driver.session.next_messages()
    driver.session.handle_disconnect(0.0)
    assert driver.session.message_written(message) == []
    assert driver.held() == []
    assert driver.session.is_finished
