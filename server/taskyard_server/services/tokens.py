"""TokenService: tokens are made, shown and revoked, and callers learn who they are (docs/operate/security.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import token_pb2 as pb
from taskyard.v1.token_pb2_grpc import TokenServiceServicer
from taskyard_server.access.grants import Principal
from taskyard_server.access.token_directory import TokenDirectory
from taskyard_server.access.tokens import ID_PREFIX, Token
from taskyard_server.conversion import requests
from taskyard_server.conversion.page_tokens import page_size
from taskyard_server.conversion.responses import MAX_PAGE_BYTES
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.core.errors import BadRequest, Conflict, Unavailable
from taskyard_server.interceptors.callers import current_call
from taskyard_server.store.port import CommitDelayed, StoreError

from .grant_messages import grants_of, messages_of

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

MAX_NAME_CHARS: Final = 256
NOT_KEPT: Final = "the server keeps nothing, so it cannot keep tokens: set TASKYARD_ADMIN_TOKEN, or give it a store"


class TokenService(TokenServiceServicer):
    """Serves `taskyard.v1.TokenService`.

    `tokens` is None where there is no store. `end_streams` ends the calls whose credential no longer holds, but that
    of the task that it is given; it is None where no call needs a credential. `refresh` learns of what other servers
    have done to tokens by now, where there are others.
    """

    def __init__(
        self,
        tokens: TokenDirectory | None,
        end_streams: Callable[[asyncio.Task[Any] | None], object] | None,
        refresh: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._tokens = tokens
        self._end_streams = end_streams
        self._refresh = refresh

    async def CreateToken(self, request: pb.CreateTokenRequest, context: Context) -> pb.CreateTokenResponse:  # noqa: N802
        del context
        tokens = self._directory()
        name = requests.name(request.name, "name")
        if name is None:
            raise BadRequest("name: is required")
        if len(name) > MAX_NAME_CHARS:
            raise BadRequest(f"name: must be at most {MAX_NAME_CHARS} characters")
        grants = grants_of(request.grants)
        if request.HasField("ttl_secs") and not request.ttl_secs:
            raise BadRequest("ttlSecs: must be 1 or more")
        ttl_secs = request.ttl_secs if request.HasField("ttl_secs") else None
        token, secret = await tokens.create(name, grants, ttl_secs, current_call().access.principal.credential)
        return pb.CreateTokenResponse(token=_message_of(token), secret=secret)

    async def ListTokens(self, request: pb.ListTokensRequest, context: Context) -> pb.ListTokensResponse:  # noqa: N802
        del context
        tokens = self._directory()
        listing = current_call().listing("tokens", request.include_ended)
        after, limit = listing.start(request.page_token), page_size(request.page_size)
        await tokens.settled()
        if not request.page_token:
            await self._look_at_others()
        response, last, size = pb.ListTokensResponse(), 0, 0
        for token in tokens.after(after, ended=request.include_ended):
            message = _message_of(token)
            size += message.ByteSize()
            if len(response.tokens) == limit or (response.tokens and size > MAX_PAGE_BYTES):
                response.next_page_token = listing.token(last)
                break
            response.tokens.append(message)
            last = token.number
        return response

    async def GetToken(self, request: pb.GetTokenRequest, context: Context) -> pb.GetTokenResponse:  # noqa: N802
        del context
        tokens = self._directory()
        await tokens.settled()
        await self._look_at_others()
        return pb.GetTokenResponse(token=_message_of(tokens.get(request.token_id)))

    async def RevokeToken(self, request: pb.RevokeTokenRequest, context: Context) -> pb.RevokeTokenResponse:  # noqa: N802
        del context
        tokens = self._directory()
        await self._look_at_others()
        token = tokens.revoke(request.token_id)
        if self._end_streams is not None:
            # This call may have come with that very token.
            self._end_streams(asyncio.current_task())
        await tokens.settled()
        return pb.RevokeTokenResponse(token=_message_of(token))

    async def WhoAmI(self, request: pb.WhoAmIRequest, context: Context) -> pb.WhoAmIResponse:  # noqa: N802
        del request, context
        principal = current_call().access.principal
        return pb.WhoAmIResponse(
            name=principal.name,
            kind=kind_of(principal),
            credential=principal.credential,
            grants=messages_of(principal.grants),
            expires_at=None if principal.expires_at is None else timestamp(principal.expires_at),
            authentication=self._end_streams is not None,
        )

    async def _look_at_others(self) -> None:
        if self._refresh is None:
            return
        try:
            await self._refresh()
        except (CommitDelayed, StoreError) as error:
            raise Unavailable(str(error)) from None

    def _directory(self) -> TokenDirectory:
        if self._tokens is None:
            raise Conflict(NOT_KEPT)
        return self._tokens


def kind_of(principal: Principal) -> str:
    """The kind of a principal's credential, as callers are told."""
    if principal.credential.startswith(ID_PREFIX):
        return "token"
    return principal.credential.partition(":")[0]


def _message_of(token: Token) -> pb.Token:
    def shown(at: float | None) -> Timestamp | None:
        return None if at is None else timestamp(at)

    return pb.Token(
        token_id=token.id,
        name=token.name,
        grants=messages_of(token.grants),
        created_at=timestamp(token.created_at),
        created_by=token.created_by,
        expires_at=shown(token.expires_at),
        last_used_at=shown(token.last_used_at),
        revoked_at=shown(token.revoked_at),
    )
