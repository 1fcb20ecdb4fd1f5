"""The client: submit tasks, follow them and end them, over one connection, with asyncio."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self, Unpack

from taskyard.v1 import batch_pb2, stats_pb2, target_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.batch_pb2_grpc import BatchServiceStub
from taskyard.v1.stats_pb2_grpc import StatsServiceStub
from taskyard.v1.target_pb2_grpc import TargetServiceStub
from taskyard.v1.task_pb2_grpc import TaskServiceStub

from .batches import Batch
from .calls import Calls
from .credentials import Addresses, CredentialOptions, find_credentials
from .listing import TaskFilters, list_request
from .namespace_calls import Namespaces
from .payloads import Codec
from .renamed import either
from .scheduling import Schedules
from .servers import Servers
from .stats import Stats
from .submit_calls import SubmitCalls
from .targets import Target, TargetStatus
from .task_calls import get_whole_batch, move
from .task_desk import SubmitMiddleware, TaskDesk
from .tasks import STATE_OF_NUMBER, Task, TaskState
from .values import Span, seconds, state_filter, value_from
from .watching import TaskEvent

TIMEOUT_SECS: Final = 30.0
PATIENCE_SECS: Final = 30.0


class Client(SubmitCalls):
    """Calls a Taskyard server. Create it in a running event loop and close it, best by `async with`.

    Calls that are safe to repeat are repeated while the server is unavailable, and all calls that came to a server that
    does not own the namespace. Every method raises a `TaskyardError` if
    the server refuses the call: beside the errors that it lists, `BadRequest`, `Unauthenticated`, `PermissionDenied`,
    `Unavailable` (after `patience`), `DeadlineExceeded` (after `timeout`), `Internal`, and `ClientClosed` once the
    client is closed.

    Attributes:
        schedules: The calls about schedules, which submit tasks by themselves.
        namespaces: The calls about namespaces, that of the client and others.

    Args:
        address: Where the server listens: `HOST:PORT`, `https://HOST:PORT`, or a target of gRPC. Several servers that
            do the same work: their addresses in one text, separated by commas, or in a list. Default TASKYARD_ADDRESS,
            that of the profile, or `127.0.0.1:50051`.
        agent_id: The agent that submits the tasks that name no other. Default TASKYARD_AGENT, or none.
        namespace: The namespace to act in. Default TASKYARD_NAMESPACE, that of the profile, or `default`.
        timeout: How long the answer to a call may take, in seconds or as a timedelta. Default 30 s.
        patience: How long calls are repeated during an outage, in seconds or as a timedelta. Default 30 s.
        codec: Encodes all inputs, and decodes inputs and outputs; the hosts need the same. Default none.
        middleware: What is called around each submit but those of batches, the outermost first:
            `async def (task, call_next)`, which returns `await call_next(task)`. Default none.
        agent: The old name of `agent_id`.
        **access: Who it is, and how the connection is encrypted, see `CredentialOptions`. Default what the environment
            or a profile says.

    Raises:
        ValueError: The address, the namespace or a token is malformed, a file cannot be read, or the token would be
            sent in the clear to another machine.
        RuntimeError: This process was forked from one that has used a client.
    """

    def __init__(
        self,
        address: Addresses = None,
        *,
        agent_id: str = "",
        namespace: str | None = None,
        timeout: Span = TIMEOUT_SECS,
        patience: Span = PATIENCE_SECS,
        codec: Codec | None = None,
        middleware: Sequence[SubmitMiddleware] = (),
        agent: str | None = None,
        **access: Unpack[CredentialOptions],
    ) -> None:
        agent_id = either(agent_id, agent, "agent", "agent_id") or os.environ.get("TASKYARD_AGENT", "")
        credentials = find_credentials(address, namespace, **access)
        timeout_secs, patience_secs = seconds(timeout), seconds(patience)
        self._servers = Servers(credentials)
        self._calls = Calls(credentials, timeout_secs, patience_secs, self._servers.notice)
        self._tasks = TaskServiceStub(self._servers.unary)
        self._batches = BatchServiceStub(self._servers.unary)
        self._figures = StatsServiceStub(self._servers.unary)
        self._targets = TargetServiceStub(self._servers.unary)
        self._desk = TaskDesk(self._calls, self._servers, credentials, timeout_secs, patience_secs, agent_id, codec)
        self._desk.middleware = tuple(middleware)
        self.schedules: Final = Schedules(self._calls, self._servers, agent_id, codec)
        self.namespaces: Final = Namespaces(self._calls, self._servers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait until every submitted task has its answer, then close the connection and end all other calls.

        Tasks that were submitted with `cancel_on_exit` are cancelled unless their end is known; that takes 5 s at most.
        Cancelled, it also gives up the submitted tasks. Calls that it ends raise `ClientClosed`.
        """
        self._calls.closed = True
        try:
            await self._desk.close()
        finally:
            await self._desk.completions.close()
            # Closing the channel ends its calls, but the readers of its streams would wait forever.
            for call in tuple(self._desk.watches):
                call.cancel()
            await self._servers.close()

    # Reading

    async def get(self, task_id: str) -> Task:
        """Get one task.

        Args:
            task_id: The task.

        Returns:
            The task as it is now.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
        """
        return await self._desk.get(task_id)

    async def wait(self, task_id: str, timeout: Span | None = None) -> Task:  # noqa: ASYNC109
        """Wait until a task has ended.

        Args:
            task_id: The task.
            timeout: How long to wait, in seconds or as a timedelta. Default as long as it takes.

        Returns:
            The ended task.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
            TimeoutError: The task has not ended in time.
        """
        return await self._desk.wait(task_id, timeout)

    def list(self, **filters: Unpack[TaskFilters]) -> AsyncGenerator[Task, None]:
        """List the retained tasks that match all given filters, in order of submission, one page after the other.

        Args:
            **filters: Filters, the order, and whether to list the history, see `TaskFilters`. Default all.

        Returns:
            An iterator over the tasks.

        Raises:
            TypeError: A filter is unknown, or `states` is one state instead of several.
            ValueError: A time has no time zone.
        """
        request = list_request(filters)

        def convert(message: pb.Task) -> Task:
            return Task.from_message(message, self._desk.codec)

        return self._calls.listed(self._tasks.ListTasks, request, "tasks", convert)

    def targets(
        self, status: TargetStatus | str | None = None, *, page_size: int | None = None
    ) -> AsyncGenerator[Target, None]:
        """List the targets that have tasks which wait, run or block, by name, one page after the other.

        Args:
            status: Only targets with this status. Default all.
            page_size: Targets per page, at most 1,000. Default 1,000.

        Returns:
            An iterator over the targets.

        Raises:
            ValueError: The status is unknown.
        """
        request = target_pb2.ListTargetsRequest(page_size=page_size)
        if status is not None:
            request.status = target_pb2.Target.Status.Value(TargetStatus(status).value)
        return self._calls.listed(self._targets.ListTargets, request, "targets", Target.from_message)

    async def get_batch(self, batch_id: str) -> Batch:
        """Get a batch with all of its retained tasks.

        Args:
            batch_id: The batch.

        Returns:
            The batch as it is now.

        Raises:
            NotFound: There is no such batch, or it is no longer retained.
        """
        return await get_whole_batch(self._calls, self._batches, batch_id, self._desk.codec)

    async def stats(self) -> Stats:
        """Get the figures of the client's namespace.

        Returns:
            The figures as they are now.
        """
        return Stats.from_message(await self._calls.sure(self._figures.GetStats, stats_pb2.GetStatsRequest()))

    def watch(
        self,
        *,
        task_ids: Sequence[str] = (),
        batch_id: str | None = None,
        agent_id: str | None = None,
        target: str | None = None,
        states: Iterable[str] = (),
        include_current: bool = False,
        until_ended: bool = False,
        cursor: str | None = None,
        on_gap: Callable[[str], None] | None = None,
        agent: str | None = None,
    ) -> AsyncGenerator[TaskEvent, None]:
        """Watch the tasks that match all given filters, from now on.

        A broken connection is resumed without a gap or a repetition. If the server's event log no longer reaches back
        far enough, or the server was started anew, `on_gap` is called and all tasks are shown again, by events of the
        kind `current`; those that a server without a store has lost are not among them.

        The states `done`, `cancelled` and `rejected` are final. A `failed` task can still leave its state: `resume`
        queues it again, `resolve` makes it `done`, and while it blocks its target `cancel` makes it `cancelled`, each
        with an event. So whoever counts ended tasks uses `until_ended`: then nothing follows the first event by which a
        task has ended.

        Args:
            task_ids: Only these tasks. Default all.
            batch_id: Only tasks of this batch. Default all.
            agent_id: Only tasks of this agent. Default all.
            target: Only tasks of this target. Default all.
            states: Only events after which a task is in one of these states. Default all.
            include_current: Whether the tasks are first shown as they are now. Default False.
            until_ended: Whether it ends once all tasks of `task_ids` or `batch_id` have ended, and shows each end once.
                Default False: never.
            cursor: The cursor of an event to begin after. Default now.
            on_gap: Called with the reason when events may be missing. Default nothing. Watching goes on.
            agent: The old name of `agent_id`.

        Returns:
            An iterator over the events. It raises `Unavailable` after an outage longer than `patience`; the cursor of
            the last event is where to continue.

        Raises:
            TypeError: `states` is one state instead of several.
            ClientClosed: The client is closed.
        """
        self._calls.check_open()
        request = pb.WatchTasksRequest(
            task_ids=task_ids,
            batch_id=batch_id,
            agent_id=either(agent_id, agent, "agent", "agent_id"),
            target=target,
            state=state_filter(states),
            include_current=include_current or None,
            until_ended=until_ended or None,
            cursor=cursor,
        )
        return self._desk.watch(request, on_gap)

    # Ending and interrupting

    async def cancel(self, task_id: str, *, cancel_children: bool = False) -> TaskState:
        """Cancel a task at once.

        Args:
            task_id: The task.
            cancel_children: Whether what its work has submitted and has not ended is cancelled too, and so on. Default
                False.

        Returns:
            The new state, `cancelled`.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
            Conflict: The task has ended.
        """
        return await self._desk.cancel(task_id, cancel_children=cancel_children)

    async def cancel_batch(self, batch_id: str) -> int:
        """Cancel every task of a batch that has not ended.

        Args:
            batch_id: The batch.

        Returns:
            How many tasks were cancelled.

        Raises:
            NotFound: There is no such batch, or it is no longer retained.
        """
        request = batch_pb2.CancelBatchRequest(batch_id=batch_id)
        return (await self._calls.sure(self._batches.CancelBatch, request)).cancelled

    async def pause(self, task_id: str) -> TaskState:
        """Interrupt a task that is assigned or running.

        Args:
            task_id: The task.

        Returns:
            The new state, `paused`; or `failed` if the task is over its token limit.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
            Conflict: The task is neither assigned nor running.
        """
        return await self._move(self._tasks.PauseTask, pb.PauseTaskRequest(task_id=task_id), TaskState.PAUSED)

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
        request = target_pb2.ResumeTargetTaskRequest(target=target, task_id=task_id, token_limit=token_limit)
        return STATE_OF_NUMBER[(await self._calls.once(self._targets.ResumeTargetTask, request)).status]

    async def resolve(self, task_id: str, result: Any = None) -> TaskState:
        """End a paused or failed task as done.

        Args:
            task_id: The task.
            result: Its result, a JSON value. Default None: no result.

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
            task_id=task_id, result=None if result is None else value_from(result, "result")
        )
        return await self._move(self._tasks.ResolveTask, request, TaskState.DONE)

    async def _move(self, method: Callable[..., Awaitable[Any]], request: Any, aim: TaskState) -> TaskState:
        return await move(self._calls, self._tasks, method, request, aim)
