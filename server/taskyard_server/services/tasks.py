"""TaskService: submit, get, list, cancel, pause, resume, resolve, wait and watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceServicer
from taskyard_server.conversion import requests
from taskyard_server.conversion.page_tokens import Listing, page_size
from taskyard_server.conversion.refusals import converted, with_refusals
from taskyard_server.conversion.responses import error_message, task_page
from taskyard_server.conversion.task_encoding import STATES, encode_accepted, encode_outcomes, encode_task
from taskyard_server.conversion.wire import nested, tag
from taskyard_server.core.errors import QueueFull, Refusal, Unavailable
from taskyard_server.core.task import TERMINAL, Task, TaskState
from taskyard_server.engine.port import Engine, TaskFilter
from taskyard_server.interceptors.calls import Call, current_call

from .rest_hints import ACCEPTED, send_hint
from .task_watches import TaskWatches

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

TASKS: Final = tag(pb.ListTasksResponse, "tasks")
WAITED_TASK: Final = tag(pb.WaitTaskResponse, "task")
ENDED: Final = {ended: pb.WaitTaskResponse(ended=ended).SerializeToString() for ended in (True, False)}

MAX_TASKS_PER_TURN: Final = 100
DEFAULT_WAIT_SECS: Final = 30.0
MAX_WAIT_SECS: Final = 300.0


SHUTDOWN: Final = "the server shuts down"


class TaskService(TaskServiceServicer):
    """Serves `taskyard.v1.TaskService`."""

    def __init__(
        self,
        engine: Engine,
        max_payload_bytes: int,
        watches: TaskWatches,
        default_retry: requests.DefaultRetry = requests.no_default_retry,
    ) -> None:
        self._engine = engine
        self._default_retry = default_retry
        self._max_payload_bytes = max_payload_bytes
        self._watches = watches
        self._closing = False
        self._idle_streams: set[asyncio.Task[Any]] = set()

    async def SubmitTask(self, request: pb.SubmitTaskRequest, context: Context) -> Any:  # noqa: N802
        call = current_call()
        submission = requests.submission(
            request,
            request.agent_id,
            request.callback_url,
            call.traceparent,
            self._max_payload_bytes,
            self._default_retry,
        )
        response = await self._engine.tasks.submit(call.namespace, submission, show=encode_accepted)
        if call.by_rest:
            await send_hint(context, ACCEPTED)
        return response

    async def SubmitTasks(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.SubmitTasksRequest | Refusal], context: Context
    ) -> AsyncIterator[Any]:
        del context
        call = current_call()
        while (request := await self._next_request(request_iterator)) is not None:
            if isinstance(request, Refusal):
                raise request
            yield await self._submit(call, request.tasks)

    def close(self) -> None:
        """End the streams of submissions that have nothing to answer, and the others after their answer."""
        self._closing = True
        for stream in self._idle_streams:
            stream.cancel()

    async def _next_request(
        self, messages: AsyncIterator[pb.SubmitTasksRequest | Refusal]
    ) -> pb.SubmitTasksRequest | Refusal | None:
        """The next message of a stream, None at its end. Raises `Unavailable` once the server shuts down."""
        stream = asyncio.current_task()
        assert stream is not None
        if self._closing:
            raise Unavailable(SHUTDOWN)
        self._idle_streams.add(stream)
        try:
            return await anext(messages, None)
        except asyncio.CancelledError:
            if not self._closing:
                raise
            stream.uncancel()
            raise Unavailable(SHUTDOWN) from None
        finally:
            self._idle_streams.discard(stream)

    async def _submit(self, call: Call, tasks: Sequence[pb.SubmitTaskRequest]) -> bytes:
        """The outcome of each task, encoded. A refusal affects neither the stream nor other tasks."""
        outcomes: list[bytes] = []
        for first in range(0, len(tasks), MAX_TASKS_PER_TURN):
            if first:
                # A message may hold thousands of tasks: let other calls run in between.
                await asyncio.sleep(0)
            outcomes.append(await self._submit_chunk(call, tasks[first : first + MAX_TASKS_PER_TURN]))
        return b"".join(outcomes)

    def _submit_chunk(self, call: Call, tasks: Sequence[pb.SubmitTaskRequest]) -> Awaitable[bytes]:
        submissions = requests.submissions(tasks, call.traceparent, self._max_payload_bytes, self._default_retry)
        return self._engine.tasks.submit_each(
            call.namespace,
            converted(submissions),
            show=lambda admitted: encode_outcomes(with_refusals(submissions, admitted), _encode_refusal),
        )

    async def GetTask(self, request: pb.GetTaskRequest, context: Context) -> Any:  # noqa: N802
        del context
        return await self._engine.tasks.get(current_call().namespace, request.task_id, show=encode_task)

    async def ListTasks(self, request: pb.ListTasksRequest, context: Context) -> Any:  # noqa: N802
        call = current_call()
        listing = Listing("tasks", call.namespace, request.agent_id, request.state, request.batch_id, request.target)
        task_filter = TaskFilter(
            agent_id=request.agent_id or None,
            states=requests.states(request.state, TaskState),
            batch_id=request.batch_id or None,
            target=request.target or None,
        )
        after = listing.start(request.page_token)
        limit = page_size(request.page_size)
        page = await self._engine.tasks.list_tasks(call.namespace, task_filter, after, limit)
        tasks, next_after = task_page(TASKS, page.tasks, limit, page.next_after, call.by_rest)
        response = pb.ListTasksResponse(count=len(tasks))
        if next_after is not None:
            response.next_page_token = listing.token(next_after)
        if call.by_rest and not tasks:
            await send_hint(context, ("x-rest-empty", "tasks"))
        return b"".join([response.SerializeToString(), *tasks])

    async def CancelTask(self, request: pb.CancelTaskRequest, context: Context) -> pb.CancelTaskResponse:  # noqa: N802
        del context
        state = await self._engine.tasks.cancel(current_call().namespace, request.task_id, show=_state)
        return pb.CancelTaskResponse(status=STATES[state], task_id=request.task_id)

    async def PauseTask(self, request: pb.PauseTaskRequest, context: Context) -> pb.PauseTaskResponse:  # noqa: N802
        del context
        state = await self._engine.tasks.pause(current_call().namespace, request.task_id, show=_state)
        return pb.PauseTaskResponse(status=STATES[state], task_id=request.task_id)

    async def ResumeTask(self, request: pb.ResumeTaskRequest, context: Context) -> pb.ResumeTaskResponse:  # noqa: N802
        del context
        state = await self._engine.tasks.resume(
            current_call().namespace,
            request.task_id,
            token_limit=request.token_limit if request.HasField("token_limit") else None,
            show=_state,
        )
        return pb.ResumeTaskResponse(status=STATES[state], task_id=request.task_id)

    async def ResolveTask(  # noqa: N802
        self, request: pb.ResolveTaskRequest, context: Context
    ) -> pb.ResolveTaskResponse:
        del context
        has_result = request.HasField("result")
        result = requests.payload(request.result, "result", self._max_payload_bytes) if has_result else None
        state = await self._engine.tasks.resolve(current_call().namespace, request.task_id, result, show=_state)
        return pb.ResolveTaskResponse(status=STATES[state], task_id=request.task_id)

    async def WaitTask(self, request: pb.WaitTaskRequest, context: Context) -> Any:  # noqa: N802
        del context
        wait_secs = request.timeout_ms / 1000 if request.HasField("timeout_ms") else DEFAULT_WAIT_SECS
        return await self._engine.tasks.wait(
            current_call().namespace, request.task_id, min(wait_secs, MAX_WAIT_SECS), show=_encode_waited
        )

    async def WatchTasks(self, request: pb.WatchTasksRequest, context: Context) -> None:  # type: ignore[override]  # noqa: N802
        await self._watches.watch(current_call().namespace, request, context)


def _state(task: Task) -> TaskState:
    return task.state


def _encode_waited(task: Task) -> bytes:
    return nested(WAITED_TASK, encode_task(task)) + ENDED[task.state in TERMINAL]


def _encode_refusal(refusal: Refusal) -> bytes:
    outcome = pb.SubmitOutcome(error=error_message(refusal))
    if isinstance(refusal, QueueFull):
        outcome.rejected_task_id = refusal.task.id
    return outcome.SerializeToString()
