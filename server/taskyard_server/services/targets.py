"""TargetService: targets, the task each waits for, and the resume of that task (docs/rules.md, Targets)."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import target_pb2 as pb
from taskyard.v1.target_pb2_grpc import TargetServiceServicer
from taskyard_server.conversion.page_tokens import page_size
from taskyard_server.conversion.responses import MAX_PAGE_BYTES
from taskyard_server.conversion.task_encoding import STATES
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.targets import Target, TargetStatus
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import current_call

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

STATUSES: Final = {status: pb.Target.Status.Value(status.value) for status in TargetStatus}


class TargetService(TargetServiceServicer):
    """Serves `taskyard.v1.TargetService`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def ListTargets(self, request: pb.ListTargetsRequest, context: Context) -> pb.ListTargetsResponse:  # noqa: N802
        del context
        listing = current_call().listing("targets", request.status)
        after = listing.start_name(request.page_token)
        limit = page_size(request.page_size)
        if request.status not in (pb.Target.unspecified, *STATUSES.values()):
            raise BadRequest(f"status: must be among {', '.join(STATUSES)}")

        def page(targets: list[Target]) -> pb.ListTargetsResponse:
            response, size = pb.ListTargetsResponse(), 0
            for target in targets:
                if request.status in (pb.Target.unspecified, STATUSES[target.standing[0]]):
                    message = _target(target)
                    size += message.ByteSize()
                    if len(response.targets) == limit or (response.targets and size > MAX_PAGE_BYTES):
                        response.next_page_token = listing.token(response.targets[-1].target)
                        break
                    response.targets.append(message)
            return response

        return await self._engine.tasks.list_targets(current_call().namespace, after, show=page)

    async def ResumeTargetTask(  # noqa: N802
        self, request: pb.ResumeTargetTaskRequest, context: Context
    ) -> pb.ResumeTargetTaskResponse:
        del context
        state = await self._engine.tasks.resume(
            current_call().namespace,
            request.task_id,
            request.target,
            request.token_limit if request.HasField("token_limit") else None,
            show=lambda task: task.state,
        )
        return pb.ResumeTargetTaskResponse(status=STATES[state], task_id=request.task_id)


def _target(target: Target) -> pb.Target:
    status, task = target.standing
    return pb.Target(
        target=target.name,
        status=STATUSES[status],
        queued=len(target.waiting) + len(target.aside),
        task_id=None if task is None else task.id,
        waits_for=target.waits_for,
        since=None if target.since is None else timestamp(target.since),
    )
