"""StoreService: checks, backups and figures of the store, for the admin socket and for commands without a server."""

from __future__ import annotations

import os
from typing import Any

import grpc

from taskyard.v1 import store_pb2 as pb
from taskyard.v1.store_pb2_grpc import StoreServiceServicer
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.core.errors import BadRequest, Conflict, Unavailable
from taskyard_server.store.port import UNKNOWN_BYTES, BackupFailed, CommitDelayed, Store, StoreError


class StoreService(StoreServiceServicer):
    """Serves `taskyard.v1.StoreService` for an opened store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def CheckStore(  # noqa: N802
        self, request: pb.CheckStoreRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.CheckStoreResponse:
        del request, context
        try:
            return pb.CheckStoreResponse(problems=await self._store.check())
        except (BackupFailed, CommitDelayed, StoreError) as error:
            raise Unavailable(str(error)) from None

    async def BackupStore(  # noqa: N802
        self, request: pb.BackupStoreRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.BackupStoreResponse:
        del context
        if not os.path.isabs(request.path):
            raise BadRequest("path: must be absolute")
        try:
            await self._store.backup(request.path)
            return pb.BackupStoreResponse(bytes=_bytes_of(request.path))
        except (BackupFailed, CommitDelayed, StoreError, OSError) as error:
            raise Conflict(str(error)) from None

    async def GetStoreStats(  # noqa: N802
        self, request: pb.GetStoreStatsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetStoreStatsResponse:
        del request, context
        try:
            stats = await self._store.stats()
        except (CommitDelayed, StoreError) as error:
            raise Unavailable(str(error)) from None
        return pb.GetStoreStatsResponse(
            url=self._store.url,
            used_bytes=stats.used_bytes,
            free_bytes=0 if stats.free_bytes == UNKNOWN_BYTES else stats.free_bytes,
            rows=stats.rows,
            commit_number=stats.number,
            committed_at=timestamp(stats.at) if stats.number else None,
            epoch=stats.epoch,
            format_version=stats.version,
        )


def _bytes_of(path: str) -> int:
    """The size of a backup: a file, or a folder of files."""
    if not os.path.isdir(path):
        return os.stat(path).st_size
    return sum(os.stat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)
