"""Tasks that are handed the results of others, over the services (docs/rules.md, Inputs)."""

import hashlib

import grpc
import pytest
from google.api.httpbody_pb2 import HttpBody
from google.protobuf.struct_pb2 import Value

from taskyard.v1 import artifact_pb2, input_pb2, lease_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.batch_pb2 import BatchTask
from taskyard.v1.runtime_host_pb2 import TaskCompleted, TaskFailed
from taskyard_server.conversion.inputs import MAX_INPUTS_BYTES
from taskyard_server.core.limits import Limits
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from tests.services.host_streams import held_lease
from tests.store.dict_store import DictStore

DONE = pb.Task.State.done


@pytest.fixture
async def start_kept(start_api, clock):
    """Starts a server whose ended tasks leave memory at once."""
    engines = []

    async def start(history_days=7.0, **limits):
        limits = Limits(**{"max_retained_tasks": 0, **limits})
        engine = Engine(limits, clock, store=DictStore(), store_options=StoreOptions(history_days=history_days))
        await engine.open()
        engines.append(engine)
        return await start_api(engine)

    yield start
    for engine in engines:
        await engine.admin.close()


def text(value):
    return Value(string_value=value)


async def done(api, result=None):
    """The next task ends, and leaves memory with that."""
    (lease,) = await api.claim()
    payload = None if result is None else result.SerializeToString()
    await api.engine.leases.report(
        "default", "host", [Report(ReportKind.COMPLETED, lease.task.id, lease.token, payload=payload)]
    )
    return lease


def under(assignment):
    """The fields by which a host names a lease that it has."""
    held = held_lease(assignment)
    return {"host_id": "host", "task_id": held.task_id, "fencing_token": held.fencing_token}


async def finished(server, stream, result=None, output=None, **fields):
    """A task that the host has done, with this result."""
    task_id = await server.submit(**fields)
    completed = TaskCompleted(result=result, output=output)
    assert await stream.report_one(await stream.task(), completed=completed) == "done"
    return task_id


def fetch(server, assignment, name):
    return server.inputs.FetchInput(input_pb2.FetchInputRequest(name=name, **under(assignment)))


async def test_results_come_along_with_a_task_on_a_stream(server):
    stream = await server.connect(credit=10)
    page = await finished(server, stream, text("hello"))
    typed = await finished(server, stream, output=pb.Payload(data=b"[1]"))
    task_id = await server.submit(inputs={"page": page, "typed": typed})
    assignment = await stream.task()
    assert assignment.task.task_id == task_id
    assert dict(assignment.task.inputs) == {"page": page, "typed": typed}
    assert dict(assignment.inputs) == {
        "page": input_pb2.Input(task_id=page, state=DONE, result=text("hello")),
        "typed": input_pb2.Input(task_id=typed, state=DONE, output=pb.Payload(data=b"[1]")),
    }
    assert await fetch(server, assignment, "page") == assignment.inputs["page"]


async def test_results_come_along_with_claims(server):
    stream = await server.connect(credit=2)
    first = await finished(server, stream, text("hello"))
    await finished(server, stream)
    await server.register("claimer")
    for _ in range(2):
        await server.submit(inputs={"it": first})
    (one,) = (await server.leases.ClaimTasks(lease_pb2.ClaimTasksRequest(host_id="claimer", max_tasks=1))).assignments
    other = await server.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="claimer"))
    handed = input_pb2.Input(task_id=first, state=DONE, result=text("hello"))
    assert dict(one.inputs) == dict(other.inputs) == {"it": handed}


async def test_what_is_too_large_to_come_along_is_fetched(server, refused):
    stream = await server.connect(credit=10)
    large = text("x" * (MAX_INPUTS_BYTES - 50_000))
    first = await finished(server, stream, large)
    second = await finished(server, stream, large)
    small = await finished(server, stream, text("small"))
    await server.submit(inputs={"a": first, "b": second, "c": small})
    assignment = await stream.task()
    assert assignment.inputs["a"].result == large
    assert assignment.inputs["b"] == input_pb2.Input(task_id=second, state=DONE, omitted=True)
    assert assignment.inputs["c"].result == text("small")
    assert (await fetch(server, assignment, "b")).result == large
    refusal = await refused(fetch(server, assignment, "d"))
    assert (refusal.code, refusal.message) == ("not_found", "input not found")
    assert (await refused(fetch(server, assignment, "../d"))).code == "bad_request"


async def test_under_no_lease_nothing_is_fetched(server, refused):
    stream = await server.connect(credit=10)
    first = await finished(server, stream, text("hello"))
    await server.submit(inputs={"it": first})
    assignment = await stream.task()
    assert await stream.report_one(assignment, completed=TaskCompleted()) == "done"
    assert (await refused(fetch(server, assignment, "it"))).code == "lease_lost"
    stranger = input_pb2.FetchInputRequest(host_id="other", task_id=first, name="it", fencing_token=1)
    assert (await refused(server.inputs.FetchInput(stranger))).code == "not_found"


