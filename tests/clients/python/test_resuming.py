"""Resuming tasks: the requests that the client sends, and its results. The server is scripted."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from taskyard import Client, Conflict, NotFound, SyncClient, TaskState, Unavailable
from taskyard.v1 import target_pb2, target_pb2_grpc, task_pb2_grpc
from taskyard.v1 import task_pb2 as pb
from taskyard_server.core import errors as refusals
from taskyard_server.interceptors.calls import CallInterceptor


class ScriptedTasks(task_pb2_grpc.TaskServiceServicer, target_pb2_grpc.TargetServiceServicer):
    """Resumes every task, or refuses all with one error. `requests` are those that it got."""

    def __init__(self) -> None:
        self.requests: list[pb.ResumeTaskRequest | target_pb2.ResumeTargetTaskRequest] = []
        self.refusal: refusals.Refusal | None = None
        self.address = ""

    async def ResumeTask(self, request, context):  # noqa: N802
        del context
        self._record(request)
        return pb.ResumeTaskResponse(task_id=request.task_id, status=pb.Task.queued)

    async def ResumeTargetTask(self, request, context):  # noqa: N802
        del context
        self._record(request)
        return target_pb2.ResumeTargetTaskResponse(task_id=request.task_id, status=pb.Task.pending)

    def _record(self, request):
        self.requests.append(request)
        if self.refusal is not None:
            raise self.refusal


@pytest.fixture
async def tasks() -> AsyncIterator[ScriptedTasks]:
    service = ScriptedTasks()
    server = grpc.aio.server(interceptors=(CallInterceptor(),))
    task_pb2_grpc.add_TaskServiceServicer_to_server(service, server)
    target_pb2_grpc.add_TargetServiceServicer_to_server(service, server)
    service.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield service
    await server.stop(None)


@pytest.fixture
async def client(tasks: ScriptedTasks) -> AsyncIterator[Client]:
    async with Client(tasks.address) as client:
        yield client


async def test_a_task_is_resumed_with_a_new_token_limit(tasks, client):
    assert await client.resume("t", token_limit=500) is TaskState.QUEUED
    assert tasks.requests == [pb.ResumeTaskRequest(task_id="t", token_limit=500)]


async def test_a_task_of_a_target_is_resumed_with_a_new_token_limit(tasks, client):
    assert await client.resume_target_task("page", "t", token_limit=0) is TaskState.PENDING
    assert tasks.requests == [target_pb2.ResumeTargetTaskRequest(target="page", task_id="t", token_limit=0)]


async def test_without_a_new_limit_a_task_keeps_its_own(tasks, client):
    await client.resume("t")
    await client.resume_target_task("page", "t")
    assert [request.HasField("token_limit") for request in tasks.requests] == [False, False]


async def test_the_blocking_client_resumes_with_a_new_token_limit_too(tasks):
    def work():
        with SyncClient(tasks.address) as client:
            return [client.resume("t", token_limit=5), client.resume_target_task("page", "t", token_limit=6)]

    assert await asyncio.to_thread(work) == [TaskState.QUEUED, TaskState.PENDING]
    assert [request.token_limit for request in tasks.requests] == [5, 6]


async def test_a_malformed_limit_is_refused_before_it_is_sent(tasks, client):
    for call in (client.resume("t", token_limit=-1), client.resume_target_task("page", "t", token_limit=2**32)):
        with pytest.raises(ValueError, match=r"^token_limit: is from 0 to 4294967295, not "):
            await call
    assert tasks.requests == []


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [(refusals.Conflict("task is over its token limit"), Conflict), (refusals.NotFound("task not found"), NotFound)],
)
async def test_a_refused_resume_is_not_repeated(tasks, client, refusal, kind):
    tasks.refusal = refusal
    for call in (client.resume("t", token_limit=1), client.resume_target_task("page", "t")):
        with pytest.raises(kind):
            await call
    assert len(tasks.requests) == 2


async def test_a_resume_whose_answer_is_lost_is_not_repeated_since_that_could_resume_a_new_failure(tasks, client):
    tasks.refusal = refusals.Unavailable("gone")
    with pytest.raises(Unavailable, match="gone"):
        await client.resume("t")
    assert len(tasks.requests) == 1
