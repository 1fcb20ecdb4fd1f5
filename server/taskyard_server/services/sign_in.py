"""gRPC SignInService: the ways to sign in to the console, and the exchange of codes for tokens.

Strangers may call it: what they may cause at issuers and here is bounded, by address and over all.
"""

from __future__ import annotations

import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, Final
from urllib.parse import urlsplit

import grpc

from taskyard.v1 import sign_in_pb2 as pb
from taskyard.v1.sign_in_pb2_grpc import SignInServiceServicer
from taskyard_server.access.limits import CallBucket, Rate
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.core.errors import RETRY_AFTER_MS, BadRequest, TooManyRequests, Unauthenticated
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.interceptors.callers import address_of, read_headers
from taskyard_server.net.exposure import authentication_is_on
from taskyard_server.settings.live_config import LiveConfig
from taskyard_server.settings.page import is_console_url
from taskyard_server.settings.security import IssuerSettings

RATE: Final = Rate(per_sec=2.0, burst=20.0)
"""Exchanges that one address may ask for."""
MAX_ADDRESSES: Final = 10_000
MAX_UNDER_WAY: Final = 32
"""Exchanges under way at once, each for ten seconds at most."""
MAX_OF_ADDRESS: Final = 8
"""The most of them for one address."""
MAX_CHARS: Final = 8_192
VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
VISIBLE: Final = re.compile("[!-~]+")
ORIGIN_KEY: Final = "origin"


class SignInService(SignInServiceServicer):
    """Serves `taskyard.v1.SignInService`. `clock` is in seconds; without `admission` nobody needs to sign in."""

    def __init__(
        self, config: LiveConfig, admission: CallAdmission | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._admission = admission
        self._clock = clock
        self._buckets: OrderedDict[str, CallBucket] = OrderedDict()
        self._under_way: Counter[str] = Counter()

    async def GetSignIn(  # noqa: N802
        self, request: pb.GetSignInRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetSignInResponse:
        del request, context
        return pb.GetSignInResponse(
            required=authentication_is_on(self._config.settings),
            issuers=[
                pb.SignInIssuer(
                    issuer=each.issuer,
                    name=each.sign_in.name,
                    authorization_url=each.sign_in.authorization_url,
                    client_id=each.sign_in.client_id,
                    scopes=each.sign_in.scopes,
                )
                for each in self._config.settings.auth.jwt
                if each.sign_in is not None
            ],
        )

    async def ExchangeCode(  # noqa: N802
        self, request: pb.ExchangeCodeRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.ExchangeCodeResponse:
        issuer = self._issuer(request.issuer)
        origin = next((str(value) for key, value in context.invocation_metadata() or () if key == ORIGIN_KEY), None)
        form = self._form(request, origin)
        address = address_of(read_headers(context.invocation_metadata()), context)
        self._take(address)
        admission = self._admission
        assert admission is not None
        # What it needs takes a while to import, and is not needed without issuers.
        from taskyard_server.access.sign_in import exchange

        assert admission.jwts is not None
        nonce = request.nonce if request.HasField("nonce") else None
        try:
            self._under_way[address] += 1
            try:
                signed_in = await exchange(admission.jwts, issuer, form, nonce)
            finally:
                self._under_way[address] -= 1
                if not self._under_way[address]:
                    del self._under_way[address]
        except Unauthenticated:
            await admission.failures.delay(address)
            raise
        return pb.ExchangeCodeResponse(
            token=signed_in.token,
            expires_at=timestamp(signed_in.expires_at),
            refresh_token=signed_in.refresh_token,
        )

    def _issuer(self, name: str) -> IssuerSettings:
        if not name:
            raise BadRequest("issuer: is required")
        for each in self._config.settings.auth.jwt:
            if each.issuer == name and each.sign_in is not None:
                return each
        raise BadRequest("issuer: nobody signs in with this one here")

    def _form(self, request: pb.ExchangeCodeRequest, origin: str | None) -> Mapping[str, str]:
        """The request to the token endpoint. Raises `BadRequest`."""
        if request.HasField("refresh_token"):
            if request.HasField("code"):
                raise BadRequest("refreshToken: must not come with code")
            return {"grant_type": "refresh_token", "refresh_token": _visible("refreshToken", request.refresh_token)}
        code = _visible("code", request.code)
        if not VERIFIER.fullmatch(request.code_verifier):
            raise BadRequest("codeVerifier: must be 43 to 128 letters, digits, dots, dashes, underscores or tildes")
        _visible("nonce", request.nonce)
        self._check_redirect(_visible("redirectUri", request.redirect_uri), origin)
        return {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": request.code_verifier,
            "redirect_uri": request.redirect_uri,
        }

    def _check_redirect(self, redirect_uri: str, origin: str | None) -> None:
        """A code that was sent to another page is not exchanged: its receiver there has no business with it here."""
        ours = self._config.settings.console.url
        if ours is not None and redirect_uri != ours:
            raise BadRequest("redirectUri: must be the one of console.url")
        if not is_console_url(redirect_uri):
            raise BadRequest("redirectUri: must be /ui/ of this gateway, by https or on this machine")
        if origin is not None and origin != "{0.scheme}://{0.netloc}".format(urlsplit(redirect_uri)):
            raise BadRequest("redirectUri: must be of the page that calls")

    def _take(self, address: str) -> None:
        """Count an exchange. Raises `TooManyRequests`."""
        if self._under_way.total() >= MAX_UNDER_WAY or self._under_way[address] >= MAX_OF_ADDRESS:
            raise TooManyRequests("too many people sign in at this moment", RETRY_AFTER_MS)
        bucket = self._buckets.pop(address, None) or CallBucket(RATE)
        self._buckets[address] = bucket
        if len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        if missing := bucket.take(self._clock()):
            raise TooManyRequests("too many try to sign in from this address", ceil(missing * 1_000))


def _visible(field: str, text: str) -> str:
    if not text:
        raise BadRequest(f"{field}: is required")
    if len(text) > MAX_CHARS or not VISIBLE.fullmatch(text):
        raise BadRequest(f"{field}: must be at most {MAX_CHARS} visible ASCII characters")
    return text
