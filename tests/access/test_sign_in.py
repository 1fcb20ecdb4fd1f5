"""Codes of an issuer are exchanged for tokens that calls are let in with (docs/operate/security.md, Signing in)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from taskyard_server.access import key_sources, sign_in
from taskyard_server.access.jwt import Jwts
from taskyard_server.access.sign_in import SignedIn, exchange
from taskyard_server.core.errors import Unauthenticated, Unavailable
from taskyard_server.settings.security import IssuerSettings
from tests.access.issuers import ANYBODY, AUDIENCE, Issuer, key_set
from tests.access.token_endpoints import CLIENT, REDIRECT, SECRET, VERIFIER, Answer, TokenEndpoint
from tests.cases import every_case


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as endpoint:
        yield endpoint


async def known(endpoint: TokenEndpoint, audience: str = CLIENT, **changes: Any) -> tuple[Jwts, IssuerSettings]:
    """The issuer in the settings, its keys read."""
    settings = IssuerSettings.model_validate(
        {
            "issuer": endpoint.issuer.name,
            "audience": audience,
            "jwks": f"{endpoint.url}/keys",
            "rules": [ANYBODY],
            "signIn": endpoint.settings(**changes),
        }
    )
    jwts = Jwts(endpoint.issuer.clock)
    jwts.reconfigure([settings])
    await jwts.open()
    return jwts, settings


def form(code: str) -> dict[str, str]:
    return {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": VERIFIER,
        "redirect_uri": REDIRECT,
    }


async def sign_in_with(endpoint: TokenEndpoint, **changes: Any) -> SignedIn:
    jwts, settings = await known(endpoint, **changes)
    return await exchange(jwts, settings, form(endpoint.code()), "n1")


@pytest.mark.parametrize("where", ["header", "body"])
async def test_a_code_gives_a_token_that_calls_are_let_in_with(endpoint: TokenEndpoint, where: str) -> None:
    jwts, settings = await known(endpoint, secretIn=where)
    signed_in = await exchange(jwts, settings, form(endpoint.code()), "n1")
    principal = jwts.find(signed_in.token)
    assert principal is not None
    assert (principal.name, principal.expires_at) == ("bob", signed_in.expires_at)
    assert ("client_secret" in endpoint.asked[0]) == (where == "body")


async def test_a_client_without_a_secret_names_itself(endpoint: TokenEndpoint) -> None:
    jwts, settings = await known(endpoint, clientSecret=None)
    with pytest.raises(Unavailable):
        await exchange(jwts, settings, form(endpoint.code()), "n1")
    assert endpoint.asked[0]["client_id"] == CLIENT


async def test_a_token_is_renewed(endpoint: TokenEndpoint) -> None:
    jwts, settings = await known(endpoint)
    first = await exchange(jwts, settings, form(endpoint.code()), "n1")
    assert first.refresh_token is not None
    renewal = {"grant_type": "refresh_token", "refresh_token": first.refresh_token}
    second = await exchange(jwts, settings, renewal, None)
    assert jwts.find(second.token) is not None
    with pytest.raises(Unauthenticated, match="refreshToken: the issuer refuses it"):
        await exchange(jwts, settings, renewal, None)


async def test_where_the_audience_is_another_the_access_token_is_it(endpoint: TokenEndpoint) -> None:
    endpoint.access_token = endpoint.issuer.token(aud=AUDIENCE)
    assert (await sign_in_with(endpoint, audience=AUDIENCE)).token == endpoint.access_token


async def test_a_code_is_exchanged_once(endpoint: TokenEndpoint) -> None:
    jwts, settings = await known(endpoint)
    code = endpoint.code()
    await exchange(jwts, settings, form(code), "n1")
    with pytest.raises(Unauthenticated, match="code: the issuer refuses it"):
        await exchange(jwts, settings, form(code), "n1")


@pytest.mark.parametrize(
    "changes",
    [{"code": "guessed"}, {"code_verifier": "w" * 43}, {"redirect_uri": "http://127.0.0.1:1/ui/"}],
    ids=lambda changes: next(iter(changes)),
)
async def test_what_the_issuer_refuses_is_refused(endpoint: TokenEndpoint, changes: dict[str, str]) -> None:
    jwts, settings = await known(endpoint)
    with pytest.raises(Unauthenticated, match="the issuer refuses it"):
        await exchange(jwts, settings, {**form(endpoint.code()), **changes}, "n1")


@every_case(
    ("claims", "reason"),
    [
        ({"nonce": "n2"}, "nonce"),
        ({"nonce": ...}, "nonce"),
        ({"nonce": 1}, "nonce"),
        ({"aud": "another client"}, "audience"),
        ({"azp": "another client"}, "no token"),
        ({"iss": "https://evil.example"}, "not of this issuer"),
        ({"exp": 1}, "expired"),
        ({"sub": ...}, "needs `sub`"),
    ],
)
async def test_an_id_token_that_does_not_hold_is_refused(
    endpoint: TokenEndpoint, claims: dict[str, Any], reason: str
) -> None:
    endpoint.claims = claims
    with pytest.raises(Unauthenticated, match=reason):
        await sign_in_with(endpoint)


async def test_a_token_that_another_has_signed_is_refused(endpoint: TokenEndpoint) -> None:
    forger = Issuer(number=1)
    forger.clock.now = time.time()
    endpoint.answer = lambda: (200, {"id_token": forger.token(aud=CLIENT, nonce="n1")})
    with pytest.raises(Unauthenticated, match="signature"):
        await sign_in_with(endpoint)


async def test_an_access_token_of_somebody_else_is_refused(endpoint: TokenEndpoint) -> None:
    endpoint.access_token = endpoint.issuer.token(aud=AUDIENCE, sub="mallory")
    with pytest.raises(Unauthenticated, match="different people"):
        await sign_in_with(endpoint, audience=AUDIENCE)


async def test_an_access_token_alone_does_not_sign_anybody_in(endpoint: TokenEndpoint) -> None:
    endpoint.answer = lambda: (200, {"access_token": endpoint.issuer.token(aud=CLIENT, nonce="n1")})
    with pytest.raises(Unauthenticated, match="no token"):
        await sign_in_with(endpoint)


@pytest.mark.parametrize(
    "answer",
    [
        (200, b"x" * 1_000_000),
        (200, b"[" * 100_000),
        (200, b"not json"),
        (200, b'["id_token"]'),
        (302, b""),
        (401, {"error": "invalid_client"}),
        (400, {"error": "unauthorized_client"}),
        (400, {"error": f"invalid\n{SECRET}"}),
        (500, b"<html>"),
        (429, b""),
    ],
    ids=str,
)
async def test_an_issuer_that_answers_otherwise_is_unavailable(endpoint: TokenEndpoint, answer: Any) -> None:
    endpoint.answer = lambda: answer
    with pytest.raises(Unavailable):
        await sign_in_with(endpoint)


@pytest.mark.parametrize("tokens", [{}, {"id_token": 1}, {"id_token": "x" * 9_000}, {"id_token": "a.b.c"}])
async def test_an_answer_without_a_token_is_refused(endpoint: TokenEndpoint, tokens: dict[str, Any]) -> None:
    endpoint.answer = lambda: (200, tokens)
    with pytest.raises(Unauthenticated):
        await sign_in_with(endpoint)


async def test_an_issuer_that_does_not_answer_is_unavailable(
    endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    jwts, settings = await known(endpoint, tokenUrl="http://127.0.0.1:9/token")
    with pytest.raises(Unavailable, match="does not answer"):
        await exchange(jwts, settings, form("c"), "n1")
    monkeypatch.setattr(sign_in, "ASK_SECS", 0.1)
    enough = threading.Event()

    def slow() -> Answer:
        enough.wait(30)
        return 200, b""

    endpoint.answer = slow
    with pytest.raises(Unavailable, match="does not answer"):
        await sign_in_with(endpoint)
    enough.set()


async def test_a_new_key_of_the_issuer_is_fetched(endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint.keys = key_set(Issuer(number=2).jwk(kid="old"))
    jwts, settings = await known(endpoint)
    endpoint.keys = None
    with pytest.raises(Unauthenticated, match="no key"):
        await exchange(jwts, settings, form(endpoint.code()), "n1")
    monkeypatch.setattr(key_sources, "URL_LEAST_SECS", 0.0)
    assert (await exchange(jwts, settings, form(endpoint.code()), "n1")).token


async def test_nothing_secret_is_logged(endpoint: TokenEndpoint) -> None:
    with structlog.testing.capture_logs() as lines:
        signed_in = await sign_in_with(endpoint)
        for answer in ((400, {"error": SECRET}), (500, SECRET.encode())):
            endpoint.answer = lambda answer=answer: answer  # type: ignore[misc]
            with pytest.raises(Unavailable):
                await sign_in_with(endpoint)
        endpoint.answer = None
        jwts, settings = await known(endpoint)
        with pytest.raises(Unauthenticated) as refusal:
            await exchange(jwts, settings, form("a-code-that-is-wrong"), "n1")
    text = f"{lines} {refusal.value.message}"
    assert "signed_in" in text
    for hidden in (SECRET, signed_in.token, signed_in.refresh_token, VERIFIER, "a-code-that-is-wrong"):
        assert str(hidden) not in text
