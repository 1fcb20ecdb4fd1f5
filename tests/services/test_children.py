"""Children by name over the services (docs/rules.md, Children)."""

from hashlib import sha256

import grpc
import pytest
from google.api.httpbody_pb2 import HttpBody
from google.protobuf.struct_pb2 import Struct, Value

from taskyard.v1 import artifact_pb2, child_pb2
from taskyard.v1.task_pb2 import Parent, SubmitTaskRequest, Task
from tests.services.test_steps import running, under


def submit(server, assignment, name="page", **fields):
    new = SubmitTaskRequest(**{"action": "click", **fields})
    return server.children.SubmitChild(child_pb2.SubmitChildRequest(name=name, child=new, **under(assignment)))


async def fetch(server, assignment, name="page"):
    return (await server.children.FetchChild(child_pb2.FetchChildRequest(name=name, **under(assignment)))).child


async def refused(call):
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await call
    return refusal.value.code(), refusal.value.details()


async def test_a_host_submits_a_child_and_has_what_became_of_it(server):
    stream, assignment = await running(server)
    made = await submit(server, assignment, params=Struct(fields={"n": {"number_value": 1}}))
    assert (made.state, made.repeated) == (Task.State.queued, False)
    shown = await server.get(made.task_id)
    assert (shown.parent_id, shown.child_name) == (assignment.task.task_id, "page")
    assert (shown.agent_id, shown.on_parent_end) == (assignment.task.agent_id, Parent.cancel)
    assert (await fetch(server, assignment)).state in (Task.State.queued, Task.State.assigned)
    child = await stream.task()
    assert child.task.task_id == made.task_id
    assert await stream.report_one(child, completed=Value(string_value="hello")) == "done"
    repeated = await submit(server, assignment, action="another")
    assert (repeated.task_id, repeated.state, repeated.repeated) == (made.task_id, Task.State.done, True)
    found = await fetch(server, assignment)
    assert (found.task_id, found.state, found.result.string_value) == (made.task_id, Task.State.done, "hello")


async def test_a_held_child_gets_its_params_as_an_artifact_and_is_let_go(server):
    stream, assignment = await running(server)
    made = await submit(server, assignment, hold=True, params=Struct(fields={"n": {"number_value": 1}}))
    assert (made.state, made.held, made.repeated) == (Task.State.pending, True, False)
    content = {"content": HttpBody(data=b"{}", content_type="application/json"), "sha256": sha256(b"{}").hexdigest()}
    part = artifact_pb2.UploadArtifactRequest(name="params.json", child="page", **under(assignment), **content)
    uploaded = await server.artifacts.UploadArtifact(part)
    assert (uploaded.artifact.name, uploaded.artifact.HasField("attempt")) == ("params.json", False)
    params = Struct(fields={"n": {"number_value": 2}})
    again = await submit(server, assignment, params=params)
    assert (again.task_id, again.state, again.repeated) == (made.task_id, Task.State.queued, True)
    assert not again.HasField("held")
    child = await stream.task()
    assert (child.task.task_id, child.task.params) == (made.task_id, params)
    assert list(child.task.artifacts) == [uploaded.artifact]
    code, message = await refused(server.artifacts.UploadArtifact(part))
    assert (code, message) == (grpc.StatusCode.FAILED_PRECONDITION, "child is not held")
    assert not (await server.get(assignment.task.task_id)).artifacts


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "name: must have 1 to 128 letters, digits, `.`, `_` or `-`, and not begin with a `.`"),
        ({"name": "a/b"}, "name: must have 1 to 128 letters, digits, `.`, `_` or `-`, and not begin with a `.`"),
        ({"action": ""}, "child.action: is required"),
        ({"agent_id": "another"}, "child.agentId: a child is of the agent of its parent"),
        ({"parent_id": "tsk_1"}, "child.parentId: a child is one of the task that submits it"),
        ({"idempotency_key": "k"}, "child.idempotencyKey: the name of a child is its key"),
        ({"unique_key": "k"}, "child.uniqueKey: the name of a child is its key"),
        ({"callback_url": "ftp://a"}, "child.callbackUrl: must be an http or https URL"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_is_no_child_names_its_field(server, fields, message):
    _, assignment = await running(server)
    assert await refused(submit(server, assignment, **fields)) == (grpc.StatusCode.INVALID_ARGUMENT, message)


async def test_a_child_needs_the_lease_of_its_parent(server):
    stream, assignment = await running(server)
    assert await stream.report_one(assignment, released=True) == "queued"
    code, _ = await refused(submit(server, assignment))
    assert code is grpc.StatusCode.ABORTED
    again = await stream.task()
    assert (await refused(fetch(server, again)))[0] is grpc.StatusCode.NOT_FOUND


async def test_a_child_comes_after_tasks_of_the_agent_alone(server):
    other = await server.submit(agent_id="another", hold=True)
    _, assignment = await running(server)
    code, message = await refused(submit(server, assignment, after=[other]))
    assert (code, message) == (grpc.StatusCode.NOT_FOUND, f"after: task {other} not found")
    made = await submit(server, assignment, after=[assignment.task.task_id])
    assert made.state == Task.State.pending
