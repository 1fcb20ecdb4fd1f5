"""A bulk cancel survives kill -9 of a server with a store, and finishes (docs/rules.md, Operations)."""

import signal
from functools import partial

import grpc
import pytest

from taskyard.v1 import operation_pb2 as pb
from taskyard.v1 import task_pb2
from taskyard.v1.operation_pb2_grpc import OperationServiceStub
from tests.environment import new_store_file
from tests.waiting import until

TASKS = 3_000
MANY = {"scheduler": {"maxQueueSize": 100_000, "maxPerAgent": 100_000, "workerCount": 1}}


@pytest.fixture(params=["sqlite", "postgres"])
def kept_up(request, up):
    """Starts `taskyard up` over one store, again and again."""
    url = f"sqlite:///{new_store_file()}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    # A server that was killed has the namespaces until then.
    return partial(up, MANY, TASKYARD_STORE__URL=url, TASKYARD_STORE__FAILOVER_SECS="2")


async def submit_all(server):
    def message():
        task = task_pb2.SubmitTaskRequest(agent_id="ann", action="none runs this", requires=["nothing has this"])
        return task_pb2.SubmitTasksRequest(tasks=[task] * 100)

    call = server.tasks.SubmitTasks(iter([message() for _ in range(TASKS // 100)]))
    outcomes = [outcome async for answer in call for outcome in answer.outcomes]
    assert sum(outcome.HasField("accepted") for outcome in outcomes) == TASKS


async def get(server):
    """The operation; where replicas may share the store, once this one owns the namespace."""

    async def found():
        try:
            answer = await OperationServiceStub(server.channel).GetOperation(pb.GetOperationRequest(operation_id="op"))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return None
        return answer.operation

    return await until(found)


async def reached(server, is_so):
    """The operation once it is so."""
    return await until(lambda: get(server), is_so)


async def test_a_cancel_of_many_goes_on_after_kill_9_and_finishes(kept_up):
    server = await kept_up()
    await submit_all(server)
    request = pb.CancelTasksRequest(all=True, operation_id="op")
    await OperationServiceStub(server.channel).CancelTasks(request)
    before = 0
    for share in (4, 2):
        seen = await reached(server, lambda operation, share=share: operation.done >= TASKS // share)
        assert before <= seen.done < TASKS
        server.signal(signal.SIGKILL)
        await server.exited()
        before = seen.done
        server = await kept_up()
        assert (await get(server)).done >= before
    operation = await reached(server, lambda operation: operation.status == pb.Operation.Status.done)
    assert (operation.matched, operation.done, operation.skipped, operation.failed) == (TASKS, TASKS, 0, 0)
    listed = await server.tasks.ListTasks(task_pb2.ListTasksRequest(state="queued"))
    assert listed.count == 0
    again = (await OperationServiceStub(server.channel).CancelTasks(request)).operation
    assert again == operation
