"""Hosts, clients and the real server together."""

import asyncio
import signal
import sys
from contextlib import AsyncExitStack

import grpc
import pytest

from taskyard import Client, Host, TaskFailed, TaskState
from taskyard.v1 import runtime_host_pb2, runtime_host_pb2_grpc, task_pb2_grpc
from taskyard_server.core.limits import Limits
from taskyard_server.engine.memory import MemoryEngine
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.tasks import TaskService

MAX_PAYLOAD_BYTES = 100_000


class Yard:
    """A server with many slots in flight, and what a test does to it."""

    def __init__(self, engine, address, hosts):
        self.engine = engine
        self.address = address
        self.hosts = hosts

    def host(self, host_id="host-1", **options):
        return Host(self.address, host_id, install_signal_handlers=False, machine_figures=False, **options)

    async def online(self, *host_ids):
        """Wait until exactly these hosts hold a stream."""
        async with asyncio.timeout(10):
            while {host.id for host in await self._hosts() if host.HasField("instance")} != set(host_ids):
                await asyncio.sleep(0.005)

    async def _hosts(self):
        return (await self.hosts.ListHosts(runtime_host_pb2.ListHostsRequest())).hosts

    async def get_host(self, host_id="host-1"):
        (host,) = [host for host in await self._hosts() if host.id == host_id]
        return host

    async def drain(self, host_id="host-1"):
        await self.hosts.DrainHost(runtime_host_pb2.DrainHostRequest(host_id=host_id))

    async def deregister(self, host_id="host-1"):
        await self.hosts.DeregisterHost(runtime_host_pb2.DeregisterHostRequest(host_id=host_id))


@pytest.fixture
async def yard():
    async with AsyncExitStack() as ends:
        engine = MemoryEngine(
            Limits(max_inflight=1_000, max_per_agent_inflight=1_000, max_queue_size=5_000, max_per_agent=5_000)
        )
        ends.push_async_callback(engine.close)
        server = grpc.aio.server(interceptors=(CallInterceptor(),))
        runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(
            RuntimeHostService(engine, MAX_PAYLOAD_BYTES), server
        )
        task_pb2_grpc.add_TaskServiceServicer_to_server(TaskService(engine, MAX_PAYLOAD_BYTES), server)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        ends.push_async_callback(server.stop, None)
        channel = await ends.enter_async_context(grpc.aio.insecure_channel(address))
        yield Yard(engine, address, runtime_host_pb2_grpc.RuntimeHostServiceStub(channel))


@pytest.fixture
async def client(yard):
    async with Client(yard.address, agent_id="ann") as client:
        yield client


async def test_a_task_runs_and_its_result_comes_back(yard, client, work):
    host = yard.host()

    @host.action("click")
    async def click(task):
        await task.progress(0.5, "half way")
        return {"clicked": task.params["x"]}

    work(host)
    assert await client.run("click", params={"x": "e14"}) == {"clicked": "e14"}


async def test_a_thousand_tasks_each_run_once(yard, client, work):
    host, ran = yard.host(slots=50), []

    @host.action("click")
    async def click(task):
        ran.append(task.id)
        return task.params["n"]

    work(host)
    results = await asyncio.gather(*(client.run("click", params={"n": number}) for number in range(1_000)))
    assert results == list(range(1_000))
    assert len(ran) == len(set(ran)) == 1_000


async def test_a_failing_task_fails_with_the_handlers_words(yard, client, work):
    host = yard.host()

    @host.action("click")
    async def click(_):
        raise ValueError("no such element")

    work(host)
    with pytest.raises(TaskFailed, match="ValueError: no such element"):
        await client.run("click")


async def test_too_large_a_result_fails_its_task_and_the_host_works_on(yard, client, work):
    host = yard.host()
    host.action("click")(lambda task: "x" * task.params["size"])
    work(host)
    with pytest.raises(TaskFailed, match="result refused"):
        await client.run("click", params={"size": MAX_PAYLOAD_BYTES + 1})
    assert await client.run("click", params={"size": 1}) == "x"


async def test_a_cancelled_task_stops_its_handler(yard, client, work):
    host, entered, stopped = yard.host(), asyncio.Event(), asyncio.Event()

    @host.action("click")
    async def click(_):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    work(host)
    task = await client.submit("click")
    await entered.wait()
    await client.cancel(task.id)
    await asyncio.wait_for(stopped.wait(), 5)


