"""ChildService: hosts submit children of their tasks by name, and have them again."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import child_pb2 as pb
from taskyard.v1.child_pb2_grpc import ChildServiceServicer
from taskyard.v1.task_pb2 import Task as TaskMessage
from taskyard_server.conversion import requests
from taskyard_server.conversion.inputs import encode_input
from taskyard_server.conversion.report_requests import fencing_token
from taskyard_server.conversion.submissions import DefaultRetry, child_submission, no_default_retry
from taskyard_server.conversion.wire import nested, tag
from taskyard_server.core.errors import QueueFull
from taskyard_server.core.runs.inputs import TaskInput
from taskyard_server.core.task import Task
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import current_call

from .shown_tasks import shown_refusal

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

CHILD: Final = tag(pb.FetchChildResponse, "child")


class ChildService(ChildServiceServicer):
    """Serves `taskyard.v1.ChildService`."""

    def __init__(self, engine: Engine, max_payload_bytes: int, default_retry: DefaultRetry = no_default_retry) -> None:
        self._engine = engine
        self._max_payload_bytes = max_payload_bytes
        self._default_retry = default_retry

    async def SubmitChild(self, request: pb.SubmitChildRequest, context: Context) -> Any:  # noqa: N802
        del context
        call, host_id = current_call(), requests.host_id(request.host_id)
        token = fencing_token(request.fencing_token)
        submission = child_submission(request, call.traceparent, self._max_payload_bytes, self._default_retry)
        own_only = call.access.hosts is not None
        try:
            return await self._engine.children.submit(
                call.namespace, host_id, request.task_id, token, submission, own_only=own_only, show=_accepted
            )
        except QueueFull as refusal:
            raise shown_refusal(call.access, refusal) from None

    async def FetchChild(self, request: pb.FetchChildRequest, context: Context) -> Any:  # noqa: N802
        del context
        call = current_call()
        return await self._engine.children.fetch(
            call.namespace,
            requests.host_id(request.host_id),
            request.task_id,
            fencing_token(request.fencing_token),
            requests.path_name(request.name, "name"),
            own_only=call.access.hosts is not None,
            show=_child,
        )


def _child(found: TaskInput) -> bytes:
    return nested(CHILD, encode_input(found))


def _accepted(outcome: tuple[Task, bool]) -> pb.SubmitChildResponse:
    task, is_known = outcome
    state = TaskMessage.State.Value(task.state.value)
    return pb.SubmitChildResponse(task_id=task.id, state=state, repeated=is_known or None, held=task.is_held or None)
