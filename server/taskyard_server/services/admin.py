"""AdminService: the current configuration, its reload, and the graceful shutdown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from taskyard.v1 import admin_pb2 as pb
from taskyard.v1.admin_pb2_grpc import AdminServiceServicer
from taskyard_server.config import ConfigError, by_key
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.core.errors import Conflict
from taskyard_server.engine.port import Engine
from taskyard_server.live_config import LiveConfig


class AdminService(AdminServiceServicer):
    """Serves `taskyard.v1.AdminService`.

    `drain` starts a shutdown with a grace period in seconds, None for the configured one, and returns its deadline.
    """

    def __init__(self, engine: Engine, config: LiveConfig, drain: Callable[[float | None], float]) -> None:
        self._engine = engine
        self._config = config
        self._drain = drain

    async def GetConfig(  # noqa: N802
        self, request: pb.GetConfigRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetConfigResponse:
        del request, context
        config = self._config
        settings = by_key(config.settings)
        response = pb.GetConfigResponse(
            sources={key: config.sources.get(key, "default") for key in settings},
            loaded_at=None if config.loaded_at is None else timestamp(config.loaded_at),
            error=config.error,
        )
        response.config.update(config.settings.model_dump(mode="json", by_alias=True))
        return response

    async def ReloadConfig(  # noqa: N802
        self, request: pb.ReloadConfigRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.ReloadConfigResponse:
        del request, context
        if self._config.loaded_at is None:
            raise Conflict("the server was started without a configuration file")
        try:
            reload = self._config.reload()
        except ConfigError as error:
            raise Conflict(str(error)) from None
        return pb.ReloadConfigResponse(changed=reload.changed, needs_restart=reload.needs_restart)

    async def DrainServer(  # noqa: N802
        self, request: pb.DrainServerRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.DrainServerResponse:
        del context
        deadline = self._drain(request.grace_period_secs if request.HasField("grace_period_secs") else None)
        return pb.DrainServerResponse(
            draining=True, inflight=self._engine.admin.totals().inflight, deadline=timestamp(deadline)
        )
