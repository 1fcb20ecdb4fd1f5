"""Operations of the client that take more than one call."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from taskyard.errors import Conflict, Unauthenticated
from taskyard.records.batches import Batch, BatchOutcome, SubmittedBatch
from taskyard.records.stopping import STOPPING_OF_NUMBER, Stopping
from taskyard.records.tasks import STATE_OF_NUMBER, Task, TaskState
from taskyard.v1 import batch_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard.values.payloads import Codec

from .calls import Calls

if TYPE_CHECKING:
    from taskyard.v1.batch_pb2_grpc import BatchServiceAsyncStub
    from taskyard.v1.task_pb2_grpc import TaskServiceAsyncStub

WAIT_PIECE_SECS: Final = 20.0
"""The longest single WaitTask call: proxies end calls that are idle for a minute."""
WAIT_GRACE_SECS: Final = 2.0
"""How much later than the caller's timeout the server's last answer may come."""
ADMITTED_SECS: Final = 3.0
"""A call that lasts this long had credentials that hold: the server delays refusals by two seconds at most."""


async def wait_until_ended(
    calls: Calls, stub: TaskServiceAsyncStub, task_id: str, timeout_secs: float | None, codec: Codec | None = None
) -> Task:
    """Wait until a task has ended, by as many calls as that takes.

    Args:
        calls: The calls of the client.
        stub: The stub of the task service.
        task_id: The task.
        timeout_secs: How long to wait, in seconds, or None for as long as it takes.
        codec: Reads what is encoded. Default none.

    Returns:
        The ended task.

    Raises:
        TimeoutError: The task has not ended in time.
        TaskyardError: A call failed.
    """
    loop = asyncio.get_running_loop()
    until = None if timeout_secs is None else loop.time() + timeout_secs
    async with asyncio.timeout_at(None if until is None else until + WAIT_GRACE_SECS):
        while True:
            left = WAIT_PIECE_SECS if until is None else until - loop.time()
            piece = min(max(left, 0.0), WAIT_PIECE_SECS)
            request = pb.WaitTaskRequest(task_id=task_id, timeout_ms=round(piece * 1000))
            begun = loop.time()
            try:
                answer, _ = await calls.repeated(stub.WaitTask, request, piece)
            except Unauthenticated:
                if loop.time() - begun < ADMITTED_SECS:
                    raise
                # It was let in, and its token has expired or has other grants since: the next call finds out.
                continue
            if answer.ended:
                return Task.from_message(answer.task, codec)
            if until is not None and loop.time() >= until:
                raise TimeoutError(f"{task_id} is {STATE_OF_NUMBER[answer.task.state]}, it has not ended in time")


async def move(
    calls: Calls,
    stub: TaskServiceAsyncStub,
    method: Callable[..., Awaitable[Any]],
    request: Any,
    aim: TaskState,
) -> TaskState:
    """Repeat a call that moves a task to a state in which the same call is a conflict.

    Args:
        calls: The calls of the client.
        stub: The stub of the task service.
        method: The method of the stub.
        request: Its request.
        aim: The state that the call leads to.

    Returns:
        The new state.

    Raises:
        TaskyardError: A call failed.
    """

    async def attempt(is_repeat: bool) -> TaskState:
        try:
            return STATE_OF_NUMBER[(await calls.single(method, request)).status]
        except Conflict:
            # An earlier try may have moved it, and its answer was lost.
            if is_repeat:
                task = await calls.single(stub.GetTask, pb.GetTaskRequest(task_id=request.task_id))
                if STATE_OF_NUMBER[task.state] is aim:
                    return aim
            raise

    return (await calls.attempted(attempt))[0]


async def stop(
    calls: Calls,
    stub: TaskServiceAsyncStub,
    method: Callable[..., Awaitable[Any]],
    request: pb.CancelTaskRequest | pb.PauseTaskRequest,
    aims: Collection[TaskState],
) -> Stopping:
    """Stop a task, and wait as long as the request says for its host to say that nothing runs any more.

    Args:
        calls: The calls of the client.
        stub: The stub of the task service.
        method: The method of the stub.
        request: Its request.
        aims: The states that the call may lead to.

    Returns:
        Whether anything may still run. If an answer was lost that is not known, as after a wait that was too short.

    Raises:
        TaskyardError: A call failed.
    """

    async def attempt(is_repeat: bool) -> Stopping:
        try:
            answer = await calls.single(method, request, calls.timeout_secs + request.wait_ms / 1000)
        except Conflict:
            # An earlier try may have stopped it, and its answer was lost.
            if is_repeat:
                task = await calls.single(stub.GetTask, pb.GetTaskRequest(task_id=request.task_id))
                if STATE_OF_NUMBER[task.state] in aims:
                    return Stopping.WAITING
            raise
        return STOPPING_OF_NUMBER.get(answer.stopping, Stopping.WAITING)

    return (await calls.attempted(attempt))[0]


async def submit_batch_once(
    calls: Calls, batches: BatchServiceAsyncStub, tasks: TaskServiceAsyncStub, request: batch_pb2.SubmitBatchRequest
) -> SubmittedBatch:
    """Submit a batch, and name it right if an earlier try had made it and its answer was lost.

    Args:
        calls: The calls of the client.
        batches: The stub of the batch service.
        tasks: The stub of the task service.
        request: The batch, whose tasks have idempotency keys.

    Returns:
        The outcome of each task.

    Raises:
        TaskyardError: A call failed.
    """
    answer, repeated = await calls.repeated(batches.SubmitBatch, request)
    batch = SubmittedBatch(answer.batch_id, tuple(BatchOutcome.from_message(outcome) for outcome in answer.tasks))
    if repeated and batch.task_ids:
        # If an earlier try made the tasks, they belong to its batch, not to the answered one.
        first = await calls.sure(tasks.GetTask, pb.GetTaskRequest(task_id=batch.task_ids[0]))
        batch = dataclasses.replace(batch, id=first.batch_id or batch.id)
    return batch


async def get_whole_batch(
    calls: Calls, stub: BatchServiceAsyncStub, batch_id: str, codec: Codec | None = None
) -> Batch:
    """Get a batch with the tasks of all its pages.

    Args:
        calls: The calls of the client.
        stub: The stub of the batch service.
        batch_id: The batch.
        codec: Reads what is encoded. Default none.

    Returns:
        The batch as it is now.

    Raises:
        TaskyardError: A call failed.
    """
    request = batch_pb2.GetBatchRequest(batch_id=batch_id)
    tasks: tuple[Task, ...] = ()
    while True:
        page = await calls.sure(stub.GetBatch, request)
        tasks += tuple(Task.from_message(message, codec) for message in page.tasks)
        if not page.next_page_token:
            return Batch.from_message(page, tasks)
        request.page_token = page.next_page_token
