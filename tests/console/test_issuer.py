"""People sign in to the console with an issuer that they know: they are sent there, and come back signed in."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.access.token_endpoints import CLIENT, TokenEndpoint
from tests.console.browsing import Console
from tests.console.conftest import NewPage
from tests.console.yards import Plane, plane

pytestmark = pytest.mark.gate("Chromium")

RULES = [{"claims": {"sub": "bob"}, "grants": [{"role": "operator"}]}]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def served(endpoint: TokenEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    issuer = {"issuer": endpoint.issuer.name, "audience": CLIENT, "jwks": f"{endpoint.url}/keys", "rules": RULES}
    auth = {"jwt": [{**issuer, "signIn": endpoint.settings()}]}
    with plane(tmp_path_factory.mktemp("issuer"), auth=auth) as served:
        yield served


@pytest.fixture
def page(new_page: NewPage, served: Plane, endpoint: TokenEndpoint) -> Console:
    # Apart, since a clock that a test installs is that of all tabs.
    console = new_page(served.url, "default", {})
    console.allow(re.escape(endpoint.url))
    return console


def go(console: Console, view: str = "now") -> None:
    console.page.goto(f"{console.url}/ui/#/default/{view}")
    console.page.get_by_role("button", name=re.compile("The office")).click()


def test_who_comes_back_from_the_issuer_is_where_they_wanted_to_be(page: Console) -> None:
    go(page, "hosts")
    expect(page.page.get_by_role("heading", level=1, name="Hosts")).to_be_visible()
    assert page.page.url == f"{page.url}/ui/#/default/hosts"


def test_a_code_is_not_left_in_the_address_or_the_history(page: Console) -> None:
    go(page)
    expect(page.page.get_by_role("heading", level=1, name="Now")).to_be_visible()
    page.page.reload()
    expect(page.page.get_by_role("heading", level=1, name="Now")).to_be_visible()
    page.page.go_back()
    assert "code=" not in page.page.url


def test_a_code_that_another_site_sends_is_not_exchanged(page: Console, endpoint: TokenEndpoint) -> None:
    asked = len(endpoint.asked)
    page.page.goto(f"{page.url}/ui/?code={endpoint.code(f'{page.url}/ui/')}&state=of-another")
    expect(page.page.get_by_role("button", name=re.compile("The office"))).to_be_visible()
    assert len(endpoint.asked) == asked


def test_what_the_issuer_gets_wrong_is_told(page: Console, endpoint: TokenEndpoint) -> None:
    endpoint.claims = {"nonce": "of another"}
    try:
        page.allow("401")
        go(page)
        expect(page.page.get_by_role("alert")).to_contain_text("another sign-in")
    finally:
        endpoint.claims = {}


def test_a_token_is_renewed_before_it_ends(page: Console, endpoint: TokenEndpoint) -> None:
    page.page.clock.install()
    go(page)
    expect(page.page.get_by_role("heading", level=1, name="Now")).to_be_visible()
    before = len(endpoint.asked)
    # Its token is good for ten minutes.
    with page.page.expect_response(lambda it: "ExchangeCode" in it.url):
        page.page.clock.fast_forward("09:30")
    assert endpoint.asked[before]["grant_type"] == "refresh_token"
    expect(page.page.get_by_role("heading", level=1, name="Now")).to_be_visible()
