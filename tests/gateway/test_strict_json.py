"""Bodies are strict JSON (RFC 8259, docs/rules.md, REST): what a lenient parser would repair is refused."""

import json
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tests.gateway.gateways import assert_refused
from tests.gateway.routes import ROUTES, Route

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMIT = 1_048_576
SECS_FOR_THE_LARGEST_BODY = 10.0
FREE = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")
CHANGING = [route for route in ROUTES if route.verb != "GET" and not route.has_content]
STRICT = ("/tasks:", "/limits", "/tokens", "/namespaces", "/agents", "/schedules", "/admin")
CLOSED = [route for route in CHANGING if route.template.startswith(STRICT) and route.has_body]
"""The calls where a misspelt field would let more be done than was meant."""
OPEN = [route for route in CHANGING if route not in CLOSED and route.has_body]


async def post(rest: httpx.AsyncClient, body: str | bytes, path: str = "/tasks") -> httpx.Response:
    return await rest.post(path, content=body, headers={"content-type": "application/json"})


def params(text: str) -> str:
    return '{"agentId":"a","params":{"x":' + text + "}}"


@pytest.mark.parametrize(
    "body",
    [
        '{"agentId":"a","params":{}}',
        ' \t\r\n{ "agentId" :\n"a" , "params" : { } }\r\n ',
        params("[1, -0, 0.5, -1.5e+10, 1E5, 1e-5, 123456789]"),
        params('["", "\\"\\\\\\/\\b\\f\\n\\r\\t", "\\u0000\\u00e9", "\\ud83d\\ude00", "é😀\x7f"]'),
        params("[true, false, null, [], {}, [[]], [{}], {'': 1}]".replace("'", '"')),
        params('{"a": {"a": 1}, "A": 2, "a_b": 3, "aB": 4, "tasks": 5, "requires": "x"}'),
        params("[" * 20 + "]" * 20),
        '{"agentId":"a","colour":{"requires":"x","tasks":{}}}',
        '{"agentId":"a","requires":null,"retryPolicy":null,"labels":{"requires":"x"}}',
        '{"agentId":"a","requires":[],"retryPolicy":{"nonRetryableCodes":[]}}',
    ],
)
async def test_json_is_taken(rest: httpx.AsyncClient, body: str) -> None:
    assert (await post(rest, body)).status_code == 202


