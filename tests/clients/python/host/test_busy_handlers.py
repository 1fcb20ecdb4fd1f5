"""Handlers that leave little to others lose no lease, and the log says which they are."""

import asyncio
import os
import re
import signal
import sys
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from taskyard import Client
from tests.clients.python.host.real_server import Namespace, running

pytestmark = [pytest.mark.gate("minutes of busy processes"), pytest.mark.long]

BUSY = Path(__file__).with_name("busy_host.py")

ONCE = {"maxDeliveries": 1}
"""A lost lease fails its task."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with running(tmp_path_factory.mktemp("taskyard"), ONCE) as address:
        yield address


@pytest.fixture
async def namespace(address):
    async with grpc.aio.insecure_channel(address) as channel:
        yield Namespace(address, channel)


@pytest.fixture
async def ran(namespace):
    """Has one host run tasks of an action for so many seconds each. Returns the tasks and the host's log."""

    async def run(action, secs, count=1):
        command = (sys.executable, str(BUSY), namespace.address, namespace.name)
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        try:
            await namespace.connected("busy")
            async with Client(namespace.address, agent_id="ann", namespace=namespace.name) as client:
                submitted = [
                    await client.submit(action, params={"secs": secs}, deadline=timedelta(hours=1))
                    for _ in range(count)
                ]
                ended = [await client.wait(each.task_id, timeout=20 * count * secs + 60) for each in submitted]
        finally:
            process.send_signal(signal.SIGTERM)
            _, log = await asyncio.wait_for(process.communicate(), 60)
        return ended, log.decode()

    return run


async def check_computing(ran, secs):
    tasks, log = await ran("compute", secs, count=8)
    assert sorted(task.result for task in tasks) == list(range(1, 9)), log
    assert "WARNING" not in log, log


async def check_blocking(ran, secs):
    (task,), log = await ran("block", secs)
    assert task.result == 1, log
    begin, *_, end = [line for line in log.splitlines() if "WARNING" in line and "the event loop" in line]
    assert "the event loop is blocked for 1." in begin
    assert f"by the handler of 'block' (task {task.id}, at {BUSY}:" in begin
    assert " in block): heartbeats go on" in begin
    (blocked,) = re.findall(r"the event loop was blocked for ([0-9.]+) s by the handler of 'block'", end)
    assert secs - 1 < float(blocked) < secs + 5


async def test_threads_that_compute_lose_no_lease(ran):
    await check_computing(ran, 1.0)


async def test_a_handler_that_blocks_the_loop_for_longer_than_its_lease_loses_nothing_and_is_named(ran):
    await check_blocking(ran, 7)


async def test_a_handler_that_holds_the_interpreter_for_longer_than_its_lease_is_named_and_no_server_is_blamed(ran):
    (task,), log = await ran("hold", 6)
    assert "so that no heartbeat was sent: the handler of 'hold' held the interpreter" in log
    assert "could be reached" not in log
    assert (task.state, task.error) == ("failed", "lease expired"), log


@pytest.mark.deep("computes for a minute")
@pytest.mark.timeout(1200)
async def test_eight_handlers_that_compute_for_seconds_lose_no_lease(ran):
    await check_computing(ran, float(os.environ.get("COMPUTE_SECS", "3")))


@pytest.mark.deep("blocks for twenty seconds")
@pytest.mark.timeout(300)
async def test_a_handler_that_blocks_the_loop_for_long_loses_nothing(ran):
    await check_blocking(ran, int(os.environ.get("BLOCK_SECS", "20")))
