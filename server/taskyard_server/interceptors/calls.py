"""The interceptor around every RPC.

It reads who calls from the metadata, lets the call in or not, compares the message of a REST call with its request
target, lets the servicer run, makes a status of what it raises, and logs one line. Servicers ask `current_call()` for
the namespace and for what the call may touch.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isasyncgenfunction
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import grpc
import structlog
from google.protobuf import descriptor_pool
from google.protobuf.message import DecodeError

from taskyard_server.access.requirements import requirement_of
from taskyard_server.conversion.submit_requests import READERS
from taskyard_server.conversion.watch_ends import LAST_MESSAGES
from taskyard_server.core.errors import BadRequest, NotOwner, Refusal, TooLarge
from taskyard_server.logs.throttle import Throttle

from .admission import CallAdmission, Entry, Gate
from .callers import Call, Headers, current_call, current_headers, read_headers, set_current_call, set_current_headers
from .compression import BadCompression, uncompressed
from .errors import MAPPINGS, message_of, refusal_of, trailing_metadata
from .first_message import FirstMessages
from .head import HeadContext, HeadersSent
from .lease_guard import LeaseGuard
from .request_target import TargetCheck, target_check
from .unknown_fields import IgnoredFields, is_strict, refusing_unknown

log = structlog.get_logger(__name__)

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The largest message that is read. grpc's own limit is above it, so that callers get the documented error."""
MAX_NAMESPACE_CHARS: Final = 64
GUARDED: Final = ("/taskyard.", "/externalscaler.")
"""The beginnings of methods whose refusals are ours."""
PROBES: Final = "/taskyard.v1.HealthService/"
"""The beginning of methods that supervisors call all the time: what they would tell is in the log already."""
LAST_MESSAGE_SECS: Final = 1.0
MALFORMED: Final = "request: is not a valid message, or nests too deep"

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class Door(Protocol):
    """Lets calls in to the namespaces that this server owns, where replicas share them. `life` counts its deaths."""

    @property
    def life(self) -> int:
        """Calls begun in one life are told to nobody in the next one."""

    def enter(self, method: str, namespace: str) -> Awaitable[None] | None:
        """None if a call is to be served here and now; else it is to wait for that. It raises `NotOwner` if not."""

    def may_tell(self, life: int) -> Awaitable[None] | None:
        """None if what a call has to tell may be told; else it is to wait for that. It raises `Unavailable` if not."""


class CallArrivals(Protocol):
    """Lets what is large give way to calls that come."""

    def call_comes(self) -> None:
        """A call has come, whose message is still to be read."""

    def call_came(self) -> None:
        """A call that had come is served in this pass of the event loop."""


class CallTracer(Protocol):
    """Makes spans of calls."""

    def around(
        self, method: str, serve: Callable[[Any, Any], Awaitable[Any]], is_stream: bool
    ) -> Callable[[Any, Any], Awaitable[Any]]:
        """The same handler, with spans of its calls."""


