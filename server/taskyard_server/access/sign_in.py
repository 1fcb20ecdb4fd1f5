"""Exchanges the codes of issuers for tokens, for people who sign in with a browser.

See docs/operate/security.md, Signing in.

The issuer is believed only as far as its signature goes: what it answers is a token that calls are let in with, or the
sign-in is refused. The secret of the client is sent to the issuer and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from functools import cache
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote_plus

import httpx
import structlog

from taskyard_server.core.errors import Unauthenticated, Unavailable
from taskyard_server.settings.security import IssuerSettings, SignInSettings
from taskyard_server.settings.setting_types import secret

from .jwt import MAX_TOKEN_CHARS, UNKNOWN_KEY, Jwts

if TYPE_CHECKING:
    import ssl

    from .grants import Principal

log = structlog.get_logger(__name__)

ASK_SECS: Final = 10.0
"""Seconds that an issuer has for its answer as a whole."""
MAX_ANSWER_BYTES: Final = 262_144
CODE: Final = "authorization_code"
RENEWAL: Final = "refresh_token"
ERROR_WORD: Final = re.compile("[a-z_]{1,40}")
"""The part of an issuer's error that may be logged."""

REFUSED: Final = "the issuer refuses it; sign in again"
NO_TOKEN: Final = "the issuer gave no token that calls are let in with"
OTHER_NONCE: Final = "nonce: the token of the issuer is for another sign-in"
OTHER_SUBJECT: Final = "the tokens of the issuer are of different people"
UNREACHABLE: Final = "the issuer does not answer; try again later"
MISUNDERSTOOD: Final = "the issuer does not take this server for its client, see the server's log"


class SignedIn(NamedTuple):
    """A token that calls are let in with until `expires_at`, in seconds since the epoch, and what renews it."""

    token: str
    expires_at: float
    refresh_token: str | None


async def exchange(jwts: Jwts, issuer: IssuerSettings, form: Mapping[str, str], nonce: str | None) -> SignedIn:
    """Ask an issuer that has `sign_in` for tokens: with a code, whose ID token must hold `nonce`, or to renew one.

    `form` is what its token endpoint takes, without what names the client. Raises `Unauthenticated` and `Unavailable`.
    """
    assert issuer.sign_in is not None
    answer = await _ask(issuer.issuer, issuer.sign_in, form)
    try:
        token, principal = await _judged(jwts, issuer, answer, nonce, needs_id_token=form["grant_type"] == CODE)
    except Unauthenticated as refusal:
        log.warning("sign_in_refused", issuer=issuer.issuer, reason=refusal.message)
        raise
    assert principal.expires_at is not None
    log.info("signed_in", principal=principal.credential, renewed=form["grant_type"] == RENEWAL)
    return SignedIn(token, principal.expires_at, _text(answer, "refresh_token"))


async def _judged(
    jwts: Jwts, issuer: IssuerSettings, answer: Mapping[str, Any], nonce: str | None, *, needs_id_token: bool
) -> tuple[str, Principal]:
    """The token of an answer that calls are let in with. Raises `Unauthenticated`."""
    id_token, access_token = _text(answer, "id_token"), _text(answer, "access_token")
    tokens = [token for token in (id_token, access_token) if token is not None]
    if not tokens or (needs_id_token and id_token is None):
        raise Unauthenticated(NO_TOKEN)
    try:
        return _chosen(jwts, issuer, id_token, tokens, nonce)
    except Unauthenticated as refusal:
        if refusal.message != UNKNOWN_KEY:
            raise
    # The issuer may have a new key, whose set is fetched now if that was not done a moment ago.
    await jwts.refresh()
    return _chosen(jwts, issuer, id_token, tokens, nonce)


