"""Each field of a task, set alone, comes back the same: by every way to submit it, and after a restart.

A new field of `SubmitTaskRequest` fails here until it has a value in `VALUES`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.testing import Yard
from taskyard.v1 import batch_pb2, schedule_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.batch_pb2_grpc import BatchServiceStub
from taskyard.v1.schedule_pb2_grpc import ScheduleServiceStub
from taskyard.v1.task_pb2_grpc import TaskServiceStub
from tests.cases import every_case

AGENT = "ann"
LATER = Timestamp(seconds=2_000_000_000)
"""After the yard's time, and before it has passed."""
VALUES: dict[str, Any] = {
    "tab_id": "tab",
    "ref": "e14",
    "params": Struct(fields={"url": Value(string_value="x")}),
    "priority": -3,
    "deadline": LATER,
    "callback_url": "https://example.org/hook",
    "project": "shop",
    "requires": ["eu", "gpu"],
    "labels": {"env": "", "site": "shop"},
    "target": "site",
    "hold": True,
    "not_before": LATER,
    "token_limit": 0,
    "retry_policy": pb.RetryPolicy(
        max_attempts=3, first_delay_ms=5, multiplier=1.5, max_delay_ms=70, non_retryable_codes=["gone"]
    ),
    "idempotency_key": "once",
    "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
    "run_timeout_ms": 1,
    "parent_id": "tsk_parent",
    "input": pb.Payload(data=b"[1]"),
    "concurrency_keys": ["site:a", "site:b"],
    "after": ["first"],
    "after_policy": pb.After.ended,
    "unique_key": "daily",
    "unique_while": pb.Unique.queued,
    "on_conflict": pb.Unique.replaceQueued,
    "on_target_failure": "continue",
    "selector": "#btn",
    "inputs": {"page": "first"},
    "on_parent_end": pb.Parent.cancel,
}
NEEDS = {
    "after_policy": "after",
    "unique_while": "unique_key",
    "on_conflict": "unique_key",
    "on_target_failure": "target",
    "on_parent_end": "parent_id",
}
"""Fields that say something of another one, which goes along."""
OF_THE_ANSWER = ("on_conflict",)
"""Fields that no task shows: they are about the submission alone."""
FIELDS = [name for name in pb.SubmitTaskRequest.DESCRIPTOR.fields_by_name if name not in ("agent_id", "action")]
OF_TEMPLATES = [name for name in FIELDS if name in schedule_pb2.TaskTemplate.DESCRIPTOR.fields_by_name]


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with Yard(store=tmp_path / "yard.db", settings={"scheduler": {"maxPerAgent": 200}}) as yard:
        yield yard


@pytest.fixture
async def channel(yard: Yard) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(yard.address) as channel:
        yield channel


def given(field: str, first: str, way: str) -> dict[str, Any]:
    """The field with what it needs. What must be another one for each task is so."""
    values = {name: VALUES[name] for name in (field, NEEDS.get(field)) if name}
    for name in values.keys() & {"idempotency_key", "unique_key"}:
        values[name] = f"{field} {way}"
    real = {"after": [first], "inputs": {"page": first}}
    return values | {name: real[name] for name in values.keys() & real.keys()}


def fields_of(message: Message) -> dict[str, Any]:
    return {field.name: value for field, value in message.ListFields()}


def shown(task: pb.Task, name: str) -> Any:
    value = getattr(task, name)
    return dict(value) if isinstance(VALUES[name], dict) else list(value) if isinstance(VALUES[name], list) else value


async def submit_alone(channel: grpc.aio.Channel, values: dict[str, Any]) -> str:
    request = pb.SubmitTaskRequest(agent_id=AGENT, action="act", **values)
    return (await TaskServiceStub(channel).SubmitTask(request)).task_id


async def submit_on_a_stream(channel: grpc.aio.Channel, values: dict[str, Any]) -> str:
    def requests() -> Iterator[pb.SubmitTasksRequest]:
        yield pb.SubmitTasksRequest(tasks=[pb.SubmitTaskRequest(agent_id=AGENT, action="act", **values)])

    (answer,) = [each async for each in TaskServiceStub(channel).SubmitTasks(requests())]
    return answer.outcomes[0].accepted.task_id


async def submit_in_a_batch(channel: grpc.aio.Channel, values: dict[str, Any]) -> str:
    own = {name: values[name] for name in values if name in batch_pb2.BatchTask.DESCRIPTOR.fields_by_name}
    theirs = {name: values[name] for name in values.keys() - own.keys()}
    task = batch_pb2.BatchTask(action="act", **own)
    request = batch_pb2.SubmitBatchRequest(agent_id=AGENT, tasks=[task], **theirs)
    return (await BatchServiceStub(channel).SubmitBatch(request)).tasks[0].task_id


WAYS = {"alone": submit_alone, "on a stream": submit_on_a_stream, "in a batch": submit_in_a_batch}


def test_each_field_has_a_value():
    assert sorted(VALUES) == sorted(FIELDS)


@every_case("field", FIELDS)
async def test_a_field_comes_back_by_every_way_and_after_a_restart(yard, channel, field):
    first = await submit_alone(channel, {"hold": True})
    before = {}
    for way, submit in WAYS.items():
        values = given(field, first, way)
        task_id = await submit(channel, values)
        task = await TaskServiceStub(channel).GetTask(pb.GetTaskRequest(task_id=task_id))
        for name, value in values.items():
            if name not in OF_THE_ANSWER:
                assert shown(task, name) == value, way
        before[task_id] = task
    await yard.restart()
    for task_id, task in before.items():
        again = await TaskServiceStub(channel).GetTask(pb.GetTaskRequest(task_id=task_id))
        assert fields_of(again) == fields_of(task)


@every_case("field", OF_TEMPLATES)
async def test_a_schedule_shows_a_field_and_its_tasks_have_it_after_a_restart_too(yard, channel, field):
    values = given(field, "", "from a schedule")
    template = schedule_pb2.TaskTemplate(agent_id=AGENT, action="act", **values)
    request = schedule_pb2.CreateScheduleRequest(interval="1h", task=template)
    created = (await ScheduleServiceStub(channel).CreateSchedule(request)).schedule
    await yard.restart()
    stub = ScheduleServiceStub(channel)
    schedule = (await stub.GetSchedule(schedule_pb2.GetScheduleRequest(schedule_id=created.schedule_id))).schedule
    for its in (created.task, schedule.task):
        assert {name: shown(its, name) for name in values} == values
    asked = schedule_pb2.TriggerScheduleRequest(schedule_id=created.schedule_id)
    trigger = (await stub.TriggerSchedule(asked)).trigger
    task = await TaskServiceStub(channel).GetTask(pb.GetTaskRequest(task_id=trigger.task_id))
    assert {name: shown(task, name) for name in values} == values
