"""What tasks come after, and unique keys, survive kill -9 of a server with a store (docs/rules.md, Predecessors)."""

import signal
from functools import partial

import grpc
import pytest

from taskyard.v1 import task_pb2 as pb
from tests.environment import new_store_file
from tests.waiting import until

FOLLOWERS = 2_000
LINE = 100
MANY = {"scheduler": {"maxQueueSize": 100_000, "maxPerAgent": 100_000, "workerCount": 1}}
NOBODY_RUNS = {"agent_id": "ann", "action": "none runs this", "requires": ["nothing has this"]}


@pytest.fixture(params=["sqlite", "postgres"])
def kept_up(request, up):
    """Starts `taskyard up` over one store, again and again."""
    url = f"sqlite:///{new_store_file()}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    # A server that was killed has the namespaces until then.
    return partial(up, MANY, TASKYARD_STORE__URL=url, TASKYARD_STORE__FAILOVER_SECS="2")


async def answered(call):
    """What a call answers; where replicas may share the store, once this one owns the namespace."""

    async def found():
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return None

    return await until(found, lambda answer: answer is not None)


async def submit_all(server, tasks):
    messages = [pb.SubmitTasksRequest(tasks=tasks[first : first + 100]) for first in range(0, len(tasks), 100)]
    outcomes = [outcome async for answer in server.tasks.SubmitTasks(iter(messages)) for outcome in answer.outcomes]
    return [outcome.accepted.task_id for outcome in outcomes]


async def waiting(server):
    listed = await answered(lambda: server.tasks.ListTasks(pb.ListTasksRequest(state="pending", page_size=1)))
    return listed.count


async def test_a_cascade_goes_on_after_kill_9_and_finishes(kept_up):
    server = await kept_up()
    root = (await server.tasks.SubmitTask(pb.SubmitTaskRequest(**NOBODY_RUNS))).task_id
    followers = await submit_all(server, [pb.SubmitTaskRequest(**NOBODY_RUNS, after=[root])] * FOLLOWERS)
    last = followers[-1]
    for _ in range(LINE):
        last = (await server.tasks.SubmitTask(pb.SubmitTaskRequest(**NOBODY_RUNS, after=[last]))).task_id
    server.signal(signal.SIGKILL)
    await server.exited()

    server = await kept_up()
    assert (await answered(lambda: server.tasks.GetTask(pb.GetTaskRequest(task_id=last)))).state == pb.Task.pending
    await answered(lambda: server.tasks.CancelTask(pb.CancelTaskRequest(task_id=root)))
    server.signal(signal.SIGKILL)
    await server.exited()

    server = await kept_up()
    await until(lambda: waiting(server), lambda count: count == 0)
    task = await server.tasks.GetTask(pb.GetTaskRequest(task_id=last))
    assert task.state == pb.Task.cancelled
    assert task.error.startswith("predecessor tsk_")


async def test_a_unique_key_and_what_is_bound_to_it_are_there_after_kill_9(kept_up):
    server = await kept_up()
    unique = pb.SubmitTaskRequest(**NOBODY_RUNS, unique_key="sync")
    repeated = pb.SubmitTaskRequest(**NOBODY_RUNS, unique_key="sync", idempotency_key="once")
    first = await server.tasks.SubmitTask(unique)
    assert (await server.tasks.SubmitTask(repeated)).task_id == first.task_id
    server.signal(signal.SIGKILL)
    await server.exited()

    server = await kept_up()
    again = await answered(lambda: server.tasks.SubmitTask(unique))
    assert (again.task_id, again.existing) == (first.task_id, True)
    await server.tasks.CancelTask(pb.CancelTaskRequest(task_id=first.task_id))
    server.signal(signal.SIGKILL)
    await server.exited()

    server = await kept_up()
    again = await answered(lambda: server.tasks.SubmitTask(repeated))
    assert (again.task_id, again.existing, again.state) == (first.task_id, True, pb.Task.cancelled)
    assert (await server.tasks.SubmitTask(unique)).task_id != first.task_id
