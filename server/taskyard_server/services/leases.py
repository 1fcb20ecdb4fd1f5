"""LeaseService: hand-out and reports, one call at a time, so that the simplest client can be a host."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import lease_pb2 as pb
from taskyard.v1.lease_pb2_grpc import LeaseServiceServicer
from taskyard_server.core.errors import BadRequest, Conflict, NotYetSupported
from taskyard_server.core.leases import Lease
from taskyard_server.engine.port import Engine
from taskyard_server.interceptors.calls import current_call

from . import requests
from .responses import MAX_PAGE_BYTES, STATES, task_message, timestamp

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

MAX_WAIT_SECS: Final = 60.0
MAX_CLAIM: Final = 1_000
MAX_ERROR_CHARS: Final = 10_000


class LeaseService(LeaseServiceServicer):
    """Serves `taskyard.v1.LeaseService`."""

    def __init__(self, engine: Engine, max_payload_bytes: int) -> None:
        self._engine = engine
        self._max_payload_bytes = max_payload_bytes

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

    async def ClaimTasks(self, request: pb.ClaimTasksRequest, context: Context) -> pb.ClaimTasksResponse:  # noqa: N802
        del context
        if not 1 <= request.max_tasks <= MAX_CLAIM:
            raise BadRequest(f"max_tasks: must be from 1 to {MAX_CLAIM}")
        answer, size = pb.ClaimTasksResponse(), 0
        for lease in await self._claim(request, request.max_tasks):
            task = task_message(lease.task)
            size += task.ByteSize()
            if size > MAX_PAGE_BYTES and answer.assignments:
                # What does not fit into the message goes back to its place.
                await self._engine.release(current_call().namespace, lease.host.id, lease.task.id, lease.token)
            else:
                answer.assignments.add(lease=lease_message(lease), task=task)
        return answer

    async def RenewLease(self, request: pb.RenewLeaseRequest, context: Context) -> pb.RenewLeaseResponse:  # noqa: N802
        del context
        lease = await self._engine.renew(*_about(request), _secs(request))
        return pb.RenewLeaseResponse(task_id=lease.task.id, lease_expires_at=timestamp(lease.expires_at))

    async def StartTask(self, request: pb.StartTaskRequest, context: Context) -> pb.StartTaskResponse:  # noqa: N802
        del context
        try:
            task = await self._engine.start(*_about(request))
        except Conflict:
            # It said so before under this very lease, and the answer was lost.
            task = await self._engine.get(current_call().namespace, request.task_id)
        return pb.StartTaskResponse(task_id=task.id, state=STATES[task.state])

    async def ReportProgress(  # noqa: N802
        self, request: pb.ReportProgressRequest, context: Context
    ) -> pb.ReportProgressResponse:
        del context
        _refuse_tokens(request)
        packed = None
        if request.HasField("progress"):
            progress, most = request.progress, self._max_payload_bytes
            if progress.HasField("fraction") and not 0 <= progress.fraction <= 1:
                raise BadRequest("progress.fraction: must be from 0 to 1")
            progress.reported_at.CopyFrom(timestamp(self._engine.now()))
            packed = requests.payload(progress.details, "progress.details", most, progress)
        task = await self._engine.progress(*_about(request), packed)
        return pb.ReportProgressResponse(task_id=task.id, state=STATES[task.state])

    async def CompleteTask(  # noqa: N802
        self, request: pb.CompleteTaskRequest, context: Context
    ) -> pb.CompleteTaskResponse:
        del context
        _refuse_tokens(request)
        given = request.HasField("result")
        result = requests.payload(request.result, "result", self._max_payload_bytes) if given else None
        task = await self._engine.complete(*_about(request), result)
        return pb.CompleteTaskResponse(task_id=task.id, state=STATES[task.state])

    async def FailTask(self, request: pb.FailTaskRequest, context: Context) -> pb.FailTaskResponse:  # noqa: N802
        del context
        _refuse_tokens(request)
        if not request.error:
            raise BadRequest("error: is required")
        task = await self._engine.fail(*_about(request), request.error[:MAX_ERROR_CHARS])
        return pb.FailTaskResponse(task_id=task.id, state=STATES[task.state])

    async def ReleaseTask(  # noqa: N802
        self, request: pb.ReleaseTaskRequest, context: Context
    ) -> pb.ReleaseTaskResponse:
        del context
        about = _about(request)
        task = await self._engine.get(current_call().namespace, request.task_id)
        if not (task.lease is None and task.token == request.fencing_token and task.host_id == request.host_id):
            task = await self._engine.release(*about)
        # Otherwise that lease, its holder's last, has ended already: said again, or after a cancellation.
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


def lease_message(lease: Lease) -> pb.Lease:
    """A lease (runtime-host-model, TaskLease)."""
    return pb.Lease(
        task_id=lease.task.id,
        host_id=lease.host.id,
        claimed_at=timestamp(lease.claimed_at),
        expires_at=timestamp(lease.expires_at),
        fencing_token=lease.token,
        lease_secs=round(lease.secs),
    )


Report: TypeAlias = (
    pb.RenewLeaseRequest
    | pb.StartTaskRequest
    | pb.ReportProgressRequest
    | pb.CompleteTaskRequest
    | pb.FailTaskRequest
    | pb.ReleaseTaskRequest
)


def _about(request: Report) -> tuple[str, str, str, int]:
    """Which lease a report is about: namespace, host, task, fencing token."""
    if not request.fencing_token:
        raise BadRequest("fencing_token: is required")
    return current_call().namespace, requests.host_id(request.host_id), request.task_id, request.fencing_token


def _secs(request: pb.ClaimTaskRequest | pb.ClaimTasksRequest | pb.RenewLeaseRequest) -> float | None:
    return request.lease_secs if request.HasField("lease_secs") else None


def _refuse_tokens(request: pb.ReportProgressRequest | pb.CompleteTaskRequest | pb.FailTaskRequest) -> None:
    if request.HasField("tokens_used"):
        raise NotYetSupported("tokens_used: is not supported yet")
