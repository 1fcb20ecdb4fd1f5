"""The objects of a call are freed at its end by reference counting alone.

The server collects garbage rarely (`gc_policy.py`), so objects that a call leaves in a cycle may stay for ever. grpc
itself leaves a small cycle with each call, which does not refer to the objects of the call.
"""

import contextlib
import gc

import grpc
import pytest
from opentelemetry.sdk.resources import Resource

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1 import task_pb2
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.logs.audit import AuditLog
from taskyard_server.telemetry.sampling import Sampler
from taskyard_server.telemetry.tracing import Tracing
from tests.waiting import until

from .host_streams import run_loop, serving

CALLS = 20
GRPC_TYPES = {"_Metadatum", "tuple", "_HandlerCallDetails", "cython_function_or_method"}


async def submit(server):
    await server.tasks.SubmitTask(task_pb2.SubmitTaskRequest(agent_id="ann", action="click"))


async def submit_invalid_task(server):
    await server.tasks.SubmitTask(task_pb2.SubmitTaskRequest())


async def get_unknown_task(server):
    await server.tasks.GetTask(task_pb2.GetTaskRequest(task_id="tsk_0"))


async def submit_over_a_stream(server):
    call = server.tasks.SubmitTasks()
    tasks = [task_pb2.SubmitTaskRequest(agent_id=agent, action="click") for agent in ("ann", "")]
    await call.write(task_pb2.SubmitTasksRequest(tasks=tasks))
    await call.read()
    await call.done_writing()
    await call.read()


async def submit_refused_tasks(server):
    """A second task under the key of the first."""
    call = server.tasks.SubmitTasks()
    tasks = [
        task_pb2.SubmitTaskRequest(agent_id="ann", action=action, idempotency_key="k") for action in ("click", "type")
    ]
    await call.write(task_pb2.SubmitTasksRequest(tasks=tasks))
    await call.read()
    await call.done_writing()
    await call.read()


async def report_refused(server):
    """A report without an event, and one on an unknown task."""
    call = await send_hello(server, "host")
    wrong, unknown = pb.Report(task_id="tsk_0", fencing_token=1), pb.Report(task_id="tsk_0", fencing_token=1)
    unknown.started.SetInParent()
    await call.write(pb.ConnectRequest(reports=pb.Reports(reports=[wrong, unknown])))
    await call.read()
    await call.done_writing()
    await call.read()


async def connect(server):
    call = await send_hello(server, "host")
    await call.done_writing()
    await call.read()


async def connect_and_cancel(server):
    call = await send_hello(server, "host")
    call.cancel()
    await wait_until_freed(server)


async def wait_until_freed(server):
    """Wait until the server has noticed the end of the call."""
    await until(lambda: not server.leftovers())


async def connect_without_a_host_id(server):
    await send_hello(server, "")


async def send_hello(server, host_id):
    call = RuntimeHostServiceStub(server.channel).Connect()
    await call.write(pb.ConnectRequest(hello=pb.Hello(host_id=host_id, instance="i")))
    await call.read()
    return call


async def watch(server):
    async for _ in server.tasks.WatchTasks(task_pb2.WatchTasksRequest(until_ended=True, task_ids=["tsk_0"])):
        pass


async def watch_and_cancel(server):
    call = server.tasks.WatchTasks(task_pb2.WatchTasksRequest())
    await call.read()
    call.cancel()
    await wait_until_freed(server)


async def watch_with_an_invalid_cursor(server):
    await server.tasks.WatchTasks(task_pb2.WatchTasksRequest(cursor="nonsense")).read()


async def watch_hosts_and_cancel(server):
    call = server.hosts.WatchHosts(pb.WatchHostsRequest())
    await call.read()
    call.cancel()
    await wait_until_freed(server)


@pytest.mark.parametrize(
    "call",
    [
        submit,
        submit_invalid_task,
        get_unknown_task,
        submit_over_a_stream,
        submit_refused_tasks,
        report_refused,
        connect,
        connect_and_cancel,
        connect_without_a_host_id,
        watch,
        watch_and_cancel,
        watch_with_an_invalid_cursor,
        watch_hosts_and_cancel,
    ],
)
async def test_a_call_leaves_no_reference_cycle(call):
    await check(call, None)


@pytest.mark.parametrize(
    "call",
    [submit, submit_invalid_task, submit_over_a_stream, report_refused, connect, connect_and_cancel],
)
async def test_a_call_that_is_written_to_the_audit_log_leaves_none_either(call, tmp_path):
    log = AuditLog(tmp_path / "audit.log", 1_000_000, 2)
    await check(call, CallAdmission(None, audit=log))
    log.close()


@pytest.mark.parametrize(
    "call", [submit, submit_invalid_task, submit_over_a_stream, submit_refused_tasks, connect_and_cancel]
)
async def test_a_call_that_is_traced_leaves_none_either(call):
    await check(call, None, Tracing(Nowhere(), Resource({}), Sampler(1.0, parent_based=False)).calls)


class Nowhere:
    """Takes spans, and forgets them."""

    def on_end(self, _):
        pass


async def check(call, admission, tracer=None):
    async with serving(admission=admission, tracer=tracer) as server:
        await run(call, server)
        # Where a finalizer makes one object live on, all that a test before has left stays for the next collection.
        for _ in range(3):
            gc.collect()
        gc.disable()
        try:
            for _ in range(CALLS):
                await run(call, server)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            leftover_types = {type(garbage).__name__ for garbage in gc.garbage}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert {name for name in leftover_types - GRPC_TYPES if not name.startswith("__pyx_scope_struct")} == set()


async def run(call, server):
    with contextlib.suppress(grpc.aio.AioRpcError):
        await call(server)
    await run_loop()
