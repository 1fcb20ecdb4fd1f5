"""LimitService: the limits of concurrency keys, and the keys in use (docs/rules.md, Concurrency keys)."""

from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from taskyard.v1 import limit_pb2 as pb
from taskyard.v1.limit_pb2_grpc import LimitServiceServicer
from taskyard_server.conversion.page_tokens import page_size
from taskyard_server.conversion.rules import key_limit, limit_message, pattern_in, usage_message
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import current_call

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class LimitService(LimitServiceServicer):
    """Serves `taskyard.v1.LimitService`."""

    def __init__(self, engine: Engine) -> None:
        self._rules = engine.rules

    async def ListLimits(self, request: pb.ListLimitsRequest, context: Context) -> pb.ListLimitsResponse:  # noqa: N802
        del context
        call = current_call()
        listing = call.listing("limits")
        after, limit = listing.start_name(request.page_token), page_size(request.page_size)
        found = await self._rules.list_limits(call.namespace, after, limit + 1)
        keys = found.keys[:limit]
        return pb.ListLimitsResponse(
            limits=[limit_message(each) for each in found.limits],
            keys=[usage_message(each) for each in keys],
            next_page_token=listing.token(keys[-1].key) if len(found.keys) > limit else None,
        )

    async def PutLimit(self, request: pb.PutLimitRequest, context: Context) -> pb.PutLimitResponse:  # noqa: N802
        del context
        pattern, limit = pattern_in(request.pattern), key_limit(request)
        put = await self._rules.put_limit(current_call().namespace, pattern, limit)
        return pb.PutLimitResponse(limit=limit_message(put))

    async def DeleteLimit(self, request: pb.DeleteLimitRequest, context: Context) -> pb.DeleteLimitResponse:  # noqa: N802
        del context
        left = await self._rules.delete_limit(current_call().namespace, pattern_in(request.pattern))
        return pb.DeleteLimitResponse(limit=None if left is None else limit_message(left))