@pytest.mark.parametrize("body", ["", "{}"])
async def test_a_body_may_be_empty(rest: httpx.AsyncClient, body: str) -> None:
    assert (await post(rest, body)).status_code == 202


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("{'agentId':'a'}", "expected a key in double quotes at byte 2, found: 'agentId':'a'}"),
        ('{agentId:"a"}', 'expected a key in double quotes at byte 2, found: agentId:"a"}'),
        ('{"agentId":"a",}', "expected a key in double quotes at byte 16, found: }"),
        ("{\"agentId\":'a'}", "expected a value at byte 12, found: 'a'}"),
        ('{"agentId":a}', "expected a value at byte 12, found: a}"),
        ('{"agentId":}', "expected a value at byte 12, found: }"),
        ('{"agentId":', "expected a value at byte 12, found: the end"),
        ('{"agentId" "a"}', 'expected a colon at byte 12, found: "a"}'),
        ('{"agentId":"a" "b"}', 'expected a comma or } at byte 16, found: "b"}'),
        ('{"agentId":"a"', "expected a comma or } at byte 15, found: the end"),
        ('{"agentId":"a', "expected a closing quote at byte 14, found: the end"),
        ('{"agentId":"a\\"', "expected a closing quote at byte 16, found: the end"),
        ('{"agentId":"a"}}', "expected the end at byte 16, found: }"),
        ("{}{}", "expected the end at byte 3, found: {}"),
        ("{}\0", "expected the end at byte 3, found: \0"),
        ("agentId=a", "expected a value at byte 1, found: agentId=a"),
        (" ", "expected a value at byte 2, found: the end"),
        ('\ufeff{"agentId":"a"}', 'expected a value at byte 1, found: \ufeff{"agentId":"a"}'),
        ('\v{"agentId":"a"}', 'expected a value at byte 1, found: \v{"agentId":"a"}'),
        ('{\xa0"agentId":"a"}', 'expected a key in double quotes at byte 2, found: \xa0"agentId":"a"}'),
        ("{// none\n}", "expected a key in double quotes at byte 2, found: // none\n}"),
        ("{/* none */}", "expected a key in double quotes at byte 2, found: /* none */}"),
        ('{"x":NaN}', "expected a value at byte 6, found: NaN}"),
        ('{"x":Infinity}', "expected a value at byte 6, found: Infinity}"),
        ('{"x":-Infinity}', "expected a digit at byte 7, found: Infinity}"),
        ('{"x":True}', "expected a value at byte 6, found: True}"),
        ('{"x":nul}', "expected a value at byte 6, found: nul}"),
        ('{"x":nulll}', "expected a comma or } at byte 10, found: l}"),
        ('{"x":01}', "expected a comma or } at byte 7, found: 1}"),
        ('{"x":1.}', "expected a digit at byte 8, found: }"),
        ('{"x":.5}', "expected a value at byte 6, found: .5}"),
        ('{"x":+1}', "expected a value at byte 6, found: +1}"),
        ('{"x":-}', "expected a digit at byte 7, found: }"),
        ('{"x":1e}', "expected a digit at byte 8, found: }"),
        ('{"x":0x10}', "expected a comma or } at byte 7, found: x10}"),
        ('{"x":[1,]}', "expected a value at byte 9, found: ]}"),
        ('{"x":[1 2]}', "expected a comma or ] at byte 9, found: 2]}"),
        ('{"x":[1}', "expected a comma or ] at byte 8, found: }"),
        ('{"x":"a\nb"}', 'expected no control character in a string at byte 8, found: \nb"}'),
        ('{"x":"a\0b"}', 'expected no control character in a string at byte 8, found: \0b"}'),
        ('{"x\ty":1}', 'expected no control character in a string at byte 4, found: \ty":1}'),
        ('{"x":"\\q"}', 'expected an escape sequence of JSON at byte 7, found: \\q"}'),
        ('{"x":"\\\'"}', "expected an escape sequence of JSON at byte 7, found: \\'\"}"),
        ('{"x":"\\U0041"}', 'expected an escape sequence of JSON at byte 7, found: \\U0041"}'),
        ('{"x":"\\u00g1"}', 'expected an escape sequence of JSON at byte 7, found: \\u00g1"}'),
        ('{"x":"\\u12"}', 'expected an escape sequence of JSON at byte 7, found: \\u12"}'),
        ('{"x":"\\ud800"}', 'Missing low surrogate. At: \\ud800"}'),
        ('{"x":"\\udc00"}', 'Invalid unicode code point. At: \\udc00"}'),
        ('{"x":"\\ud800\\u0041"}', 'Invalid low surrogate. At: \\ud800\\u0041"}'),
    ],
)
async def test_what_is_no_json_is_400_and_says_where(rest: httpx.AsyncClient, body: str, error: str) -> None:
    assert_refused(await post(rest, body), f"invalid JSON: {error}")


