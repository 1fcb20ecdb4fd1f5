"""OperationService: what is done to many tasks at once (docs/rules.md, Operations)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import operation_pb2 as pb
from taskyard.v1.operation_pb2_grpc import OperationServiceServicer
from taskyard_server.access.grants import Access
from taskyard_server.conversion.operations import Request, dry_run_message, operation_message, operation_request
from taskyard_server.conversion.page_tokens import page_size
from taskyard_server.conversion.responses import MAX_PAGE_BYTES
from taskyard_server.core.operations.operation import Operation, OperationKind
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import current_call

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

CANCEL: Final = OperationKind.CANCEL
PAUSE: Final = OperationKind.PAUSE
RESUME: Final = OperationKind.RESUME
RESOLVE: Final = OperationKind.RESOLVE
REPRIORITIZE: Final = OperationKind.REPRIORITIZE


class OperationService(OperationServiceServicer):
    """Serves `taskyard.v1.OperationService`."""

    def __init__(self, engine: Engine, max_payload_bytes: int) -> None:
        self._engine = engine
        self._max_payload_bytes = max_payload_bytes

    async def CancelTasks(self, request: pb.CancelTasksRequest, context: Context) -> pb.CancelTasksResponse:  # noqa: N802
        del context
        return pb.CancelTasksResponse(operation=await self._begin(request, CANCEL))

    async def PauseTasks(self, request: pb.PauseTasksRequest, context: Context) -> pb.PauseTasksResponse:  # noqa: N802
        del context
        return pb.PauseTasksResponse(operation=await self._begin(request, PAUSE))

    async def ResumeTasks(self, request: pb.ResumeTasksRequest, context: Context) -> pb.ResumeTasksResponse:  # noqa: N802
        del context
        return pb.ResumeTasksResponse(operation=await self._begin(request, RESUME))

    async def ResolveTasks(  # noqa: N802
        self, request: pb.ResolveTasksRequest, context: Context
    ) -> pb.ResolveTasksResponse:
        del context
        return pb.ResolveTasksResponse(operation=await self._begin(request, RESOLVE))

    async def ReprioritizeTasks(  # noqa: N802
        self, request: pb.ReprioritizeTasksRequest, context: Context
    ) -> pb.ReprioritizeTasksResponse:
        del context
        return pb.ReprioritizeTasksResponse(operation=await self._begin(request, REPRIORITIZE))

    async def GetOperation(  # noqa: N802
        self, request: pb.GetOperationRequest, context: Context
    ) -> pb.GetOperationResponse:
        del context
        call = current_call()
        operation = await self._engine.operations.get(
            call.namespace, request.operation_id, agents=call.access.agents, show=_shown_to(call.access)
        )
        return pb.GetOperationResponse(operation=operation)

    async def ListOperations(  # noqa: N802
        self, request: pb.ListOperationsRequest, context: Context
    ) -> pb.ListOperationsResponse:
        del context
        call = current_call()
        listing = call.listing("operations")
        before = listing.start(request.page_token)
        limit = page_size(request.page_size)
        show = _shown_to(call.access)

        def page(operations: list[Operation]) -> pb.ListOperationsResponse:
            response, size = pb.ListOperationsResponse(), 0
            last = 0
            for operation in operations:
                message = show(operation)
                size += message.ByteSize()
                if len(response.operations) == limit or (response.operations and size > MAX_PAGE_BYTES):
                    response.next_page_token = listing.token(last)
                    break
                response.operations.append(message)
                last = operation.number
            return response

        return await self._engine.operations.list_operations(
            call.namespace, before, agents=call.access.agents, show=page
        )

    async def CancelOperation(  # noqa: N802
        self, request: pb.CancelOperationRequest, context: Context
    ) -> pb.CancelOperationResponse:
        del context
        call = current_call()
        operation = await self._engine.operations.cancel(
            call.namespace, request.operation_id, agents=call.access.agents, show=_shown_to(call.access)
        )
        return pb.CancelOperationResponse(operation=operation)

    async def _begin(self, request: Request, kind: OperationKind) -> pb.Operation:
        call = current_call()
        asked = operation_request(request, kind, call.access.agents, self._max_payload_bytes)
        if request.dry_run:
            return dry_run_message(kind, await self._engine.operations.count(call.namespace, asked))
        return await self._engine.operations.begin(call.namespace, asked, show=operation_message)


def _shown_to(access: Access) -> Callable[[Operation], pb.Operation]:
    """How a caller is shown operations: without the texts that they look for in contents that it is not shown."""
    return partial(operation_message, is_bare=access.agents is None and access.payloads is not None)
