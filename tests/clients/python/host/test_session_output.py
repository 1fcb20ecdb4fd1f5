"""The rules of the host stream for output: numbers, the window, what is said again, and that the end comes last."""

import pytest

from tests.clients.python.host.session_driver import A, B, C, SessionDriver


@pytest.fixture
def driver():
    """A session in which A and B run, and 10 bytes may be sent that are not kept yet."""
    driver = SessionDriver(output_bytes=10)
    driver.write()
    driver.start(A, B)
    return driver


def test_chunks_are_numbered_within_each_lease_and_share_a_message(driver):
    driver.say(A, "1", "2")
    driver.say(B, "x")
    driver.say(A, "3")
    assert driver.messages() == [["a says 1: 1 2 3", "b says 1: x"]]
    driver.say(A, "4")
    assert driver.write() == ["a says 4: 4"]


def test_no_more_is_sent_than_the_window_has_room_for(driver):
    driver.say(A, "1234", "5678", "9abc")
    driver.say(B, "x")
    assert driver.write() == ["a says 1: 1234 5678"]
    assert driver.write() == ["b says 1: x"], "what others have to say comes before the rest of it"
    assert driver.write() == []
    driver.keep(A, 1)
    assert driver.freed == 4
    assert driver.write() == ["a says 3: 9abc"]


def test_a_chunk_that_is_larger_than_the_window_goes_alone(driver):
    driver.say(A, "a text of many bytes", "1")
    assert driver.write() == ["a says 1: a text of many bytes"]
    assert driver.write() == []
    driver.keep(A, 1)
    assert driver.write() == ["a says 2: 1"]


def test_an_end_comes_after_all_that_its_task_has_said_and_before_what_others_say(driver):
    driver.say(B, "12345678")
    assert driver.write() == ["b says 1: 12345678"]
    driver.say(B, "b b")
    driver.say(A, "a a a")
    driver.end(A)
    assert driver.write() == [], "no room"
    driver.start(C)
    driver.end(C)
    assert driver.write() == ["c completed", "credit 1"], "ends of others wait for nothing"
    driver.keep(B, 1)
    assert driver.write() == ["a says 1: a a a", "b says 2: b b"]
    assert driver.write() == ["a completed", "credit 1"]


def test_an_end_waits_for_no_answer(driver):
    driver.say(A, "1")
    driver.end(A)
    assert driver.messages() == [["a says 1: 1"]]
    assert driver.messages() == [["a completed"], ["credit 1"]]


def test_after_a_break_what_is_not_kept_is_said_again_under_its_numbers(driver):
    driver.say(A, "1", "2")
    driver.say(B, "x")
    driver.write()
    driver.keep(A, 1)
    driver.say(A, "3")
    driver.session.handle_disconnect(0.0)
    driver.say(A, "4")
    driver.welcome(A, output_bytes=10)
    assert driver.freed == 2, "B is lost"
    assert driver.write() == ["credit 8", "a says 2: 2 3 4"]
    driver.keep(A, 4)
    assert driver.freed == 5


def test_an_end_that_was_sent_before_the_break_comes_after_what_is_said_again(driver):
    driver.say(A, "1")
    driver.end(A)
    driver.write()
    driver.write()
    driver.session.handle_disconnect(0.0)
    driver.welcome(A, output_bytes=10)
    assert driver.messages() == [["credit 8"], ["a says 1: 1"]]
    assert driver.messages() == [["a completed"], ["credit 1"]]


def test_an_end_that_was_to_be_sent_when_the_stream_broke_waits_as_well(driver):
    driver.say(A, "1")
    driver.write()
    driver.end(A)
    driver.session.handle_disconnect(0.0)
    driver.welcome(A, output_bytes=10)
    assert driver.messages() == [["credit 8"], ["a says 1: 1"]]
    assert driver.messages() == [["a completed"], ["credit 1"]]


def test_what_is_refused_for_now_is_said_again_later_with_what_was_sent_behind_it(driver):
    driver.say(A, "1")
    driver.write()
    driver.say(A, "2")
    driver.write()
    driver.keep(A, code="unavailable")
    driver.say(A, "3")
    driver.end(A)
    assert driver.session.output.has_deferred
    # It was sent before the host knew: chunks before it are missing.
    assert driver.keep(A, code="bad_request") == []
    assert driver.write() == []
    driver.session.output.resume()
    assert driver.write() == ["a says 1: 1 2 3"]
    assert driver.write() == [], "its end waits until they are kept"
    driver.keep(A, 3)
    assert driver.write() == ["a completed", "credit 1"]


@pytest.mark.parametrize("code", ["lease_lost", "not_found", "bad_request"])
def test_any_other_refusal_ends_the_lease(driver, code):
    driver.say(A, "1", "2")
    driver.write()
    assert driver.keep(A, code=code) == [A]
    driver.say(A, "3")
    assert driver.freed == 3
    driver.session.handler_ended(A, None)
    assert driver.write() == ["a released", "credit 1"]


def test_a_lost_lease_says_no_more(driver):
    driver.say(A, "1234", "567890", "more")
    driver.write()
    driver.cancel(A)
    assert driver.freed == 14
    driver.say(B, "x")
    assert driver.write() == ["b says 1: x"]
    assert driver.keep(A, 2) == []


def test_a_server_that_takes_no_output_ends_what_was_being_said_and_says_so(driver, caplog):
    driver.say(A, "1")
    driver.end(A)
    driver.session.handle_disconnect(0.0)
    driver.welcome(A, B)
    assert "task a: its output ends here" in caplog.text
    assert driver.write() == ["a completed", "credit 9"]
    assert driver.freed == 1
    driver.session.handle_disconnect(0.0)
    driver.welcome(B, output_bytes=10)
    driver.say(B, "x")
    assert "b says 1: x" in driver.write(), "it had said nothing before"
