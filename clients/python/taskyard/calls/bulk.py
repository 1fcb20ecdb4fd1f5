"""The calls of a client that do one thing to many tasks (docs/rules.md, Operations)."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Unpack
from uuid import uuid4

from taskyard.records.operations import Operation, OperationStatus
from taskyard.v1 import operation_pb2 as pb
from taskyard.values.convert import value_from
from taskyard.values.task_fields import check_number

from .calls import Calls
from .listing import TaskCriteria, task_filter
from .operations import OperationHandle, Operations

if TYPE_CHECKING:
    from taskyard.v1.operation_pb2_grpc import OperationServiceAsyncStub


class BulkCalls:
    """The part of `Client` that begins operations.

    An operation touches tasks that were submitted before it. Each is judged when its turn comes, and skipped if it no
    longer matches or cannot be treated so. The server goes on with it whatever becomes of the client.
    """

    if TYPE_CHECKING:
        _calls: Calls
        _bulk: OperationServiceAsyncStub
        _operations: Operations

    async def cancel_tasks(
        self,
        *,
        all: bool = False,  # noqa: A002
        operation_id: str | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        **criteria: Unpack[TaskCriteria],
    ) -> OperationHandle:
        """Begin to cancel all tasks that match: `cancel_tasks(labels="site=shop", states=["queued"])`.

        Args:
            all: Whether no criteria mean all tasks. Default False.
            operation_id: The id of the operation: a repeat under it is the same one. Default a random id.
            dry_run: Whether the tasks that match are only counted, see `OperationHandle.begun`. Default False.
            reason: Why, for people, up to 1,000 characters. The tasks show it, and their hosts are told. Default none.
            **criteria: Which tasks, see `TaskCriteria`.

        Returns:
            The handle of the operation.

        Raises:
            BadRequest: A criterion is malformed, or there is none and not `all`.
            Conflict: Another operation has the id.
            QueueFull: Too many operations are at work.
            TypeError: A criterion is unknown, or `states` is one state instead of several.
            ValueError: A time has no time zone.
        """
        request = pb.CancelTasksRequest(filter=task_filter(criteria), reason=reason)
        return await self._begin(self._bulk.CancelTasks, request, all, operation_id, dry_run)

    async def pause_tasks(
        self,
        *,
        all: bool = False,  # noqa: A002
        operation_id: str | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        **criteria: Unpack[TaskCriteria],
    ) -> OperationHandle:
        """Begin to pause all tasks that match and are in flight.

        Args:
            all: Whether no criteria mean all tasks. Default False.
            operation_id: The id of the operation: a repeat under it is the same one. Default a random id.
            dry_run: Whether the tasks that match are only counted, see `OperationHandle.begun`. Default False.
            reason: Why, for people, up to 1,000 characters. The tasks show it, and their hosts are told. Default none.
            **criteria: Which tasks, see `TaskCriteria`.

        Returns:
            The handle of the operation. It raises as `cancel_tasks` does.
        """
        request = pb.PauseTasksRequest(filter=task_filter(criteria), reason=reason)
        return await self._begin(self._bulk.PauseTasks, request, all, operation_id, dry_run)

    async def resume_tasks(
        self,
        *,
        token_limit: int | None = None,
        all: bool = False,  # noqa: A002
        operation_id: str | None = None,
        dry_run: bool = False,
        **criteria: Unpack[TaskCriteria],
    ) -> OperationHandle:
        """Begin to resume all tasks that match and are paused, failed or held. It waits while the queue is full.

        Args:
            token_limit: The most tokens that each task may use from now on. Default the limit that it has.
            all: Whether no criteria mean all tasks. Default False.
            operation_id: The id of the operation: a repeat under it is the same one. Default a random id.
            dry_run: Whether the tasks that match are only counted, see `OperationHandle.begun`. Default False.
            **criteria: Which tasks, see `TaskCriteria`.

        Returns:
            The handle of the operation. It raises as `cancel_tasks` does.
        """
        check_number("token_limit", token_limit)
        request = pb.ResumeTasksRequest(filter=task_filter(criteria), token_limit=token_limit)
        return await self._begin(self._bulk.ResumeTasks, request, all, operation_id, dry_run)

    async def resolve_tasks(
        self,
        *,
        result: Any = None,
        all: bool = False,  # noqa: A002
        operation_id: str | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        **criteria: Unpack[TaskCriteria],
    ) -> OperationHandle:
        """Begin to end all tasks that match and are paused or failed as done.

        Args:
            result: The result of each, a JSON value. Default None: no result.
            all: Whether no criteria mean all tasks. Default False.
            operation_id: The id of the operation: a repeat under it is the same one. Default a random id.
            dry_run: Whether the tasks that match are only counted, see `OperationHandle.begun`. Default False.
            reason: Why, for people, up to 1,000 characters. The tasks show it. Default none.
            **criteria: Which tasks, see `TaskCriteria`.

        Returns:
            The handle of the operation. It raises as `cancel_tasks` does, and `TooLarge` for the result.
        """
        request = pb.ResolveTasksRequest(
            filter=task_filter(criteria), result=None if result is None else value_from(result, "result"), reason=reason
        )
        return await self._begin(self._bulk.ResolveTasks, request, all, operation_id, dry_run)

    async def reprioritize_tasks(
        self,
        priority: int,
        *,
        all: bool = False,  # noqa: A002
        operation_id: str | None = None,
        dry_run: bool = False,
        **criteria: Unpack[TaskCriteria],
    ) -> OperationHandle:
        """Begin to give all tasks that match and have not ended another priority, which holds from the next claim on.

        Args:
            priority: The new priority. Lower numbers are claimed first among the tasks of an agent.
            all: Whether no criteria mean all tasks. Default False.
            operation_id: The id of the operation: a repeat under it is the same one. Default a random id.
            dry_run: Whether the tasks that match are only counted, see `OperationHandle.begun`. Default False.
            **criteria: Which tasks, see `TaskCriteria`.

        Returns:
            The handle of the operation. It raises as `cancel_tasks` does.
        """
        check_number("priority", priority)
        request = pb.ReprioritizeTasksRequest(filter=task_filter(criteria), priority=priority)
        return await self._begin(self._bulk.ReprioritizeTasks, request, all, operation_id, dry_run)

    async def _begin(
        self,
        method: Callable[..., Awaitable[Any]],
        request: Any,
        is_all: bool,
        operation_id: str | None,
        is_dry: bool,
    ) -> OperationHandle:
        # With an id of its own the call may be repeated.
        request.operation_id = operation_id or ("" if is_dry else uuid4().hex)
        if is_all:
            request.all = True
        if is_dry:
            request.dry_run = True
        begun = Operation.from_message((await self._calls.sure(method, request)).operation)
        if is_dry:
            begun = dataclasses.replace(begun, status=OperationStatus.DONE)
        return OperationHandle(self._operations, request.operation_id, begun, is_dry)
