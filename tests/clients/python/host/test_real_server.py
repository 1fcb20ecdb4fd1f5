"""Hosts and clients with a real server, each test in a namespace of its own."""

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from datetime import timedelta

import grpc
import pytest

from taskyard import ActionFailed, Client, RetryPolicy, TargetStatus, TaskFailed, TaskState
from tests.clients.python.conftest import Wire
from tests.clients.python.host.real_server import Namespace, running
from tests.waiting import LIMIT_SECS, until

MAX_PAYLOAD_BYTES = 100_000
LIMITS = {"maxInflight": 1_000, "maxPerAgentInflight": 1_000, "maxQueueSize": 5_000, "maxPerAgent": 5_000}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a `taskyard up`."""
    with running(tmp_path_factory.mktemp("taskyard"), LIMITS | {"maxPayloadBytes": MAX_PAYLOAD_BYTES}) as address:
        yield address


@pytest.fixture
async def namespace(address):
    async with grpc.aio.insecure_channel(address) as channel:
        yield Namespace(address, channel)


@pytest.fixture
async def client(namespace):
    async with Client(namespace.address, agent_id="ann", namespace=namespace.name) as client:
        yield client


@pytest.fixture
async def wire(namespace):
    """A way to the server that can be cut."""
    async with AsyncExitStack() as ends:
        wire = Wire(int(namespace.address.rpartition(":")[2]))
        await wire.open(ends)
        yield wire


async def test_a_task_runs_and_its_result_comes_back(namespace, client, work):
    host = namespace.host()

    @host.action("click")
    async def click(task):
        await task.progress(0.5, "half way")
        return {"clicked": task.params["x"]}

    work(host)
    assert await client.run("click", params={"x": "e14"}) == {"clicked": "e14"}


async def test_a_thousand_tasks_each_run_once(namespace, client, work):
    host, ran = namespace.host(slots=50), []

    @host.action("click")
    async def click(task):
        ran.append(task.id)
        return task.params["n"]

    work(host)
    results = await asyncio.gather(*(client.run("click", params={"n": number}) for number in range(1_000)))
    assert results == list(range(1_000))
    assert len(ran) == len(set(ran)) == 1_000


async def test_a_failing_task_has_the_error_of_its_handler(namespace, client, work):
    host = namespace.host()

    @host.action("click")
    async def click(_):
        raise ValueError("no such element")

    work(host)
    with pytest.raises(TaskFailed, match="ValueError: no such element"):
        await client.run("click")


async def test_a_result_that_is_too_large_for_a_payload_comes_as_an_artifact(namespace, client, work):
    host = namespace.host()
    host.action("click")(lambda task: "x" * task.params["size"])
    work(host)
    for size in (MAX_PAYLOAD_BYTES + 1, 1):
        assert await client.run("click", params={"size": size}) == "x" * size


async def test_a_cancelled_task_stops_its_handler(namespace, client, work):
    host, entered, stopped = namespace.host(), asyncio.Event(), asyncio.Event()

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
    await asyncio.wait_for(stopped.wait(), LIMIT_SECS)


async def test_a_task_goes_on_while_the_connection_breaks(namespace, client, work, wire):
    host, entered, go_on = namespace.host(address=wire.address), asyncio.Event(), asyncio.Event()
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
    wire.cut()
    go_on.set()
    assert (await client.wait(task.id)).result == "done"
    assert ran == [1]


async def test_a_drained_host_finishes_its_task_and_takes_no_more(namespace, client, work):
    host, entered, go_on = namespace.host(), asyncio.Event(), asyncio.Event()

    @host.action("click")
    async def click(_):
        entered.set()
        await go_on.wait()

    running = work(host)
    first = await client.submit("click")
    await entered.wait()
    await namespace.drain()
    second = await client.submit("click")
    go_on.set()
    await asyncio.wait_for(running, LIMIT_SECS)
    assert (await client.get(first.id)).state is TaskState.DONE
    assert (await client.get(second.id)).state is TaskState.QUEUED


async def test_a_host_that_drains_by_itself_leaves_further_tasks_to_others(namespace, client, work):
    first, entered, go_on = namespace.host("first", slots=2), asyncio.Event(), asyncio.Event()

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
    second = namespace.host("second")
    second.action("click")(lambda _: "second")
    work(second)
    assert (await client.wait(left.id)).result == "second"
    go_on.set()
    await asyncio.wait_for(running, LIMIT_SECS)
    assert (await client.get(kept.id)).result == "first"


async def test_a_task_that_a_leaving_host_interrupts_goes_to_another_host_at_once(namespace, client, work):
    first, entered = namespace.host("first", drain_grace=timedelta()), asyncio.Event()

    @first.action("click")
    async def click(_):
        entered.set()
        await asyncio.Event().wait()

    running = work(first)
    task = await client.submit("click")
    await entered.wait()
    second = namespace.host("second")
    second.action("click")(lambda _: "second")
    work(second)
    await namespace.connected("first", "second")
    first.drain()
    assert (await asyncio.wait_for(client.wait(task.id), LIMIT_SECS)).result == "second"
    await asyncio.wait_for(running, LIMIT_SECS)


async def test_a_deregistered_host_stops_its_work_and_registers_again(namespace, client, work):
    host, entered, stopped = namespace.host(), asyncio.Event(), []

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
    await namespace.deregister()
    assert (await client.wait(task.id)).result == "again"
    assert stopped == [1]


async def test_another_instance_of_a_host_waits_until_the_first_has_left(namespace, client, work):
    first = namespace.host()
    first.action("click")(lambda _: "first")
    running = work(first)
    before = (await namespace.connected("host-1"))["host-1"].instance
    second = namespace.host()
    second.action("click")(lambda _: "second")
    work(second)
    assert await client.run("click") == "first"
    assert (await namespace.connected("host-1"))["host-1"].instance == before
    first.drain()
    await asyncio.wait_for(running, LIMIT_SECS)
    assert await client.run("click") == "second"


class Waiter:
    """A handler that waits to be stopped, except under later fencing tokens. `stopped` records the runs that were."""

    def __init__(self, host, until_token=1, before=None):
        self.entered, self.stopped = asyncio.Event(), []
        self._until_token, self._before = until_token, before
        host.action("click")(self.click)

    async def click(self, task):
        if task.fencing_token > self._until_token:
            return f"run {task.task.run}"
        if self._before is not None:
            await self._before(task)
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.append((task.fencing_token, task.cancelled))


async def test_a_paused_task_stops_its_handler_and_runs_again_with_another_token_once_resumed(namespace, client, work):
    host = namespace.host()
    waiter = Waiter(host)
    work(host)
    task_id = (await client.submit("click")).id
    await waiter.entered.wait()
    assert await client.pause(task_id) is TaskState.PAUSED
    await until(lambda: waiter.stopped == [(1, True)])
    assert (await client.get(task_id)).state is TaskState.PAUSED
    await client.resume(task_id)
    ended = await asyncio.wait_for(client.wait(task_id), LIMIT_SECS)
    assert (ended.state, ended.result, ended.run) == (TaskState.DONE, "run 2", 2)
    assert waiter.stopped == [(1, True)]


async def test_the_next_task_of_a_target_starts_once_the_handler_of_a_resolved_one_has_stopped(namespace, client, work):
    host, go_on = namespace.host(), asyncio.Event()
    entered, order = asyncio.Event(), []

    @host.action("click")
    async def click(task):
        order.append(f"begin {task.params['n']}")
        if task.params["n"] == 1:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                await go_on.wait()
                order.append("end 1")

    work(host)
    first, second = [(await client.submit("click", params={"n": n}, target="t")).id for n in (1, 2)]
    await entered.wait()
    await client.pause(first)
    await client.resolve(first)
    (target,) = [target async for target in client.targets()]
    assert (target.status, target.task_id, target.queued) == (TargetStatus.STOPPING, first, 1)
    assert order == ["begin 1"]
    go_on.set()
    assert (await asyncio.wait_for(client.wait(second), LIMIT_SECS)).state is TaskState.DONE
    assert order == ["begin 1", "end 1", "begin 2"]


async def test_a_handler_over_its_token_budget_is_stopped_and_its_task_failed(namespace, client, work):
    async def use(task):
        for task.tokens_used in (4, 11):
            await task.progress(message=f"{task.tokens_used} tokens")

    host = namespace.host()
    waiter = Waiter(host, before=use)
    work(host)
    task_id = (await client.submit("click", token_limit=10)).id
    ended = await asyncio.wait_for(client.wait(task_id), LIMIT_SECS)
    assert (ended.state, ended.error, ended.tokens_used) == ("failed", "token limit exceeded", 11)
    await until(lambda: waiter.stopped == [(1, True)])


async def test_the_last_report_of_a_handler_carries_its_tokens(namespace, client, work):
    host = namespace.host()

    @host.action("click")
    async def click(task):
        task.tokens_used = task.params["uses"]
        if task.params["fails"]:
            raise ActionFailed("no such element")
        return "done"

    work(host)
    ends = [
        await client.wait((await client.submit("click", params=params, token_limit=10)).id, timeout=5)
        for params in ({"uses": 10, "fails": False}, {"uses": 9, "fails": True}, {"uses": 11, "fails": False})
    ]
    assert [(end.state, end.error, end.tokens_used) for end in ends] == [
        ("done", None, 10),
        ("failed", "no such element", 9),
        ("failed", "token limit exceeded", 11),
    ]


async def test_a_failed_attempt_is_repeated_and_the_handler_knows_its_number(namespace, client, work):
    host, attempts = namespace.host(), []

    @host.action("click")
    async def click(task):
        attempts.append(task.attempt)
        if task.attempt < 3:
            raise ActionFailed("not yet", code="early")
        return "done"

    work(host)
    policy = RetryPolicy(max_attempts=3, first_delay=timedelta(milliseconds=1))
    task_id = (await client.submit("click", retry_policy=policy)).id
    task = await client.wait(task_id, timeout=5)
    assert attempts == [1, 2, 3]
    assert [(each.number, each.error, each.code) for each in task.attempts] == [
        (1, "not yet", "early"),
        (2, "not yet", "early"),
        (3, None, None),
    ]


HOST = """
import asyncio, os, signal, sys
from taskyard import Host

host = Host(sys.argv[1], "doomed", namespace=sys.argv[2])

@host.action()
async def die(task):
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(host.run())
"""


async def test_the_task_of_a_killed_host_starts_on_another_host_within_seconds(namespace, client, work):
    doomed = await asyncio.create_subprocess_exec(sys.executable, "-c", HOST, namespace.address, namespace.name)
    await namespace.connected("doomed")
    task = await client.submit("die")
    assert await asyncio.wait_for(doomed.wait(), LIMIT_SECS) == -signal.SIGKILL
    second = namespace.host("second")
    second.action("die")(lambda task: task.fencing_token)
    work(second)
    ended = await asyncio.wait_for(client.wait(task.id), LIMIT_SECS)
    assert (ended.state, ended.result) == (TaskState.DONE, 2)
