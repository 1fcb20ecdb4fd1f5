"""What fails a task: the answer of its instance, or that there is none (docs/rules.md, Executor answers)."""

import pytest

from taskyard_server.conversion.requests import MAX_NAME_CHARS
from taskyard_server.core.history import RetryPolicy
from taskyard_server.executors.tab_resolver import Endpoint, TabMap
from tests.cases import every_case
from tests.ports import free_port

FAILING = ["200 OK", "201 Created", "400 Bad Request", "409 Conflict", "500 Error"]
"""Statuses that carry `"success": false`."""
REFUSING = ["400 Bad Request", "401 Unauthorized", "404 Not Found", "422 Unprocessable", "500 Error", "503 Down"]

ONE_ATTEMPT = RetryPolicy()
"""Attempts are recorded for a task with a retry policy."""
THREE_ATTEMPTS = RetryPolicy(max_attempts=3, first_delay_secs=0, non_retryable_codes=frozenset({"stale_ref"}))


# The error


@every_case("status", REFUSING)
async def test_a_status_other_than_2xx_fails_the_task_with_the_error_of_the_answer(server, instance, answer, status):
    instance.reply = answer({"error": "element not found"}, status)
    task = await server.run()
    assert (task.state, task.error, task.result) == ("failed", "element not found", None)


@pytest.mark.parametrize("status", FAILING)
async def test_a_success_of_false_fails_the_task_with_the_error_of_the_answer(server, instance, answer, status):
    instance.reply = answer({"success": False, "error": "element not found", "items": [1]}, status)
    task = await server.run()
    assert (task.state, task.error, task.result) == ("failed", "element not found", None)


async def test_a_success_of_true_does_not_outweigh_the_status(server, instance, answer):
    instance.reply = answer({"success": True, "error": "element not found"}, "422 Unprocessable")
    task = await server.run()
    assert (task.state, task.error) == ("failed", "element not found")


@every_case("error", ["", " \n", None, False, 5, ["broken"], {"message": "broken"}])
async def test_without_an_error_text_the_whole_answer_is_shown(server, instance, answer, error):
    body = answer({"success": False, "error": error})
    instance.reply = body
    text = body.partition(b"\r\n\r\n")[2].decode()
    assert (await server.run()).error == f"executor returned 200: {text}"


async def test_a_success_of_false_needs_no_error(server, instance, answer):
    instance.reply = answer({"success": False})
    assert (await server.run()).error == 'executor returned 200: {"success": false}'


@every_case("status", REFUSING)
async def test_a_status_other_than_2xx_fails_the_task_with_the_text_of_the_answer(server, instance, answer, status):
    instance.reply = answer("<h1>Sorry</h1>\n", status)
    task = await server.run()
    assert (task.state, task.error) == ("failed", f"executor returned {status[:3]}: <h1>Sorry</h1>")


@pytest.mark.parametrize("body", ["", " \r\n"])
async def test_an_empty_answer_fails_the_task_with_its_status(server, instance, answer, body):
    instance.reply = answer(body, "500 Error")
    assert (await server.run()).error == "executor returned 500"


async def test_a_colon_at_the_end_of_a_text_is_kept(server, instance, answer):
    instance.reply = answer("not found:", "404 Not Found")
    assert (await server.run()).error == "executor returned 404: not found:"


async def test_the_error_is_cut_after_1000_characters(server, instance, answer):
    instance.reply = answer("x" * 100_000, "500 Error")
    assert (await server.run()).error == "executor returned 500: " + "x" * 1000
    instance.reply = answer({"success": False, "error": "é" * 10_000})
    assert (await server.run()).error == "é" * 1000


async def test_bytes_that_are_not_utf_8_are_replaced(server, instance, answer):
    instance.reply = answer(b"caf\xe9", "400 Bad Request")
    assert (await server.run()).error == "executor returned 400: caf\ufffd"


async def test_half_a_unicode_character_is_replaced(server, instance, answer):
    instance.reply = answer('{"success": false, "error": "a\\ud800b", "code": "c\\ud800"}')
    task = await server.run(retry=ONE_ATTEMPT)
    assert (task.error, task.history.attempts[-1].code) == ("a?b", None)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_a_redirect_fails_the_task_and_is_not_followed(server, instance, start_instance, answer, status):
    other = await start_instance()
    instance.reply = answer("", status, location=f"{other.url}/tabs/tab/action")
    task = await server.run()
    assert task.error == f"executor returned {status[:3]}"
    assert other.requests == []
    assert len(instance.requests) == 1


