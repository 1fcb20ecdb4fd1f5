"""Tokens of REST callers: the one form that is taken, and what a revoked one ends (docs/operate/security.md)."""

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.gateway.control_plane import control_plane

FIRST = "the-token-of-the-configuration"
ADMIN = [{"role": "admin"}]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    store = f"sqlite:///{tmp_path_factory.mktemp('bearers')}/yard.db"
    with (
        control_plane("--store", store, environment={"TASKYARD_ADMIN_TOKEN": FIRST}) as plane,
        plane.client() as http,
    ):
        yield http


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def made(http: httpx.Client) -> Any:
    answer = http.post("/tokens", json={"name": "ann", "grants": ADMIN}, headers=bearer(FIRST))
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer: httpx.Response, secret: str) -> bool:
    """True if the caller is not known, told in the documented form and without the secret."""
    assert secret not in answer.text
    return answer.status_code == 401 and answer.json()["code"] == "unauthenticated"


@pytest.mark.parametrize("word", ["Bearer", "bearer", "BEARER"])
def test_the_case_of_bearer_does_not_matter(http: httpx.Client, word: str) -> None:
    token = made(http)
    answer = http.get("/whoami", headers={"Authorization": f"{word} {token['secret']}"})
    assert answer.json()["credential"] == token["token"]["tokenId"]


def test_a_token_elsewhere_than_in_its_header_lets_nobody_in(http: httpx.Client) -> None:
    secret = made(http)["secret"]
    for headers in ({}, {"x-authorization": f"Bearer {secret}"}, {"cookie": f"authorization=Bearer {secret}"}):
        assert refused(http.get("/whoami", headers=headers), secret)
    for headers in (
        {"authorization": secret},
        {"authorization": f"Basic {secret}"},
        {"authorization": f"Bearer {secret}, Bearer {secret}"},
        {"authorization": f"Bearer {secret}{'0' * 10_000}"},
    ):
        assert refused(http.get("/whoami", headers=headers), secret)
    answer = http.post("/tokens", json={"name": "x", "grants": ADMIN, "authorization": secret})
    assert (answer.status_code, secret in answer.text) == (400, False)
    assert http.get("/whoami", params={"authorization": f"Bearer {secret}"}).status_code == 400
    assert http.get(f"http://ann:{secret}@{http.base_url.netloc.decode()}/whoami").status_code == 401


def test_two_headers_let_nobody_in(http: httpx.Client) -> None:
    secret = made(http)["secret"]
    for other in (secret, FIRST):
        headers = [("authorization", f"Bearer {secret}"), ("authorization", f"Bearer {other}")]
        assert refused(http.get("/whoami", headers=headers), secret)


def test_a_watch_ends_at_once_when_its_token_is_revoked_and_says_why(http: httpx.Client) -> None:
    token = made(http)
    with http.stream("GET", "/tasks:watch", headers=bearer(token["secret"])) as watch:
        lines = watch.iter_lines()
        assert "bookmark" in next(lines)
        revoke = f"/tokens/{token['token']['tokenId']}/revoke"
        revoking = threading.Thread(target=lambda: http.post(revoke, json={}, headers=bearer(FIRST)))
        revoking.start()
        # A watch that went on would be over by the time-out of the client, which is another error.
        further: list[str] = []
        with contextlib.suppress(httpx.RemoteProtocolError):
            further.extend(lines)
        revoking.join()
    end = json.loads(further[-1])["end"]
    assert (end["reason"], "was revoked" in end["message"]) == ("unauthenticated", True)
    assert refused(http.get("/whoami", headers=bearer(token["secret"])), token["secret"])
