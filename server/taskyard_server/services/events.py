"""EventService: agents and operators send events to the tasks that wait for their names."""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.struct_pb2 import NULL_VALUE, Value

from taskyard.v1 import event_pb2 as pb
from taskyard.v1.event_pb2_grpc import EventServiceServicer
from taskyard_server.conversion import requests
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.runs.events import MAX_EVENT_BYTES, NewEvent
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import current_call

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

LIFE_SECS: Final = 60.0
MAX_LIFE_SECS: Final = 86_400.0


class EventService(EventServiceServicer):
    """Serves `taskyard.v1.EventService`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def SendEvent(self, request: pb.SendEventRequest, context: Context) -> pb.SendEventResponse:  # noqa: N802
        del context
        access = current_call().access
        life_secs = request.life_secs if request.HasField("life_secs") else LIFE_SECS
        if math.isnan(life_secs) or not 0 <= life_secs <= MAX_LIFE_SECS:
            raise BadRequest(f"lifeSecs: must be from 0 to {MAX_LIFE_SECS:.0f}")
        value = request.payload if request.HasField("payload") else Value(null_value=NULL_VALUE)
        commands = self._engine.events
        new = NewEvent(
            requests.event_name(request.name, "name"),
            requests.path_name(request.event_id, "eventId") if request.event_id else commands.new_id(),
            requests.payload(value, "payload", MAX_EVENT_BYTES),
            life_secs,
            None if access.principal is None else access.principal.name,
            access.agents,
        )
        waiting, is_repeat = await commands.send(
            current_call().namespace, new, is_same=lambda other: Value.FromString(other) == value
        )
        return pb.SendEventResponse(event_id=new.event_id, waiting=waiting, repeated=True if is_repeat else None)
