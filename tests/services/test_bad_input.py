"""Bad input over gRPC: a refusal that names the field and changes nothing."""

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.batch_pb2 import BatchTask
from taskyard.v1.task_pb2 import After, Parent, Unique
from tests.cases import every_case

TOO_LONG = "x" * 1025


@pytest.fixture
async def api(api):
    """A server with one task."""
    await api.submit(agent_id="before")
    return api


@pytest.fixture
async def refused(api, refused):
    """Checks that what is refused changes neither the stats nor the tasks."""
    before = await api.stats()

    async def changing_nothing(call):
        refusal = await refused(call)
        assert await api.stats() == before
        assert (await api.list_tasks()).count == 1
        return refusal

    return changing_nothing


def nested_object(levels):
    """An object nested to this many levels."""
    outer = inner = Struct()
    for _ in range(levels - 1):
        inner = inner.fields["x"].struct_value
    inner.SetInParent()
    return outer


# Names

PATH_NAME = "must have 1 to 128 letters, digits, `.`, `_` or `-`, and not begin with a `.`"
REQUIRED = ("agent_id", "action")
NAMES = {"agent_id": "agentId", "action": "action", "tab_id": "tabId", "ref": "ref", "project": "project"}


@every_case("field", REQUIRED)
async def test_a_required_name_must_not_be_empty(api, refused, field):
    refusal = await refused(api.submit(**{field: ""}))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.code == "bad_request"
    assert refusal.message == f"{NAMES[field]}: is required"


@every_case("field", NAMES)
async def test_a_name_must_not_be_longer_than_1024_characters(api, refused, field):
    refusal = await refused(api.submit(**{field: TOO_LONG}))
    assert refusal.code == "bad_request"
    assert refusal.message == f"{NAMES[field]}: must be at most 1024 characters"


@every_case(
    ("fields", "message"),
    [
        ({"requires": [""]}, "requires: is required"),
        ({"requires": [TOO_LONG]}, "requires: must be at most 1024 characters"),
        ({"requires": [str(n) for n in range(65)]}, "requires: must have at most 64 entries"),
        ({"labels": {"": "x"}}, "labels: is required"),
        ({"labels": {TOO_LONG: "x"}}, "labels: must be at most 1024 characters"),
        ({"labels": {"x": TOO_LONG}}, "labels: must be at most 1024 characters"),
        ({"labels": {str(n): "x" for n in range(65)}}, "labels: must have at most 64 entries"),
        ({"concurrency_keys": [""]}, "concurrencyKeys: is required"),
        ({"concurrency_keys": [TOO_LONG]}, "concurrencyKeys: must be at most 1024 characters"),
        ({"concurrency_keys": ["a", "b", "c", "d", "e"]}, "concurrencyKeys: must have at most 4 entries"),
        ({"after": [""]}, "after: is required"),
        ({"after": [str(n) for n in range(33)]}, "after: must have at most 32 entries"),
        ({"after_policy": After.ended}, "afterPolicy: needs after or inputs"),
        ({"after_policy": 9, "after": ["tsk"]}, "afterPolicy: must be among success, ended"),
        ({"inputs": {"": "tsk"}}, f"inputs: {PATH_NAME}"),
        ({"inputs": {".page": "tsk"}}, f"inputs: {PATH_NAME}"),
        ({"inputs": {"a/b": "tsk"}}, f"inputs: {PATH_NAME}"),
        ({"inputs": {"page": ""}}, "inputs: is required"),
        ({"inputs": {"page": TOO_LONG}}, "inputs: must be at most 1024 characters"),
        ({"inputs": {f"n{n}": "tsk" for n in range(33)}}, "inputs: must have at most 32 entries"),
        (
            {"after": ["tsk"] * 2 + ["other"], "inputs": {f"n{n}": "tsk" for n in range(31)}},
            "inputs: must have at most 32 entries together with after",
        ),
        ({"unique_key": TOO_LONG}, "uniqueKey: must be at most 1024 characters"),
        ({"unique_while": Unique.queued}, "uniqueWhile: needs uniqueKey"),
        ({"unique_while": 9, "unique_key": "k"}, "uniqueWhile: must be among queued, live"),
        ({"on_conflict": Unique.reject}, "onConflict: needs uniqueKey"),
        ({"on_conflict": 9, "unique_key": "k"}, "onConflict: must be among existing, reject, replaceQueued"),
        ({"on_target_failure": "block"}, "onTargetFailure: needs target"),
        ({"on_target_failure": "stop", "target": "shop"}, "onTargetFailure: must be among block, continue"),
        ({"on_parent_end": Parent.cancel}, "onParentEnd: needs a parentId"),
        ({"on_parent_end": Parent.keep}, "onParentEnd: needs a parentId"),
        ({"on_parent_end": 9, "parent_id": "tsk_1"}, "onParentEnd: must be among keep, cancel"),
        ({"traceparent": "nonsense"}, "traceparent: must be a W3C trace context"),
        ({"traceparent": "x" * 10_000}, "traceparent: must be a W3C trace context"),
    ],
)
async def test_lists_and_further_fields_are_limited(api, refused, fields, message):
    refusal = await refused(api.submit(**fields))
    assert refusal.code == "bad_request"
    assert refusal.message == message


