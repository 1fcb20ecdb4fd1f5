"""Hosts with a real server that expects a heartbeat every second or faster."""

import asyncio

import grpc
import pytest

from taskyard import BadRequest, Client, Conflict, TaskState
from taskyard.v1 import admin_pb2, admin_pb2_grpc
from tests.clients.python.host.gate import Gate
from tests.clients.python.host.real_server import Namespace, configure, running
from tests.waiting import LIMIT_SECS

HEARTBEATS = {"heartbeatTimeoutSecs": 3}
"""A heartbeat is due each second."""


@pytest.fixture
async def namespace(tmp_path):
    with running(tmp_path, HEARTBEATS) as address:
        async with grpc.aio.insecure_channel(address) as channel:
            yield Namespace(address, channel)


@pytest.fixture
async def client(namespace):
    async with Client(namespace.address, agent_id="ann", namespace=namespace.name) as client:
        yield client


async def test_tokens_that_a_handler_only_states_fail_its_task_which_a_higher_limit_resumes(namespace, client, work):
    host, stopped = namespace.host(), asyncio.Event()

    @host.action("click")
    async def click(task):
        task.tokens_used = 11
        if task.task.run == 2:
            return "done"
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    work(host)
    task_id = (await client.submit("click", token_limit=10)).id
    failed = await client.wait(task_id, timeout=10)
    assert (failed.state, failed.error, failed.tokens_used) == ("failed", "token limit exceeded", 11)
    await asyncio.wait_for(stopped.wait(), LIMIT_SECS)
    with pytest.raises(Conflict, match="task has used 11 of 10 tokens, resume it with a higher tokenLimit"):
        await client.resume(task_id)
    with pytest.raises(BadRequest, match="tokenLimit: must be above the 11 tokens"):
        await client.resume(task_id, token_limit=11)
    assert await client.resume(task_id, token_limit=22) is TaskState.QUEUED
    done = await client.wait(task_id, timeout=10)
    assert (done.state, done.result, done.run, done.tokens_used, done.token_limit) == ("done", "done", 2, 22, 22)


async def test_a_connected_host_sends_at_the_interval_of_a_lowered_time_out_and_stays_online(
    tmp_path, namespace, client, work
):
    configure(tmp_path, {"heartbeatTimeoutSecs": 60})
    async with grpc.aio.insecure_channel(namespace.address) as channel:
        admin = admin_pb2_grpc.AdminServiceStub(channel)
        await admin.ReloadConfig(admin_pb2.ReloadConfigRequest())
        host, gate = namespace.host(), Gate()
        host.action("click")(gate)
        work(host)
        task = await client.submit("click")
        await gate.entered.wait()
        configure(tmp_path, {"heartbeatTimeoutSecs": 1.5})
        await admin.ReloadConfig(admin_pb2.ReloadConfigRequest())
    # Without a new interval the host would send its next heartbeat after 20 s.
    heard = set()
    async with asyncio.timeout(LIMIT_SECS):
        while len(heard) < 6:
            found = (await namespace.connected("host-1"))["host-1"]
            assert found.online
            heard.add(found.last_heartbeat_at.ToNanoseconds())
            await asyncio.sleep(0.05)
    gate.open.set()
    assert (await client.wait(task.id, timeout=10)).state is TaskState.DONE