async def test_what_runs_when_the_connection_breaks_ends_as_if_nothing_was(yard, client, work, relay):
    host, entered, go_on = yard.host(), asyncio.Event(), asyncio.Event()
    host = Host(relay.address, "host-1", install_signal_handlers=False)
    ran = []

    @host.action("click")
    async def click(task):
        ran.append(task.fencing_token)
        entered.set()
        await go_on.wait()
        return "done"

    work(host)
    task = await client.submit("click")
    await entered.wait()
    relay.cut()
    go_on.set()
    assert (await client.wait(task.id)).result == "done"
    assert ran == [1]


@pytest.fixture
async def relay(yard):
    """A way to the server that can be cut."""
    from tests.clients.python.conftest import Wire

    async with AsyncExitStack() as ends:
        wire = Wire(int(yard.address.rpartition(":")[2]))
        await wire.open(ends)
        yield wire


async def test_a_drained_host_finishes_leaves_and_is_handed_nothing_more(yard, client, work):
    host, entered, go_on = yard.host(), asyncio.Event(), asyncio.Event()

    @host.action("click")
    async def click(_):
        entered.set()
        await go_on.wait()

    running = work(host)
    first = await client.submit("click")
    await entered.wait()
    await yard.drain()
    second = await client.submit("click")
    go_on.set()
    await asyncio.wait_for(running, 5)
    assert (await client.get(first.id)).state is TaskState.DONE
    assert (await client.get(second.id)).state is TaskState.QUEUED


async def test_a_host_that_drains_by_itself_leaves_the_rest_to_another(yard, client, work):
    first, entered, go_on = yard.host("first", slots=2), asyncio.Event(), asyncio.Event()

    @first.action("click")
    async def click(_):
        entered.set()
        await go_on.wait()
        return "first"

    running = work(first)
    kept = await client.submit("click")
    await entered.wait()
    first.drain()
    left = await client.submit("click")
    second = yard.host("second")
    second.action("click")(lambda _: "second")
    work(second)
    assert (await client.wait(left.id)).result == "second"
    go_on.set()
    await asyncio.wait_for(running, 5)
    assert (await client.get(kept.id)).result == "first"


async def test_a_task_interrupted_for_leaving_goes_to_another_host_at_once(yard, client, work):
    first, entered = yard.host("first", drain_grace_secs=0), asyncio.Event()

    @first.action("click")
    async def click(_):
        entered.set()
        await asyncio.Event().wait()

    running = work(first)
    task = await client.submit("click")
    await entered.wait()
    second = yard.host("second")
    second.action("click")(lambda _: "second")
    work(second)
    await yard.online("first", "second")
    first.drain()
    assert (await asyncio.wait_for(client.wait(task.id), 3)).result == "second"
    await asyncio.wait_for(running, 5)


async def test_a_deregistered_host_stops_its_work_and_registers_anew(yard, client, work):
    host, entered, stopped = yard.host(), asyncio.Event(), []

    @host.action("click")
    async def click(task):
        entered.set()
        if task.fencing_token > 1:
            return "again"
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(task.fencing_token)

    work(host)
    task = await client.submit("click")
    await entered.wait()
    await yard.deregister()
    assert (await client.wait(task.id)).result == "again"
    assert stopped == [1]


async def test_another_instance_of_a_host_waits_until_the_first_has_left(yard, client, work):
    first = yard.host()
    first.action("click")(lambda _: "first")
    running = work(first)
    await yard.online("host-1")
    before = (await yard.get_host()).instance
    second = yard.host()
    second.action("click")(lambda _: "second")
    work(second)
    assert await client.run("click") == "first"
    assert (await yard.get_host()).instance == before
    first.drain()
    await asyncio.wait_for(running, 5)
    assert await client.run("click") == "second"


HOST = """
import asyncio, os, signal, sys
from taskyard import Host

host = Host(sys.argv[1], "doomed")

@host.action()
async def die(task):
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(host.run())
"""


async def test_the_task_of_a_killed_host_starts_elsewhere_within_seconds_and_counts_as_delivered(yard, client, work):
    doomed = await asyncio.create_subprocess_exec(sys.executable, "-c", HOST, yard.address)
    await yard.online("doomed")
    task = await client.submit("die")
    assert await asyncio.wait_for(doomed.wait(), 10) == -signal.SIGKILL
    second = yard.host("second")
    second.action("die")(lambda task: task.fencing_token)
    work(second)
    ended = await asyncio.wait_for(client.wait(task.id), 10)
    assert (ended.state, ended.result) == (TaskState.DONE, 2)