# Deadlines

YEAR_1, YEAR_10000 = -62_135_596_800, 253_402_300_800


@every_case("seconds", [YEAR_1, -1, 0, 1_700_000_000])
async def test_a_deadline_in_the_past_is_refused(api, refused, seconds):
    refusal = await refused(api.submit(deadline=Timestamp(seconds=seconds)))
    assert refusal.code == "bad_request"
    assert refusal.message == "deadline: must be in the future"


async def test_a_deadline_at_the_current_time_has_passed(api, refused):
    now = Timestamp()
    now.FromNanoseconds(int(api.engine.now() * 1e9))
    assert (await refused(api.submit(deadline=now))).message == "deadline: must be in the future"


@every_case(
    "deadline",
    [
        Timestamp(seconds=YEAR_10000),
        Timestamp(seconds=YEAR_10000 - 1, nanos=999_999_999),
        Timestamp(seconds=3_093_527_980_800),
        Timestamp(seconds=2**63 - 1),
        Timestamp(seconds=4_000_000_000, nanos=-1),
        Timestamp(seconds=4_000_000_000, nanos=1_000_000_000),
    ],
    ids=[
        "year 10000",
        "rounded to the year 10000",
        "year 99999",
        "the maximum",
        "negative nanos",
        "nanos of a second",
    ],
)
async def test_a_deadline_that_is_not_a_valid_time_is_refused(api, refused, deadline):
    refusal = await refused(api.submit(deadline=deadline))
    assert refusal.code == "bad_request"
    assert refusal.message == "deadline: must be a time before the year 10000"


@every_case("deadline", [Timestamp(seconds=YEAR_1 - 1, nanos=999_999_999), Timestamp(seconds=-(2**63))])
async def test_a_deadline_before_the_year_1_is_refused(api, refused, deadline):
    refusal = await refused(api.submit(deadline=deadline))
    assert (refusal.code, refusal.message) == ("bad_request", "deadline: must be a time after the year 0")


# Params


async def test_params_over_the_limit_are_too_large(start_api, refused):
    params = Struct()
    params["text"] = "x" * 1000
    size = params.ByteSize()
    api = await start_api(max_payload_bytes=size - 1)
    refusal = await refused(api.submit(params=params))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.code == "too_large"
    assert refusal.message == f"params: must be at most {size - 1} bytes when encoded, is {size}"
    assert (await api.stats()).metrics.tasks_submitted == 0


async def test_the_documented_limit_of_params_is_256_kib(api, refused):
    params = Struct()
    params["text"] = "x" * 262_144
    assert (await refused(api.submit(params=params))).code == "too_large"


async def test_params_nested_too_deep_are_refused(api, refused):
    refusal = await refused(api.submit(params=nested_object(32)))
    assert refusal.code == "bad_request"
    assert refusal.message == "params: must not nest deeper than 30 levels"


async def test_lists_count_as_levels(api, refused):
    nested_list = Value()
    inner = nested_list
    for _ in range(32):
        inner = inner.list_value.values.add()
    inner.null_value = 0
    refusal = await refused(api.submit(params=Struct(fields={"x": nested_list})))
    assert refusal.message == "params: must not nest deeper than 30 levels"