class RestRequest(NamedTuple):
    """The message of a REST call, and its bytes."""

    encoded: bytes
    message: Any


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Wraps each handler once for gRPC and once for REST, and keeps it. Without `admission` everybody is admin.

    `takes_certificates` says that callers may be known by a client certificate at this server. Without a `door` all
    namespaces are served here, and without a `tracer` no call has a span. `refused` counts, by code, the calls that end
    with an error. `arrivals` are told of every call that comes, and `ignored` takes note of fields that nobody knows.
    """

    def __init__(
        self,
        admission: CallAdmission | None = None,
        takes_certificates: bool = True,
        door: Door | None = None,
        tracer: CallTracer | None = None,
        refused: Counter[str] | None = None,
        arrivals: CallArrivals | None = None,
        ignored: IgnoredFields | None = None,
    ) -> None:
        self._admission = admission
        self._refused: Counter[str] = Counter() if refused is None else refused
        self._door = door
        self._arrivals = arrivals
        self._ignored = IgnoredFields() if ignored is None else ignored
        self._tracer = tracer
        self._takes_certificates = takes_certificates
        self._wrapped: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        self._wrapped_for_rest: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        self._throttle = Throttle("requests")
        self._logs_all = log.is_enabled_for(logging.DEBUG)
        self._messages = FirstMessages()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Answer the handler of this method, wrapped."""
        method = handler_call_details.method
        headers = read_headers(handler_call_details.invocation_metadata)
        # The handler runs in the same context.
        set_current_headers(headers)
        by_rest = headers.by_rest
        remembered = self._wrapped_for_rest if by_rest else self._wrapped
        wrapped = remembered.get(method)
        if wrapped is None:
            handler = await continuation(handler_call_details)
            if handler is None:
                return None
            if not (method.startswith(GUARDED) or self._is_guarded(method)):
                return _opening(handler, self._messages)
            check = _target_check(method) if by_rest else None
            wrapped = self._wrap(method, handler) if check is None else self._wrap_for_rest(method, handler, check)
            remembered[method] = wrapped
        if self._admission is not None and self._is_guarded(method):
            metadata = handler_call_details.invocation_metadata
            refusal = self._admission.refusal_by_metadata(metadata, self._takes_certificates)
            if refusal is not None and await self._admission.is_known_now(metadata):
                refusal = self._admission.refusal_by_metadata(metadata, self._takes_certificates)
            if refusal is not None:
                return self._refusing(method, self._admission.gate(method), refusal)
        if self._arrivals is not None:
            self._arrivals.call_comes()
        return wrapped

    def _refusing(self, method: str, gate: Gate, refusal: Refusal) -> grpc.RpcMethodHandler[Any, Any]:
        """A handler that refuses a call without waiting for its message."""

        async def refuse(_: object, context: Context) -> None:
            refusing = self._refuse(method, time.perf_counter(), refusal, context, gate, current_headers())
            del context
            await refusing

        return grpc.stream_stream_rpc_method_handler(refuse)

    def _is_guarded(self, method: str) -> bool:
        """True if a method of a service that is not ours needs more than to be called."""
        return self._admission is not None and not self._admission.gate(method).requirement.anyone

    def _wrap_for_rest(
        self, method: str, handler: grpc.RpcMethodHandler[Any, Any], check: TargetCheck
    ) -> grpc.RpcMethodHandler[Any, Any]:
        parse = _with_bytes(READERS.get(method, handler.request_deserializer))
        serialize = _unless_bytes(handler.response_serializer)
        if handler.response_streaming:
            stream = self._around(method, _checked_stream(_writing(handler.unary_stream), check), True)
            return grpc.stream_stream_rpc_method_handler(stream, parse, serialize)
        unary = self._around(method, self._ignored.around(method, _checked(handler.unary_unary, check)))
        return grpc.stream_unary_rpc_method_handler(unary, parse, serialize)

    def _wrap(self, method: str, handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
        parse = READERS.get(method, handler.request_deserializer)
        if is_strict(method):
            parse = refusing_unknown(parse)
        codecs = (_tolerant(parse), handler.response_serializer)
        takes_stream = handler.request_streaming
        serve: Any = handler.stream_unary or handler.unary_unary
        make: Any = grpc.stream_unary_rpc_method_handler
        if handler.response_streaming:
            serve = _writing(handler.stream_stream or handler.unary_stream)
            make = grpc.stream_stream_rpc_method_handler
        around = self._around(method, serve, handler.response_streaming or takes_stream, takes_stream)
        return make(around, codecs[0], _unless_bytes(codecs[1]))  # type: ignore[no-any-return]

    def _around(
        self,
        method: str,
        serve: Callable[[Any, Context], Awaitable[Any]],
        is_stream: bool = False,
        takes_stream: bool = False,
    ) -> Any:
        gate = None if self._admission is None else self._admission.gate(method)
        if gate is not None:
            serve = gate.audited(serve)
        # What anyone may ask, unless by a link, is about this server, and is told by one that has lost its trust, too.
        requirement = requirement_of(method)
        if self._door is not None and (requirement.by_link or not requirement.anyone):
            serve = _behind(self._door, method, serve)
        if self._tracer is not None:
            serve = self._tracer.around(method, serve, is_stream)

        is_logged = self._logs_all and not method.startswith(PROBES)
        ok = _kind(method, "ok")
        arrivals = self._arrivals
        first_of = self._messages.read
        last_message = LAST_MESSAGES.get(method)

        async def around(request: Any, context: Context) -> Any:
            begin = time.perf_counter()
            entry: Entry | None = None
            headers = current_headers()
            try:
                try:
                    if not takes_stream:
                        request = await first_of(context)
                        begin = time.perf_counter()
                finally:
                    if arrivals is not None:
                        arrivals.call_came()
                if gate is None:
                    call = headers.call()
                else:
                    entry = gate.enter(headers, context)
                    call = headers.call(entry.access, gate.seal, entry.pace)
                set_current_call(call)
                _check(request, call, gate, headers, context)
                response = await serve(request, context)
            except asyncio.CancelledError:
                if gate is None or (ended := gate.end_of(entry)) is None:
                    raise
                if last_message is not None and headers.by_rest:
                    await _say(context, last_message(message_of(ended)))
                refusing = self._refuse(method, begin, ended, context, gate, headers)
                del request, context
                await refusing
            except Exception as error:
                refusing = self._refuse(method, begin, error, context, gate, headers)
                del request, context
                await refusing
            else:
                if is_logged and self._throttle.admits(ok):
                    log.debug("request", **_line(method, headers, begin, "ok"))
                return response
            finally:
                if gate is not None and entry is not None:
                    gate.leave(entry)

        return around

    async def _refuse(
        self,
        method: str,
        begin: float,
        error: Exception,
        context: Context,
        gate: Gate | None,
        headers: Headers,
    ) -> None:
        if isinstance(error, grpc.aio.AbortError):
            raise error
        refusal = refusal_of(error)
        # Anyone who carries a call of another replica's namespace goes on to that one.
        if not isinstance(refusal, NotOwner) and not method.startswith(PROBES):
            self._refused[refusal.code] += 1
        if refusal.code == "internal":
            log.error("internal_error", method=method, exc_info=error)
        if not method.startswith(PROBES) and self._throttle.admits(_kind(method, refusal.code)):
            log.info("request", **_line(method, headers, begin, refusal.code))
        if gate is not None and refusal.code == "unauthenticated":
            await gate.delay(refusal, headers, context)
        status = MAPPINGS[refusal.code].grpc
        aborting = context.abort(status, message_of(refusal), trailing_metadata(refusal, headers.by_rest))
        # grpc keeps the error that ends a call in the call. Where that error leads back to the call, by the frames that
        # it passed, only the garbage collector frees what the call has used, and not soon (`gc_policy.py`).
        del context
        error.__traceback__ = error.__context__ = error.__cause__ = None
        await aborting


async def _say(context: Context, message: bytes) -> None:
    """Write the last message of a stream, but wait for nobody who does not read."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_MESSAGE_SECS):
            await context.write(message)


def _kind(method: str, outcome: str) -> str:
    """How lines of calls that are not logged one by one are counted."""
    return f"{method.rpartition('/')[2]} {outcome}"


def _line(method: str, headers: Headers, begin: float, outcome: str) -> dict[str, Any]:
    """The line of a call in the log. Its namespace may be anything where it is what was refused."""
    ms, namespace = round((time.perf_counter() - begin) * 1000, 2), headers.namespace[:MAX_NAMESPACE_CHARS]
    return {"method": method, "outcome": outcome, "ms": ms, "namespace": namespace, "rest": headers.by_rest}


def _check(request: Any, call: Call, gate: Gate | None, headers: Headers, context: Context) -> None:
    """Raise the refusal that stands in the place of a request, or that of a request in another name."""
    if isinstance(request, Refusal):
        raise request
    if gate is not None:
        message = request.message if isinstance(request, RestRequest) else request
        access = gate.check(call.access, message, headers, context)
        if access is not call.access:
            set_current_call(call._replace(access=access))


def _behind(door: Door, method: str, serve: Callable[[Any, Context], Awaitable[Any]]) -> Any:
    """Serve a call once its namespace is served here, and tell only what may be told."""

    async def serve_behind(request: Any, context: Context) -> Any:
        if (entering := door.enter(method, current_call().namespace)) is not None:
            await entering
        life = door.life
        trusted: Any = LeaseGuard(context, partial(door.may_tell, life))
        try:
            response = await serve(request, trusted)
        except Exception:
            # A refusal is an answer, too.
            if (waiting := door.may_tell(life)) is not None:
                await waiting
            raise
        if (waiting := door.may_tell(life)) is not None:
            await waiting
        return response

    return serve_behind


def _target_check(method: str) -> TargetCheck | None:
    name = method.removeprefix("/").replace("/", ".")
    return target_check(descriptor_pool.Default().FindMethodByName(name))


def _checked(serve: Any, check: TargetCheck) -> Callable[[RestRequest, Any], Awaitable[Any]]:
    """Compare the request of a REST call with its target, then serve it."""

    async def serve_checked(request: RestRequest, context: Any) -> Any:
        target = current_call().target
        if target is not None:
            check(target, request.encoded)
        return await serve(request.message, context)

    return serve_checked


def _writing(serve: Any) -> Callable[[Any, Any], Awaitable[None]]:
    """The same handler of a stream, which writes to the context what it yields, if it does."""
    if not isasyncgenfunction(serve):
        return serve  # type: ignore[no-any-return]

    async def write_all(message: Any, context: Any) -> None:
        async with contextlib.aclosing(serve(message, context)) as responses:
            async for response in responses:
                await context.write(response)

    return write_all


def _checked_stream(
    serve: Callable[[Any, Any], Awaitable[None]], check: TargetCheck
) -> Callable[[RestRequest, Context], Awaitable[None]]:
    """The same for a stream. For HEAD it ends before its first message."""
    checked = _checked(serve, check)

    async def serve_stream(request: RestRequest, context: Context) -> None:
        if not current_call().is_head:
            await checked(request, context)
            return
        with contextlib.suppress(HeadersSent):
            await checked(request, HeadContext(context))

    return serve_stream


def _with_bytes(parse: Callable[[bytes], Any] | None) -> Callable[[bytes], RestRequest | Refusal]:
    """Return the message together with its bytes, or the refusal of bytes that are no message."""
    assert parse is not None
    return _tolerant(lambda data: RestRequest(data, parse(data)))


def _tolerant(parse: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    """Return a refusal for bytes that are no message, or too many: grpc itself would answer with its own words."""
    assert parse is not None

    def parse_or_refuse(data: bytes) -> Any:
        if len(data) > MAX_MESSAGE_BYTES:
            return TooLarge(f"request: must be at most {MAX_MESSAGE_BYTES} bytes, is {len(data)}")
        try:
            message = uncompressed(data, MAX_MESSAGE_BYTES)
            if message is None:
                return TooLarge(f"request: must be at most {MAX_MESSAGE_BYTES} bytes, and is compressed")
            return parse(message)
        except (BadCompression, DecodeError):
            return BadRequest(MALFORMED)

    return parse_or_refuse


def _opening(handler: Any, messages: FirstMessages) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler that is not ours, which reads compressed messages as well, and waits for none that never comes."""
    parse = handler.request_deserializer

    def open_and_parse(data: bytes) -> Any:
        # Whatever is raised here is `internal` for the caller.
        return parse(uncompressed(data, MAX_MESSAGE_BYTES))

    if handler.request_streaming:
        return handler._replace(request_deserializer=open_and_parse)  # type: ignore[no-any-return]
    serve: Any = _writing(handler.unary_stream) if handler.response_streaming else handler.unary_unary
    make: Any = grpc.stream_unary_rpc_method_handler
    if handler.response_streaming:
        make = grpc.stream_stream_rpc_method_handler

    async def serve_first(_: object, context: Context) -> Any:
        try:
            request = await messages.read(context)
        except BadRequest as refusal:
            await context.abort(MAPPINGS[refusal.code].grpc, message_of(refusal))
        return await serve(request, context)

    return make(serve_first, open_and_parse, handler.response_serializer)  # type: ignore[no-any-return]


def _unless_bytes(serialize: Callable[[Any], bytes] | None) -> Callable[[Any], bytes]:
    """Let services answer what is encoded already."""
    assert serialize is not None

    def serialize_message(response: Any) -> bytes:
        return response if type(response) is bytes else serialize(response)

    return serialize_message
