"""A namespace that is deleted stays so, whatever becomes of the server (docs/rules.md, Deleting a namespace)."""

import json
import signal
from functools import partial

import grpc
import pytest

from taskyard.v1 import batch_pb2, namespace_pb2, runtime_host_pb2, store_pb2, task_pb2
from taskyard.v1.batch_pb2_grpc import BatchServiceStub
from taskyard.v1.namespace_pb2_grpc import NamespaceServiceStub
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from taskyard.v1.store_pb2_grpc import StoreServiceStub
from taskyard_server.net.admin_address import address_of, socket_path
from tests.environment import new_store_file

RED, BLUE = (("taskyard-namespace", "red"),), (("taskyard-namespace", "blue"),)
ROOMY = {"scheduler": {"maxQueueSize": 100_000, "maxPerAgent": 100_000, "maxBatchSize": 500}}
BATCHES = 4


@pytest.fixture
def store():
    return new_store_file()


@pytest.fixture
def kept_up(up, store):
    """Starts `taskyard up` over one store, again and again."""
    return partial(up, ROOMY, TASKYARD_STORE__URL=f"sqlite:///{store}")


def namespaces(server):
    return NamespaceServiceStub(server.channel)


async def names(server):
    answer = await namespaces(server).ListNamespaces(namespace_pb2.ListNamespacesRequest())
    return [each.name for each in answer.namespaces if each.name != "default"]


async def delete(server):
    request = namespace_pb2.DeleteNamespaceRequest(namespace="red", force=True)
    await namespaces(server).DeleteNamespace(request)


async def fill(server, metadata):
    """Thousands of tasks, so that their removal takes many slices."""
    batches = BatchServiceStub(server.channel)
    tasks = [batch_pb2.BatchTask(action="click")] * 500
    for _ in range(2 * BATCHES):
        await batches.SubmitBatch(batch_pb2.SubmitBatchRequest(agent_id="ann", tasks=tasks), metadata=metadata)


async def rows(store):
    async with grpc.aio.insecure_channel(address_of(socket_path(store))) as channel:
        stub = StoreServiceStub(channel)
        assert (await stub.CheckStore(store_pb2.CheckStoreRequest())).problems == []
        stats = await stub.GetStoreStats(store_pb2.GetStoreStatsRequest())
    return {table: count for table, count in stats.rows.items() if count}


async def test_nothing_of_it_comes_back_after_a_kill_and_its_rows_go(kept_up, store):
    server = await kept_up()
    await fill(server, RED)
    request = task_pb2.SubmitTaskRequest(agent_id="ann", action="click")
    kept = (await server.tasks.SubmitTask(request, metadata=BLUE)).task_id
    await delete(server)
    server.signal(signal.SIGKILL)
    await server.exited()

    again = await kept_up()
    assert await names(again) == ["blue"]
    # Its name is free while its rows are being removed.
    anew = (await again.tasks.SubmitTask(request, metadata=RED)).task_id
    (removed,) = await again.logged("namespace_removed")
    assert removed["rows"] >= 1
    assert await names(again) == ["blue", "red"]
    found = await rows(store)
    assert (found["tasks"], found["states"]) == (2, 2)
    for task_id, metadata in ((kept, BLUE), (anew, RED)):
        task = await again.tasks.GetTask(task_pb2.GetTaskRequest(task_id=task_id), metadata=metadata)
        assert task.state == task_pb2.Task.queued


async def test_its_hosts_are_told_to_stop_and_their_streams_and_watches_end(kept_up):
    server = await kept_up()
    hosts = RuntimeHostServiceStub(server.channel)
    stream = hosts.Connect(metadata=RED)
    await stream.write(
        runtime_host_pb2.ConnectRequest(hello=runtime_host_pb2.Hello(host_id="host", instance="i", slots=1))
    )
    await stream.read()
    await stream.write(runtime_host_pb2.ConnectRequest(credit=runtime_host_pb2.Credit(count=1)))
    watch = hosts.WatchHosts(runtime_host_pb2.WatchHostsRequest(), metadata=RED)
    assert (await watch.read()).events
    request = task_pb2.SubmitTaskRequest(agent_id="ann", action="click")
    task_id = (await server.tasks.SubmitTask(request, metadata=RED)).task_id
    assert (await stream.read()).assignments.assignments[0].task.task_id == task_id

    await delete(server)
    (cancelled,) = (await stream.read()).cancellations.cancellations
    assert cancelled.task_id == task_id
    assert await stream.code() is grpc.StatusCode.NOT_FOUND
    assert await watch.code() is grpc.StatusCode.NOT_FOUND


async def test_webhooks_that_are_due_are_dropped(up, hook, store):
    settings = {"webhooks": {"allowPrivate": True, "workers": 1}}
    server = await up(settings, TASKYARD_STORE__URL=f"sqlite:///{store}")
    hook.opened.clear()
    request = task_pb2.SubmitTaskRequest(agent_id="ann", action="click", callback_url=hook.url)
    for _ in range(3):
        task_id = (await server.tasks.SubmitTask(request, metadata=RED)).task_id
        await server.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id=task_id), metadata=RED)
    await hook.came.wait()
    await delete(server)
    blue = (await server.tasks.SubmitTask(request, metadata=BLUE)).task_id
    await server.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id=blue), metadata=BLUE)
    hook.opened.set()
    await server.logged("webhook_delivered", task_id=blue)
    assert [post["taskId"] for post in hook.posts][1:] == [blue]
    await server.logged("namespace_removed")
    # That of the other namespace goes a second after its delivery.
    assert (await rows(store)).get("outbox", 0) <= 1


async def test_what_was_done_to_a_namespace_is_in_the_audit_log(up, tmp_path):
    file = tmp_path / "audit.log"
    server = await up({"audit": {"file": str(file)}})
    stub = namespaces(server)
    limits = namespace_pb2.NamespaceLimits(max_inflight=3)
    await stub.CreateNamespace(namespace_pb2.CreateNamespaceRequest(namespace="red"))
    await stub.UpdateNamespace(namespace_pb2.UpdateNamespaceRequest(namespace="red", limits=limits))
    await stub.GetNamespace(namespace_pb2.GetNamespaceRequest(namespace="red"))
    await delete(server)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["method"], line["on"], line["outcome"]) for line in lines] == [
        (f"NamespaceService/{name}", {"namespace": "red"}, "ok")
        for name in ("CreateNamespace", "UpdateNamespace", "DeleteNamespace")
    ]
