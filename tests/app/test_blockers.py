"""A target that is blocked stays so, whatever becomes of the server and of its memory (docs/rules.md, Blockers)."""

import signal
from functools import partial

import grpc
import pytest

from taskyard.v1 import lease_pb2, runtime_host_pb2, store_pb2, target_pb2, task_pb2
from taskyard.v1.lease_pb2_grpc import LeaseServiceStub
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from taskyard.v1.store_pb2_grpc import StoreServiceStub
from taskyard.v1.target_pb2_grpc import TargetServiceStub
from taskyard_server.net.admin_address import address_of, socket_path
from tests.environment import new_store_file
from tests.waiting import until

SOON_FORGOTTEN = {"scheduler": {"resultTTLSec": 0.2, "defaultDeadlineSec": 600, "maxBlockedTargets": 1}}


@pytest.fixture
def store():
    return new_store_file()


@pytest.fixture
def kept_up(up, store):
    """Starts `taskyard up` over one store, again and again."""
    return partial(up, SOON_FORGOTTEN, TASKYARD_STORE__URL=f"sqlite:///{store}")


async def submit(server, **fields):
    request = task_pb2.SubmitTaskRequest(agent_id="ann", action="crawl", **fields)
    return (await server.tasks.SubmitTask(request)).task_id


async def register(server):
    """A host, so that the tab executor takes no task without a tab."""
    await RuntimeHostServiceStub(server.channel).RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id="host"))


async def fail_one(server):
    """The host starts the next task, which fails."""
    leases = LeaseServiceStub(server.channel)
    claim = await leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="host"))
    about = {"host_id": "host", "task_id": claim.task_id, "fencing_token": claim.fencing_token}
    await leases.StartTask(lease_pb2.StartTaskRequest(**about))
    await leases.FailTask(lease_pb2.FailTaskRequest(**about, error="broken"))


async def target(server):
    (each,) = (await TargetServiceStub(server.channel).ListTargets(target_pb2.ListTargetsRequest())).targets
    return each


async def forgotten(server, task_id):
    """Wait until a task has left memory: a listing without the history does not have it."""
    await until(lambda: listed(server), lambda tasks: task_id not in tasks)


async def listed(server):
    return [task.task_id for task in (await server.tasks.ListTasks(task_pb2.ListTasksRequest())).tasks]


async def check(store):
    async with grpc.aio.insecure_channel(address_of(socket_path(store))) as channel:
        assert (await StoreServiceStub(channel).CheckStore(store_pb2.CheckStoreRequest())).problems == []


async def test_it_blocks_out_of_memory_after_a_kill_and_until_it_is_resumed(kept_up, store):
    server = await kept_up()
    await register(server)
    blocker, behind = await submit(server, target="shop"), await submit(server, target="shop")
    await fail_one(server)
    before = await target(server)
    assert (before.task_id, target_pb2.Target.Status.Name(before.status)) == (blocker, "blocked")
    await forgotten(server, blocker)
    assert await target(server) == before
    await check(store)
    server.signal(signal.SIGKILL)
    await server.exited()

    again = await kept_up()
    await forgotten(again, blocker)
    assert await target(again) == before
    with pytest.raises(grpc.aio.AioRpcError, match="too many targets are blocked"):
        await submit(again, target="door")
    await again.tasks.ResumeTask(task_pb2.ResumeTaskRequest(task_id=blocker))
    assert (await target(again)).task_id == blocker
    await submit(again, target="door")
    await again.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id=blocker))
    ready = await target_of(again, "shop")
    assert (ready.task_id, target_pb2.Target.Status.Name(ready.status)) == (behind, "ready")
    await check(store)


async def target_of(server, name):
    targets = (await TargetServiceStub(server.channel).ListTargets(target_pb2.ListTargetsRequest())).targets
    return next(each for each in targets if each.target == name)
