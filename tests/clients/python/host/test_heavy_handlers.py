"""Handlers that compute for long, hang or die, with a real server: no lease is lost, and each fails alone."""

import os
from datetime import timedelta

import grpc
import pytest

from taskyard import Client, RetryPolicy, TaskState
from tests.clients.python.host import process_handlers
from tests.clients.python.host.real_server import Namespace, running
from tests.clients.python.host.test_processes import until_gone
from tests.waiting import until

pytestmark = pytest.mark.gate("minutes of busy processes")

AT_ONCE = 8
LEASE_SECS = 4
LIMITS = {"maxInflight": 1_000, "maxPerAgentInflight": 1_000, "maxDeliveries": 5}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with running(tmp_path_factory.mktemp("taskyard"), LIMITS) as address:
        yield address


@pytest.fixture
async def namespace(address):
    async with grpc.aio.insecure_channel(address) as channel:
        yield Namespace(address, channel)


@pytest.fixture
async def client(namespace):
    async with Client(namespace.address, agent_id="ann", namespace=namespace.name) as client:
        yield client


async def begun(client, task_id):
    """Wait until a handler has reported progress. Returns the task."""
    return await until(lambda: client.get(task_id), lambda task: task.progress is not None)


@pytest.mark.deep("computes for half a minute")
@pytest.mark.timeout(900)
async def test_eight_processes_that_compute_for_seconds_each_keep_their_leases(namespace, client, work):
    secs = float(os.environ.get("COMPUTE_SECS", "4"))
    host = namespace.host(slots=AT_ONCE, lease=5)
    host.action("computes", runs_in="process")(process_handlers.computes)
    work(host)
    fields = {"deadline": timedelta(hours=1), "retry_policy": RetryPolicy(max_attempts=3)}
    submitted = [await client.submit("computes", params={"secs": secs}, **fields) for _ in range(AT_ONCE)]
    for each in submitted:
        task = await client.wait(each.id)
        assert task.state is TaskState.DONE, task
        # A lease that was lost would have ended a first attempt.
        assert [attempt.number for attempt in task.attempts] == [1], task
        assert task.latency > timedelta(seconds=secs)


async def test_a_hanging_regular_expression_is_gone_after_its_cancel(namespace, client, work):
    host = namespace.host(slots=2, lease=LEASE_SECS)
    host.action("hang", runs_in="process")(process_handlers.holds_the_interpreter)
    work(host)
    task_id = (await client.submit("hang")).id
    worker = int((await begun(client, task_id)).progress.message)
    first_end = await namespace.lease_end(task_id)
    # For longer than a lease lives.
    await until(lambda: namespace.lease_end(task_id), lambda end: end > first_end + LEASE_SECS + 0.5)
    task = await client.get(task_id)
    assert task.state is TaskState.RUNNING
    await client.cancel(task_id)
    await until_gone(worker)
    assert (await client.get(task_id)).state is TaskState.CANCELLED


async def test_a_worker_that_is_killed_fails_its_task_alone_and_another_attempt_succeeds(
    namespace, client, work, tmp_path
):
    host, file = namespace.host(slots=4), tmp_path / "go on"
    host.action("wait", runs_in="process")(process_handlers.entered_and_waits)
    work(host)
    policy = RetryPolicy(max_attempts=2, first_delay=timedelta(milliseconds=1))
    params = {"file": str(file)}
    killed, other = [(await client.submit("wait", params=params, retry_policy=policy)).id for _ in range(2)]
    worker = int((await begun(client, killed)).progress.message)
    await begun(client, other)
    os.kill(worker, 9)
    file.touch()
    task, untouched = await client.wait(killed), await client.wait(other)
    assert (task.state, untouched.state) == (TaskState.DONE, TaskState.DONE)
    assert len(untouched.attempts) == 1
    first = task.attempts[0]
    assert first.code == "worker_died"
    assert "SIGKILL" in first.error
    assert task.result != worker


async def test_an_attempt_finds_the_last_details_of_the_one_before_as_its_checkpoint(namespace, client, work):
    host = namespace.host()

    @host.action("count")
    async def count(task):
        done = task.checkpoint.get("done", 0)
        await task.progress(details={"done": done + 1})
        if done < 2:
            raise ValueError("not yet")
        return done

    work(host)
    policy = RetryPolicy(max_attempts=5, first_delay=timedelta(milliseconds=1))
    assert await client.run("count", retry_policy=policy) == 2


async def test_what_hangs_in_a_process_ends_by_its_run_timeout(namespace, client, work):
    host = namespace.host()
    host.action("hang", runs_in="process")(process_handlers.holds_the_interpreter)
    work(host)
    task_id = (await client.submit("hang", run_timeout=timedelta(seconds=1.5))).id
    worker = int((await begun(client, task_id)).progress.message)
    task = await client.wait(task_id)
    assert (task.state, task.code) == (TaskState.FAILED, "timed_out")
    await until_gone(worker)
