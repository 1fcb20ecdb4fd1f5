"""Parked tasks beside others: they are counted, and operations on many find them (docs/rules.md, Parked tasks)."""

import pytest

from taskyard.v1 import operation_pb2 as pb
from taskyard.v1.namespace_pb2 import GetNamespaceRequest
from taskyard.v1.task_pb2 import Task, TaskFilter
from taskyard_server.core.history import Wait
from tests import reporting

ENDED = (pb.Operation.Status.done, pb.Operation.Status.cancelled)
PARKED = TaskFilter(state="parked")


async def parked(api):
    """The id of a parked task."""
    task_id = (await api.submit()).task_id
    lease = await api.run_one()
    wait = Wait("time", "long", lease.expires_at + 9e6)
    await reporting.park(api.engine, "default", "host", task_id, lease.token, wait)
    return task_id


async def test_they_are_counted_while_there_are_any(api):
    async def counted():
        queue = (await api.stats()).queue
        totals = (await api.namespaces.GetNamespace(GetNamespaceRequest(namespace="default"))).namespace.totals
        return queue.HasField("total_parked"), queue.total_parked, totals.parked, totals.queued, totals.inflight

    assert not (await api.stats()).queue.HasField("total_parked")
    task_id = await parked(api)
    assert await counted() == (True, 1, 1, 0, 0)
    await api.cancel(task_id)
    assert await counted() == (False, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("method", "request_", "counts", "state"),
    [
        ("CancelTasks", pb.CancelTasksRequest(operation_id="op", filter=PARKED), (1, 1, 0, 0), Task.cancelled),
        ("PauseTasks", pb.PauseTasksRequest(operation_id="op", filter=PARKED), (0, 0, 0, 0), Task.parked),
        ("ResumeTasks", pb.ResumeTasksRequest(operation_id="op", filter=PARKED), (0, 0, 0, 0), Task.parked),
        ("ResolveTasks", pb.ResolveTasksRequest(operation_id="op", filter=PARKED), (0, 0, 0, 0), Task.parked),
        (
            "ReprioritizeTasks",
            pb.ReprioritizeTasksRequest(operation_id="op", filter=PARKED, priority=3),
            (1, 1, 0, 0),
            Task.parked,
        ),
    ],
)
async def test_operations_cancel_and_reprioritize_them_and_pass_them_by_otherwise(
    api, eventually, method, request_, counts, state
):
    task_id, other = await parked(api), (await api.submit()).task_id
    await getattr(api.operations, method)(request_)

    async def get():
        return (await api.operations.GetOperation(pb.GetOperationRequest(operation_id="op"))).operation

    operation = await eventually(get, lambda operation: operation.status in ENDED)
    assert (operation.matched, operation.done, operation.skipped, operation.failed) == counts
    assert [(await api.get(each)).state for each in (task_id, other)] == [state, Task.queued]
