"""ArtifactService: hosts and submitters upload artifacts in parts, callers read them, whole or a range."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, TypeAlias

import grpc
from google.api.httpbody_pb2 import HttpBody

from taskyard.v1 import artifact_pb2 as pb
from taskyard.v1.artifact_pb2_grpc import ArtifactServiceServicer
from taskyard_server.conversion import requests
from taskyard_server.conversion.artifacts import artifact_message, bytes_of, new_part, range_of
from taskyard_server.conversion.report_requests import fencing_token
from taskyard_server.core.errors import PermissionDenied
from taskyard_server.core.history import Artifact
from taskyard_server.core.runs.artifacts import Right
from taskyard_server.core.task import Task
from taskyard_server.engine.artifacts import KeptArtifact, Uploaded
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import current_call
from taskyard_server.interceptors.errors import HTTP_STATUS_KEY

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

NOT_SHOWN: Final = "the artifacts of this task are not shown to this principal"
TYPE_KEY: Final = "x-rest-type"
LENGTH_KEY: Final = "x-rest-length"
"""The gateway makes these the content type and length (gateway/README.md)."""
HARMLESS: Final = (
    ("accept-ranges", "bytes"),
    ("cache-control", "private, no-cache"),
    ("content-security-policy", "sandbox; default-src 'none'"),
    ("x-content-type-options", "nosniff"),
)
"""A host chooses bytes and type, and the page of the gateway is that of the console: nothing of it is to be run."""


class ArtifactService(ArtifactServiceServicer):
    """Serves `taskyard.v1.ArtifactService`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def UploadArtifact(  # noqa: N802
        self, request: pb.UploadArtifactRequest, context: Context
    ) -> pb.UploadArtifactResponse:
        del context
        call = current_call()
        right = _lease(request)._replace(child=request.child)
        uploaded = await self._engine.artifacts.upload(call.namespace, right, new_part(request))
        return pb.UploadArtifactResponse(
            task_id=request.task_id, received_bytes=uploaded.received, artifact=_shown(uploaded)
        )

    async def AttachArtifact(  # noqa: N802
        self, request: pb.AttachArtifactRequest, context: Context
    ) -> pb.AttachArtifactResponse:
        del context
        call = current_call()
        right = Right(request.task_id, agents=call.access.agents)
        uploaded = await self._engine.artifacts.upload(call.namespace, right, new_part(request))
        return pb.AttachArtifactResponse(
            task_id=request.task_id, received_bytes=uploaded.received, artifact=_shown(uploaded)
        )

    async def ReadArtifact(  # noqa: N802
        self, request: pb.ReadArtifactRequest, context: Context
    ) -> AsyncIterator[HttpBody]:
        call = current_call()
        access, name = call.access, requests.path_name(request.name, "name")

        def check(task: Task) -> None:
            if access.payloads is not None and task.agent_id not in access.payloads:
                raise PermissionDenied(NOT_SHOWN)

        artifacts = self._engine.artifacts
        kept = await artifacts.find(call.namespace, request.task_id, name, agents=access.agents, check=check)
        async for body in self._bytes(kept, request, context):
            yield body

    async def FetchArtifact(  # noqa: N802
        self, request: pb.FetchArtifactRequest, context: Context
    ) -> AsyncIterator[HttpBody]:
        name, namespace = requests.path_name(request.name, "name"), current_call().namespace
        kept = await self._engine.artifacts.find_under(namespace, _lease(request), name, request.input)
        async for body in self._bytes(kept, request, context):
            yield body

    async def _bytes(
        self, kept: KeptArtifact, request: pb.ReadArtifactRequest | pb.FetchArtifactRequest, context: Context
    ) -> AsyncIterator[HttpBody]:
        artifact = kept.artifact
        start, end = bytes_of(request, artifact.size)
        if current_call().by_rest:
            status = "200"
            if (asked := _asked_range(context, artifact)) is not None:
                status, (start, end) = "206", asked
            await context.send_initial_metadata(_headers(artifact, status, start, end))
        media_type = artifact.media_type
        if start == end:
            yield HttpBody(content_type=media_type)
        async for data in self._engine.artifacts.read(kept, start, end):
            yield HttpBody(content_type=media_type, data=data)
            media_type = ""


def _lease(request: pb.UploadArtifactRequest | pb.FetchArtifactRequest) -> Right:
    return Right(
        request.task_id,
        requests.host_id(request.host_id),
        fencing_token(request.fencing_token),
        own_only=current_call().access.hosts is not None,
    )


def _shown(uploaded: Uploaded) -> pb.Artifact | None:
    return None if uploaded.artifact is None else artifact_message(uploaded.artifact)


def _asked_range(context: Context, artifact: Artifact) -> tuple[int, int] | None:
    """The range that a REST caller asks for, unless it is one of an earlier artifact of the name."""
    headers = dict(context.invocation_metadata() or ())
    asked, only_if = headers.get("range"), headers.get("if-range")
    if not isinstance(asked, str) or (only_if is not None and only_if != _etag(artifact)):
        return None
    return range_of(asked, artifact.size)


def _headers(artifact: Artifact, status: str, start: int, end: int) -> tuple[tuple[str, str], ...]:
    ranged = (("content-range", f"bytes {start}-{end - 1}/{artifact.size}"),) if status == "206" else ()
    return (
        (HTTP_STATUS_KEY, status),
        (TYPE_KEY, artifact.media_type),
        (LENGTH_KEY, str(end - start)),
        ("etag", _etag(artifact)),
        ("content-disposition", f'attachment; filename="{artifact.name}"'),
        *ranged,
        *HARMLESS,
    )


def _etag(artifact: Artifact) -> str:
    return f'"{artifact.sha256.hex()}"'
