"""InputService: the inputs of a task that its host has not got along with it."""

from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from taskyard.v1 import input_pb2 as pb
from taskyard.v1.input_pb2_grpc import InputServiceServicer
from taskyard_server.conversion import requests
from taskyard_server.conversion.inputs import encode_input
from taskyard_server.conversion.report_requests import fencing_token
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import current_call

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class InputService(InputServiceServicer):
    """Serves `taskyard.v1.InputService`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def FetchInput(self, request: pb.FetchInputRequest, context: Context) -> Any:  # noqa: N802
        del context
        call = current_call()
        return await self._engine.leases.fetch_input(
            call.namespace,
            requests.host_id(request.host_id),
            request.task_id,
            fencing_token(request.fencing_token),
            requests.path_name(request.name, "name"),
            own_only=call.access.hosts is not None,
            show=encode_input,
        )