async def test_an_artifact_of_an_input_is_read_under_the_lease(server, refused):
    stream = await server.connect(credit=10)
    first = await server.submit()
    assignment = await stream.task()
    data = b"0123456789" * 1000
    await server.artifacts.UploadArtifact(
        artifact_pb2.UploadArtifactRequest(
            name="page",
            content=HttpBody(data=data, content_type="text/html"),
            sha256=hashlib.sha256(data).hexdigest(),
            **under(assignment),
        )
    )
    await stream.report_one(assignment, completed=TaskCompleted())
    await server.submit(inputs={"it": first})
    assignment = await stream.task()
    (artifact,) = assignment.inputs["it"].artifacts
    assert (artifact.name, artifact.size_bytes) == ("page", len(data))

    async def read(**fields):
        call = server.artifacts.FetchArtifact(artifact_pb2.FetchArtifactRequest(**under(assignment), **fields))
        return b"".join([body.data async for body in call])

    assert await read(name="page", input="it") == data
    assert await read(name="page", input="it", offset=9_995) == data[9_995:]
    assert (await refused(read(name="page"))).code == "not_found"
    assert (await refused(read(name="page", input="other"))).message == "input not found"


async def test_after_any_end_the_error_is_told(server):
    stream = await server.connect(credit=10)
    first = await server.submit()
    await server.submit(inputs={"it": first}, after_policy=pb.After.ended)
    failed = TaskFailed(error="broken", retryable=False)
    assert await stream.report_one(await stream.task(), failed=failed) == "failed"
    handed = (await stream.task()).inputs["it"]
    assert handed == input_pb2.Input(task_id=first, state=pb.Task.State.failed, error="broken")


async def test_places_in_a_batch_become_inputs(api, refused):
    held = (await api.submit(hold=True)).task_id
    answer = await api.submit_batch(
        BatchTask(action="click"),
        BatchTask(action="click", inputs={"old": held}, input_indexes={"new": 0}),
    )
    first, second = answer.tasks
    assert dict((await api.get(second.task_id)).inputs) == {"new": first.task_id, "old": held}
    for fields, message in [
        ({"input_indexes": {"it": 1}}, "tasks[1].inputIndexes: must be places of tasks that stand before this one"),
        ({"input_indexes": {"it": 0}, "inputs": {"it": held}}, "tasks[1].inputIndexes: it stands among inputs, too"),
        ({"input_indexes": {"": 0}}, None),
    ]:
        refusal = await refused(api.submit_batch(BatchTask(action="click"), BatchTask(action="click", **fields)))
        assert refusal.code == "bad_request"
        assert refusal.message == message or message is None
    answer = await api.submit_batch(
        BatchTask(action="click", after=["tsk_no"]), BatchTask(action="click", input_indexes={"it": 0})
    )
    assert answer.tasks[1].error.error == "inputIndexes: task 0 was refused: after: task tsk_no not found"


async def test_an_input_that_has_left_memory_is_brought_back(start_kept, refused):
    api = await start_kept()
    task_ids = [(await api.submit()).task_id for _ in range(3)]
    for _ in task_ids:
        await done(api, text("hello"))
    assert [api.engine.tasks.state_of("default", task_id) for task_id in task_ids] == [None] * 3
    await api.submit(inputs={str(index): task_id for index, task_id in enumerate(task_ids)})
    assert [api.engine.tasks.state_of("default", task_id) for task_id in task_ids] == ["done"] * 3
    lease = await done(api)
    assert [each.result for each in lease.inputs] == [text("hello").SerializeToString()] * 3
    assert [api.engine.tasks.state_of("default", task_id) for task_id in task_ids] == [None] * 3
    (batched,) = (await api.submit_batch(BatchTask(action="click", inputs={"it": task_ids[0]}))).tasks
    assert batched.state == pb.Task.State.queued
    never = task_ids[0][:-1] + ("1" if task_ids[0].endswith("0") else "0")
    refusal = await refused(api.submit(inputs={"it": never}))
    assert refusal.code == "not_found"
    assert refusal.message.startswith("inputs: task ")


async def test_a_failed_task_is_resumed_with_its_inputs_though_all_have_left_memory(start_kept):
    api = await start_kept()
    first = (await api.submit()).task_id
    await done(api, text("hello"))
    second = (await api.submit(inputs={"it": first})).task_id
    (lease,) = await api.claim()
    reports = [Report(ReportKind.FAILED, second, lease.token, error="broken", retryable=False)]
    await api.engine.leases.report("default", "host", reports)
    assert [api.engine.tasks.state_of("default", each) for each in (first, second)] == [None, None]
    assert (await api.resume(second)).status == pb.Task.State.queued
    (lease,) = await api.claim()
    assert [each.result for each in lease.inputs] == [text("hello").SerializeToString()]


async def test_without_history_an_input_that_has_left_memory_is_not_found(start_kept, refused):
    api = await start_kept(history_days=0)
    first = (await api.submit()).task_id
    await api.cancel(first)
    assert (await refused(api.submit(inputs={"it": first}))).message == f"inputs: task {first} not found"


async def test_a_repeat_of_a_submission_has_the_same_inputs(api, refused):
    first = (await api.submit(hold=True)).task_id
    other = (await api.submit(hold=True)).task_id
    task = await api.submit(idempotency_key="k", inputs={"a": first, "b": other})
    again = await api.submit(idempotency_key="k", inputs={"b": other, "a": first})
    assert again.task_id == task.task_id
    refusal = await refused(api.submit(idempotency_key="k", inputs={"a": other, "b": first}))
    assert refusal.status is grpc.StatusCode.ALREADY_EXISTS
