"""The result of a task is what its instance answered (docs/rules.md, Executor answers)."""

import gzip

import pytest

from tests.cases import every_case


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "202 Accepted", "299 Fine"])
async def test_a_2xx_answer_makes_the_task_done_with_its_json_as_the_result(server, instance, answer, result, status):
    instance.reply = answer({"success": True, "items": [1, 2.5, None, "工"]}, status)
    task = await server.run()
    assert task.state == "done"
    assert result(task) == {"success": True, "items": [1, 2.5, None, "工"]}
    assert task.error is None


@every_case("success", ["false", "no", 0, 0.0, None, [], {}, {"success": False}])
async def test_only_a_success_of_false_is_a_failure(server, instance, answer, result, success):
    instance.reply = answer({"success": success, "error": "ignored"})
    task = await server.run()
    assert (task.state, task.error) == ("done", None)
    assert result(task) == {"success": success, "error": "ignored"}


@pytest.mark.parametrize("value", [{"items": [{"success": False}]}, {"Success": False}, [{"success": False}], False])
async def test_a_success_that_is_not_a_field_of_the_answer_itself_is_data(server, instance, answer, result, value):
    instance.reply = answer(value)
    assert result(await server.run()) == value


@pytest.mark.parametrize("value", [0, -1.5, "text", "", True, False, None, [], {}, [[[]]]])
async def test_any_json_value_is_a_result(server, instance, answer, result, value):
    instance.reply = answer(value)
    if value == "":
        instance.reply = answer('""')
    assert result(await server.run()) == value


@pytest.mark.parametrize("body", ["", " \r\n\t"])
async def test_an_empty_answer_makes_the_task_done_without_a_result(server, instance, answer, body):
    instance.reply = answer(body)
    task = await server.run()
    assert task.state == "done"
    assert task.result is None


async def test_204_makes_the_task_done_without_a_result(server, instance):
    instance.reply = b"HTTP/1.1 204 No Content\r\n\r\n"
    task = await server.run()
    assert (task.state, task.result) == ("done", None)


@every_case(
    ("body", "text"),
    [
        ("<h1>ok</h1>", "<h1>ok</h1>"),
        ("{'single': 'quotes'}", "{'single': 'quotes'}"),
        ('{"paid": true, "paid": false}', '{"paid": true, "paid": false}'),
        ('{"cut": ', '{"cut": '),
        ("größe 工".encode(), "größe 工"),
        (b"caf\xe9", "caf\ufffd"),
        (b"\x00\x01", "\x00\x01"),
    ],
)
async def test_the_result_is_text_where_the_answer_is_not_json(server, instance, answer, result, body, text):
    instance.reply = answer(body)
    task = await server.run()
    assert task.state == "done"
    assert result(task) == text


@pytest.mark.parametrize("body", ["NaN", "[1, NaN]", '{"x": Infinity}', "-Infinity"])
async def test_nan_and_infinity_are_not_json(server, instance, answer, result, body):
    instance.reply = answer(body)
    assert result(await server.run()) == body


async def test_json_with_half_a_unicode_character_is_kept_as_text(server, instance, answer, result):
    instance.reply = answer('{"x": "\\ud800"}')
    assert result(await server.run()) == '{"x": "\\ud800"}'


async def test_json_that_nests_too_deep_is_kept_as_text(server, instance, answer, result):
    for levels in (40, 100_000):
        instance.reply = answer("[" * levels + "]" * levels)
        assert result(await server.run()) == "[" * levels + "]" * levels


async def test_a_compressed_answer_is_decompressed(server, instance, answer, result):
    instance.reply = answer(gzip.compress(b'{"success": true}'), content_encoding="gzip")
    assert result(await server.run()) == {"success": True}


async def test_a_chunked_answer_is_joined(server, instance, result):
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    instance.reply = head + b'6\r\n{"succ\r\nb\r\ness": true}\r\n0\r\n\r\n'
    assert result(await server.run()) == {"success": True}


# Large answers


async def test_an_answer_as_large_as_the_limit_is_a_result(start_server, instance, answer, result):
    server = await start_server(instance, max_answer_bytes=1000)
    instance.reply = answer(f'"{"x" * 998}"')
    assert result(await server.run()) == "x" * 998


async def test_an_answer_over_the_limit_fails_the_task(start_server, instance, answer):
    server = await start_server(instance, max_answer_bytes=1000)
    instance.reply = answer("x" * 1001)
    task = await server.run()
    assert task.state == "failed"
    assert task.error == "executor answer is over 1000 bytes"
    assert task.result is None


async def test_the_limit_is_256_kib_by_default(server, instance, answer):
    instance.reply = answer("x" * 262_144)
    assert (await server.run()).state == "done"
    instance.reply = answer("x" * 262_145)
    assert (await server.run()).error == "executor answer is over 262144 bytes"


async def test_the_limit_holds_for_the_decompressed_answer(start_server, instance, answer):
    server = await start_server(instance, max_answer_bytes=1000)
    instance.reply = answer(gzip.compress(b"x" * 1_000_000), content_encoding="gzip")
    assert (await server.run()).error == "executor answer is over 1000 bytes"


async def test_the_next_task_runs_after_an_answer_over_the_limit(start_server, instance, answer):
    server = await start_server(instance, workers=1, max_answer_bytes=1000)
    instance.reply = answer("x" * 1_000_000)
    await server.run()
    instance.reply = answer("ok")
    assert (await server.run()).state == "done"
