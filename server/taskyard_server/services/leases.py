"""LeaseService: claims, renewals and reports as unary calls, for hosts without a stream."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import grpc

from taskyard.v1 import lease_pb2 as pb
from taskyard.v1 import task_pb2
from taskyard.v1.lease_pb2_grpc import LeaseServiceServicer
from taskyard_server.access.authorization import check_offer
from taskyard_server.conversion import requests
from taskyard_server.conversion.inputs import encode_inputs
from taskyard_server.conversion.page_tokens import page_size
from taskyard_server.conversion.report_requests import ReportRequest, fencing_token, report
from taskyard_server.conversion.responses import MAX_PAGE_BYTES, lease_message
from taskyard_server.conversion.task_encoding import STATES, assignment_encoder, handed_task_encoder
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.conversion.wire import nested, tag
from taskyard_server.core.errors import BadRequest, Refusal
from taskyard_server.core.leases import Lease
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.task import Task
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import current_call

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

T = TypeVar("T")

ASSIGNMENT: Final = tag(pb.ClaimTasksResponse, "assignments")
CLAIMED_TASK: Final = tag(pb.ClaimTaskResponse, "task")
CLAIMED_INPUT: Final = tag(pb.ClaimTaskResponse, "inputs")
NOTHING_CLAIMED: Final = pb.ClaimTaskResponse(claimed=False).SerializeToString()

MAX_WAIT_SECS: Final = 60.0
MAX_TASKS_PER_CLAIM: Final = 1_000


class LeaseService(LeaseServiceServicer):
    """Serves `taskyard.v1.LeaseService`. Hosts are told of a task what `handed` makes of it."""

    def __init__(self, engine: Engine, max_payload_bytes: int, handed: Callable[[Task], Task] | None = None) -> None:
        self._engine = engine
        self._encode_claimed = partial(_encode_claimed, handed_task_encoder(handed))
        self._encode_assignments = partial(_encode_assignments, assignment_encoder(handed))
        self._max_payload_bytes = max_payload_bytes

    async def ClaimTask(self, request: pb.ClaimTaskRequest, context: Context) -> Any:  # noqa: N802
        del context
        return await self._claim(request, 1, self._encode_claimed)

    async def ClaimTasks(self, request: pb.ClaimTasksRequest, context: Context) -> Any:  # noqa: N802
        del context
        if not 1 <= request.max_tasks <= MAX_TASKS_PER_CLAIM:
            raise BadRequest(f"max_tasks: must be from 1 to {MAX_TASKS_PER_CLAIM}")
        assignments, released = await self._claim(request, request.max_tasks, self._encode_assignments)
        if released:
            await self._engine.leases.report(current_call().namespace, request.host_id, released)
        return assignments

    async def RenewLease(self, request: pb.RenewLeaseRequest, context: Context) -> pb.RenewLeaseResponse:  # noqa: N802
        del context
        return await self._engine.leases.renew(
            current_call().namespace,
            requests.host_id(request.host_id),
            request.task_id,
            fencing_token(request.fencing_token),
            _lease_secs(request),
            request.tokens_used if request.HasField("tokens_used") else None,
            own_only=current_call().access.hosts is not None,
            show=_renewed,
        )

    async def StartTask(self, request: pb.StartTaskRequest, context: Context) -> pb.StartTaskResponse:  # noqa: N802
        del context
        return pb.StartTaskResponse(task_id=request.task_id, state=await self._report(request))

    async def ReportProgress(  # noqa: N802
        self, request: pb.ReportProgressRequest, context: Context
    ) -> pb.ReportProgressResponse:
        del context
        return pb.ReportProgressResponse(task_id=request.task_id, state=await self._report(request))

    async def CompleteTask(  # noqa: N802
        self, request: pb.CompleteTaskRequest, context: Context
    ) -> pb.CompleteTaskResponse:
        del context
        return pb.CompleteTaskResponse(task_id=request.task_id, state=await self._report(request))

    async def FailTask(self, request: pb.FailTaskRequest, context: Context) -> pb.FailTaskResponse:  # noqa: N802
        del context
        return pb.FailTaskResponse(task_id=request.task_id, state=await self._report(request))

    async def ReleaseTask(  # noqa: N802
        self, request: pb.ReleaseTaskRequest, context: Context
    ) -> pb.ReleaseTaskResponse:
        del context
        return pb.ReleaseTaskResponse(task_id=request.task_id, state=await self._report(request))

    async def ListLeases(self, request: pb.ListLeasesRequest, context: Context) -> pb.ListLeasesResponse:  # noqa: N802
        del context
        listing = current_call().listing("leases", request.host_id)
        after = listing.start(request.page_token)
        limit = page_size(request.page_size)

        def page(leases: list[Lease]) -> pb.ListLeasesResponse:
            response = pb.ListLeasesResponse(leases=[lease_message(lease) for lease in leases[:limit]])
            if len(leases) > limit:
                response.next_page_token = listing.token(leases[limit - 1].token)
            return response

        host_id = request.host_id or None
        return await self._engine.leases.list_leases(current_call().namespace, after, host_id, show=page)

    async def _report(self, request: ReportRequest) -> task_pb2.Task.State.ValueType:
        """Apply a report. Returns the state of the task just after it, or raises its refusal."""
        host_id = requests.host_id(request.host_id)
        host_report = report(request, self._engine.now(), self._max_payload_bytes)
        call = current_call()
        own_only = call.access.hosts is not None
        (outcome,) = await self._engine.leases.report(call.namespace, host_id, [host_report], own_only=own_only)
        if isinstance(outcome, Refusal):
            raise outcome
        return STATES[outcome]

    async def _claim(
        self, request: pb.ClaimTaskRequest | pb.ClaimTasksRequest, count: int, show: Callable[[list[Lease]], T]
    ) -> T:
        call, host_id = current_call(), requests.host_id(request.host_id)
        check = None if call.access.hosts is None else partial(check_offer, call.access, host_id)
        return await self._engine.leases.claim(
            call.namespace,
            host_id,
            count,
            _lease_secs(request),
            min(request.wait_ms / 1000, MAX_WAIT_SECS),
            requests.name(request.project, "project"),
            requests.claim_id(request.claim_id),
            check=check,
            show=show,
        )


def _encode_claimed(encode_task: Callable[[Task], bytes], leases: list[Lease]) -> bytes:
    """A `ClaimTaskResponse` for one lease, the oldest of those that were claimed under its id; or for none."""
    if not leases:
        return NOTHING_CLAIMED
    lease = leases[0]
    claimed = pb.ClaimTaskResponse(
        claimed=True,
        task_id=lease.task.id,
        lease_expires_at=timestamp(lease.expires_at),
        fencing_token=lease.token,
    )
    inputs = encode_inputs(CLAIMED_INPUT, lease) if lease.inputs else b""
    return claimed.SerializeToString() + nested(CLAIMED_TASK, encode_task(lease.task)) + inputs


def _encode_assignments(encode_assignment: Callable[[Lease], bytes], leases: list[Lease]) -> tuple[bytes, list[Report]]:
    """A `ClaimTasksResponse`, and the reports that give back what does not fit into it."""
    assignments: list[bytes] = []
    released: list[Report] = []
    size = 0
    for lease in leases:
        assignment = nested(ASSIGNMENT, encode_assignment(lease))
        size += len(assignment)
        if size > MAX_PAGE_BYTES and assignments:
            # Tasks that do not fit into the response return to the queue, by their age. One that was started is known
            # to its host from the claim that is repeated here.
            if lease.started_at is None:
                released.append(Report(ReportKind.RELEASED, lease.task.id, lease.token))
        else:
            assignments.append(assignment)
    return b"".join(assignments), released


def _renewed(lease: Lease) -> pb.RenewLeaseResponse:
    return pb.RenewLeaseResponse(task_id=lease.task.id, lease_expires_at=timestamp(lease.expires_at))


def _lease_secs(request: pb.ClaimTaskRequest | pb.ClaimTasksRequest | pb.RenewLeaseRequest) -> float | None:
    return request.lease_secs if request.HasField("lease_secs") else None
