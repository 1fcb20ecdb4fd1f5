"""The calls of a client that end tasks, interrupt them and let them go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, overload

from taskyard.records.stopping import Stopping
from taskyard.records.tasks import STATE_OF_NUMBER, TaskState
from taskyard.streams.task_desk import TaskDesk
from taskyard.v1 import batch_pb2, target_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard.values.convert import Span, value_from
from taskyard.values.task_fields import check_number

from .calls import Calls
from .tasks import move

if TYPE_CHECKING:
    from taskyard.v1.batch_pb2_grpc import BatchServiceAsyncStub
    from taskyard.v1.target_pb2_grpc import TargetServiceAsyncStub
    from taskyard.v1.task_pb2_grpc import TaskServiceAsyncStub


class EndingCalls:
    """The part of `Client` that ends and interrupts."""

    if TYPE_CHECKING:
        _desk: TaskDesk
        _calls: Calls
        _tasks: TaskServiceAsyncStub
        _batches: BatchServiceAsyncStub
        _targets: TargetServiceAsyncStub

    @overload
    async def cancel(
        self, task_id: str, *, cancel_children: bool = False, reason: str | None = None, wait: None = None
    ) -> TaskState: ...

    @overload
    async def cancel(
        self, task_id: str, *, cancel_children: bool = False, reason: str | None = None, wait: Span
    ) -> Stopping: ...

    async def cancel(
        self, task_id: str, *, cancel_children: bool = False, reason: str | None = None, wait: Span | None = None
    ) -> TaskState | Stopping:
        """Cancel a task at once.

        Args:
            task_id: The task.
            cancel_children: Whether what its work has submitted and has not ended is cancelled too, and so on. Default
                False.
            reason: Why, for people, up to 1,000 characters. The task shows it, and its host is told. Default none.
            wait: How long to wait for its host to say that nothing of it runs any more, in seconds or as a timedelta,
                at most a minute. Default the answer comes at once.

        Returns:
            The new state, `cancelled`; with `wait` whether anything of it may still run.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
            Conflict: The task has ended.
            ValueError: The wait is negative, or too long.
        """
        if wait is None:
            return await self._desk.cancel(task_id, cancel_children=cancel_children, reason=reason)
        return await self._desk.cancel(task_id, cancel_children=cancel_children, reason=reason, wait=wait)

    async def cancel_batch(self, batch_id: str, *, reason: str | None = None) -> int:
        """Cancel every task of a batch that has not ended.

        Args:
            batch_id: The batch.
            reason: Why, for people, up to 1,000 characters. The tasks show it, and their hosts are told. Default none.

        Returns:
            How many tasks were cancelled.

        Raises:
            NotFound: There is no such batch, or it is no longer retained.
        """
        request = batch_pb2.CancelBatchRequest(batch_id=batch_id, reason=reason)
        return (await self._calls.sure(self._batches.CancelBatch, request)).cancelled

    @overload
    async def pause(self, task_id: str, *, reason: str | None = None, wait: None = None) -> TaskState: ...

    @overload
    async def pause(self, task_id: str, *, reason: str | None = None, wait: Span) -> Stopping: ...

    async def pause(self, task_id: str, *, reason: str | None = None, wait: Span | None = None) -> TaskState | Stopping:
        """Interrupt a task that is assigned or running.

        Args:
            task_id: The task.
            reason: Why, for people, up to 1,000 characters. The task shows it, and its host is told. Default none.
            wait: How long to wait for its host to say that nothing of it runs any more, in seconds or as a timedelta,
                at most a minute. Default the answer comes at once.

        Returns:
            The new state, `paused`; or `failed` if the task is over its token limit. With `wait` whether anything of it
            may still run.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
            Conflict: The task is neither assigned nor running.
            ValueError: The wait is negative, or too long.
        """
        if wait is None:
            return await self._move(
                self._tasks.PauseTask, pb.PauseTaskRequest(task_id=task_id, reason=reason), TaskState.PAUSED
            )
        return await self._desk.pause(task_id, wait, reason)

    async def resume(self, task_id: str, *, token_limit: int | None = None) -> TaskState:
        """Queue a paused or failed task again, or release a held one.

        The call is not repeated by itself, since a repeat could resume a new failure.

        Args:
            task_id: The task.
            token_limit: The most tokens that the task may use from now on, over all its attempts and runs. A task that
                failed over its limit needs one above its `tokens_used`. Default the limit that it has.

        Returns:
            The new state, `queued` or `pending`.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
            Conflict: The task is neither paused, failed nor held.
            ValueError: The limit is negative, or does not fit 32 bits.
        """
        check_number("token_limit", token_limit)
        request = pb.ResumeTaskRequest(task_id=task_id, token_limit=token_limit)
        return STATE_OF_NUMBER[(await self._calls.once(self._tasks.ResumeTask, request)).status]

    async def resume_target_task(self, target: str, task_id: str, *, token_limit: int | None = None) -> TaskState:
        """Resume a task as `resume` does, provided that it belongs to a target.

        Args:
            target: The target.
            task_id: The task.
            token_limit: The most tokens that the task may use from now on. Default the limit that it has.

        Returns:
            The new state, `queued` or `pending`.

        Raises:
            NotFound: There is no such task, or it does not belong to the target.
            Conflict: The task is neither paused, failed nor held.
            ValueError: The limit is negative, or does not fit 32 bits.
        """
        check_number("token_limit", token_limit)
        request = target_pb2.ResumeTargetTaskRequest(target=target, task_id=task_id, token_limit=token_limit)
        return STATE_OF_NUMBER[(await self._calls.once(self._targets.ResumeTargetTask, request)).status]

    async def resolve(self, task_id: str, result: Any = None, *, reason: str | None = None) -> TaskState:
        """End a paused or failed task as done.

        Args:
            task_id: The task.
            result: Its result, a JSON value. Default None: no result.
            reason: Why, for people, up to 1,000 characters. The task shows it. Default none.

        Returns:
            The new state, `done`.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
            Conflict: The task is neither paused nor failed.
            TooLarge: The result is too large.
            TypeError: The result is not JSON.
            ValueError: The result holds a number that a double does not hold exactly.
        """
        request = pb.ResolveTaskRequest(
            task_id=task_id, result=None if result is None else value_from(result, "result"), reason=reason
        )
        return await self._move(self._tasks.ResolveTask, request, TaskState.DONE)

    async def _move(self, method: Callable[..., Awaitable[Any]], request: Any, aim: TaskState) -> TaskState:
        return await move(self._calls, self._tasks, method, request, aim)