async def test_params_that_cannot_be_parsed_are_refused(api, refused):
    refusal = await refused(submit_bytes(api, params_nested_in_bytes(200)))
    assert refusal.code == "bad_request"
    assert refusal.message == "request: is not a valid message, or nests too deep"


async def test_params_of_the_maximum_depth_are_shown_in_every_response(start_api):
    api = await start_api()
    deepest = nested_object(30)
    task_id = (await api.submit(params=deepest)).task_id
    assert (await api.get(task_id)).params == deepest
    assert (await api.list_tasks()).tasks[0].params == deepest
    assert (await api.wait(task_id, timeout_ms=0)).task.params == deepest


# Callback URLs


@every_case(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "example.com/hook",
        "//example.com/hook",
        "/hook",
        "http://",
        "http:///hook",
        "http://:80/",
        "http://user@/",
        "https:example.com",
        "http://[::1",
        "http://[nonsense]/",
        "nonsense",
        " ",
    ],
)
async def test_a_callback_must_be_an_http_or_https_url_with_a_host(api, refused, url):
    for call in (api.submit(callback_url=url), api.submit_batch(BatchTask(action="click"), callback_url=url)):
        refusal = await refused(call)
        assert refusal.code == "bad_request"
        assert refusal.message == "callbackUrl: must be an http or https URL"


async def test_a_callback_must_not_be_longer_than_a_name(api, refused):
    refusal = await refused(api.submit(callback_url="http://example.com/" + "x" * 1024))
    assert refusal.message == "callbackUrl: must be at most 1024 characters"


# Times, retry policies

MALFORMED_OPTIONS = {
    "target": ({"target": TOO_LONG}, "target: must be at most 1024 characters"),
    "a target with a line end": ({"target": "a\nb"}, "target: must not hold control characters"),
    "not_before": (
        {"not_before": Timestamp(seconds=253_402_300_800)},
        "notBefore: must be a time before the year 10000",
    ),
    "no attempts": ({"retry_policy": {"max_attempts": 0}}, "retryPolicy.maxAttempts: must be at least 1"),
    "a shrinking delay": ({"retry_policy": {"multiplier": 0.99}}, "retryPolicy.multiplier: must be at least 1"),
    "a multiplier that is NaN": (
        {"retry_policy": {"multiplier": float("nan")}},
        "retryPolicy.multiplier: must be at least 1",
    ),
    "an infinite multiplier": (
        {"retry_policy": {"multiplier": float("inf")}},
        "retryPolicy.multiplier: must be at least 1",
    ),
    "an empty code": ({"retry_policy": {"non_retryable_codes": [""]}}, "retryPolicy.nonRetryableCodes: is required"),
    "many codes": (
        {"retry_policy": {"non_retryable_codes": [str(n) for n in range(65)]}},
        "retryPolicy.nonRetryableCodes: must have at most 64 entries",
    ),
}


@every_case("case", MALFORMED_OPTIONS)
async def test_a_malformed_option_is_refused_by_name(api, refused, case):
    fields, message = MALFORMED_OPTIONS[case]
    refusal = await refused(api.submit(**fields))
    assert (refusal.code, refusal.message) == ("bad_request", message)


@every_case("case", MALFORMED_OPTIONS)
async def test_in_a_batch_the_refusal_also_names_the_task(api, refused, case):
    fields, message = MALFORMED_OPTIONS[case]
    refusal = await refused(api.submit_batch(BatchTask(action="a"), BatchTask(action="b", **fields)))
    assert (refusal.code, refusal.message) == ("bad_request", f"tasks[1].{message}")


# Tasks and lists


@every_case("task_id", ["", "tsk_a1b2c3d4", "tsk_" + "f" * 32, "nonsense", "../..", "x" * 100_000, "a\0b"])
@every_case("method", ["get", "cancel", "wait", "pause", "resume", "resolve"])
async def test_an_unknown_task_is_not_found(api, refused, method, task_id):
    refusal = await refused(getattr(api, method)(task_id))
    assert refusal.status is grpc.StatusCode.NOT_FOUND
    assert refusal.code == "not_found"
    assert refusal.message == "task not found"


