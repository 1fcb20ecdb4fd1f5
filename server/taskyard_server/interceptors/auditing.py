"""Writes the changes of one method down: who made them, on what, and how they ended (docs/operate/security.md, Audit).

Only calls that were let in by the role operator or admin are. What is written of a request and of its answer are the
fields that name things, and the reason that somebody gives, never their content.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from taskyard_server.access.grants import Access, Principal, Role
from taskyard_server.conversion.submit_requests import BatchRequest, TaskRequest
from taskyard_server.core.errors import Refusal
from taskyard_server.logs.audit import AuditLog

from .callers import Call, Context, Headers, address_of, current_call, current_headers
from .errors import refusal_of

NAMES: Final = frozenset(
    {
        "agent_id",
        "batch_id",
        "host_id",
        "namespace",
        "path",
        "replica",
        "schedule_id",
        "target",
        "task_id",
        "token_id",
        "trigger_id",
    }
)
"""The fields that name what is changed. `path` is that of a backup."""


class Auditor:
    """Writes down the changes of one method. `door` is what their callers came by, if it is neither REST nor gRPC."""

    def __init__(self, log: AuditLog, method: str, door: str | None = None) -> None:
        self._log = log
        self._door = door
        service, _, name = method.removeprefix("/").partition("/")
        self._method = f"{service.rpartition('.')[2]}/{name}"
        found = descriptor_pool.Default().FindMethodByName(f"{service}.{name}")
        self._is_stream = bool(found.client_streaming or found.server_streaming)
        self._named = [field.name for field in found.input_type.fields if field.name in NAMES]
        self._has_reason = "reason" in found.input_type.fields_by_name
        self._made = _MadeNames(found.output_type)

    def audited(self, serve: Callable[[Any, Context], Any]) -> Any:
        """The same servicer method, with its calls written down."""
        return self._stream(serve) if self._is_stream else self._unary(serve)

    def note_denied(self, principal: Principal, headers: Headers, context: Context) -> None:
        """Count a change that its caller may not make."""
        self._log.count(
            {
                "event": "denied",
                "principal": principal.name,
                "credential": principal.credential,
                "address": self._address(headers, context),
                "by": _by(headers.by_rest, self._door),
                "method": self._method,
                "outcome": "permission_denied",
            }
        )

    def _unary(self, serve: Callable[[Any, Context], Awaitable[Any]]) -> Any:
        async def serve_audited(request: Any, context: Context) -> Any:
            call = current_call()
            if call.access.role < Role.OPERATOR:
                return await serve(request, context)
            # One that came by REST is there with its bytes.
            message: Any = request[1] if isinstance(request, tuple) else request
            if isinstance(message, (TaskRequest, BatchRequest)):
                message = message.parsed
            fields = self._fields("change", call, context, {name: getattr(message, name) for name in self._named})
            if self._has_reason and message.reason:
                fields["reason"] = message.reason
            self._log.begin()
            outcome = "internal"
            try:
                response = await serve(request, context)
                outcome = "ok"
                fields["on"] |= self._made.names(response)
            except BaseException as error:
                outcome = _outcome(error)
                raise
            finally:
                self._log.end({**fields, "outcome": outcome})
            return response

        return serve_audited

    def _stream(self, serve: Callable[[Any, Context], Awaitable[None]]) -> Any:
        async def serve_audited(stream: Any, context: Context) -> None:
            call = current_call()
            if call.access.role < Role.OPERATOR:
                await serve(stream, context)
                return
            with self._written_down(call, context) as messages:
                await serve(messages.counted(stream), context)

        return serve_audited

    @contextlib.contextmanager
    def _written_down(self, call: Call, context: Context) -> Any:
        """A line at the begin of a stream and one at its end, with the number of its messages and of their tasks."""
        messages = _Messages()
        fields = self._fields("stream_begun", call, context, {})
        self._log.begin()
        self._log.end(fields)
        outcome = "ok"
        try:
            yield messages
        except BaseException as error:
            outcome = _outcome(error)
            raise
        finally:
            counts = {"messages": messages.count, "tasks": messages.tasks or None}
            self._log.write({**fields, "event": "stream_ended", **counts, "on": messages.named, "outcome": outcome})

    def _address(self, headers: Headers, context: Context) -> str:
        return "" if self._door else address_of(headers, context)

    def _fields(self, event: str, call: Call, context: Context, named: dict[str, Any]) -> dict[str, Any]:
        access: Access = call.access
        return {
            "event": event,
            "principal": access.principal.name,
            "credential": access.principal.credential,
            "role": access.role.word,
            "address": self._address(current_headers(), context),
            "by": _by(call.by_rest, self._door),
            "method": self._method,
            "namespace": call.namespace,
            "on": {name: value for name, value in named.items() if value},
        }


class _Messages:
    """Counts what a stream brings, and notes whose it is."""

    def __init__(self) -> None:
        self.count = 0
        self.tasks = 0
        self.named: dict[str, str] = {}

    async def counted(self, stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for message in stream:
            self.count += 1
            if not isinstance(message, Refusal):
                self.tasks += len(getattr(message, "tasks", ()))
                if self.count == 1 and (hello := getattr(message, "hello", None)) is not None:
                    self.named = {"host_id": hello.host_id}
            yield message


class _MadeNames:
    """Reads the names of what was made from an answer: `task_id`, or `schedule.schedule_id`."""

    def __init__(self, message: Descriptor) -> None:
        self._class = GetMessageClass(message)
        self._named = [field.name for field in message.fields if field.name in NAMES and field.message_type is None]
        self._nested = [
            (field.name, f"{field.name}_id")
            for field in message.fields
            if field.message_type is not None
            and f"{field.name}_id" in NAMES
            and f"{field.name}_id" in field.message_type.fields_by_name
        ]

    def names(self, response: Any) -> dict[str, str]:
        """The names by field; an answer may be encoded."""
        if not (self._named or self._nested):
            return {}
        try:
            message: Any = self._class.FromString(response) if isinstance(response, bytes) else response
        except DecodeError:
            return {}
        found = {name: getattr(message, name) for name in self._named}
        found |= {name: getattr(getattr(message, outer), name) for outer, name in self._nested}
        return {name: value for name, value in found.items() if value}


def _outcome(error: BaseException) -> str:
    if isinstance(error, Exception):
        return "aborted" if isinstance(error, grpc.aio.AbortError) else refusal_of(error).code
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "ended"


def _by(by_rest: bool, door: str | None) -> str:
    return door or ("rest" if by_rest else "grpc")
