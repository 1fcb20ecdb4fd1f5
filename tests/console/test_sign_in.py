"""People sign in by an issuer: to it and back, over the renewal of what they got, and what goes wrong on the way."""

from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.access.token_endpoints import CLIENT, Granted, TokenEndpoint
from tests.console.browsing import Console
from tests.console.conftest import NewPage
from tests.console.yards import Plane, plane

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


def welcoming(endpoint: TokenEndpoint) -> Callable[[dict[str, str]], dict[str, str]]:
    """Give a code for whoever comes."""

    def answer(asked: dict[str, str]) -> dict[str, str]:
        code = endpoint.grant(Granted(asked["code_challenge"], asked["redirect_uri"], asked["nonce"]))
        return {"code": code, "state": asked["state"]}

    return answer


@pytest.fixture
def console(new_page: NewPage, office: Plane, endpoint: TokenEndpoint) -> Console:
    """A page of somebody who has not signed in."""
    console = new_page(office.url, "default")
    console.foreign.append(endpoint.url)
    console.page.goto(f"{office.url}/ui/#/default/hosts")
    return console


def test_one_signs_in_by_an_issuer_and_is_back_where_one_was(console: Console, endpoint: TokenEndpoint) -> None:
    answering(console.page, endpoint, welcoming(endpoint))
    console.button("Sign in with The office").click()
    expect(console.page.get_by_role("heading", level=1)).to_have_text("Hosts")
    expect(console.page).to_have_url(f"{console.url}/ui/#/default/hosts")
    expect(console.page.get_by_text("bob")).to_be_visible()
    console.page.reload()
    expect(console.page.get_by_text("bob")).to_be_visible()


def test_what_the_issuer_refuses_is_said(console: Console, endpoint: TokenEndpoint) -> None:
    words = {"error": "access_denied", "error_description": "not today"}
    answering(console.page, endpoint, lambda asked: {**words, **state(asked)})
    console.button("Sign in with The office").click()
    expect(console.page.get_by_role("alert")).to_contain_text("not today")
    assert "error" not in console.page.url
    expect(console.button("Sign in with The office")).to_be_visible()


def renewals(endpoint: TokenEndpoint) -> list[dict[str, str]]:
    return [each for each in endpoint.asked if each["grant_type"] == "refresh_token"]


def state(asked: dict[str, str]) -> dict[str, str]:
    return {"state": asked["state"]}


@pytest.mark.parametrize("back", [{"code": "a-code", "state": "of-another"}, {"code": "a-code"}])
def test_a_code_that_was_not_asked_for_is_not_used(
    console: Console, endpoint: TokenEndpoint, back: dict[str, str]
) -> None:
    asked = len(endpoint.asked)
    console.page.goto(f"{console.url}/ui/?{urlencode(back)}")
    expect(console.page.get_by_role("alert")).to_contain_text("not begun here")
    assert len(endpoint.asked) == asked
    assert "a-code" not in console.page.url


def test_a_code_that_the_issuer_does_not_know_is_refused(console: Console, endpoint: TokenEndpoint) -> None:
    answering(console.page, endpoint, lambda asked: {"code": "stale", **state(asked)})
    console.button("Sign in with The office").click()
    expect(console.page.get_by_role("alert")).to_be_visible()
    expect(console.page.get_by_role("navigation")).to_have_count(0)


def test_a_token_is_renewed_before_it_ends(console: Console, endpoint: TokenEndpoint) -> None:
    answering(console.page, endpoint, welcoming(endpoint))
    before = len(renewals(endpoint))
    console.page.clock.install()
    console.page.reload()
    console.button("Sign in with The office").click()
    expect(console.page.get_by_text("bob")).to_be_visible()
    with console.page.expect_response("**/taskyard.v1.SignInService/ExchangeCode"):
        console.page.clock.fast_forward("09:30")
    console.page.reload()
    expect(console.page.get_by_text("bob")).to_be_visible()
    assert len(renewals(endpoint)) == before + 1
    expect(console.page.get_by_role("heading", level=1)).to_have_text("Hosts")