@pytest.mark.parametrize("invalid", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3", b"\x80"])
async def test_a_body_that_is_not_utf8_is_400(rest: httpx.AsyncClient, invalid: bytes) -> None:
    for body in (b'{"agentId":"%s"}' % invalid, b'{"%s":1}' % invalid):
        error = (await post(rest, body)).json()["error"]
        assert error.startswith("invalid JSON: Encountered non UTF-8 code points. At: \ufffd")


@pytest.mark.parametrize("body", ["[]", "[{}]", '"{}"', "1", "true", "null", " null "])
async def test_json_that_is_no_object_is_400(rest: httpx.AsyncClient, body: str) -> None:
    assert_refused(await post(rest, body), "the body must be a JSON object")


@pytest.mark.parametrize(
    ("body", "second", "key"),
    [
        ('{"agentId":"a","agentId":"b"}', '"agentId"', "agentId"),
        ('{"agentId":"a","agentId":"a"}', '"agentId"', "agentId"),
        ('{"agentId":"a","agent_id":"b"}', '"agent_id"', "agentId"),
        ('{"agent_id":"a","agent\\u0049d":"b"}', '"agent\\u0049d"', "agentId"),
        ('{"agent\\u005fid":"a","agent_id":"b"}', '"agent_id"', "agentId"),
        ('{"retryPolicy":{"maxAttempts":1,"max_attempts":1}}', '"max_attempts"', "maxAttempts"),
        (params('{"x":1,"x":2}'), '"x":2', "x"),
        (params('[{"é":1,"\\u00e9":2}]'), '"\\u00e9"', "é"),
        (params('{"😀":1,"\\uD83D\\uDE00":2}'), '"\\uD83D', "😀"),
        (params('{"\\"":1,"\\u0022":2}'), '"\\u0022"', '"'),
    ],
)
async def test_a_key_that_is_given_twice_is_400(rest: httpx.AsyncClient, body: str, second: str, key: str) -> None:
    where = body.encode().rindex(second.encode()) + 1
    assert_refused(await post(rest, body), f"invalid JSON: the key at byte {where} is given more than once: {key}")


@pytest.mark.parametrize("keys", [("a", "b"), ("\\\\u0061", "a"), ("\\\\n", "\\n"), ("a\\u0000", "a"), ("", " ")])
async def test_keys_that_differ_are_two(rest: httpx.AsyncClient, keys: tuple[str, str]) -> None:
    assert (await post(rest, params(f'{{"{keys[0]}": 1, "{keys[1]}": 2}}'))).status_code == 202


@pytest.mark.parametrize("route", CHANGING, ids=lambda route: f"{route.verb} {route.template}")
async def test_every_path_is_strict(rest: httpx.AsyncClient, route: Route) -> None:
    singles = (
        field.json_name for field in route.request.fields if field.message_type is None and not field.is_repeated
    )
    name = next(singles) if route in CLOSED else "x"
    for body in ("{'x': 1}", "{x: 1}", '{"x": 1,}', "{", "x", '{"x": 1, "x": 1}'):
        answer = await rest.request(route.verb, route.path(), content=body.replace('"x"', f'"{name}"'))
        assert answer.status_code == 400
        assert answer.json()["error"].startswith("invalid JSON: ")
    assert_refused(await rest.request(route.verb, route.path(), content="[]"), "the body must be a JSON object")


# Lists


KINDS: dict[int, tuple[str, object]] = {
    FieldDescriptor.TYPE_STRING: ("a string", "gpu"),
    FieldDescriptor.TYPE_UINT32: ("a number", 1),
    FieldDescriptor.TYPE_MESSAGE: ("an object", {}),
}
"""What the items of a list can be, with one of each."""


def lists_of(message: Descriptor, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """The lists in a message, by the names on the way to them, and the type of their items."""
    for field in message.fields:
        inner = field.message_type
        here = (*at, field.json_name)
        is_map = inner is not None and inner.GetOptions().map_entry
        if field.is_repeated and not is_map:
            yield here, field.type
            here = (*here, "[]")
        if inner is not None and not is_map and inner.full_name not in FREE and inner.full_name.startswith("taskyard"):
            yield from lists_of(inner, here)


LISTS = [(route, at, item_type) for route in CHANGING for at, item_type in lists_of(route.request)]


def around(at: tuple[str, ...], value: object) -> object:
    """A body with this value at this place."""
    for name in reversed(at):
        value = [value] if name == "[]" else {name: value}
    return value


def shown(at: tuple[str, ...]) -> str:
    return ".".join(at).replace(".[]", "[0]")


async def test_there_are_lists_of_all_kinds() -> None:
    assert {item_type for _, _, item_type in LISTS} == set(KINDS)


@pytest.mark.parametrize(("route", "at", "item_type"), LISTS, ids=lambda part: str(getattr(part, "template", part)))
async def test_a_list_takes_nothing_else(
    rest: httpx.AsyncClient, route: Route, at: tuple[str, ...], item_type: int
) -> None:
    async def sent(value: object) -> httpx.Response:
        return await rest.request(route.verb, route.path() + "/?", json=around(at, value))

    for value in ("gpu", {}, {"gpu": 1}, 1, True):
        assert_refused(await sent(value), f"{shown(at)}: must be an array")
    kind, item = KINDS[item_type]
    others = [other for name, other in KINDS.values() if name != kind]
    for value in (None, True, [item], *others):
        assert_refused(await sent([item, value]), f"{shown(at)}[1]: must be {kind}")
    for value in (None, [], [item, item]):
        assert "must be" not in (await sent(value)).text


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('{"params":[]}', "params: must be an object"),
        ('{"params":"x"}', "params: must be an object"),
        ('{"labels":[]}', "labels: must be an object"),
        ('{"retry_policy":5}', "retryPolicy: must be an object"),
        ('{"input":["x"]}', "input: must be an object"),
        ('{"agentId":["a"]}', "agentId: must be a single value"),
        ('{"deadline":{}}', "deadline: must be a single value"),
        ('{"retryPolicy":{"maxAttempts":[1]}}', "retryPolicy.maxAttempts: must be a single value"),
        ('{"params":' + '{"a":' * 30 + "{}" + "}" * 31, "params: must not nest deeper than 30 levels"),
        ('{"params":{"a":' + "[" * 30 + "]" * 30 + "}}", "params: must not nest deeper than 30 levels"),
    ],
)
async def test_a_value_of_another_kind_is_refused_by_its_name(rest: httpx.AsyncClient, body: str, error: str) -> None:
    assert_refused(await post(rest, body), error)


