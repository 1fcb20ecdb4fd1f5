"""What a call has used is freed as soon as it is over, by reference counting alone.

Garbage is collected rarely, by design (`gc_policy.py`), and what a call leaves in a cycle may stay for good. grpc
itself makes a small cycle with each call, which leads to nothing of the call.
"""

import contextlib
import gc

import grpc
import pytest

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1 import task_pb2
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub

from .host_streams import serving, turns

CALLS = 20
GRPCS_OWN = {"_Metadatum", "tuple", "_HandlerCallDetails", "cython_function_or_method"}


async def submit(yard):
    await yard.tasks.SubmitTask(task_pb2.SubmitTaskRequest(agent_id="ann", action="click"))


async def submit_nothing(yard):
    await yard.tasks.SubmitTask(task_pb2.SubmitTaskRequest())


async def get_what_is_not_there(yard):
    await yard.tasks.GetTask(task_pb2.GetTaskRequest(task_id="tsk_0"))


async def submit_over_a_stream(yard):
    call = yard.tasks.SubmitTasks()
    asked = [task_pb2.SubmitTaskRequest(agent_id=agent, action="click") for agent in ("ann", "")]
    await call.write(task_pb2.SubmitTasksRequest(tasks=asked))
    await call.read()
    await call.done_writing()
    await call.read()


async def submit_what_the_core_refuses(yard):
    """A second task under the key of the first."""
    call = yard.tasks.SubmitTasks()
    asked = [
        task_pb2.SubmitTaskRequest(agent_id="ann", action=action, idempotency_key="k") for action in ("click", "type")
    ]
    await call.write(task_pb2.SubmitTasksRequest(tasks=asked))
    await call.read()
    await call.done_writing()
    await call.read()


async def report_what_is_refused(yard):
    """A report without an event, and one of a task that is not there."""
    call = await say_hello(yard, "host")
    wrong, unknown = pb.Report(task_id="tsk_0", fencing_token=1), pb.Report(task_id="tsk_0", fencing_token=1)
    unknown.started.SetInParent()
    await call.write(pb.ConnectRequest(reports=pb.Reports(reports=[wrong, unknown])))
    await call.read()
    await call.done_writing()
    await call.read()


async def connect(yard):
    call = await say_hello(yard, "host")
    await call.done_writing()
    await call.read()


async def connect_and_vanish(yard):
    call = await say_hello(yard, "host")
    call.cancel()
    await gone(yard)


async def gone(yard):
    """Wait until the server has learned of it."""
    while yard.leftovers():
        await turns()


async def connect_as_nobody(yard):
    await say_hello(yard, "")


async def say_hello(yard, host_id):
    call = RuntimeHostServiceStub(yard.channel).Connect()
    await call.write(pb.ConnectRequest(hello=pb.Hello(host_id=host_id, instance="i")))
    await call.read()
    return call


async def watch(yard):
    async for _ in yard.tasks.WatchTasks(task_pb2.WatchTasksRequest(until_ended=True, task_ids=["tsk_0"])):
        pass


async def watch_and_vanish(yard):
    call = yard.tasks.WatchTasks(task_pb2.WatchTasksRequest())
    await call.read()
    call.cancel()
    await gone(yard)


async def watch_from_nonsense(yard):
    await yard.tasks.WatchTasks(task_pb2.WatchTasksRequest(cursor="nonsense")).read()


@pytest.mark.parametrize(
    "call",
    [
        submit,
        submit_nothing,
        get_what_is_not_there,
        submit_over_a_stream,
        submit_what_the_core_refuses,
        report_what_is_refused,
        connect,
        connect_and_vanish,
        connect_as_nobody,
        watch,
        watch_and_vanish,
        watch_from_nonsense,
    ],
)
async def test_a_call_leaves_nothing_in_a_cycle(call):
    async with serving() as yard:
        await make(call, yard)
        gc.collect()
        gc.disable()
        try:
            for _ in range(CALLS):
                await make(call, yard)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = {type(thing).__name__ for thing in gc.garbage}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert {name for name in left - GRPCS_OWN if not name.startswith("__pyx_scope_struct")} == set()


async def make(call, yard):
    with contextlib.suppress(grpc.aio.AioRpcError):
        await call(yard)
    await turns()
