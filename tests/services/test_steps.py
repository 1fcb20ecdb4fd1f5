"""Steps over the services: what a host records is what the next run and callers get (docs/rules.md, Steps)."""

import grpc
import pytest
from google.protobuf.struct_pb2 import Value

from taskyard.v1 import step_pb2 as pb
from taskyard.v1.task_pb2 import Payload, ResumeTaskRequest
from tests.services.host_streams import held_lease


def under(assignment):
    """The fields by which a host names a lease that it has."""
    held = held_lease(assignment)
    return {"host_id": "host", "task_id": held.task_id, "fencing_token": held.fencing_token}


def record(server, assignment, name, **fields):
    return server.steps.RecordStep(pb.RecordStepRequest(name=name, **under(assignment), **fields))


async def running(server, **fields):
    """A stream of a host, and its next task."""
    stream = await server.connect(credit=10)
    await server.submit(**fields)
    return stream, await stream.task()


async def test_a_step_comes_back_as_it_was_recorded(server):
    stream, assignment = await running(server)
    assert not assignment.task.HasField("steps")
    result = Value(string_value="hello")
    answer = await record(server, assignment, "fetch page", result=result, duration_ms=12)
    assert (answer.task_id, answer.number, answer.repeated) == (assignment.task.task_id, 1, False)
    typed = Payload(data=b"[1]")
    assert (await record(server, assignment, "typed", output=typed)).number == 2
    assert (await record(server, assignment, "nothing")).number == 3
    assert await stream.report_one(assignment, released=True) == "queued"
    again = await stream.task()
    assert again.task.steps == 3
    steps = (await server.steps.FetchSteps(pb.FetchStepsRequest(**under(again)))).steps
    assert [(step.name, step.run, step.attempt) for step in steps] == [
        ("fetch page", 1, 1),
        ("typed", 1, 1),
        ("nothing", 1, 1),
    ]
    assert steps[0].result == result
    assert steps[0].duration_ms == 12
    assert steps[0].recorded_at.seconds > 0
    assert steps[1].output == typed
    assert not steps[1].HasField("result")
    assert not steps[2].HasField("result")
    assert not steps[2].HasField("duration_ms")
    listed = await server.steps.ListSteps(pb.ListStepsRequest(task_id=again.task.task_id))
    assert list(listed.steps) == list(steps)
    assert (await server.get(again.task.task_id)).steps == 3


async def test_a_name_that_is_there_stays_as_it_was(server):
    _, assignment = await running(server)
    await record(server, assignment, "a", result=Value(number_value=1))
    answer = await record(server, assignment, "a", result=Value(number_value=2))
    assert (answer.number, answer.repeated) == (1, True)
    (step,) = (await server.steps.ListSteps(pb.ListStepsRequest(task_id=assignment.task.task_id))).steps
    assert step.result.number_value == 1


async def test_steps_say_in_which_run_and_attempt_they_were_recorded(server):
    stream, assignment = await running(server, retry_policy={"max_attempts": 2, "first_delay_ms": 0})
    await record(server, assignment, "a")
    await stream.report_one(assignment, failed="broken")
    await server.advance(1)
    second = await stream.task()
    await record(server, second, "b")
    await stream.report_one(second, failed="broken")
    await server.tasks.ResumeTask(ResumeTaskRequest(task_id=assignment.task.task_id))
    third = await stream.task()
    await record(server, third, "c")
    steps = (await server.steps.FetchSteps(pb.FetchStepsRequest(**under(third)))).steps
    assert [(step.name, step.run, step.attempt) for step in steps] == [("a", 1, 1), ("b", 1, 2), ("c", 2, 1)]


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"name": ""}, "INVALID_ARGUMENT", "name"),
        ({"name": "x" * 257}, "INVALID_ARGUMENT", "name"),
        ({"name": "a\nb"}, "INVALID_ARGUMENT", "name"),
        ({"fencing_token": 0}, "INVALID_ARGUMENT", "fencing_token"),
        ({"fencing_token": 99}, "ABORTED", "lease lost"),
        ({"task_id": "tsk_none"}, "NOT_FOUND", "task"),
        ({"host_id": ""}, "INVALID_ARGUMENT", "host_id"),
        ({"host_id": "unknown"}, "NOT_FOUND", "host"),
        ({"result": Value(string_value="x" * 300_000)}, "INVALID_ARGUMENT", "result"),
        ({"result": Value(number_value=float("nan"))}, "INVALID_ARGUMENT", "result"),
        ({"output": Payload(data=b"{")}, "INVALID_ARGUMENT", "output.data"),
    ],
)
async def test_what_is_malformed_or_not_leased_is_refused_and_changes_nothing(server, fields, code, field):
    _, assignment = await running(server)
    request = pb.RecordStepRequest(**{"name": "a", **under(assignment), **fields})
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await server.steps.RecordStep(request)
    assert refused.value.code().name == code
    assert field in refused.value.details()
    listed = await server.steps.ListSteps(pb.ListStepsRequest(task_id=assignment.task.task_id))
    assert list(listed.steps) == []


async def test_another_lease_reads_nothing(server):
    _, assignment = await running(server)
    await record(server, assignment, "a")
    for fields in ({"fencing_token": 99}, {"host_id": "unknown"}, {"task_id": "tsk_none"}):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await server.steps.FetchSteps(pb.FetchStepsRequest(**{**under(assignment), **fields}))
        assert refused.value.code().name in {"ABORTED", "NOT_FOUND"}
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await server.steps.ListSteps(pb.ListStepsRequest(task_id="tsk_none"))
    assert refused.value.code().name == "NOT_FOUND"
