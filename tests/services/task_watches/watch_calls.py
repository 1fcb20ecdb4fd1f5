"""Calls of WatchTasks, and readers of its messages."""

import asyncio

import grpc

from taskyard.v1 import task_pb2
from tests import reporting
from tests.waiting import LIMIT_SECS


async def started(call):
    """The call, after reading the bookmark with which its watch starts."""
    assert (await read(call)).bookmark
    return call


async def read(call):
    """The next message, or None at the end."""
    message = await asyncio.wait_for(call.read(), LIMIT_SECS)
    return None if message is grpc.aio.EOF else message


async def events(call, count):
    """The next `count` events, which must end with a message."""
    received = []
    while len(received) < count:
        received += (await read(call)).events
    assert len(received) == count
    return received


async def read_to_end(call):
    """All remaining messages, and the status with which the stream ended."""
    messages = []
    try:
        while (message := await read(call)) is not None:
            messages.append(message)
    except grpc.aio.AioRpcError as error:
        return messages, error.code()
    return messages, await call.code()


def task_states(messages):
    return [(event.task.task_id, event.task.state) for message in messages for event in message.events]


async def submit(api, **fields):
    return (await api.submit(**fields)).task_id


async def report_progress_many_times(api, count, fast_call=None):
    """Make `count` events of a kilobyte each, after three others. `fast_call` reads them as they come."""
    await submit(api)
    (lease,) = await api.claim()
    await api.start(lease)
    if fast_call is not None:
        await events(fast_call, 3)
    progress = task_pb2.Progress(message="x" * 1000).SerializeToString()
    for number in range(count):
        await reporting.progress(api.engine, "default", "host", lease.task.id, lease.token, progress)
        if fast_call is None:
            await asyncio.sleep(0)
        elif number % 50 == 49:
            await events(fast_call, 50)
