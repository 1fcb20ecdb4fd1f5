"""HealthService: whether the server lives, and whether it takes tasks (docs/rules.md, Health)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import grpc

from taskyard.v1 import health_pb2 as pb
from taskyard.v1.health_pb2_grpc import HealthServiceServicer
from taskyard_server.core.errors import Unavailable

OK: Final = "ok"


class HealthService(HealthServiceServicer):
    """Serves `taskyard.v1.HealthService`. `obstacle` answers why no calls should come here, None if they may."""

    def __init__(self, obstacle: Callable[[], str | None]) -> None:
        self._obstacle = obstacle

    async def GetHealth(  # noqa: N802
        self, request: pb.GetHealthRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetHealthResponse:
        del request, context
        return pb.GetHealthResponse(status=OK)

    async def GetReadiness(  # noqa: N802
        self, request: pb.GetReadinessRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetReadinessResponse:
        del request, context
        obstacle = self._obstacle()
        if obstacle is not None:
            raise Unavailable(obstacle)
        return pb.GetReadinessResponse(status=OK)
