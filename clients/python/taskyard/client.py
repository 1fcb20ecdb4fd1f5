"""The client: submit tasks, follow them and end them, over one connection, with asyncio."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self, Unpack
from uuid import uuid4

import grpc

from taskyard.v1 import (
    batch_pb2,
    batch_pb2_grpc,
    stats_pb2,
    stats_pb2_grpc,
    target_pb2,
    target_pb2_grpc,
    task_pb2_grpc,
)
from taskyard.v1 import task_pb2 as pb

from .batches import Batch, BatchOutcome, SubmittedBatch
from .calls import Calls
from .channel import call_metadata, open_channel
from .errors import Conflict
from .scheduling import Schedules
from .stats import Stats
from .submitting import Submitter
from .targets import Target, TargetStatus
from .tasks import STATE_OF_NUMBER, NewTask, Submitted, Task, TaskFields, TaskState, new_task
from .values import Span, seconds, value_from, words
from .watching import TaskEvent, Watch

DEFAULT_ADDRESS: Final = "127.0.0.1:50051"
DEFAULT_NAMESPACE: Final = "default"
TIMEOUT_SECS: Final = 30.0
PATIENCE_SECS: Final = 30.0

WAIT_PIECE_SECS: Final = 20.0
"""How long one WaitTask waits: proxies end calls that are quiet for a minute."""
WAIT_GRACE_SECS: Final = 2.0
"""How much later than the caller's time the server's last answer may come."""


class TaskFailed(Exception):
    """A task did not end as done; `task` tells how it ended."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.task = task

    def __str__(self) -> str:
        return f"{self.task.id} is {self.task.state}: {self.task.error or 'no reason given'}"


