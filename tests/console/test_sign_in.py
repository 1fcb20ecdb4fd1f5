"""What an issuer refuses when people come to sign in to the console, or does not know when they come back."""

from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.access.token_endpoints import CLIENT, TokenEndpoint
from tests.console.browsing import Console
from tests.console.conftest import NewPage
from tests.console.yards import Plane, plane

pytestmark = pytest.mark.gate("Chromium")

ADMIN = "an-admin-token-of-the-tests"
RULES = [{"claims": {"sub": "bob"}, "grants": [{"role": "operator"}]}]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def office(endpoint: TokenEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A server whose people come by an issuer."""
    issuer = {"issuer": endpoint.issuer.name, "audience": CLIENT, "jwks": f"{endpoint.url}/keys", "rules": RULES}
    auth = {"jwt": [{**issuer, "signIn": endpoint.settings()}]}
    with plane(tmp_path_factory.mktemp("office"), ADMIN, auth=auth) as served:
        yield served


def answering(page: Page, endpoint: TokenEndpoint, answer: Callable[[dict[str, str]], dict[str, str]]) -> None:
    """Be the issuer's own page: send the browser back at once with an answer to what it asked."""

    def respond(route: Route) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(route.request.url).query).items()}
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        back = f"{asked['redirect_uri']}?{urlencode(answer(asked))}"
        route.fulfill(status=302, headers={"location": back})

    page.route(f"{endpoint.url}/authorize**", respond)


@pytest.fixture
def console(new_page: NewPage, office: Plane, endpoint: TokenEndpoint) -> Console:
    """A page of somebody who has not signed in."""
    console = new_page(office.url, "default")
    console.foreign.append(endpoint.url)
    console.page.goto(f"{office.url}/ui/#/default/hosts")
    return console


def test_what_the_issuer_refuses_is_said(console: Console, endpoint: TokenEndpoint) -> None:
    words = {"error": "access_denied", "error_description": "not today"}
    answering(console.page, endpoint, lambda asked: {**words, **state(asked)})
    console.button("Sign in with The office").click()
    expect(console.page.get_by_role("alert")).to_contain_text("not today")
    assert "error" not in console.page.url
    expect(console.button("Sign in with The office")).to_be_visible()


def state(asked: dict[str, str]) -> dict[str, str]:
    return {"state": asked["state"]}


def test_a_code_that_the_issuer_does_not_know_is_refused(console: Console, endpoint: TokenEndpoint) -> None:
    answering(console.page, endpoint, lambda asked: {"code": "stale", **state(asked)})
    console.button("Sign in with The office").click()
    expect(console.page.get_by_role("alert")).to_be_visible()
    expect(console.page.get_by_role("navigation")).to_have_count(0)