@every_case("state", ["nonsense", "DONE", "done,nonsense", "done;failed", "unspecified", "d\0ne"])
async def test_an_unknown_state_is_refused_with_the_known_ones(api, refused, state):
    refusal = await refused(api.list_tasks(state=state))
    assert refusal.code == "bad_request"
    assert refusal.message.startswith("state: unknown state ")
    assert refusal.message.endswith(
        "must be among pending, queued, assigned, running, paused, parked, done, failed, cancelled, rejected, live"
    )


async def test_a_long_state_is_not_repeated_in_full(api, refused):
    assert len((await refused(api.list_tasks(state="x" * 100_000))).message) < 300


@every_case(
    "token", ["nonsense", "=", "é", "MQ", "MTox", "LTE6MA", "\0", "x" * 100_000, "OTk5OTk5OTk5OTk5OTk5OTk5OTk6MA"]
)
async def test_a_forged_page_token_is_refused(api, refused, token):
    refusal = await refused(api.list_tasks(page_token=token))
    assert refusal.code == "bad_request"
    assert refusal.message == "pageToken: is not a token of this listing"


async def test_a_page_size_over_1000_is_1000(start_api):
    api = await start_api(max_queue_size=2000, max_per_agent=2000)
    for _ in range(21):
        await api.submit_batch(*[BatchTask(action="click")] * 50)
    for size in (1001, 2**32 - 1):
        assert (await api.list_tasks(page_size=size)).count == 1000


# Whole messages

SUBMIT = "/taskyard.v1.TaskService/SubmitTask"


def submit_bytes(api, message):
    """SubmitTask with these bytes as its request."""
    return api.channel.unary_unary(SUBMIT)(message)


def length_prefixed(number, content):
    """The encoding of a length-delimited field."""
    length, prefix = len(content), bytearray([number << 3 | 2])
    while length > 127:
        prefix.append(length & 127 | 128)
        length >>= 7
    return bytes(prefix) + bytes([length]) + content


def params_nested_in_bytes(levels):
    """A SubmitTaskRequest whose params nest deeper than Python's protobuf can make."""
    struct = b""
    for _ in range(levels):
        struct = length_prefixed(1, length_prefixed(1, b"x") + length_prefixed(2, length_prefixed(5, struct)))
    return length_prefixed(5, struct)


@every_case(
    "message",
    [b"\xff\xff\xff", b"\x0a\xff", b'{"agentId":"ann"}', length_prefixed(1, b"\xff\xfe"), b"\x00" * 1000],
    ids=["garbage", "truncated", "JSON", "a name that is not UTF-8", "zeros"],
)
async def test_malformed_bytes_are_a_bad_request(api, refused, message):
    refusal = await refused(submit_bytes(api, message))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.message == "request: is not a valid message, or nests too deep"


async def test_an_empty_message_is_refused_for_its_first_required_field(api, refused):
    assert (await refused(submit_bytes(api, b""))).message == "agentId: is required"


async def test_an_unknown_field_is_ignored(start_api):
    api = await start_api()
    await submit_bytes(api, length_prefixed(1, b"ann") + length_prefixed(2, b"click") + b"\xf8\x7f\x01")
    assert (await api.list_tasks()).tasks[0].agent_id == "ann"


async def test_an_unknown_method_is_unimplemented(api):
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await api.channel.unary_unary("/taskyard.v1.TaskService/Nonsense")(b"")
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


# Namespaces


@every_case("namespace", ["", " ", "a b", "a/b", "../x", "-x", ".x", "_x", "x" * 64, '"', "a:b", "default,other"])
async def test_an_invalid_namespace_is_refused(api, refused, namespace):
    metadata = (("taskyard-namespace", namespace),)
    for call in (api.submit(metadata=metadata), api.list_tasks(metadata=metadata), api.stats(metadata=metadata)):
        refusal = await refused(call)
        assert refusal.code == "bad_request"
        assert refusal.message == "taskyard-namespace: must be 1 to 63 letters, digits, dots, dashes or underscores"
