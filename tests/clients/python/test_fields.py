"""A field of the wrong kind is refused before anything is sent, by an error with its name and what it takes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pydantic
import pytest

from taskyard import Client, NewTask
from taskyard.v1 import schedule_pb2, task_pb2
from tests.cases import every_case


class Model(pydantic.BaseModel):
    """A model."""

    x: int = 1


@dataclass
class Record:
    """A dataclass."""

    x: int = 1


@every_case(
    ("fields", "problem"),
    [
        (
            {"params": Model()},
            r"params: is a dict of JSON; for models, .* make an Action, not Model\(x=1\)",
        ),
        ({"params": Record()}, r"params: is a dict of JSON.*Record\(x=1\)"),
        ({"params": [1]}, r"params: is a dict of JSON"),
        ({"deadline": 5.0}, r"deadline: is a timedelta, or a datetime with a time zone, not 5.0 \(float\)"),
        ({"deadline": "5s"}, r"deadline: is a timedelta"),
        ({"not_before": 5}, r"not_before: is a timedelta, or a datetime"),
        ({"run_timeout": 5}, r"run_timeout: is a timedelta, not 5 \(int\)"),
        ({"labels": ["a"]}, r"labels: is a dict of texts"),
        ({"labels": {"a": 1}}, r"labels: is a dict of texts, a is 1 \(int\)"),
        ({"requires": "gpu"}, r"requires: is a sequence of names, not 'gpu' \(str\)"),
        ({"requires": [1]}, r"requires: is a sequence of names"),
        ({"requires": 5}, r"requires: is a sequence of names"),
        ({"priority": "high"}, r"priority: is a whole number, not 'high' \(str\)"),
        ({"retry_policy": 3}, r"retry_policy: is a RetryPolicy, not 3 \(int\)"),
        ({"target": Model()}, r"target: is a text"),
        ({"hold": 1}, r"hold: is True or False"),
        ({"colour": "red"}, r"colour: is no field of a task; there are: after,"),
        ({"params": {"a": {"b": [1, object()]}}}, r"params.a.b\[1\]: object is not a JSON value"),
        ({"params": {"a": set(range(10_000))}}, r"params.a: set is not a JSON value: .{200}$"),
        ({"params": {"a": {1: 2}}}, r"params.a: the keys of a JSON object are strings, not 1"),
    ],
)
async def test_a_field_of_the_wrong_type_is_a_type_error(client: Client, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        await client.submit("click", **fields)


@every_case(
    ("fields", "problem"),
    [
        ({"deadline": datetime(2026, 1, 1)}, r"deadline: datetime.datetime\(2026.* must have a time zone"),
        ({"run_timeout": timedelta()}, "run_timeout: is longer than nothing"),
        ({"run_timeout": timedelta(days=60)}, "run_timeout: is longer than nothing, at most 49 days"),
        ({"priority": 2**31}, "priority: is from -2147483648 to 2147483647, not 2147483648"),
        ({"token_limit": -1}, "token_limit: is from 0 to 4294967295, not -1"),
        ({"params": {"names": ["\ud800"]}}, r"params.names\[0\]: it is no valid Unicode"),
        ({"params": {"id": 2**53 + 1}}, r"params.id: 9007199254740993 is beyond 2\^53.*use an Action"),
        ({"params": {"ids": [1, -(2**60)]}}, r"params.ids\[1\]: -1152921504606846976 is beyond"),
    ],
)
async def test_a_field_of_the_wrong_value_is_a_value_error(
    client: Client, fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        await client.submit("click", **fields)


async def test_a_result_past_what_json_holds_is_refused_too(client: Client) -> None:
    with pytest.raises(ValueError, match=r"result\[0\]: 18014398509481984 is beyond"):
        await client.resolve("tsk_1", [2**54])


async def test_a_task_is_a_name_a_task_or_an_action(client: Client) -> None:
    with pytest.raises(TypeError, match=r"task: is a text, a NewTask or an Action, not 5 \(int\)"):
        await client.submit(5)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"action: is a text, or an Action"):
        await client.submit(NewTask(None))  # type: ignore[arg-type]


def test_new_fields_are_sent_alone_in_batches_and_by_schedules() -> None:
    task = NewTask("click", run_timeout=timedelta(seconds=1.5), parent_id="tsk_1")
    for message in (task.to_message("ann", "k"), task.to_batch_message("k")):
        assert (message.run_timeout_ms, message.parent_id) == (1_500, "tsk_1")
    template = NewTask("click", run_timeout=timedelta(microseconds=1), deadline=timedelta(seconds=5)).to_template("ann")
    expected = schedule_pb2.TaskTemplate(agent_id="ann", action="click", priority=0, run_timeout_ms=1, deadline_secs=5)
    assert template == expected
    assert NewTask.from_template(template).run_timeout == timedelta(milliseconds=1)


def test_a_parent_is_that_of_the_handler_unless_the_task_names_another_or_none() -> None:
    assert NewTask("click").to_message("ann", "k", parent_id="tsk_1").parent_id == "tsk_1"
    message = NewTask("click", on_parent_end="cancel").to_message("ann", "k", parent_id="tsk_1")
    assert (message.parent_id, message.on_parent_end) == ("tsk_1", task_pb2.Parent.cancel)
    assert NewTask("click", parent_id="tsk_2").to_message("ann", "k", parent_id="tsk_1").parent_id == "tsk_2"
    assert not NewTask("click", parent_id="").to_message("ann", "k", parent_id="tsk_1").HasField("parent_id")


def test_with_a_codec_params_travel_as_what_it_made_of_them() -> None:
    class Reversing:
        name = "reversing"

        def encode(self, data: bytes, /) -> bytes:
            return data[::-1]

        def decode(self, data: bytes, /) -> bytes:
            return data[::-1]

    message = NewTask("click", {"a": 2**60}).to_message("ann", "k", Reversing())
    assert not message.HasField("params")
    data = b'{"a":1152921504606846976}'[::-1]
    assert message.input == task_pb2.Payload(data=data, encoding="reversing")
