"""The rules of the host stream: which reports are sent, in which messages, and what follows their answers."""

import pytest

from taskyard.v1.runtime_host_pb2 import TaskCompleted, TaskFailed, TaskParked
from taskyard.v1.task_pb2 import Progress
from tests.clients.python.host.session_driver import A, B, SessionDriver, report


@pytest.fixture
def driver():
    return SessionDriver()


def test_pending_reports_share_one_message_and_those_of_a_task_keep_their_order(driver):
    driver.write()
    driver.start(A, B)
    driver.session.report_progress(report(B, progress=Progress(fraction=0.5)))
    driver.end(A, B)
    (message, _) = driver.session.next_messages()
    reports = [(each.task_id, each.WhichOneof("event")) for each in message.reports.reports]
    assert reports == [("b", "progress"), ("b", "completed"), ("a", "completed")]


def test_a_later_progress_replaces_one_that_was_not_sent(driver):
    driver.write()
    driver.start(A)
    for tenth in range(10):
        driver.session.report_progress(report(A, progress=Progress(fraction=tenth / 10)))
    (message,) = driver.session.next_messages()
    assert [each.progress.fraction for each in message.reports.reports] == [0.9]


def test_no_message_exceeds_the_largest_size():
    driver = SessionDriver(max_message_bytes=1_000)
    driver.write()
    keys = [(f"task-{number}", 1) for number in range(8)]
    driver.start(*keys)
    result = TaskCompleted()
    result.result.string_value = "x" * 300
    for key in keys:
        driver.session.handler_ended(key, report(key, completed=result))
    sent = []
    while messages := driver.session.next_messages():
        reports = [message for message in messages if message.HasField("reports")]
        assert len(reports) <= 1
        for message in reports:
            assert message.ByteSize() <= 1_000
            sent += [each.task_id for each in message.reports.reports]
    assert sent == [key[0] for key in keys]


def test_a_result_that_fits_no_message_fails_its_task_alone():
    driver = SessionDriver(max_message_bytes=1_000)
    driver.write()
    driver.start(A, B)
    result = TaskCompleted()
    result.result.string_value = "x" * 1_000
    driver.session.handler_ended(A, report(A, completed=result))
    driver.end(B)
    (message, _) = driver.session.next_messages()
    assert [each.WhichOneof("event") for each in message.reports.reports] == ["failed", "completed"]
    failure = message.reports.reports[0].failed
    assert (failure.code, failure.retryable) == ("too_large", False)


def test_a_result_that_the_server_refuses_becomes_a_failure(driver):
    driver.write()
    driver.start(A)
    driver.end(A)
    driver.write()
    driver.answer("too_large")
    (message,) = driver.session.next_messages()
    (failure,) = [each.failed for each in message.reports.reports]
    assert (failure.error, failure.code, failure.retryable) == ("result refused: for a reason", "too_large", False)
    driver.answer(None)
    assert driver.session.is_finished


def test_a_park_that_the_server_refuses_becomes_a_failure(driver):
    driver.write()
    driver.start(A)
    driver.session.handler_ended(A, report(A, parked=TaskParked()))
    assert driver.write() == ["a parked", "credit 1"]
    driver.answer("bad_request")
    (message,) = driver.session.next_messages()
    (failure,) = [each.failed for each in message.reports.reports]
    assert (failure.error, failure.code, failure.retryable) == ("park refused: for a reason", "bad_request", False)


def test_a_failure_that_the_server_refuses_becomes_a_release_and_then_nothing(driver):
    driver.write()
    driver.start(A)
    driver.session.handler_ended(A, report(A, failed=TaskFailed(error="no")))
    driver.write()
    driver.answer("bad_request")
    assert driver.write() == ["a released"]
    driver.answer("bad_request")
    assert driver.session.is_finished


def test_an_outcome_refused_for_now_is_sent_again_with_the_next_heartbeat(driver):
    driver.write()
    driver.start(A)
    driver.end(A)
    driver.write()
    driver.answer("unavailable", retryable=True)
    assert driver.write() == []
    assert driver.heartbeat() == [A]
    assert driver.write() == ["a completed"]


def test_a_refused_progress_changes_nothing(driver):
    driver.write()
    driver.start(A)
    driver.session.report_progress(report(A, progress=Progress()))
    driver.write()
    assert driver.answer("too_large") == []
    assert driver.held() == [A]


@pytest.mark.parametrize("error", ["lease_lost", "not_found"])
def test_a_report_whose_lease_is_lost_stops_the_handler(driver, error):
    driver.write()
    driver.start(A)
    driver.session.report_progress(report(A, progress=Progress()))
    driver.write()
    assert driver.answer(error) == [A]
    assert driver.held() == []


def test_an_outcome_whose_lease_is_lost_is_dropped(driver):
    driver.write()
    driver.start(A)
    driver.end(A)
    driver.write()
    driver.answer("lease_lost")
    assert driver.session.is_finished


def test_an_answer_to_no_report_is_ignored(driver):
    assert driver.answer(None) == []