def _chosen(
    jwts: Jwts, issuer: IssuerSettings, id_token: str | None, tokens: list[str], nonce: str | None
) -> tuple[str, Principal]:
    assert issuer.sign_in is not None
    client, subject = issuer.sign_in.client_id, None
    if id_token is not None:
        claims = jwts.claims(id_token, issuer, client)
        found = claims.get("nonce")
        # One that renews another may leave it out.
        if nonce is not None and not _is_same(found, nonce):
            raise Unauthenticated(OTHER_NONCE)
        if claims.get("azp", client) != client:
            raise Unauthenticated(NO_TOKEN)
        subject = claims["sub"]
    problem: Unauthenticated | None = None
    for token in tokens:
        try:
            principal = jwts.find(token)
            if principal is None:
                continue
            said = jwts.claims(token, issuer, client if token == id_token else issuer.audience)
        except Unauthenticated as refusal:
            problem = problem or refusal
            continue
        if subject is not None and said["sub"] != subject:
            raise Unauthenticated(OTHER_SUBJECT)
        return token, principal
    raise problem or Unauthenticated(NO_TOKEN)


async def _ask(name: str, settings: SignInSettings, form: Mapping[str, str]) -> dict[str, Any]:
    """The answer of the token endpoint. Raises `Unauthenticated` and `Unavailable`."""
    client_secret = secret(settings.client_secret)
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    auth: httpx.BasicAuth | None = None
    sent = dict(form)
    if client_secret is None or settings.secret_in == "body":
        sent["client_id"] = settings.client_id
        if client_secret is not None:
            sent["client_secret"] = client_secret
    else:
        # As RFC 6749 has it (2.3.1): both are encoded first.
        auth = httpx.BasicAuth(quote_plus(settings.client_id), quote_plus(client_secret))
    # Proxies and authorities of the environment count, but what is on loopback stays there.
    is_remote = settings.token_url.startswith("https:")
    try:
        verify = await asyncio.to_thread(_trust) if is_remote else False
        async with (
            asyncio.timeout(ASK_SECS),
            httpx.AsyncClient(trust_env=is_remote, timeout=ASK_SECS, verify=verify, auth=auth) as http,
            http.stream("POST", settings.token_url, data=sent, headers=headers) as response,
        ):
            body = await _body_of(response)
    except TimeoutError:
        raise _unavailable(name, f"no answer within {ASK_SECS:g} s", UNREACHABLE) from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise _unavailable(name, type(error).__name__, UNREACHABLE) from None
    answer = _object_in(body)
    status = response.status_code
    if status == httpx.codes.OK and answer is not None:
        return answer
    found = "" if answer is None else str(answer.get("error", ""))
    word = found if ERROR_WORD.fullmatch(found) else "no word for it"
    if status == httpx.codes.BAD_REQUEST and word == "invalid_grant":
        raise Unauthenticated(f"{'code' if form['grant_type'] == CODE else 'refreshToken'}: {REFUSED}")
    is_away = status >= httpx.codes.INTERNAL_SERVER_ERROR or status == httpx.codes.TOO_MANY_REQUESTS
    raise _unavailable(name, f"answered with {status}: {word}", UNREACHABLE if is_away else MISUNDERSTOOD)


def _unavailable(name: str, reason: str, message: str) -> Unavailable:
    log.warning("issuer_not_asked", issuer=name, reason=reason)
    return Unavailable(message)


async def _body_of(response: httpx.Response) -> bytes:
    # A short answer can unpack to any length.
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ValueError("an encoding that was not asked for")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise ValueError("too long")
    return bytes(body)


def _object_in(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _text(answer: Mapping[str, Any], key: str) -> str | None:
    """A token of an answer, if it is one that can be sent on."""
    found = answer.get(key)
    return found if isinstance(found, str) and 0 < len(found) <= MAX_TOKEN_CHARS and found.isascii() else None


def _is_same(found: Any, nonce: str) -> bool:
    return isinstance(found, str) and compare_digest(found.encode(errors="replace"), nonce.encode())


@cache
def _trust() -> ssl.SSLContext:
    """Which authorities count. To read them takes longer than an exchange."""
    return httpx.create_ssl_context()
