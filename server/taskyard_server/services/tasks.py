"""TaskService: submit, get, list, cancel, pause, resume, resolve, wait and watch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceServicer
from taskyard_server.access.grants import Role
from taskyard_server.conversion import requests
from taskyard_server.conversion.explanations import explained
from taskyard_server.conversion.page_tokens import page_size
from taskyard_server.conversion.responses import task_page
from taskyard_server.conversion.submissions import DefaultRetry, no_default_retry
from taskyard_server.conversion.submit_requests import TaskRequest, TasksRequest
from taskyard_server.conversion.task_encoding import STATES, encode_accepted
from taskyard_server.conversion.task_filters import listing_criteria, task_filter
from taskyard_server.conversion.wire import nested, tag
from taskyard_server.core.errors import QueueFull, Refusal
from taskyard_server.core.stopping_leases import StopOutcome
from taskyard_server.core.task import TERMINAL, Task, TaskState
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import current_call

from .shown_tasks import shown_refusal, task_encoder
from .submission_streams import SubmissionStreams
from .task_watches import TaskWatches

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

TASKS: Final = tag(pb.ListTasksResponse, "tasks")
WAITED_TASK: Final = tag(pb.WaitTaskResponse, "task")
ENDED: Final = {ended: pb.WaitTaskResponse(ended=ended).SerializeToString() for ended in (True, False)}
EMPTY_TASKS: Final = ("x-rest-empty", "tasks")
"""Tells the gateway to show the list, which the transcoder would leave out (gateway/README.md)."""

DEFAULT_WAIT_SECS: Final = 30.0
MAX_WAIT_SECS: Final = 300.0
MAX_STOP_WAIT_SECS: Final = 60.0
OUTCOMES: Final = {outcome: pb.Stopping.Outcome.Value(outcome.value) for outcome in StopOutcome}

SHUTDOWN: Final = "the server shuts down"


class TaskService(TaskServiceServicer):
    """Serves `taskyard.v1.TaskService`."""

    def __init__(
        self,
        engine: Engine,
        max_payload_bytes: int,
        watches: TaskWatches,
        default_retry: DefaultRetry = no_default_retry,
    ) -> None:
        self._engine = engine
        self._default_retry = default_retry
        self._max_payload_bytes = max_payload_bytes
        self._watches = watches
        self._submissions = SubmissionStreams(engine, max_payload_bytes, default_retry)

    async def SubmitTask(self, request: TaskRequest, context: Context) -> Any:  # type: ignore[override]  # noqa: N802
        del context
        call = current_call()
        submission = request.submission(call.traceparent, self._max_payload_bytes, self._default_retry)
        try:
            return await self._engine.tasks.submit(
                call.namespace, submission, agents=call.access.agents, show=encode_accepted
            )
        except QueueFull as refusal:
            raise shown_refusal(call.access, refusal) from None

    async def SubmitTasks(  # type: ignore[override]  # noqa: N802
        self, request_iterator: AsyncIterator[TasksRequest | Refusal], context: Context
    ) -> None:
        await self._submissions.serve(request_iterator, context)

    def close(self) -> None:
        """End the streams of submissions that have nothing to answer, and the others after their answer."""
        self._submissions.close()

    async def GetTask(self, request: pb.GetTaskRequest, context: Context) -> Any:  # noqa: N802
        del context
        call = current_call()
        return await self._engine.tasks.get(
            call.namespace, request.task_id, agents=call.access.agents, show=task_encoder(call.access)
        )

    async def ExplainTask(  # noqa: N802
        self, request: pb.ExplainTaskRequest, context: Context
    ) -> pb.ExplainTaskResponse:
        del context
        call = current_call()
        access = call.access
        explanation = await self._engine.tasks.explain(
            call.namespace, request.task_id, agents=access.agents, sees_others=access.role is not Role.AGENT
        )
        return explained(explanation)

    async def ListTasks(self, request: pb.ListTasksRequest, context: Context) -> Any:  # noqa: N802
        call = current_call()
        wanted = task_filter(request, call.access.agents, payloads=call.access.payloads)
        listing = call.listing("tasks", *listing_criteria(request))
        after = listing.start(request.page_token)
        limit = page_size(request.page_size)
        page = await self._engine.tasks.list_tasks(
            call.namespace,
            wanted,
            after,
            limit,
            newest_first=request.newest_first,
            history=request.history,
        )
        encode = task_encoder(call.access)
        tasks, next_after = task_page(TASKS, page.tasks, limit, page.next_after, call.by_rest, encode)
        response = pb.ListTasksResponse(count=len(tasks))
        if next_after is not None:
            response.next_page_token = listing.token(next_after)
        if call.by_rest and not tasks:
            await context.send_initial_metadata((EMPTY_TASKS,))
        return b"".join([response.SerializeToString(), *tasks])

    async def CancelTask(self, request: pb.CancelTaskRequest, context: Context) -> pb.CancelTaskResponse:  # noqa: N802
        del context
        call, tasks, reason = current_call(), self._engine.tasks, requests.reason(request.reason)
        waits, with_children = request.HasField("wait_ms"), request.cancel_children
        if not waits and not with_children:
            state = await tasks.cancel(
                call.namespace, request.task_id, reason=reason, agents=call.access.agents, show=_state
            )
            return pb.CancelTaskResponse(status=STATES[state], task_id=request.task_id)
        state, children, outcome = await tasks.cancel_and_wait(
            call.namespace,
            request.task_id,
            min(request.wait_ms / 1000, MAX_STOP_WAIT_SECS),
            with_children=with_children,
            reason=reason,
            agents=call.access.agents,
            show=_state,
        )
        return pb.CancelTaskResponse(
            status=STATES[state],
            task_id=request.task_id,
            children_cancelled=children if with_children else None,
            stopping=OUTCOMES[outcome] if waits else None,
        )

    async def PauseTask(self, request: pb.PauseTaskRequest, context: Context) -> pb.PauseTaskResponse:  # noqa: N802
        del context
        call, tasks, reason = current_call(), self._engine.tasks, requests.reason(request.reason)
        if request.HasField("wait_ms"):
            secs = min(request.wait_ms / 1000, MAX_STOP_WAIT_SECS)
            state, outcome = await tasks.pause_and_wait(
                call.namespace, request.task_id, secs, reason=reason, agents=call.access.agents, show=_state
            )
            return pb.PauseTaskResponse(status=STATES[state], task_id=request.task_id, stopping=OUTCOMES[outcome])
        state = await tasks.pause(
            call.namespace, request.task_id, reason=reason, agents=call.access.agents, show=_state
        )
        return pb.PauseTaskResponse(status=STATES[state], task_id=request.task_id)

    async def ResumeTask(self, request: pb.ResumeTaskRequest, context: Context) -> pb.ResumeTaskResponse:  # noqa: N802
        del context
        call = current_call()
        state = await self._engine.tasks.resume(
            call.namespace,
            request.task_id,
            token_limit=request.token_limit if request.HasField("token_limit") else None,
            agents=call.access.agents,
            show=_state,
        )
        return pb.ResumeTaskResponse(status=STATES[state], task_id=request.task_id)

    async def ResolveTask(  # noqa: N802
        self, request: pb.ResolveTaskRequest, context: Context
    ) -> pb.ResolveTaskResponse:
        del context
        has_result = request.HasField("result")
        result = requests.payload(request.result, "result", self._max_payload_bytes) if has_result else None
        call = current_call()
        state = await self._engine.tasks.resolve(
            call.namespace,
            request.task_id,
            result,
            reason=requests.reason(request.reason),
            agents=call.access.agents,
            show=_state,
        )
        return pb.ResolveTaskResponse(status=STATES[state], task_id=request.task_id)

    async def WaitTask(self, request: pb.WaitTaskRequest, context: Context) -> Any:  # noqa: N802
        del context
        wait_secs = request.timeout_ms / 1000 if request.HasField("timeout_ms") else DEFAULT_WAIT_SECS
        call = current_call()
        encode = task_encoder(call.access)

        def encode_waited(task: Task) -> bytes:
            return nested(WAITED_TASK, encode(task)) + ENDED[task.state in TERMINAL]

        return await self._engine.tasks.wait(
            call.namespace,
            request.task_id,
            min(wait_secs, MAX_WAIT_SECS),
            agents=call.access.agents,
            show=encode_waited,
        )

    async def WatchTasks(self, request: pb.WatchTasksRequest, context: Context) -> None:  # type: ignore[override]  # noqa: N802
        await self._watches.watch(current_call(), request, context)


def _state(task: Task) -> TaskState:
    return task.state
