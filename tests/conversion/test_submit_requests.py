"""Requests that are scanned give the same submissions and refusals as protobuf and the general conversion."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct
from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard.v1.batch_pb2 import BatchTask, SubmitBatchRequest
from taskyard.v1.task_pb2 import SubmitTaskRequest, SubmitTasksRequest
from taskyard_server.conversion import submissions
from taskyard_server.conversion.submission_scan import scan_task
from taskyard_server.conversion.submit_requests import BatchRequest, TaskRequest, TasksRequest
from taskyard_server.core.admission import check_indexes
from taskyard_server.core.errors import Refusal
from taskyard_server.core.history import RetryPolicy
from tests.cases import every_case
from tests.effort import times

MAX_BYTES = 200
TRACE = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
OTHER_TRACE = "00-" + "3" * 32 + "-" + "4" * 16 + "-00"
COMMON = {"agent_id": "ann", "action": "click"}
NAMES = st.sampled_from(["", " ", "a", "click", "ä", "\u2028", "\x7f", "\u00a0", "x" * 64, "x" * 65, "x" * 1_024])
MANY_NAMES = NAMES | st.text(max_size=5)
NUMBERS = st.sampled_from([0, 1, -1, 127, 128, 2**28 - 1, 2**28, 2**31 - 1, -(2**31)])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def default_retry(action):
    return RetryPolicy(max_attempts=3) if action == "retried" else None


def struct(fields):
    made = Struct()
    made.update(fields)
    return made


def deep(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return struct(value)


PARAMS = st.dictionaries(st.text(max_size=3), JSON, max_size=4).map(struct) | st.integers(28, 32).map(deep)
TASK_FIELDS = {
    "tab_id": MANY_NAMES,
    "ref": MANY_NAMES,
    "params": PARAMS,
    "priority": NUMBERS,
    "project": MANY_NAMES,
    "requires": st.lists(NAMES, max_size=2),
    "labels": st.dictionaries(MANY_NAMES, MANY_NAMES, max_size=3)
    | st.just({str(number): "x" for number in range(64)})
    | st.just({str(number): "x" for number in range(65)}),
    "target": MANY_NAMES,
    "hold": st.booleans(),
    "token_limit": st.integers(0, 9),
    "idempotency_key": MANY_NAMES,
    "traceparent": st.sampled_from(["", "nonsense", OTHER_TRACE]),
    "run_timeout_ms": st.integers(0, 2),
    "parent_id": MANY_NAMES,
    "concurrency_keys": st.lists(NAMES, max_size=2) | st.lists(st.sampled_from("abcdef"), max_size=7),
    "unique_key": MANY_NAMES,
}
ACTIONS = NAMES | st.sampled_from(["click", "click", "retried"])
AGENTS = NAMES | st.sampled_from(["ann", "ann", "bob"])
CALLBACKS = st.sampled_from(["", "http://a"])
TASKS = st.fixed_dictionaries({"action": ACTIONS}, optional=TASK_FIELDS)
ALONE = st.fixed_dictionaries(
    {"agent_id": AGENTS, "action": ACTIONS}, optional=TASK_FIELDS | {"callback_url": CALLBACKS}
)
OWNERS = st.fixed_dictionaries({"agent_id": AGENTS}, optional={"callback_url": CALLBACKS})


def in_order(submission):
    """Protobuf writes the fields of params in any order."""
    if isinstance(submission, Refusal):
        return submission.code, submission.message
    if submission.params is None:
        return submission
    ordered = Struct.FromString(submission.params).SerializeToString(deterministic=True)
    return len(submission.params), submission._replace(params=ordered)


def outcome(convert):
    """The submissions that something returns, or what it raises."""
    try:
        made = convert()
    except DecodeError:
        return "malformed"
    except Refusal as refusal:
        return in_order(refusal)
    return [in_order(each) for each in made] if isinstance(made, list) else in_order(made)


def alone(data, trace=TRACE):
    return outcome(lambda: TaskRequest(data).submission(trace, MAX_BYTES, default_retry))


def alone_by_protobuf(data, trace=TRACE):
    def convert():
        task = SubmitTaskRequest.FromString(data)
        return submissions.submission(task, task.agent_id, task.callback_url, trace, MAX_BYTES, default_retry)

    return outcome(convert)


def together(data):
    return outcome(lambda: TasksRequest(data).submissions(0, 100, None, MAX_BYTES, default_retry))


def together_by_protobuf(data):
    return outcome(
        lambda: submissions.submissions(SubmitTasksRequest.FromString(data).tasks, None, MAX_BYTES, default_retry)
    )


def batch(data):
    return outcome(lambda: BatchRequest(data).submissions(TRACE, MAX_BYTES, default_retry))


def batch_by_protobuf(data):
    def convert():
        request = SubmitBatchRequest.FromString(data)
        owner = request.agent_id, request.callback_url, TRACE, MAX_BYTES, default_retry
        made = [
            submissions.submission(task, *owner, prefix=f"tasks[{index}].") for index, task in enumerate(request.tasks)
        ]
        for number, submission in enumerate(made):
            check_indexes(number, submission.options.extras)
        return made

    return outcome(convert)


@given(ALONE, st.sampled_from([None, TRACE]))
@settings(max_examples=times(100))
def test_a_task_alone_is_the_same_either_way(fields, trace):
    data = SubmitTaskRequest(**fields).SerializeToString()
    assert alone(data, trace) == alone_by_protobuf(data, trace)


@pytest.mark.parametrize("keys", [["run", "run_id"], ["a", "b", "ba", "bab"], ["ä", "äö"], [*map(str, range(64))]])
def test_a_key_that_begins_with_another_makes_no_other_fingerprint(keys):
    data = SubmitTaskRequest(**COMMON, labels=dict.fromkeys(keys, "x"), idempotency_key="k").SerializeToString()
    assert scan_task(data, 0, len(data)) is not None
    assert alone(data) == alone_by_protobuf(data)


@given(st.lists(ALONE, max_size=3))
def test_the_tasks_of_a_stream_are_the_same_either_way(tasks):
    data = SubmitTasksRequest(tasks=[SubmitTaskRequest(**fields) for fields in tasks]).SerializeToString()
    assert together(data) == together_by_protobuf(data)
    assert len(TasksRequest(data).tasks) == len(tasks)


@given(st.lists(TASKS, max_size=3), OWNERS)
def test_a_batch_is_the_same_either_way(tasks, owner):
    data = SubmitBatchRequest(tasks=[BatchTask(**fields) for fields in tasks], **owner).SerializeToString()
    assert batch(data) == batch_by_protobuf(data)
    assert (BatchRequest(data).agent_id, BatchRequest(data).count) == (owner["agent_id"], len(tasks))


def field(number, wire_type, content):
    return (
        bytes([number << 3 & 127 | wire_type | (128 if number > 15 else 0), *([number >> 4] * (number > 15))]) + content
    )


def delimited(content):
    size = len(content)
    return bytes([size] if size < 128 else [size & 127 | 128, size >> 7]) + content


NAME_BYTES = st.sampled_from([b"", b"a", b"click", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\x00", b" ", b"x" * 130])
VARINTS = st.sampled_from(
    [b"\x00", b"\x01", b"\x81\x00", b"\xff\xff\xff\xff\x07", b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\xff" * 11, b"\x80"]
)
ENTRIES = st.lists(
    st.builds(field, st.integers(1, 3), st.just(2), NAME_BYTES.map(delimited))
    | st.builds(field, st.integers(1, 2), st.just(0), VARINTS),
    max_size=3,
).map(b"".join)
VALUES = st.builds(field, st.just(2), st.just(0), VARINTS) | st.builds(
    field, st.integers(1, 6), st.sampled_from([0, 1, 2, 5]), st.binary(max_size=9)
)
STRUCTS = st.lists(
    st.builds(field, st.just(1), st.just(2), (ENTRIES | VALUES | st.binary(max_size=5)).map(delimited)), max_size=3
).map(b"".join)
CONTENTS = (
    NAME_BYTES
    | ENTRIES
    | STRUCTS
    | st.sampled_from(
        [
            struct({"a": 1, "b": ["x", None]}).SerializeToString(),
            TRACE.encode(),
            b"\x0a\x01a\x12\x01b",
            b"\x12\x01b\x0a\x01a",
        ]
    )
)
FIELDS = (
    st.builds(field, st.integers(1, 30), st.just(2), CONTENTS.map(delimited))
    | st.builds(field, st.sampled_from([1, 2, 6, 11, 13]), st.just(0), VARINTS)
    | st.builds(field, st.integers(1, 30), st.sampled_from([1, 3, 4, 5, 6, 7]), st.binary(max_size=9))
)
BEGIN = field(1, 2, delimited(b"ann")) + field(2, 2, delimited(b"click"))
WIRE = st.builds(
    lambda begin, fields, cut: b"".join([begin, *fields])[: cut or None],
    st.sampled_from([b"", BEGIN, BEGIN[5:]]),
    st.lists(FIELDS, max_size=4),
    st.sampled_from([0, 0, 0, -1, -2, -7]),
)


@given(WIRE)
@settings(max_examples=times(400))
def test_whatever_a_task_is_on_the_wire_it_is_the_same_either_way(data):
    assert alone(data) == alone_by_protobuf(data)


@given(st.lists(st.builds(field, st.sampled_from([1, 1, 1, 2, 3]), st.just(2), WIRE.map(delimited)), max_size=3), WIRE)
@settings(max_examples=times(120))
def test_whatever_a_message_of_tasks_is_on_the_wire_it_is_the_same_either_way(tasks, rest):
    for data in (b"".join(tasks), b"".join(tasks)[:-1], b"".join(tasks) + rest):
        assert together(data) == together_by_protobuf(data)


@given(st.lists(st.builds(field, st.sampled_from([3, 3, 1, 2]), st.just(2), WIRE.map(delimited)), max_size=3), WIRE)
@settings(max_examples=times(120))
def test_whatever_a_batch_is_on_the_wire_it_is_the_same_either_way(tasks, rest):
    begin = field(1, 2, delimited(b"ann"))
    for data in (b"".join([begin, *tasks]), b"".join([begin, *tasks])[:-1], b"".join([*tasks, begin]) + rest):
        assert batch(data) == batch_by_protobuf(data)


@every_case(
    "fields",
    [
        {},
        {"tab_id": "t", "ref": "r", "project": "p", "target": "x", "parent_id": "tsk_1"},
        {"params": struct({"a": 1, "b": {"c": [True, None, "d"]}}), "priority": 5},
        {"labels": {"run": "1", "a": "b"}, "idempotency_key": "k", "traceparent": TRACE},
        {"concurrency_keys": ["crawl", "a", "crawl", "b", "c"]},
    ],
)
def test_what_most_tasks_have_is_scanned(fields):
    data = SubmitTaskRequest(**COMMON, **fields).SerializeToString()
    assert scan_task(data, 0, len(data)) is not None


@pytest.mark.parametrize("second", [{}, {"action": ""}, {"hold": True}])
def test_a_task_of_a_stream_may_be_given_a_trace_context(second):
    tasks = [SubmitTaskRequest(**COMMON), SubmitTaskRequest(**COMMON | second)]
    request = TasksRequest(SubmitTasksRequest(tasks=tasks).SerializeToString())
    request.begin_trace(0, OTHER_TRACE)
    first, _ = request.submissions(0, 100, TRACE, MAX_BYTES, default_retry)
    assert first.options.traceparent == OTHER_TRACE


def test_names_are_kept_only_up_to_a_bound():
    for number in range(5_000):
        data = SubmitTaskRequest(agent_id=f"agent-{number}", action="click").SerializeToString()
        assert TaskRequest(data).agent_id == f"agent-{number}"


def test_a_payload_beyond_the_limit_is_refused_in_the_same_words():
    data = SubmitTaskRequest(**COMMON, params=struct({"a": "x" * MAX_BYTES})).SerializeToString()
    assert alone(data) == alone_by_protobuf(data)
    assert alone(data)[0] == "too_large"
