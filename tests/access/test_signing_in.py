"""People sign in to the console by its gateway, without a credential (docs/operate/security.md, Signing in)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from taskyard_server.services.sign_in import RATE
from tests.access.token_endpoints import CLIENT, SECRET, VERIFIER, TokenEndpoint
from tests.access.yards import ADMIN_TOKEN, Yard, yard
from tests.cases import every_case

SECS = 20.0
RULES = [{"claims": {"sub": "bob"}, "grants": [{"role": "operator"}]}]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as endpoint:
        yield endpoint


def auth(endpoint: TokenEndpoint) -> dict[str, Any]:
    issuer = {"issuer": endpoint.issuer.name, "audience": CLIENT, "jwks": f"{endpoint.url}/keys", "rules": RULES}
    return {"adminToken": ADMIN_TOKEN, "jwt": [{**issuer, "signIn": endpoint.settings()}]}


@pytest.fixture(scope="module")
def running(endpoint: TokenEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with yard(tmp_path_factory.mktemp("yard"), {"auth": auth(endpoint)}) as made:
        yield made


@pytest.fixture
def http(running: Yard) -> Iterator[httpx.Client]:
    with running.rest("nobody") as http:
        yield http


def request(endpoint: TokenEndpoint, http: httpx.Client, **changes: Any) -> dict[str, Any]:
    page = f"{str(http.base_url).rstrip('/')}/ui/"
    body = {
        "issuer": endpoint.issuer.name,
        "code": endpoint.code(page),
        "codeVerifier": VERIFIER,
        "redirectUri": page,
        "nonce": "n1",
        **changes,
    }
    return {name: value for name, value in body.items() if value is not ...}


def test_the_ways_to_sign_in_are_for_anyone(endpoint: TokenEndpoint, http: httpx.Client) -> None:
    answer = http.get("/sign-in")
    assert answer.json() == {
        "required": True,
        "issuers": [
            {
                "issuer": endpoint.issuer.name,
                "name": "The office",
                "authorizationUrl": f"{endpoint.url}/authorize",
                "clientId": CLIENT,
                "scopes": "openid profile email",
            }
        ],
    }


def test_a_code_gives_a_token_and_that_a_role(endpoint: TokenEndpoint, http: httpx.Client) -> None:
    answer = http.post("/sign-in:exchange", json=request(endpoint, http))
    assert answer.status_code == 200
    token = answer.json()["token"]
    me = http.get("/whoami", headers={"authorization": f"Bearer {token}"})
    assert (me.status_code, me.json()["name"]) == (200, "bob")
    renewal = {"issuer": endpoint.issuer.name, "refreshToken": answer.json()["refreshToken"]}
    renewed = http.post("/sign-in:exchange", json=renewal)
    assert renewed.status_code == 200
    assert renewed.json()["expiresAt"]


def test_a_code_that_was_used_is_refused(endpoint: TokenEndpoint, http: httpx.Client) -> None:
    body = request(endpoint, http)
    assert http.post("/sign-in:exchange", json=body).status_code == 200
    again = http.post("/sign-in:exchange", json=body)
    assert (again.status_code, again.json()["code"]) == (401, "unauthenticated")
    assert SECRET not in again.text


@every_case(
    ("changes", "field"),
    [
        ({"issuer": ...}, "issuer"),
        ({"issuer": "https://evil.example"}, "issuer"),
        ({"code": ...}, "code"),
        ({"code": "c" * 9_000}, "code"),
        ({"code": "c\u2028d"}, "code"),
        ({"codeVerifier": ...}, "codeVerifier"),
        ({"codeVerifier": "short"}, "codeVerifier"),
        ({"nonce": ...}, "nonce"),
        ({"nonce": ""}, "nonce"),
        ({"refreshToken": "both"}, "refreshToken"),
        ({"redirectUri": ...}, "redirectUri"),
        ({"redirectUri": "https://evil.example/callback"}, "redirectUri"),
        ({"redirectUri": "http://evil.example/ui/"}, "redirectUri"),
        ({"redirectUri": "http://127.0.0.1@evil.example/ui/"}, "redirectUri"),
        ({"redirectUri": "http://127.0.0.1:9867/ui/?next=//evil.example"}, "redirectUri"),
        ({"redirectUri": "http://127.0.0.1:9867/ui/../ui/"}, "redirectUri"),
        ({"redirectUri": "javascript://127.0.0.1/ui/"}, "redirectUri"),
    ],
)
def test_what_is_missing_or_foreign_is_a_bad_request(
    endpoint: TokenEndpoint, http: httpx.Client, changes: dict[str, Any], field: str
) -> None:
    asked = len(endpoint.asked)
    answer = http.post("/sign-in:exchange", json=request(endpoint, http, **changes))
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert answer.json()["error"].startswith(field)
    assert len(endpoint.asked) == asked


def test_a_page_exchanges_only_what_was_sent_to_it(endpoint: TokenEndpoint, http: httpx.Client) -> None:
    own = str(http.base_url).rstrip("/")
    headers = {"origin": own, "sec-fetch-site": "same-origin"}
    assert http.post("/sign-in:exchange", json=request(endpoint, http), headers=headers).status_code == 200
    body = request(endpoint, http, redirectUri="https://other.example/ui/")
    assert http.post("/sign-in:exchange", json=body, headers=headers).status_code == 400


def test_with_an_address_of_the_console_it_is_the_only_one(endpoint: TokenEndpoint, tmp_path: Any) -> None:
    url = "https://yard.example/ui/"
    with yard(tmp_path, {"auth": auth(endpoint), "console": {"url": url}}) as made, made.rest("nobody") as http:
        assert http.post("/sign-in:exchange", json=request(endpoint, http)).status_code == 400
        body = request(endpoint, http, redirectUri=url, code=endpoint.code(url))
        assert http.post("/sign-in:exchange", json=body).status_code == 200


def test_the_secret_is_shown_to_nobody(endpoint: TokenEndpoint, running: Yard, http: httpx.Client) -> None:
    with running.rest("admin") as admin:
        shown = admin.get("/admin/config").text
    assert endpoint.url in shown
    assert SECRET not in shown
    assert SECRET not in http.get("/sign-in").text


def test_who_guesses_codes_is_slowed_down_and_then_refused(endpoint: TokenEndpoint, tmp_path: Any) -> None:
    with yard(tmp_path, {"auth": auth(endpoint)}) as made, made.rest("nobody") as http:
        first = http.post("/sign-in:exchange", json=request(endpoint, http, code="guess"))
        assert first.status_code == 401
        delayed = [http.post("/sign-in:exchange", json=request(endpoint, http, code="guess")) for _ in range(3)]
        assert delayed[-1].elapsed.total_seconds() > 0.3
        body = {"issuer": endpoint.issuer.name, "refreshToken": "guess"}
        endpoint.answer = lambda: (500, b"")
        answers = [http.post("/sign-in:exchange", json=body) for _ in range(3 * int(RATE.burst))]
        endpoint.answer = None
        assert {answer.status_code for answer in answers} == {429, 503}
        assert all("retry-after" in answer.headers for answer in answers if answer.status_code == 429)


def test_without_authentication_nobody_needs_to_sign_in(tmp_path: Any) -> None:
    from tests.gateway.control_plane import roomy_control_plane

    with roomy_control_plane(tmp_path) as plane, plane.client() as http:
        assert http.get("/sign-in").json() == {"required": False, "issuers": []}
        answer = http.post("/sign-in:exchange", json={"issuer": "https://issuer.example", "code": "c"})
        assert answer.status_code == 400