class Client:
    """Calls a Taskyard server. Make it where an event loop runs, and close it, best by `async with`.

    `address` is `HOST:PORT`; `agent` submits the tasks that name no other. `credentials` encrypt the connection, and
    `token` goes with every call as a bearer token, also where nothing is encrypted. A call that has no answer after
    `timeout` raises `DeadlineExceeded`. Where a repeat is safe, a call is repeated while the server is unavailable, for
    up to `patience`; then it raises `Unavailable`. `schedules` are the tasks that submit themselves, with calls of
    their own.

    Raises ValueError for an address, a namespace or a token that can never work, and RuntimeError in a process that was
    forked from one with a client. Every method raises a `TaskyardError` for what the server refuses: beside those that
    it names `BadRequest`, `Unauthenticated`, `PermissionDenied`, `Unavailable`, `DeadlineExceeded` and `Internal`, and
    `ClientClosed` once the client is closed.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        agent: str = "",
        namespace: str = DEFAULT_NAMESPACE,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | None = None,
        timeout: Span = TIMEOUT_SECS,
        patience: Span = PATIENCE_SECS,
    ) -> None:
        self._agent = agent
        self._metadata = call_metadata(namespace, token)
        self._timeout = seconds(timeout)
        self._patience = seconds(patience)
        self._calls = Calls(self._metadata, self._timeout, self._patience)
        self._channel = open_channel(address, credentials)
        self._tasks = task_pb2_grpc.TaskServiceStub(self._channel)
        self._batches = batch_pb2_grpc.BatchServiceStub(self._channel)
        self._figures = stats_pb2_grpc.StatsServiceStub(self._channel)
        self._targets = target_pb2_grpc.TargetServiceStub(self._channel)
        self._submitter = Submitter(self._tasks, self._metadata, self._timeout, self._patience)
        self._watches: set[Any] = set()
        self.schedules: Final = Schedules(self._calls, self._channel, agent)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait until every submitted task has its answer, then end the connection, with all other calls and watches.

        Cancelled, it gives up the submits too; they raise `ClientClosed`, as all others do.
        """
        self._calls.closed = True
        try:
            await self._submitter.close()
        finally:
            # A channel that is closed ends calls by itself, but leaves those who read a stream waiting.
            for call in tuple(self._watches):
                call.cancel()
            await self._channel.close()

    # Submitting

    async def submit(self, task: str | NewTask, **fields: Unpack[TaskFields]) -> Submitted:
        """Submit one task: an action and its fields, or a `NewTask`, whose fields the given ones replace.

        Tasks that are submitted at the same time travel together, so a thousand at once cost little more than a batch.
        A task without an `idempotency_key` is given one, and is made once, however often the connection breaks. It is
        taken back when the caller gives up before it was sent.

        Raises `QueueFull` (with the id of the task, which is kept as rejected), `TooLarge` for the params,
        `AlreadyExists` for a key of another task, and `Unavailable` when the server owed its answer for longer than
        `patience`: the task may then exist all the same. Raises TypeError or ValueError for what JSON cannot hold.
        """
        self._calls.check_open()
        request = new_task(task, fields).to_message(self._agent, uuid4().hex)
        return Submitted.from_message(await self._submitter.submit(request))

    async def submit_batch(
        self, tasks: Iterable[NewTask], *, agent: str | None = None, callback_url: str | None = None
    ) -> SubmittedBatch:
        """Submit several tasks of one agent as a batch, each admitted by itself; the answer says how each fared.

        Raises `BatchTooLarge`, `TooLarge` for the params of a task, and `BadRequest` where any task is malformed; then
        nothing was submitted. Raises ValueError for a task that names an agent or a callback of its own.
        """
        request = batch_pb2.SubmitBatchRequest(
            agent_id=agent or self._agent,
            callback_url=callback_url,
            tasks=[task.to_batch_message(uuid4().hex) for task in tasks],
        )
        answer, repeated = await self._calls.repeated(self._batches.SubmitBatch, request)
        batch = SubmittedBatch(answer.batch_id, tuple(BatchOutcome.from_message(each) for each in answer.tasks))
        if repeated and batch.task_ids:
            # The try before may have worked: its batch then holds the tasks, not the one that was answered.
            first = await self.get(batch.task_ids[0])
            batch = dataclasses.replace(batch, id=first.batch_id or batch.id)
        return batch

    async def run(self, task: str | NewTask, **fields: Unpack[TaskFields]) -> Any:
        """Submit one task, wait until it has ended, and answer its result.

        Raises `TaskFailed` if it did not end as done, and what `submit` and `wait` raise.
        """
        submitted = await self.submit(task, **fields)
        ended = await self.wait(submitted.task_id)
        if ended.state is not TaskState.DONE:
            raise TaskFailed(ended)
        return ended.result

    # Looking

    async def get(self, task_id: str) -> Task:
        """One task as it stands. Raises `NotFound`."""
        return Task.from_message(await self._calls.once(self._tasks.GetTask, pb.GetTaskRequest(task_id=task_id)))

    async def wait(self, task_id: str, timeout: Span | None = None) -> Task:  # noqa: ASYNC109
        """The task once it has ended, however long that takes unless `timeout` is given.

        Raises `NotFound`, TimeoutError when the task has not ended in time, and `Unavailable` after an outage longer
        than `patience`.
        """
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + seconds(timeout)
        async with asyncio.timeout_at(None if until is None else until + WAIT_GRACE_SECS):
            while True:
                left = WAIT_PIECE_SECS if until is None else until - loop.time()
                piece = min(max(left, 0.0), WAIT_PIECE_SECS)
                request = pb.WaitTaskRequest(task_id=task_id, timeout_ms=round(piece * 1000))
                answer, _ = await self._calls.repeated(self._tasks.WaitTask, request, self._timeout + piece)
                if answer.ended:
                    return Task.from_message(answer.task)
                if until is not None and loop.time() >= until:
                    raise TimeoutError(f"{task_id} is {STATE_OF_NUMBER[answer.task.state]}, it has not ended in time")

    async def list(
        self,
        *,
        agent: str | None = None,
        states: Iterable[str] = (),
        batch_id: str | None = None,
        target: str | None = None,
        page_size: int | None = None,
    ) -> AsyncGenerator[Task, None]:
        """The retained tasks that match all given filters, in order of submission, page after page.

        Tasks of all agents unless `agent` is given. `page_size` is at most 1,000, the default.
        """
        request = pb.ListTasksRequest(
            agent_id=agent, state=words(states), batch_id=batch_id, target=target, page_size=page_size
        )
        while True:
            page = await self._calls.once(self._tasks.ListTasks, request)
            for message in page.tasks:
                yield Task.from_message(message)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def targets(
        self, status: TargetStatus | str | None = None, *, page_size: int | None = None
    ) -> AsyncGenerator[Target, None]:
        """The targets that have tasks which wait, run or block, by name, page after page.

        Those of all statuses unless one is given. `page_size` is at most 1,000, the default. Raises ValueError for an
        unknown status.
        """
        request = target_pb2.ListTargetsRequest(page_size=page_size)
        if status is not None:
            request.status = target_pb2.Target.Status.Value(TargetStatus(status).value)
        while True:
            page = await self._calls.once(self._targets.ListTargets, request)
            for message in page.targets:
                yield Target.from_message(message)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def get_batch(self, batch_id: str) -> Batch:
        """How a batch stands, with all of its retained tasks. Raises `NotFound`."""
        request = batch_pb2.GetBatchRequest(batch_id=batch_id)
        tasks: tuple[Task, ...] = ()
        while True:
            answer = await self._calls.once(self._batches.GetBatch, request)
            tasks += tuple(Task.from_message(message) for message in answer.tasks)
            if not answer.next_page_token:
                return Batch.from_message(answer, tasks)
            request.page_token = answer.next_page_token

    async def stats(self) -> Stats:
        """The figures of the client's namespace."""
        return Stats.from_message(await self._calls.once(self._figures.GetStats, stats_pb2.GetStatsRequest()))

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
        """What happens to the tasks that match all given filters, from now on, or after `cursor` of an earlier event.

        With `include_current` the tasks are told first as they stand. With `until_ended` it ends once all tasks of
        `task_ids` or `batch_id` have ended, else never. Broken connections are resumed without gap or repeat; where the
        server's log no longer reaches back so far, all tasks are told anew, by events of the kind `current`.

        Raises `Unavailable` after an outage longer than `patience`; the last event's cursor is where to go on.
        """
        self._calls.check_open()
        asked = pb.WatchTasksRequest(
            task_ids=task_ids,
            batch_id=batch_id,
            agent_id=agent,
            target=target,
            state=words(states),
            include_current=include_current or None,
            until_ended=until_ended or None,
            cursor=cursor,
        )
        return Watch(self._tasks, self._metadata, asked, self._patience, self._watches).events()

    # Ending and interrupting

    async def cancel(self, task_id: str) -> TaskState:
        """Cancel a task at once. Raises `NotFound`, and `Conflict` if it has ended."""
        return await self._move(self._tasks.CancelTask, pb.CancelTaskRequest(task_id=task_id), TaskState.CANCELLED)

    async def cancel_batch(self, batch_id: str) -> int:
        """Cancel every task of a batch that has not ended; how many that were. Raises `NotFound`."""
        request = batch_pb2.CancelBatchRequest(batch_id=batch_id)
        return (await self._calls.once(self._batches.CancelBatch, request)).cancelled

    async def pause(self, task_id: str) -> TaskState:
        """Interrupt a task that is assigned or running; it becomes paused, or failed if over its token budget.

        Raises `NotFound`, and `Conflict` if it does not run.
        """
        return await self._move(self._tasks.PauseTask, pb.PauseTaskRequest(task_id=task_id), TaskState.PAUSED)

    async def resume(self, task_id: str) -> TaskState:
        """Queue a paused or failed task again, or release a held one; it becomes queued or pending.

        It is not repeated by itself: that could resume a new failure. Raises `NotFound`, and `Conflict` if the task is
        neither paused, failed nor held.
        """
        answer = await self._calls.once(self._tasks.ResumeTask, pb.ResumeTaskRequest(task_id=task_id))
        return STATE_OF_NUMBER[answer.status]

    async def resolve(self, task_id: str, result: Any = None) -> TaskState:
        """End a paused or failed task as done, with a result unless that is None.

        Raises `NotFound`, `Conflict` if it is neither paused nor failed, and `TooLarge` for the result.
        """
        request = pb.ResolveTaskRequest(task_id=task_id, result=None if result is None else value_from(result))
        return await self._move(self._tasks.ResolveTask, request, TaskState.DONE)

    async def _move(self, method: Callable[..., Awaitable[Any]], request: Any, aim: TaskState) -> TaskState:
        """A call that leads a task to a state, after which the same call would be a conflict."""
        tries = 0

        async def attempt() -> TaskState:
            nonlocal tries
            tries += 1
            try:
                return STATE_OF_NUMBER[(await self._calls.once(method, request)).status]
            except Conflict:
                # After a lost answer it may be the call's own doing.
                if tries > 1 and (await self.get(request.task_id)).state is aim:
                    return aim
                raise

        return (await self._calls.attempted(attempt))[0]
