"""With a store a signal is an upgrade and not an end.

See docs/rules.md, Drain and shutdown; docs/operate/durability.md.
"""

import asyncio
import signal
from functools import partial

import grpc
import pytest

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1 import task_pb2
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from tests.environment import new_store_file
from tests.waiting import LIMIT_SECS

STOP_SECS = 20.0
ENDLESS_MS = 600_000
ONE_WORKER = {"scheduler": {"workerCount": 1}}


@pytest.fixture
def kept_up(up):
    """Starts `taskyard up` over one store, again and again."""
    return partial(up, TASKYARD_STORE__URL=f"sqlite:///{new_store_file()}")


async def stop(server):
    server.signal(signal.SIGTERM)
    assert await server.exited(STOP_SECS) == 0


async def ended(server, task_id):
    """The task, which must end within seconds."""
    answer = await server.tasks.WaitTask(task_pb2.WaitTaskRequest(task_id=task_id, timeout_ms=20_000))
    assert answer.ended
    return answer.task


async def test_a_signal_cancels_no_queued_task_and_it_runs_after_the_restart(kept_up):
    server = await kept_up(ONE_WORKER)
    running = await server.start_task(600)
    queued = [await server.submit() for _ in range(2)]
    await stop(server)
    assert server.events("task_done", "task_cancelled", "task_paused", "stopped") == ["task_done", "stopped"]
    again = await kept_up(ONE_WORKER)
    assert [(await ended(again, task_id)).state for task_id in queued] == [task_pb2.Task.done] * 2
    # In the order in which they were submitted.
    assert [line["task_id"] for line in await again.logged("task_assigned", 2)] == queued
    assert (await again.get(running)).state == task_pb2.Task.done


async def test_what_the_server_runs_itself_is_paused_after_the_grace_period_and_stays_so(kept_up):
    settings = {"shutdownGracePeriodSeconds": 1}
    server = await kept_up(settings)
    task_id = await server.start_task(ENDLESS_MS)
    await stop(server)
    assert server.events("task_paused", "task_done", "task_failed", "stopped") == ["task_paused", "stopped"]
    again = await kept_up(settings)
    task = await again.get(task_id)
    assert (task.state, task.error) == (task_pb2.Task.paused, "Job was interrupted by user")
    await again.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id=task_id))


async def test_a_task_that_ends_with_a_callback_is_posted_once_over_a_restart(kept_up, hook):
    settings = {**ONE_WORKER, "webhooks": {"allowPrivate": True}}
    server = await kept_up(settings)
    first = await server.start_task(600, callback_url=hook.url)
    second = await server.submit(callback_url=hook.url)
    await stop(server)
    assert [(post["taskId"], post["state"]) for post in hook.posts] == [(first, "done")]
    again = await kept_up(settings)
    await again.logged("webhook_delivered")
    assert [(post["taskId"], post["state"]) for post in hook.posts] == [(first, "done"), (second, "done")]


async def test_a_call_that_waits_for_a_task_learns_at_the_stop_that_it_has_not_ended(kept_up):
    server = await kept_up(ONE_WORKER)
    await server.start_task(500)
    queued = await server.submit()
    waiting = asyncio.ensure_future(server.tasks.WaitTask(task_pb2.WaitTaskRequest(task_id=queued, timeout_ms=60_000)))
    await server.get(queued)
    server.signal(signal.SIGTERM)
    answer = await waiting
    assert (answer.ended, answer.task.state) == (False, task_pb2.Task.queued)
    assert await server.exited(STOP_SECS) == 0


class HostStream:
    """A host with room for one task, connected by a stream."""

    def __init__(self, server):
        self.call = RuntimeHostServiceStub(server.channel).Connect()

    async def hello(self, *leases):
        hello = pb.Hello(host_id="host", instance="i", leases=leases, slots=1)
        await self.call.write(pb.ConnectRequest(hello=hello))
        return (await self.receive("welcome")).welcome

    async def receive(self, kind):
        """The next message, which must be of this kind."""
        message = await asyncio.wait_for(self.call.read(), LIMIT_SECS)
        assert message is not grpc.aio.EOF
        assert message.WhichOneof("message") == kind
        return message

    async def report(self, lease, **event):
        reported = pb.Report(task_id=lease.task_id, fencing_token=lease.fencing_token, **event)
        await self.call.write(pb.ConnectRequest(reports=pb.Reports(reports=[reported])))
        (result,) = (await self.receive("report_results")).report_results.results
        return task_pb2.Task.State.Name(result.state)


async def test_a_signal_ends_no_lease_and_the_host_comes_back_with_it(kept_up):
    server = await kept_up()
    host = HostStream(server)
    await host.hello()
    await host.call.write(pb.ConnectRequest(credit=pb.Credit(count=1)))
    request = task_pb2.SubmitTaskRequest(agent_id="ann", action="click")
    task_id = (await server.tasks.SubmitTask(request)).task_id
    (assignment,) = (await host.receive("assignments")).assignments.assignments
    lease = pb.HeldLease(task_id=task_id, fencing_token=assignment.lease.fencing_token)
    assert await host.report(lease, started=pb.TaskStarted()) == "running"
    server.signal(signal.SIGTERM)
    assert (await host.receive("drain")).drain.reconnect
    assert await server.exited(STOP_SECS) == 0
    assert server.events("task_paused", "task_cancelled", "task_failed", "stopped") == ["stopped"]

    again = await kept_up()
    assert (await again.get(task_id)).state == task_pb2.Task.running
    back = HostStream(again)
    welcome = await back.hello(lease)
    assert [(kept.task_id, kept.fencing_token) for kept in welcome.kept] == [(task_id, lease.fencing_token)]
    assert await back.report(lease, completed=pb.TaskCompleted()) == "done"
    back.call.cancel()
