"""What becomes of the instance's answer (scheduler-architecture, Error Model; DESIGN, The tab executor)."""

import gzip

import pytest

from taskyard_server.executors.tab_resolver import TabMap
from tests.ports import free_port

# Good answers


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "202 Accepted", "299 Fine"])
async def test_an_answer_of_2xx_is_success_and_its_json_the_result(yard, instance, http, result, status):
    instance.reply = http({"success": True, "items": [1, 2.5, None, "工"]}, status)
    task = await yard.run()
    assert task.state == "done"
    assert result(task) == {"success": True, "items": [1, 2.5, None, "工"]}
    assert task.error is None


@pytest.mark.parametrize("value", [0, -1.5, "text", "", True, False, None, [], {}, [[[]]]])
async def test_any_json_value_is_a_result(yard, instance, http, result, value):
    instance.reply = http(value)
    if value == "":
        instance.reply = http('""')
    assert result(await yard.run()) == value


@pytest.mark.parametrize("body", ["", " \r\n\t"])
async def test_an_empty_answer_is_success_without_a_result(yard, instance, http, body):
    instance.reply = http(body)
    task = await yard.run()
    assert task.state == "done"
    assert task.result is None


async def test_204_is_success_without_a_result(yard, instance):
    instance.reply = b"HTTP/1.1 204 No Content\r\n\r\n"
    task = await yard.run()
    assert (task.state, task.result) == ("done", None)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<h1>ok</h1>", "<h1>ok</h1>"),
        ("{'single': 'quotes'}", "{'single': 'quotes'}"),
        ('{"cut": ', '{"cut": '),
        ("größe 工".encode(), "größe 工"),
        (b"caf\xe9", "caf\ufffd"),
        (b"\x00\x01", "\x00\x01"),
    ],
)
async def test_an_answer_that_is_not_json_is_kept_as_text(yard, instance, http, result, body, text):
    instance.reply = http(body)
    task = await yard.run()
    assert task.state == "done"
    assert result(task) == text


@pytest.mark.parametrize("body", ["NaN", "[1, NaN]", '{"x": Infinity}', "-Infinity"])
async def test_not_a_number_is_not_json_and_kept_as_text(yard, instance, http, result, body):
    instance.reply = http(body)
    assert result(await yard.run()) == body


async def test_half_a_unicode_character_is_kept_as_text(yard, instance, http, result):
    instance.reply = http('{"x": "\\ud800"}')
    assert result(await yard.run()) == '{"x": "\\ud800"}'


async def test_an_answer_that_nests_deeper_than_readers_can_follow_is_kept_as_text(yard, instance, http, result):
    for levels in (40, 100_000):
        instance.reply = http("[" * levels + "]" * levels)
        assert result(await yard.run()) == "[" * levels + "]" * levels


async def test_a_compressed_answer_is_unpacked(yard, instance, http, result):
    instance.reply = http(gzip.compress(b'{"success": true}'), content_encoding="gzip")
    assert result(await yard.run()) == {"success": True}


async def test_an_answer_in_chunks_is_put_together(yard, instance, result):
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    instance.reply = head + b'6\r\n{"succ\r\nb\r\ness": true}\r\n0\r\n\r\n'
    assert result(await yard.run()) == {"success": True}


# Refusals of the instance


@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "422 Unprocessable", "500 Error", "503 Down"])
async def test_an_answer_that_is_not_2xx_fails_the_task_with_status_and_text(yard, instance, http, status):
    instance.reply = http({"error": "element not found"}, status)
    task = await yard.run()
    assert task.state == "failed"
    assert task.error == f'executor returned {status[:3]}: {{"error": "element not found"}}'
    assert task.result is None


async def test_a_refusal_without_text_fails_with_its_status(yard, instance, http):
    instance.reply = http("", "500 Error")
    assert (await yard.run()).error == "executor returned 500"


async def test_a_long_refusal_is_cut(yard, instance, http):
    instance.reply = http("x" * 100_000, "500 Error")
    assert (await yard.run()).error == "executor returned 500: " + "x" * 1000


async def test_a_refusal_that_is_not_text_is_shown_as_far_as_it_goes(yard, instance, http):
    instance.reply = http(b"caf\xe9", "400 Bad Request")
    assert (await yard.run()).error == "executor returned 400: caf\ufffd"


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_a_redirect_is_not_followed(yard, instance, start_instance, http, status):
    other = await start_instance()
    instance.reply = http("", status, location=f"{other.url}/tabs/tab/action")
    task = await yard.run()
    assert task.error == f"executor returned {status[:3]}"
    assert other.requests == []
    assert len(instance.requests) == 1


# No answer


async def test_a_task_without_a_tab_fails_with_the_documented_words_and_is_not_sent(yard, instance):
    for tab_id in (None, ""):
        task = await yard.run(tab_id=tab_id)
        assert task.state == "failed"
        assert task.error == "tabId is required for task execution"
    assert instance.requests == []


async def test_an_instance_that_is_down_fails_the_task(start_yard):
    yard = await start_yard(TabMap({}, f"http://127.0.0.1:{free_port()}"))
    task = await yard.run()
    assert task.state == "failed"
    assert task.error == "executor request failed: All connection attempts failed"


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http:", "http://[::1", "http://127.0.0.1:x"])
async def test_a_base_url_that_leads_nowhere_fails_the_task(start_yard, url):
    yard = await start_yard(TabMap({}, url))
    assert (await yard.run()).error.startswith("executor request failed: ")


@pytest.mark.parametrize(
    "reply",
    [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\ncut", b"", b"HTTP/1.1 200 OK\r\ncont"],
    ids=["no HTTP", "cut short", "hangs up", "hangs up in the head"],
)
async def test_a_broken_answer_fails_the_task(yard, instance, reply):
    instance.reply = reply
    instance.hangs_up = True
    task = await yard.run()
    assert task.state == "failed"
    assert task.error.startswith("executor request failed: ")


async def test_a_broken_encoding_fails_the_task(yard, instance, http):
    instance.reply = http(b"nonsense", content_encoding="gzip")
    assert (await yard.run()).error.startswith("executor request failed: ")


# Large answers


async def test_an_answer_as_large_as_the_limit_is_taken(start_yard, instance, http, result):
    yard = await start_yard(instance, max_answer_bytes=1000)
    instance.reply = http(f'"{"x" * 998}"')
    assert result(await yard.run()) == "x" * 998


async def test_an_answer_over_the_limit_fails_the_task(start_yard, instance, http):
    yard = await start_yard(instance, max_answer_bytes=1000)
    instance.reply = http("x" * 1001)
    task = await yard.run()
    assert task.state == "failed"
    assert task.error == "executor answer is over 1000 bytes"
    assert task.result is None


async def test_the_documented_limit_is_256_kib(yard, instance, http):
    instance.reply = http("x" * 262_144)
    assert (await yard.run()).state == "done"
    instance.reply = http("x" * 262_145)
    assert (await yard.run()).error == "executor answer is over 262144 bytes"


async def test_a_small_answer_that_unpacks_to_a_large_one_is_too_large(start_yard, instance, http):
    yard = await start_yard(instance, max_answer_bytes=1000)
    instance.reply = http(gzip.compress(b"x" * 1_000_000), content_encoding="gzip")
    assert (await yard.run()).error == "executor answer is over 1000 bytes"


async def test_after_an_answer_that_was_too_large_the_next_task_is_served(start_yard, instance, http):
    yard = await start_yard(instance, workers=1, max_answer_bytes=1000)
    instance.reply = http("x" * 1_000_000)
    await yard.run()
    instance.reply = http("ok")
    assert (await yard.run()).state == "done"
