"""The door for the gateways of other replicas: who comes there must be one, and is then believed what it passes on.

It looks at the client's certificate before a message is read. Calls of anybody else are refused as `unauthenticated`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc

from taskyard_server.access.certificates import read_gateway
from taskyard_server.core.errors import Refusal, Unauthenticated

from .callers import CERTIFICATE_KEY, Context, believe_caller
from .errors import MAPPINGS, message_of, trailing_metadata

NO_GATEWAY: Final = "the client certificate is not one of a gateway: its one URI must be spiffe://taskyard/gateway/NAME"
CARRIED: Final = "/taskyard."
"""The services that gateways carry. Health, reflection and channelz are not served here."""


class GatewaysOnly(grpc.aio.ServerInterceptor):
    """Comes first at the listener that only gateways may call. Its certificates were verified when it was connected."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Answer the handler of this method, behind the check."""
        if not handler_call_details.method.startswith(CARRIED):
            return None
        handler = await continuation(handler_call_details)
        return None if handler is None else _behind_the_check(handler)


def _behind_the_check(handler: Any) -> grpc.RpcMethodHandler[Any, Any]:
    """The same handler, which takes a stream whatever its method says (`calls.py`)."""
    serve: Any = handler.stream_unary or handler.stream_stream
    make: Any = grpc.stream_unary_rpc_method_handler
    if handler.response_streaming:
        make = grpc.stream_stream_rpc_method_handler

    async def serve_checked(requests: Any, context: Context) -> Any:
        certificates: Any = context.auth_context().get(CERTIFICATE_KEY, ())
        if not certificates or read_gateway(certificates[0]) is None:
            await _refuse(context, Unauthenticated(NO_GATEWAY))
        believe_caller()
        return await serve(requests, context)

    return make(serve_checked, handler.request_deserializer, handler.response_serializer)  # type: ignore[no-any-return]


async def _refuse(context: Context, refusal: Refusal) -> None:
    await context.abort(MAPPINGS[refusal.code].grpc, message_of(refusal), trailing_metadata(refusal, by_rest=False))
