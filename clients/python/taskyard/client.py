"""The client: submit tasks, follow them and end them, over one connection, with asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self, Unpack
from uuid import uuid4

from taskyard.v1 import batch_pb2, stats_pb2, target_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.batch_pb2_grpc import BatchServiceStub
from taskyard.v1.stats_pb2_grpc import StatsServiceStub
from taskyard.v1.target_pb2_grpc import TargetServiceStub
from taskyard.v1.task_pb2_grpc import TaskServiceStub

from .batches import Batch, SubmittedBatch
from .calls import Calls
from .credentials import Addresses, CredentialOptions, find_credentials
from .listing import TaskFilters, list_request
from .namespace_calls import Namespaces
from .new_tasks import NewTask, Submitted, TaskFields, new_task
from .scheduling import Schedules
from .servers import Servers
from .stats import Stats
from .submitting import Submitter
from .targets import Target, TargetStatus
from .task_calls import get_whole_batch, move, submit_batch_once, wait_until_ended
from .tasks import STATE_OF_NUMBER, Task, TaskFailed, TaskState
from .values import Span, seconds, state_filter, value_from
from .watching import TaskEvent, Watch

TIMEOUT_SECS: Final = 30.0
PATIENCE_SECS: Final = 30.0


class Client:
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
        agent: The agent that submits the tasks that name no other. Default none.
        namespace: The namespace to act in. Default TASKYARD_NAMESPACE, that of the profile, or `default`.
        timeout: How long the answer to a call may take, in seconds or as a timedelta. Default 30 s.
        patience: How long calls are repeated during an outage, in seconds or as a timedelta. Default 30 s.
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
        agent: str = "",
        namespace: str | None = None,
        timeout: Span = TIMEOUT_SECS,
        patience: Span = PATIENCE_SECS,
        **access: Unpack[CredentialOptions],
    ) -> None:
        self._agent = agent
        self._credentials = find_credentials(address, namespace, **access)
        self._timeout = seconds(timeout)
        self._patience = seconds(patience)
        self._calls = Calls(self._credentials, self._timeout, self._patience)
        self._servers = Servers(self._credentials)
        self._tasks = TaskServiceStub(self._servers.unary)
        self._batches = BatchServiceStub(self._servers.unary)
        self._figures = StatsServiceStub(self._servers.unary)
        self._targets = TargetServiceStub(self._servers.unary)
        self._submitter = Submitter(self._servers, self._credentials, self._timeout, self._patience)
        self._watches: set[Any] = set()
        self.schedules: Final = Schedules(self._calls, self._servers, agent)
        self.namespaces: Final = Namespaces(self._calls, self._servers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait until every submitted task has its answer, then close the connection and end all other calls.

        Cancelled, it also gives up the submitted tasks. Calls that it ends raise `ClientClosed`.
        """
        self._calls.closed = True
        try:
            await self._submitter.close()
        finally:
            # Closing the channel ends its calls, but the readers of its streams would wait forever.
            for call in tuple(self._watches):
                call.cancel()
            await self._servers.close()

    # Submitting

    async def submit(self, task: str | NewTask, **fields: Unpack[TaskFields]) -> Submitted:
        """Submit one task.

        Tasks that are submitted at the same time travel together: a thousand of them cost little more than a batch. A
        task without an idempotency key gets one, and is made once, however often the connection breaks. Cancelling the
        call takes the task back unless it was sent.

        Args:
            task: The action, or a task whose fields are the defaults.
            **fields: Fields of the task, see `NewTask`.

        Returns:
            The acceptance.

        Raises:
            QueueFull: The queue is full. The task is kept as rejected, under the error's `task_id`.
            TooLarge: The params are too large.
            AlreadyExists: The idempotency key belongs to a different task.
            Unavailable: The server owed its answer for longer than `patience`. It may have accepted the task.
            TypeError: A field has a type that the API cannot express.
            ValueError: A field has a value that the API cannot express.
        """
        self._calls.check_open()
        request = new_task(task, fields).to_message(self._agent, uuid4().hex)
        return Submitted.from_message(await self._submitter.submit(request))

    async def submit_batch(
        self, tasks: Iterable[NewTask], *, agent: str | None = None, callback_url: str | None = None
    ) -> SubmittedBatch:
        """Submit several tasks of one agent as a batch. Each is accepted or refused by itself.

        Args:
            tasks: The tasks.
            agent: The agent of all tasks. Default the client's.
            callback_url: The URL that each task is posted to when it ends. Default none.

        Returns:
            The outcome of each task.

        Raises:
            BatchTooLarge: There are too many tasks; none was submitted.
            TooLarge: The params of a task are too large; none was submitted.
            BadRequest: A task is malformed; none was submitted.
            TypeError: A field has a type that the API cannot express.
            ValueError: A task has an agent or a callback of its own, or a value that the API cannot express.
        """
        request = batch_pb2.SubmitBatchRequest(
            agent_id=agent or self._agent,
            callback_url=callback_url,
            tasks=[task.to_batch_message(uuid4().hex) for task in tasks],
        )
        return await submit_batch_once(self._calls, self._batches, self._tasks, request)

    async def run(self, task: str | NewTask, **fields: Unpack[TaskFields]) -> Any:
        """Submit one task and wait until it has ended.

        Args:
            task: The action, or a task whose fields are the defaults.
            **fields: Fields of the task, see `NewTask`.

        Returns:
            The result of the task, a JSON value.

        Raises:
            TaskFailed: The task did not end as done.
            TaskyardError: What `submit` and `wait` raise.
        """
        submitted = await self.submit(task, **fields)
        ended = await self.wait(submitted.task_id)
        if ended.state is not TaskState.DONE:
            raise TaskFailed(ended)
        return ended.result

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
        return Task.from_message(await self._calls.sure(self._tasks.GetTask, pb.GetTaskRequest(task_id=task_id)))

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
        timeout_secs = None if timeout is None else seconds(timeout)
        return await wait_until_ended(self._calls, self._tasks, task_id, timeout_secs)

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
        return self._calls.listed(self._tasks.ListTasks, request, "tasks", Task.from_message)

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
        return await get_whole_batch(self._calls, self._batches, batch_id)

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
        agent: str | None = None,
        target: str | None = None,
        states: Iterable[str] = (),
        include_current: bool = False,
        until_ended: bool = False,
        cursor: str | None = None,
    ) -> AsyncGenerator[TaskEvent, None]:
        """Watch the tasks that match all given filters, from now on.

        A broken connection is resumed without a gap or a repetition. If the server's event log no longer reaches back
        far enough, all tasks are shown again, by events of the kind `current`.

        Args:
            task_ids: Only these tasks. Default all.
            batch_id: Only tasks of this batch. Default all.
            agent: Only tasks of this agent. Default all.
            target: Only tasks of this target. Default all.
            states: Only events after which a task is in one of these states. Default all.
            include_current: Whether the tasks are first shown as they are now. Default False.
            until_ended: Whether it ends once all tasks of `task_ids` or `batch_id` have ended. Default False: never.
            cursor: The cursor of an event to begin after. Default now.

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
            agent_id=agent,
            target=target,
            state=state_filter(states),
            include_current=include_current or None,
            until_ended=until_ended or None,
            cursor=cursor,
        )
        return Watch(self._servers, self._credentials, request, self._patience, self._watches).events()

    # Ending and interrupting

    async def cancel(self, task_id: str) -> TaskState:
        """Cancel a task at once.

        Args:
            task_id: The task.

        Returns:
            The new state, `cancelled`.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
            Conflict: The task has ended.
        """
        return await self._move(self._tasks.CancelTask, pb.CancelTaskRequest(task_id=task_id), TaskState.CANCELLED)

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
            ValueError: The result holds a number that does not fit a double.
        """
        request = pb.ResolveTaskRequest(task_id=task_id, result=None if result is None else value_from(result))
        return await self._move(self._tasks.ResolveTask, request, TaskState.DONE)

    async def _move(self, method: Callable[..., Awaitable[Any]], request: Any, aim: TaskState) -> TaskState:
        return await move(self._calls, self._tasks, method, request, aim)
