"""AdminService: the current configuration, its reload, the graceful shutdown, and the replicas that share the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc

from taskyard.v1 import admin_pb2 as pb
from taskyard.v1.admin_pb2_grpc import AdminServiceServicer
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.core.errors import BadRequest, Conflict
from taskyard_server.engine.directories import ReplicaDirectory
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.views import ReplicaView
from taskyard_server.settings.config import ConfigError, by_key
from taskyard_server.settings.live_config import LiveConfig

NOT_SHARED: Final = "this server shares its store with no others: store.url is not a PostgreSQL"


class AdminService(AdminServiceServicer):
    """Serves `taskyard.v1.AdminService`.

    `drain` starts a shutdown with a grace period in seconds, None for the configured one, and returns its deadline.
    `replicas` is None where the store is not one that replicas share.
    """

    def __init__(
        self,
        engine: Engine,
        config: LiveConfig,
        drain: Callable[[float | None], float],
        replicas: ReplicaDirectory | None = None,
    ) -> None:
        self._engine = engine
        self._config = config
        self._drain = drain
        self._replicas = replicas

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

    async def ListReplicas(  # noqa: N802
        self, request: pb.ListReplicasRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.ListReplicasResponse:
        del request, context
        if self._replicas is None:
            return pb.ListReplicasResponse()
        views = await self._replicas.replicas()
        return pb.ListReplicasResponse(replicas=map(_message_of, views), format_level=self._replicas.level)

    async def DrainReplica(  # noqa: N802
        self, request: pb.DrainReplicaRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.DrainReplicaResponse:
        del context
        views = await self._let_drain(request.replica, True)
        return pb.DrainReplicaResponse(replicas=map(_message_of, views))

    async def ResumeReplica(  # noqa: N802
        self, request: pb.ResumeReplicaRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.ResumeReplicaResponse:
        del context
        views = await self._let_drain(request.replica, False)
        return pb.ResumeReplicaResponse(replicas=map(_message_of, views))

    async def _let_drain(self, name: str, is_draining: bool) -> Sequence[ReplicaView]:
        if not name:
            raise BadRequest("replica: is required")
        if self._replicas is None:
            raise Conflict(NOT_SHARED)
        return await self._replicas.drain(name, is_draining)


def _message_of(view: ReplicaView) -> pb.Replica:
    return pb.Replica(
        name=view.name,
        instance=view.instance,
        address=view.address,
        version=view.version,
        format_level=view.level,
        started_at=timestamp(view.started_at),
        renewed_at=timestamp(view.renewed_at),
        died_at=None if view.died_at is None else timestamp(view.died_at),
        draining=view.is_draining,
        namespaces=view.namespaces,
        answering=view.is_this,
    )
