"""Conversion of tasks and JSON values between plain Python and messages."""

import dataclasses
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard import Attempt, NewTask, Progress, RetryPolicy, Task, TaskState
from taskyard.v1 import batch_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard.values.convert import plain_object, plain_value, struct_from, timestamp_from, value_from
from taskyard.values.task_fields import ActionFields, TaskFields
from tests.cases import every_case

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_json_values_survive_the_round_trip(value):
    assert plain_value(value_from(value)) == value


@given(st.dictionaries(st.text(), JSON))
def test_json_objects_survive_the_round_trip(value):
    assert plain_object(struct_from(value)) == value


def test_whole_numbers_come_back_as_ints_and_others_as_floats():
    back = plain_object(struct_from({"whole": 3, "whole_float": 3.0, "part": 0.5, "large": 1e300}))
    assert {key: type(value) for key, value in back.items()} == {
        "whole": int,
        "whole_float": int,
        "part": float,
        "large": float,
    }


def test_empty_objects_and_lists_survive_the_round_trip():
    assert plain_object(struct_from({"o": {}, "l": [], "t": ()})) == {"o": {}, "l": [], "t": []}


@every_case("value", [object(), {1: 2}, {"x": {1, 2}}, b"bytes", [datetime.now(UTC)]])
def test_values_that_are_not_json_are_refused(value):
    with pytest.raises(TypeError):
        value_from(value)


def test_a_time_in_another_zone_is_converted_to_utc():
    east = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp_from(east) == timestamp_from(datetime(2026, 1, 1, tzinfo=UTC))


def test_states_are_those_of_the_proto_and_say_whether_they_are_final():
    names = {pb.Task.State.Name(number) for number in pb.Task.State.values()} - {"unspecified"}
    assert {state.value for state in TaskState} == names
    assert {state for state in TaskState if state.ended} == {"done", "failed", "cancelled", "rejected"}


def test_a_task_shows_every_field_of_the_proto():
    fields = {field.name.removesuffix("_ms") for field in pb.Task.DESCRIPTOR.fields} - {"task_id"} | {"id"}
    assert {field.name for field in dataclasses.fields(Task)} == fields


def test_a_new_task_has_every_field_of_the_request_and_calls_accept_them_all():
    fields = {field.name for field in dataclasses.fields(NewTask)}
    assert fields == {field.name.removesuffix("_ms") for field in pb.SubmitTaskRequest.DESCRIPTOR.fields}
    assert set(TaskFields.__annotations__) == fields - {"action", "input"} | {"retry"}
    assert set(ActionFields.__annotations__) == set(TaskFields.__annotations__) - {"params"}


def test_every_field_of_a_task_is_converted():
    at = timestamp_from(datetime(2026, 1, 1, tzinfo=UTC))
    message = pb.Task(
        task_id="tsk_1",
        agent_id="ann",
        action="click",
        state=pb.Task.failed,
        priority=-1,
        created_at=at,
        started_at=at,
        hold=True,
        not_before=at,
        token_limit=0,
        tokens_used=7,
        retry_policy=pb.RetryPolicy(max_attempts=3, non_retryable_codes=["auth"]),
        attempts=[pb.Attempt(number=1, host_id="h", started_at=at, ended_at=at, error="broken", code="net")],
        run=2,
        progress=pb.Progress(fraction=0.5, message="half", details=struct_from({"n": 1}), reported_at=at),
        result=value_from(None),
    )
    task = Task.from_message(message)
    time = datetime(2026, 1, 1, tzinfo=UTC)
    assert (task.state, task.priority, task.hold, task.not_before, task.run) == ("failed", -1, True, time, 2)
    assert (task.token_limit, task.tokens_used) == (0, 7)
    assert task.retry_policy == RetryPolicy(max_attempts=3, non_retryable_codes=("auth",))
    assert task.attempts == (Attempt(1, "h", time, time, "broken", "net"),)
    assert task.progress == Progress(0.5, "half", {"n": 1}, time)
    assert (task.completed_at, task.result, task.tab_id) == (None, None, None)


def test_absent_fields_are_none_or_empty():
    task = Task.from_message(pb.Task(task_id="tsk_1", agent_id="ann", action="click", state=pb.Task.queued))
    assert (task.params, task.labels, task.requires, task.attempts, task.run, task.hold) == ({}, {}, (), (), 1, False)
    assert (task.deadline, task.latency, task.result, task.progress, task.retry_policy) == (None,) * 5


def test_a_task_of_a_batch_is_the_same_without_agent_and_callback():
    task = NewTask(
        "click", {"x": 1}, "tab", "e1", 4, timedelta(seconds=5), retry_policy=RetryPolicy(2), labels={"a": "b"}
    )
    alone, batched = task.to_message("ann", "key"), task.to_batch_message("key")
    alone.ClearField("agent_id")
    for message in (alone, batched):
        message.ClearField("deadline")
    assert batched == batch_pb2.BatchTask.FromString(alone.SerializeToString())
    assert (batched.action, batched.params["x"], batched.idempotency_key) == ("click", 1, "key")
