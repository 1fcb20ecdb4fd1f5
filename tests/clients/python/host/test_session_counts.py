"""The rules of the host stream with a server that counts accepted reports, and with an older one that does not."""

import pytest
from google.protobuf.struct_pb2 import Struct

from taskyard.v1.runtime_host_pb2 import Machine
from tests.clients.python.host.session_driver import A, B, C, SessionDriver


@pytest.fixture
def driver():
    """A session of ten slots whose server counts, with the first credit given."""
    driver = SessionDriver(counts_accepted=True)
    driver.write()
    return driver


def test_reports_and_the_credit_of_the_slots_that_they_free_are_one_message(driver):
    driver.assign(A, B)
    driver.write()
    driver.end(A, B)
    assert driver.messages() == [["a completed", "b completed", "credit 2"]]


def test_credit_without_reports_is_a_message_of_its_own():
    assert SessionDriver(counts_accepted=True).messages() == [["credit 10"]]


def test_a_server_that_does_not_count_gets_reports_credit_and_heartbeat_as_three_messages():
    driver = SessionDriver(counts_accepted=False)
    driver.write()
    driver.assign(A)
    driver.write()
    driver.end(A)
    assert not driver.session.heartbeats_may_ride
    assert driver.messages(heartbeat=True) == [["heartbeat a"], ["a completed"], ["credit 1"]]


def test_a_heartbeat_rides_with_reports_and_lists_the_leases_of_before_them(driver):
    driver.assign(A, B)
    driver.write()
    driver.end(A)
    assert driver.session.heartbeats_may_ride
    assert driver.messages(heartbeat=True) == [["a completed", "credit 1", "heartbeat a b"]]


def test_a_heartbeat_without_reports_is_a_message_of_its_own(driver):
    assert not driver.session.heartbeats_may_ride
    assert driver.messages(heartbeat=True) == [["heartbeat"]]


def test_a_heartbeat_that_makes_the_message_too_large_comes_before_the_reports():
    driver = SessionDriver(counts_accepted=True, max_message_bytes=1_000)
    driver.write()
    driver.assign(A)
    context = Struct()
    context["text"] = "x" * 950
    assert driver.messages(heartbeat=True, machine=Machine(context=context)) == [["heartbeat a"], ["a started"]]


def test_a_count_answers_the_oldest_reports_across_messages(driver):
    driver.assign(A, B)
    driver.write()
    driver.end(A, B)
    driver.write()
    driver.accept(3)
    assert driver.held() == [B]
    driver.accept(1)
    assert driver.session.is_finished


def test_a_result_is_for_the_oldest_report_after_those_that_are_counted(driver):
    driver.assign(A, B, C)
    driver.write()
    driver.accept(1)
    assert driver.answer("lease_lost") == [B]
    driver.accept(1)
    driver.end(A, C)
    assert driver.write() == ["a completed", "c completed", "credit 2"]


def test_a_task_with_a_target_begins_when_its_start_is_counted(driver):
    driver.assign(A)
    driver.assign(B, target="page")
    driver.write()
    assert driver.started == ["a"]
    driver.accept(1)
    assert driver.started == []
    driver.accept(1)
    assert driver.started == ["b"]


def test_a_count_beyond_what_was_reported_changes_nothing(driver):
    driver.assign(A)
    driver.write()
    driver.accept(5)
    assert driver.held() == [A]


def test_reports_that_were_not_counted_before_the_break_are_sent_again(driver):
    driver.assign(A, B)
    driver.write()
    driver.accept(2)
    driver.end(A, B)
    driver.write()
    driver.accept(1)
    driver.session.handle_disconnect(0.0)
    driver.welcome(B, counts_accepted=True)
    assert driver.write() == ["b completed", "credit 10"]


def test_the_next_server_may_be_an_older_one(driver):
    driver.assign(A)
    driver.write()
    driver.end(A)
    driver.session.handle_disconnect(0.0)
    driver.welcome(A)
    assert driver.messages() == [["a started", "a completed"], ["credit 10"]]
    driver.answer(None, None)
    assert driver.session.is_finished
