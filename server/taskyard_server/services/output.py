"""OutputService: hosts append output by calls, callers read it, follow it, and stream it over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeAlias

import grpc
from google.api.httpbody_pb2 import HttpBody

from taskyard.v1 import output_pb2 as pb
from taskyard.v1.output_pb2_grpc import OutputServiceServicer
from taskyard_server.conversion import requests
from taskyard_server.conversion.output import (
    channels_of,
    chunk_event,
    chunk_text,
    encoder,
    event,
    new_chunks,
    selected,
)
from taskyard_server.conversion.task_encoding import STATES
from taskyard_server.core.errors import BadRequest, PermissionDenied, Refusal
from taskyard_server.core.task import TERMINAL, Task
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.output import OutputPart
from taskyard_server.interceptors.callers import current_call

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

SIGN_OF_LIFE_SECS: Final = 15.0
EMPTY_CHUNKS: Final = ("x-rest-empty", "chunks")
"""The gateway adds an empty list of this name (gateway/README.md)."""
LAST_EVENT_ID: Final = "last-event-id"
NOT_SHOWN: Final = "the output of this task is not shown to this principal"
EVENTS: Final = "text/event-stream"
TEXT: Final = "text/plain; charset=utf-8"
STILL_HERE: Final = b":\n\n"
"""A comment, which nobody is told of."""
RECONNECT: Final = b"retry: 1000\n\n"
"""How soon a browser connects again, in milliseconds; its own default is three seconds."""


class OutputService(OutputServiceServicer):
    """Serves `taskyard.v1.OutputService`."""

    def __init__(self, engine: Engine, sign_of_life_secs: float = SIGN_OF_LIFE_SECS) -> None:
        self._engine = engine
        self._sign_of_life_secs = sign_of_life_secs

    async def AppendOutput(  # noqa: N802
        self, request: pb.AppendOutputRequest, context: Context
    ) -> pb.AppendOutputResponse:
        del context
        call, host_id, chunks = current_call(), requests.host_id(request.host_id), new_chunks(request)
        taken = await self._engine.output.append(
            call.namespace,
            host_id,
            [chunks],
            encoder([chunks]),
            own_only=call.access.hosts is not None,
        )
        (outcome,) = await taken
        if isinstance(outcome, Refusal):
            raise outcome
        return pb.AppendOutputResponse(task_id=request.task_id, taken=outcome)

    async def ListOutput(self, request: pb.ListOutputRequest, context: Context) -> Any:  # noqa: N802
        channels = channels_of(request.channels)
        part = await self._read(request.task_id, request.after)
        about = pb.ListOutputResponse(
            next_after=part.after,
            is_last=part.is_last,
            state=STATES[part.state],
            first_sequence=part.first,
            dropped_bytes=part.dropped,
        )
        chunks = _chunks(part, request.after, channels)
        if not chunks and current_call().by_rest:
            await context.send_initial_metadata((EMPTY_CHUNKS,))
        return chunks + about.SerializeToString()

    async def ReadOutput(self, request: pb.ReadOutputRequest, context: Context) -> AsyncIterator[Any]:  # noqa: N802
        del context
        channels = channels_of(request.channels)
        async for after, part in self._parts(request.task_id, request.after, request.follow):
            about = pb.ReadOutputResponse(
                next_after=part.after,
                state=STATES[part.state],
                first_sequence=part.first,
                dropped_bytes=part.dropped,
            )
            yield _chunks(part, after, channels) + about.SerializeToString()

    async def StreamOutput(  # noqa: N802
        self, request: pb.StreamOutputRequest, context: Context
    ) -> AsyncIterator[HttpBody]:
        channels = channels_of(request.channels)
        if request.format == "events":
            after = _last_event_id(context)
            events = self._events(request.task_id, request.after if after is None else after, channels)
            async for data in events:
                yield HttpBody(content_type=EVENTS, data=data)
        elif request.format == "text":
            async for data in self._text(request, channels):
                yield HttpBody(content_type=TEXT, data=data)
        else:
            raise BadRequest("format: must be events or text")

    async def _events(self, task_id: str, after: int, channels: frozenset[str]) -> AsyncIterator[bytes]:
        """The output of a task as server-sent events, until it has ended."""
        state, head = "", RECONNECT
        async for at, part in self._parts(task_id, after, follow=True):
            events = [chunk_event(chunk) for chunk in _messages(part, at, channels)]
            if (lost := part.first - 1 - at) > 0:
                events.insert(0, event(json.dumps({"chunks": lost}), "dropped"))
            yield head + (b"".join(events) or STILL_HERE)
            head = b""
            state = part.state.value
        yield event(json.dumps({"state": state}), "end")

    async def _text(self, request: pb.StreamOutputRequest, channels: frozenset[str]) -> AsyncIterator[bytes]:
        """The output of a task as text."""
        async for at, part in self._parts(request.task_id, request.after, request.follow):
            texts = [chunk_text(chunk) for chunk in _messages(part, at, channels)]
            if (lost := part.first - 1 - at) > 0:
                texts.insert(0, f"[{lost} earlier chunks were dropped to make room]\n".encode())
            yield b"".join(texts)

    async def _parts(self, task_id: str, after: int, follow: bool) -> AsyncIterator[tuple[int, OutputPart]]:
        """The parts of a task's output, each with the number that it comes after; the first and the last may be empty.

        With `follow` until the task has ended. Where nothing comes for a while, a part that is empty does.
        """
        namespace, output = current_call().namespace, self._engine.output
        must_tell = True
        while True:
            part = await self._read(task_id, after)
            is_over = part.is_last and (not follow or part.state in TERMINAL)
            if part.rows or must_tell or is_over:
                yield after, part
            if is_over:
                return
            must_tell, after = False, part.after
            if part.is_last:
                must_tell = not await output.wait(namespace, task_id, after, self._sign_of_life_secs)

    async def _read(self, task_id: str, after: int) -> OutputPart:
        call = current_call()
        access = call.access

        def check(task: Task) -> None:
            if access.payloads is not None and task.agent_id not in access.payloads:
                raise PermissionDenied(NOT_SHOWN)

        return await self._engine.output.read(call.namespace, task_id, after, agents=access.agents, check=check)


def _chunks(part: OutputPart, after: int, channels: frozenset[str]) -> bytes:
    """The encoded chunks of a part that are wanted."""
    rows = part.rows
    if channels or (rows and rows[0].first <= after):
        return b"".join(selected(row.chunks, after, channels) for row in rows)
    return b"".join(row.chunks for row in rows)


def _messages(part: OutputPart, after: int, channels: frozenset[str]) -> Sequence[pb.OutputChunk]:
    return pb.ReadOutputResponse.FromString(_chunks(part, after, channels)).chunks


def _last_event_id(context: Context) -> int | None:
    """The number of the last chunk that a browser has seen on a connection before this one; None if it tells none."""
    for name, value in context.invocation_metadata() or ():
        if name == LAST_EVENT_ID and isinstance(value, str) and value.isascii() and value.isdigit():
            return min(int(value[:10]), 2**32 - 1)
    return None
