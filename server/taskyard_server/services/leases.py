"""LeaseService: hand-out and reports, one call at a time, so that the simplest client can be a host."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import lease_pb2 as pb
from taskyard.v1.lease_pb2_grpc import LeaseServiceServicer
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.leases import Lease
from taskyard_server.engine.port import Engine
from taskyard_server.interceptors.calls import current_call

from . import requests
from .encoding import STATES, encode_assignment
from .reports import About, Reports
from .responses import MAX_PAGE_BYTES, lease_message, task_message
from .times import timestamp
from .wire import nested, tag

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

ASSIGNMENT: Final = tag(pb.ClaimTasksResponse, "assignments")

MAX_WAIT_SECS: Final = 60.0
MAX_CLAIM: Final = 1_000


class LeaseService(LeaseServiceServicer):
    """Serves `taskyard.v1.LeaseService`."""

    def __init__(self, engine: Engine, max_payload_bytes: int) -> None:
        self._engine = engine
        self._reports = Reports(engine, max_payload_bytes)

    async def ClaimTask(self, request: pb.ClaimTaskRequest, context: Context) -> pb.ClaimTaskResponse:  # noqa: N802
        del context
        leases = await self._claim(request, 1)
        if not leases:
            return pb.ClaimTaskResponse(claimed=False)
        (lease,) = leases
        return pb.ClaimTaskResponse(
            claimed=True,
            task_id=lease.task.id,
            lease_expires_at=timestamp(lease.expires_at),
            fencing_token=lease.token,
            task=task_message(lease.task),
        )

    async def ClaimTasks(self, request: pb.ClaimTasksRequest, context: Context) -> Any:  # noqa: N802
        del context
        if not 1 <= request.max_tasks <= MAX_CLAIM:
            raise BadRequest(f"max_tasks: must be from 1 to {MAX_CLAIM}")
        assignments: list[bytes] = []
        size = 0
        for lease in await self._claim(request, request.max_tasks):
            assignment = nested(ASSIGNMENT, encode_assignment(lease))
            size += len(assignment)
            if size > MAX_PAGE_BYTES and assignments:
                # What does not fit into the message goes back to its place.
                await self._engine.release(current_call().namespace, lease.host.id, lease.task.id, lease.token)
            else:
                assignments.append(assignment)
        return b"".join(assignments)

    async def RenewLease(self, request: pb.RenewLeaseRequest, context: Context) -> pb.RenewLeaseResponse:  # noqa: N802
        del context
        lease = await self._engine.renew(*_about(request), _secs(request))
        return pb.RenewLeaseResponse(task_id=lease.task.id, lease_expires_at=timestamp(lease.expires_at))

    async def StartTask(self, request: pb.StartTaskRequest, context: Context) -> pb.StartTaskResponse:  # noqa: N802
        del context
        task = await self._reports.started(_about(request))
        return pb.StartTaskResponse(task_id=task.id, state=STATES[task.state])

    async def ReportProgress(  # noqa: N802
        self, request: pb.ReportProgressRequest, context: Context
    ) -> pb.ReportProgressResponse:
        del context
        progress = request.progress if request.HasField("progress") else None
        task = await self._reports.progressed(_about(request), progress, _tokens(request))
        return pb.ReportProgressResponse(task_id=task.id, state=STATES[task.state])

    async def CompleteTask(  # noqa: N802
        self, request: pb.CompleteTaskRequest, context: Context
    ) -> pb.CompleteTaskResponse:
        del context
        result = request.result if request.HasField("result") else None
        task = await self._reports.completed(_about(request), result, _tokens(request))
        return pb.CompleteTaskResponse(task_id=task.id, state=STATES[task.state])

    async def FailTask(self, request: pb.FailTaskRequest, context: Context) -> pb.FailTaskResponse:  # noqa: N802
        del context
        task = await self._reports.failed(_about(request), request, _tokens(request))
        return pb.FailTaskResponse(task_id=task.id, state=STATES[task.state])

    async def ReleaseTask(  # noqa: N802
        self, request: pb.ReleaseTaskRequest, context: Context
    ) -> pb.ReleaseTaskResponse:
        del context
        task = await self._reports.released(_about(request))
        return pb.ReleaseTaskResponse(task_id=task.id, state=STATES[task.state])

    async def ListLeases(self, request: pb.ListLeasesRequest, context: Context) -> pb.ListLeasesResponse:  # noqa: N802
        del context
        listing = f"leases\0{request.host_id}"
        after = requests.page_start(request.page_token, listing)
        most = requests.page_size(request.page_size)
        leases = await self._engine.list_leases(current_call().namespace, after, request.host_id or None)
        answer = pb.ListLeasesResponse(leases=[lease_message(lease) for lease in leases[:most]])
        if len(leases) > most:
            answer.next_page_token = requests.page_token(leases[most - 1].number, listing)
        return answer

    async def _claim(self, request: pb.ClaimTaskRequest | pb.ClaimTasksRequest, count: int) -> list[Lease]:
        return await self._engine.claim(
            current_call().namespace,
            requests.host_id(request.host_id),
            count,
            _secs(request),
            min(request.wait_ms / 1000, MAX_WAIT_SECS),
            requests.name(request.project, "project"),
        )


Report: TypeAlias = (
    pb.RenewLeaseRequest
    | pb.StartTaskRequest
    | pb.ReportProgressRequest
    | pb.CompleteTaskRequest
    | pb.FailTaskRequest
    | pb.ReleaseTaskRequest
)


def _about(request: Report) -> About:
    """Which lease a report is about: namespace, host, task, fencing token."""
    if not request.fencing_token:
        raise BadRequest("fencing_token: is required")
    return About(current_call().namespace, requests.host_id(request.host_id), request.task_id, request.fencing_token)


def _secs(request: pb.ClaimTaskRequest | pb.ClaimTasksRequest | pb.RenewLeaseRequest) -> float | None:
    return request.lease_secs if request.HasField("lease_secs") else None


def _tokens(request: pb.ReportProgressRequest | pb.CompleteTaskRequest | pb.FailTaskRequest) -> int | None:
    return request.tokens_used if request.HasField("tokens_used") else None
