"""Every call, by an agent who knows names and ids of another: no answer tells more (docs/operate/security.md, Agents).

A new call is among them by itself. What is asked for are the ids, names and keys of a task, a batch, a schedule and a
trigger of another agent, in each field of text.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

import taskyard.v1
from taskyard.v1 import batch_pb2, schedule_pb2, schedule_pb2_grpc, task_pb2
from tests.access.sight_yard import Stubs, sight_yard, stubs
from tests.access.yards import AGENT, Yard
from tests.cases import every_case

MARK = "rosebud"
"""Stands in all that the other agent has, but for what the caller knows."""
STREAM_SECS, SECS = 0.5, 10.0
ENDS_THE_SERVER = "DrainServer"


def _methods() -> Iterator[MethodDescriptor]:
    for file in sorted(Path(taskyard.v1.__path__[0]).glob("*_pb2.py")):
        for service in import_module(f"taskyard.v1.{file.stem}").DESCRIPTOR.services_by_name.values():
            yield from service.methods


METHODS = {method.name: method for method in _methods() if method.name != ENDS_THE_SERVER}


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with sight_yard(tmp_path_factory.mktemp("yard")) as made:
        yield made


@pytest.fixture(scope="module")
def known(yard: Yard) -> list[str]:
    """What the caller knows of the other's things."""
    with stubs(yard, "operator") as operator:
        return [*things_of(operator), AGENT, "target of ann", "key of ann"]


def things_of(operator: Stubs) -> list[str]:
    request = task_pb2.SubmitTaskRequest(
        agent_id=AGENT, action=MARK, ref=MARK, target="target of ann", idempotency_key="key of ann", labels={"a": MARK}
    )
    request.params.update({"word": MARK})
    task_id = operator.call(operator.tasks.SubmitTask, request).task_id
    batch = batch_pb2.SubmitBatchRequest(agent_id=AGENT, tasks=[batch_pb2.BatchTask(action=MARK)])
    batch_id = operator.call(operator.batches.SubmitBatch, batch).batch_id
    schedules = schedule_pb2_grpc.ScheduleServiceStub(operator.channel)
    template = schedule_pb2.TaskTemplate(agent_id=AGENT, action=MARK)
    create = schedule_pb2.CreateScheduleRequest(schedule_id="s", cron="0 3 * * *", display_name=MARK, task=template)
    operator.call(schedules.CreateSchedule, create)
    fired = operator.call(schedules.TriggerSchedule, schedule_pb2.TriggerScheduleRequest(schedule_id="s"))
    return [task_id, batch_id, "s", fired.trigger.trigger_id]


def requests_of(method: MethodDescriptor, known: list[str]) -> Iterator[Any]:
    """An empty request, and one for each value in each field of text; those that act as somebody act as the caller."""
    make = GetMessageClass(method.input_type)
    for field in [None, *method.input_type.fields]:
        if field is not None and field.type != FieldDescriptor.TYPE_STRING:
            continue
        for value in known if field is not None else [""]:
            request = make()
            if field is not None and field.is_repeated:
                getattr(request, field.name).append(value)
            elif field is not None:
                setattr(request, field.name, value)
            for flag in ("until_ended", "include_current"):
                if flag in method.input_type.fields_by_name and field is not None:
                    setattr(request, flag, field.name in ("task_ids", "batch_id") or flag == "include_current")
            yield request


def answer(channel: grpc.Channel, method: MethodDescriptor, request: Any, metadata: Any) -> bytes:
    """All that is told."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    told = b""
    try:
        if method.client_streaming:
            for part in channel.stream_stream(path, type(request).SerializeToString)(
                iter([request]), metadata=metadata, timeout=STREAM_SECS
            ):
                told += part
        elif method.server_streaming:
            for part in channel.unary_stream(path, type(request).SerializeToString)(
                request, metadata=metadata, timeout=STREAM_SECS
            ):
                told += part
        else:
            told = channel.unary_unary(path, type(request).SerializeToString)(request, metadata=metadata, timeout=SECS)
    except grpc.RpcError as error:
        told += repr((error.details(), error.trailing_metadata())).encode()
    return told


@every_case("name", METHODS)
def test_no_answer_tells_of_the_things_of_another(yard: Yard, known: list[str], name: str) -> None:
    method = METHODS[name]
    ids = [each for each in known if each[:4] in ("tsk_", "bat_", "trg_")]
    with stubs(yard, "bob") as bob:
        for request in requests_of(method, known):
            asked = request.SerializeToString()
            if name == "WaitTask":
                request.timeout_ms = 1_000
            told = answer(bob.channel, method, request, bob.metadata)
            assert MARK.encode() not in told
            assert [each for each in ids if each.encode() in told and each.encode() not in asked] == []
    with stubs(yard, "operator") as operator:
        tasks = operator.call(operator.tasks.ListTasks, task_pb2.ListTasksRequest(agent_id=AGENT)).tasks
    assert {task.state for task in tasks} == {task_pb2.Task.queued}
