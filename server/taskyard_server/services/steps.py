"""StepService: hosts record the steps of their tasks and have them again, callers list them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import step_pb2 as pb
from taskyard.v1.step_pb2_grpc import StepServiceServicer
from taskyard_server.conversion import requests
from taskyard_server.conversion.report_requests import fencing_token
from taskyard_server.conversion.steps import encode_steps, new_step
from taskyard_server.core.errors import PermissionDenied
from taskyard_server.core.history import Step
from taskyard_server.core.task import Task
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import current_call

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

EMPTY_STEPS: Final = ("x-rest-empty", "steps")
"""The gateway adds an empty list of this name (gateway/README.md)."""
NOT_SHOWN: Final = "the steps of this task are not shown to this principal"


class StepService(StepServiceServicer):
    """Serves `taskyard.v1.StepService`."""

    def __init__(self, engine: Engine, max_payload_bytes: int) -> None:
        self._engine = engine
        self._max_payload_bytes = max_payload_bytes

    async def RecordStep(self, request: pb.RecordStepRequest, context: Context) -> pb.RecordStepResponse:  # noqa: N802
        del context
        call, host_id = current_call(), requests.host_id(request.host_id)
        new, own_only = new_step(request, self._max_payload_bytes), call.access.hosts is not None
        number, is_repeated = await self._engine.steps.record(call.namespace, host_id, new, own_only=own_only)
        return pb.RecordStepResponse(task_id=request.task_id, number=number, repeated=True if is_repeated else None)

    async def FetchSteps(self, request: pb.FetchStepsRequest, context: Context) -> Any:  # noqa: N802
        call = current_call()
        steps = await self._engine.steps.fetch(
            call.namespace,
            requests.host_id(request.host_id),
            request.task_id,
            fencing_token(request.fencing_token),
            own_only=call.access.hosts is not None,
        )
        return await _answer(steps, context)

    async def ListSteps(self, request: pb.ListStepsRequest, context: Context) -> Any:  # noqa: N802
        call = current_call()
        access = call.access

        def check(task: Task) -> None:
            if access.payloads is not None and task.agent_id not in access.payloads:
                raise PermissionDenied(NOT_SHOWN)

        steps = await self._engine.steps.list(call.namespace, request.task_id, agents=access.agents, check=check)
        return await _answer(steps, context)


async def _answer(steps: Sequence[Step], context: Context) -> bytes:
    if not steps and current_call().by_rest:
        await context.send_initial_metadata((EMPTY_STEPS,))
    return encode_steps(steps)