# Code and retries


@pytest.mark.parametrize("status", FAILING)
async def test_the_code_of_the_answer_is_that_of_the_failure(server, instance, answer, status):
    body = {"success": False, "code": "action_failed", "error": "element not found", "retryable": True}
    instance.reply = answer(body, status)
    (attempt,) = (await server.run(retry=ONE_ATTEMPT)).history.attempts
    assert (attempt.code, attempt.error) == ("action_failed", "element not found")


@every_case("code", ["", 404, None, True, ["x"], {}, "a\nb", "\x00", "x" * (MAX_NAME_CHARS + 1)])
async def test_a_code_that_no_host_could_report_is_ignored(server, instance, answer, code):
    instance.reply = answer({"success": False, "code": code, "error": "broken"})
    task = await server.run(retry=ONE_ATTEMPT)
    assert (task.error, task.history.attempts[-1].code) == ("broken", None)


@every_case("status", FAILING)
@every_case(
    ("fields", "attempts"),
    [
        ({"retryable": True}, 3),
        ({"retryable": False}, 1),
        ({}, 3),
        ({"code": "action_failed"}, 3),
        ({"code": "stale_ref"}, 1),
        ({"code": "stale_ref", "retryable": True}, 1),
        ({"code": "action_failed", "retryable": False}, 1),
    ],
)
async def test_the_retry_policy_acts_on_code_and_retryable(server, instance, answer, status, fields, attempts):
    instance.requests.clear()
    instance.reply = answer({"success": False, "error": "broken", **fields}, status)
    task = await server.run(retry=THREE_ATTEMPTS)
    assert (task.state, task.error) == ("failed", "broken")
    assert len(instance.requests) == attempts


@every_case("retryable", ["false", "no", 0, None, [], {}])
async def test_a_retryable_that_is_not_a_boolean_is_ignored(server, instance, answer, retryable):
    instance.requests.clear()
    instance.reply = answer({"success": False, "error": "broken", "retryable": retryable})
    await server.run(retry=THREE_ATTEMPTS)
    assert len(instance.requests) == 3


async def test_an_answer_without_json_can_be_retried(server, instance, answer):
    instance.reply = answer("broken", "502 Bad Gateway")
    await server.run(retry=THREE_ATTEMPTS)
    assert len(instance.requests) == 3


async def test_a_retry_that_succeeds_makes_the_task_done(server, instance, answer):
    failures = [answer({"success": False, "error": "not yet", "retryable": True})]
    instance.reply = lambda _request: failures.pop() if failures else answer({"success": True})
    task = await server.run(retry=THREE_ATTEMPTS)
    assert (task.state, task.error) == ("done", None)
    assert len(instance.requests) == 2


# No answer


async def test_a_task_without_a_tab_fails_with_the_documented_words_and_is_not_sent(server, instance):
    for tab_id in (None, ""):
        task = await server.run(tab_id=tab_id)
        assert task.state == "failed"
        assert task.error == "tabId is required for task execution"
    assert instance.requests == []


async def test_a_task_with_input_alone_fails_and_is_not_sent(server, instance):
    task = await server.run(input=b"payload", retry=THREE_ATTEMPTS)
    assert (task.state, task.history.failed) == ("failed", 0)
    assert task.error == "params are required for task execution, and this task has input alone"
    assert instance.requests == []


async def test_an_instance_that_is_down_fails_the_task(start_server):
    server = await start_server(TabMap({}, Endpoint(f"http://127.0.0.1:{free_port()}")))
    task = await server.run()
    assert task.state == "failed"
    assert task.error == "executor request failed: All connection attempts failed"


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http:", "http://[::1", "http://127.0.0.1:x"])
async def test_an_invalid_base_url_fails_the_task(start_server, url):
    server = await start_server(TabMap({}, Endpoint(url)))
    assert (await server.run()).error.startswith("executor request failed: ")


@pytest.mark.parametrize(
    "reply",
    [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\ncut", b"", b"HTTP/1.1 200 OK\r\ncont"],
    ids=["no HTTP", "cut short", "hangs up", "hangs up in the head"],
)
async def test_an_answer_that_is_not_http_fails_the_task(server, instance, reply):
    instance.reply = reply
    instance.hangs_up = True
    task = await server.run()
    assert task.state == "failed"
    assert task.error.startswith("executor request failed: ")


async def test_an_invalid_content_encoding_fails_the_task(server, instance, answer):
    instance.reply = answer(b"nonsense", content_encoding="gzip")
    assert (await server.run()).error.startswith("executor request failed: ")
