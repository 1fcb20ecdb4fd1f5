"""TaskService: submit, get, list, cancel, wait, watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceServicer
from taskyard_server.conversion import requests
from taskyard_server.conversion.refusals import converted, with_refusals
from taskyard_server.conversion.responses import error_message, task_page
from taskyard_server.conversion.task_encoding import STATES, encode_accepted, encode_outcomes, encode_task
from taskyard_server.conversion.wire import nested, tag
from taskyard_server.core.errors import BadRequest, QueueFull, Refusal
from taskyard_server.core.task import TERMINAL, TaskState
from taskyard_server.engine.port import Engine, TaskFilter
from taskyard_server.interceptors.calls import MALFORMED, Call, current_call

from .rest_hints import ACCEPTED, send_shape
from .task_watches import TaskWatches

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

LISTED: Final = tag(pb.ListTasksResponse, "tasks")
WAITED_TASK: Final = tag(pb.WaitTaskResponse, "task")
ENDED: Final = {ended: pb.WaitTaskResponse(ended=ended).SerializeToString() for ended in (True, False)}

MAX_TASKS_PER_TURN: Final = 100
WAIT_SECS: Final = 30.0
MAX_WAIT_SECS: Final = 300.0


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

    async def SubmitTask(self, request: pb.SubmitTaskRequest, context: Context) -> Any:  # noqa: N802
        call = current_call()
        asked = requests.submission(
            request,
            request.agent_id,
            request.callback_url,
            call.traceparent,
            self._max_payload_bytes,
            self._default_retry,
        )
        answer = encode_accepted(await self._engine.tasks.submit(call.namespace, asked))
        if call.by_rest:
            await send_shape(context, ACCEPTED)
        return answer

    async def SubmitTasks(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.SubmitTasksRequest | None], context: Context
    ) -> AsyncIterator[Any]:
        del context
        call = current_call()
        async for request in request_iterator:
            if request is None:
                raise BadRequest(MALFORMED)
            yield await self._submit(call, request.tasks)

    async def _submit(self, call: Call, asked: Sequence[pb.SubmitTaskRequest]) -> bytes:
        """What became of each task, encoded; a refusal touches neither the stream nor its neighbours."""
        outcomes: list[bytes] = []
        for first in range(0, len(asked), MAX_TASKS_PER_TURN):
            if first:
                # Thousands may come at once; others have their turn meanwhile.
                await asyncio.sleep(0)
            some = asked[first : first + MAX_TASKS_PER_TURN]
            checked = requests.submissions(some, call.traceparent, self._max_payload_bytes, self._default_retry)
            # Encoded before others have their turn, who may change the tasks.
            admitted = await self._engine.tasks.submit_each(call.namespace, converted(checked))
            outcomes.append(encode_outcomes(with_refusals(checked, admitted), _refused))
        return b"".join(outcomes)

    async def GetTask(self, request: pb.GetTaskRequest, context: Context) -> Any:  # noqa: N802
        del context
        return encode_task(await self._engine.tasks.get(current_call().namespace, request.task_id))

    async def ListTasks(self, request: pb.ListTasksRequest, context: Context) -> Any:  # noqa: N802
        call = current_call()
        filters = f"{request.agent_id}\0{request.state}\0{request.batch_id}\0{request.target}"
        wanted = TaskFilter(
            agent_id=request.agent_id or None,
            states=requests.states(request.state, TaskState),
            batch_id=request.batch_id or None,
            target=request.target or None,
        )
        after = requests.page_start(request.page_token, filters)
        most = requests.page_size(request.page_size)
        page = await self._engine.tasks.list_tasks(call.namespace, wanted, after, most)
        tasks, next_after = task_page(LISTED, page.tasks, most, page.next_after, call.by_rest)
        answer = pb.ListTasksResponse(count=len(tasks))
        if next_after is not None:
            answer.next_page_token = requests.page_token(next_after, filters)
        if call.by_rest and not tasks:
            await send_shape(context, ("x-rest-empty", "tasks"))
        return b"".join([answer.SerializeToString(), *tasks])

    async def CancelTask(self, request: pb.CancelTaskRequest, context: Context) -> pb.CancelTaskResponse:  # noqa: N802
        del context
        task = await self._engine.tasks.cancel(current_call().namespace, request.task_id)
        return pb.CancelTaskResponse(status=STATES[task.state], task_id=task.id)

    async def PauseTask(self, request: pb.PauseTaskRequest, context: Context) -> pb.PauseTaskResponse:  # noqa: N802
        del context
        task = await self._engine.tasks.pause(current_call().namespace, request.task_id)
        return pb.PauseTaskResponse(status=STATES[task.state], task_id=task.id)

    async def ResumeTask(self, request: pb.ResumeTaskRequest, context: Context) -> pb.ResumeTaskResponse:  # noqa: N802
        del context
        task = await self._engine.tasks.resume(current_call().namespace, request.task_id)
        return pb.ResumeTaskResponse(status=STATES[task.state], task_id=task.id)

    async def ResolveTask(  # noqa: N802
        self, request: pb.ResolveTaskRequest, context: Context
    ) -> pb.ResolveTaskResponse:
        del context
        given = request.HasField("result")
        result = requests.payload(request.result, "result", self._max_payload_bytes) if given else None
        task = await self._engine.tasks.resolve(current_call().namespace, request.task_id, result)
        return pb.ResolveTaskResponse(status=STATES[task.state], task_id=task.id)

    async def WaitTask(self, request: pb.WaitTaskRequest, context: Context) -> Any:  # noqa: N802
        del context
        secs = request.timeout_ms / 1000 if request.HasField("timeout_ms") else WAIT_SECS
        task = await self._engine.tasks.wait(current_call().namespace, request.task_id, min(secs, MAX_WAIT_SECS))
        return nested(WAITED_TASK, encode_task(task)) + ENDED[task.state in TERMINAL]

    async def WatchTasks(self, request: pb.WatchTasksRequest, context: Context) -> None:  # type: ignore[override]  # noqa: N802
        await self._watches.watch(current_call().namespace, request, context)


def _refused(refusal: Refusal) -> bytes:
    outcome = pb.SubmitOutcome(error=error_message(refusal))
    if isinstance(refusal, QueueFull):
        outcome.rejected_task_id = refusal.task.id
    return outcome.SerializeToString()
