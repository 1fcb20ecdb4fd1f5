"""BatchService: several tasks of one agent in one call (docs/rules.md, Batches)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import grpc

from taskyard.v1 import batch_pb2 as pb
from taskyard.v1.batch_pb2_grpc import BatchServiceServicer
from taskyard_server.access.grants import Access
from taskyard_server.conversion.page_tokens import page_size
from taskyard_server.conversion.requests import reason
from taskyard_server.conversion.responses import error_message, task_page
from taskyard_server.conversion.submissions import DefaultRetry, no_default_retry
from taskyard_server.conversion.submit_requests import BatchRequest
from taskyard_server.conversion.task_encoding import STATES, encode_batch
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.conversion.wire import tag
from taskyard_server.core.batches import Batch, BatchSubmission
from taskyard_server.core.errors import BadRequest, BatchTooLarge, QueueFull, Refusal
from taskyard_server.core.task import CANCELLED, REJECTED
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.fair_yield import SMALL
from taskyard_server.interceptors.callers import current_call

from .shown_tasks import shown_refusal, task_encoder

TASKS: Final = tag(pb.GetBatchResponse, "tasks")


class BatchService(BatchServiceServicer):
    """Serves `taskyard.v1.BatchService`."""

    def __init__(
        self,
        engine: Engine,
        max_batch_size: int,
        max_payload_bytes: int,
        default_retry: DefaultRetry = no_default_retry,
    ) -> None:
        self._engine = engine
        self._default_retry = default_retry
        self._max_batch_size = max_batch_size
        self._max_payload_bytes = max_payload_bytes

    async def SubmitBatch(  # noqa: N802
        self,
        request: BatchRequest,  # type: ignore[override]
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> Any:
        del context
        if not request.agent_id:
            raise BadRequest("agentId: is required")
        if not request.count:
            raise BadRequest("tasks: must not be empty")
        if request.count > self._max_batch_size:
            raise BatchTooLarge(f"tasks: must be at most {self._max_batch_size}, are {request.count}")
        call = current_call()
        if request.count > SMALL:
            await self._engine.fair_yield.take(request.count)
        submissions = request.submissions(call.traceparent, self._max_payload_bytes, self._default_retry)
        return await self._engine.tasks.submit_batch(
            call.namespace, submissions, agents=call.access.agents, show=partial(_submitted, call.access)
        )

    async def GetBatch(  # noqa: N802
        self, request: pb.GetBatchRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Any:
        del context
        call = current_call()
        listing = call.listing("batch", request.batch_id)
        encode_task = task_encoder(call.access)
        after = listing.start(request.page_token)
        limit = page_size(request.page_size)

        def encode(batch: Batch) -> bytes:
            listed = [task for task in batch.tasks.values() if task.seq > after]
            tasks, next_after = task_page(TASKS, listed, limit, encode=encode_task)
            response = pb.GetBatchResponse(
                batch_id=batch.id,
                agent_id=batch.agent_id,
                created_at=timestamp(batch.created_at),
                states={state.value: count for state, count in batch.states().items()},
                ended=batch.ended(),
                count=len(tasks),
            )
            if next_after is not None:
                response.next_page_token = listing.token(next_after)
            return b"".join([response.SerializeToString(), *tasks])

        return await self._engine.tasks.get_batch(
            call.namespace, request.batch_id, agents=call.access.agents, show=encode
        )

    async def CancelBatch(  # noqa: N802
        self, request: pb.CancelBatchRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.CancelBatchResponse:
        del context
        call = current_call()
        cancelled = await self._engine.tasks.cancel_batch(
            call.namespace, request.batch_id, reason=reason(request.reason), agents=call.access.agents
        )
        return pb.CancelBatchResponse(status=STATES[CANCELLED], batch_id=request.batch_id, cancelled=cancelled)


def _submitted(access: Access, submission: BatchSubmission) -> bytes:
    return encode_batch(submission, partial(_encode_refusal, access))


def _encode_refusal(access: Access, refusal: Refusal) -> bytes:
    message = pb.BatchOutcome(state=STATES[REJECTED], error=error_message(shown_refusal(access, refusal)))
    if isinstance(refusal, QueueFull):
        message.task_id = refusal.task.id
    return message.SerializeToString()