async def test_payloads_of_the_greatest_depth_and_nulls_are_taken(rest: httpx.AsyncClient) -> None:
    for body in ('{"params":' + '{"a":' * 29 + "[]" + "}" * 30, '{"params":null,"labels":null,"retryPolicy":null}'):
        assert (await post(rest, body)).status_code == 202
    answer = await post(rest, '{"result":' + "[" * 30 + "]" * 30 + "}", "/tasks/tsk_1/resolve")
    assert "nest" not in answer.text
    assert_refused(
        await post(rest, '{"result":' + "[" * 31 + "]" * 31 + "}", "/tasks/tsk_1/resolve"),
        "result: must not nest deeper than 30 levels",
    )


async def test_one_of_several_fields_that_exclude_each_other_is_named(rest: httpx.AsyncClient) -> None:
    answer = await post(rest, '{"cron":"* * * * *","interval":"5s"}', "/schedules")
    assert_refused(answer, "interval: excludes another field that is given")


async def test_a_list_has_two_names_as_every_field(rest: httpx.AsyncClient) -> None:
    answer = await post(rest, '{"retry_policy":{"non_retryable_codes":"x"}}')
    assert_refused(answer, "retryPolicy.nonRetryableCodes: must be an array")


# Unknown fields


def fields_of(message: Descriptor, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The fields of a message and of ours in it, by the names on the way to them."""
    for field in message.fields:
        yield (*at, field.json_name)
        inner = field.message_type
        if inner is not None and not inner.GetOptions().map_entry and inner.full_name.startswith("taskyard"):
            yield from fields_of(inner, (*at, field.json_name, *(["[]"] if field.is_repeated else [])))


@pytest.mark.parametrize("route", CLOSED, ids=lambda route: route.template)
async def test_a_field_that_is_misspelt_widens_no_operation_and_no_limit(rest: httpx.AsyncClient, route: Route) -> None:
    fields = list(fields_of(route.request))
    for at in {field[:-1] for field in fields}:
        for wrong in ("colour", "lables", "agentID"):
            answer = await rest.request(route.verb, route.path(), json=around((*at, wrong), "x"))
            assert_refused(answer, f"{shown((*at, wrong))}: is no field of this request")
    for at in fields:
        assert "is no field" not in (await rest.request(route.verb, route.path(), json=around(at, None))).text


async def test_every_call_with_a_body_is_among_them() -> None:
    assert len(CLOSED) > 15
    names = {"tasks", "api", "targets", "events", "answers", "answers:read", "sign-in:exchange"}
    assert {route.template.split("/")[1] for route in OPEN} == names


@pytest.mark.parametrize("route", [*CLOSED, *OPEN], ids=lambda route: f"{route.verb} {route.template}")
async def test_the_fields_of_every_call_are_known(rest: httpx.AsyncClient, route: Route) -> None:
    name = next(
        field.json_name for field in route.request.fields if field.message_type is None and not field.is_repeated
    )
    answer = await rest.request(route.verb, route.path(), json={name: []})
    assert_refused(answer, f"{name}: must be a single value")


@pytest.mark.parametrize("route", OPEN, ids=lambda route: f"{route.verb} {route.template}")
async def test_elsewhere_it_is_no_reason_to_refuse_a_call(rest: httpx.AsyncClient, route: Route) -> None:
    for at in {field[:-1] for field in fields_of(route.request)}:
        answer = await rest.request(route.verb, route.path(), json=around((*at, "colour"), "x"))
        assert "is no field" not in answer.text


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/tasks", {"agentId": "a", "afterIndexes": [0]}, "afterIndexes"),
        ("/tasks", {"agentId": "a", "deadlineSecs": 5}, "deadlineSecs"),
        ("/tasks/batch", {"agentId": "a", "tasks": [{"action": "a", "agent_id": "b"}]}, "tasks[0].agentId"),
        ("/tasks/batch", {"agentId": "a", "priority": 1, "tasks": [{"action": "a"}]}, "priority"),
        *(
            ("/schedules", {"task": {"agentId": "a", "action": "a", name: value}}, f"task.{name}")
            for name, value in {"uniqueKey": "x", "hold": True, "after": ["tsk_1"], "deadline": "2026-01-01"}.items()
        ),
    ],
)
async def test_a_field_of_another_submission_is_refused(
    rest: httpx.AsyncClient, path: str, body: dict[str, object], name: str
) -> None:
    assert_refused(await rest.post(path, json=body), f"{name}: is no field of this request")


async def test_a_payload_of_an_operation_is_free(rest: httpx.AsyncClient) -> None:
    body = {"dryRun": True, "all": True, "result": {"colour": {"lables": [{"x": 1}]}}}
    assert "is no field" not in (await rest.post("/tasks:resolve", json=body)).text


# Size and depth


async def test_a_body_nests_100_levels_deep_at_most(rest: httpx.AsyncClient) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        for depth in (101, 100_000):
            nested = '{"colour":' + opening * (depth - 1) + "1" + closing * (depth - 1) + "}"
            assert_refused(await post(rest, nested), "invalid JSON: nests deeper than 100 levels")
        nested = '{"colour":' + opening * 99 + "1" + closing * 99 + "}"
        assert (await post(rest, nested)).status_code == 202


LARGEST = {
    "one string": json.dumps("x" * (LIMIT - 20)),
    "strings": json.dumps(["x"] * (LIMIT // 5 - 5), separators=(", ", ":")),
    "escapes": '"' + "\\n" * (LIMIT // 2 - 10) + '"',
    "keys": "{" + ",".join(f'"{number:x}":1' for number in range(100_000)) + "}",
    "numbers": "[" + "1," * (LIMIT // 2 - 20) + "1]",
    "spaces": "[" + " " * (LIMIT - 20) + "]",
    "objects": "[" + '{"":1},' * (LIMIT // 7 - 5) + "1]",
    "unclosed": "[" * (LIMIT - 20),
}


@pytest.mark.parametrize("value", LARGEST.values(), ids=LARGEST.keys())
async def test_the_largest_bodies_are_read_in_time(rest: httpx.AsyncClient, value: str) -> None:
    body = f'{{"colour":{value}}}'
    assert LIMIT * 0.8 < len(body) <= LIMIT
    began = time.monotonic()
    assert (await post(rest, body)).status_code in (202, 400)
    assert time.monotonic() - began < SECS_FOR_THE_LARGEST_BODY


async def test_a_body_in_pieces_is_one_body(rest: httpx.AsyncClient) -> None:
    async def pieces(body: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(body), 3):
            yield body[start : start + 3]

    assert (await rest.post("/tasks", content=pieces(params('"é😀"').encode()))).status_code == 202
    answer = await rest.post("/tasks", content=pieces(b'{"agentId":"a",}'))
    assert_refused(answer, "invalid JSON: expected a key in double quotes at byte 16, found: }")


async def test_what_an_error_quotes_is_short(rest: httpx.AsyncClient) -> None:
    answer = await post(rest, "{" + "x" * 10_000)
    assert_refused(answer, "invalid JSON: expected a key in double quotes at byte 2, found: " + "x" * 40)
