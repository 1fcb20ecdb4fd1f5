"""Signing in with a token, and what each role is offered."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console
from tests.console.conftest import NewPage
from tests.console.yards import Yard, plane

ADMIN = "an-admin-token-of-the-tests"
SignedIn = Callable[..., Console]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """A namespace of a server that lets in nobody without a token."""
    with plane(tmp_path_factory.mktemp("guarded"), ADMIN) as served, served.http("default") as client:
        yield Yard(served, "default", client)


def token_of(yard: Yard, role: str, **grant: Any) -> str:
    given = {"role": role} if role == "admin" else {"role": role, "namespaces": [yard.namespace], **grant}
    return str(yard.call("POST", "/tokens", name=f"the {role}", grants=[given])["secret"])


@pytest.fixture
def signed_in(new_page: NewPage, guarded: Yard) -> SignedIn:
    """Makes a page that somebody of this role has signed in to."""

    def sign_in(role: str, **grant: Any) -> Console:
        console = new_page(guarded.plane.url, guarded.namespace)
        console.sign_in(token_of(guarded, role, **grant))
        return console

    return sign_in


def links(console: Console) -> list[str]:
    return console.page.get_by_role("navigation", name="Views").get_by_role("link").all_inner_texts()


def test_a_stranger_sees_the_sign_in_alone(new_page: NewPage, guarded: Yard) -> None:
    console = new_page(guarded.plane.url, "default")
    console.page.goto(f"{console.url}/ui/#/default/tasks")
    expect(console.page.get_by_label("Token")).to_be_focused()
    expect(console.page.get_by_role("navigation")).to_have_count(0)
    assert console.serious_findings() == []
    console.page.get_by_label("Token").fill("tyd_wrong")
    console.page.keyboard.press("Enter")
    expect(console.page.get_by_role("alert")).to_be_visible()
    expect(console.page.get_by_role("navigation")).to_have_count(0)


def test_who_signs_out_is_a_stranger(signed_in: SignedIn) -> None:
    console = signed_in("viewer")
    console.button("Sign out").click()
    expect(console.page.get_by_label("Token")).to_be_visible()
    console.page.reload()
    expect(console.page.get_by_label("Token")).to_be_visible()


def test_a_reload_keeps_one_signed_in_and_another_tab_does_not(signed_in: SignedIn) -> None:
    console = signed_in("viewer")
    console.page.reload()
    expect(console.page.get_by_role("navigation", name="Views")).to_be_visible()
    other = console.page.context.new_page()
    other.goto(f"{console.url}/ui/")
    expect(other.get_by_label("Token")).to_be_visible()


def test_a_token_that_is_revoked_ends_at_the_sign_in(signed_in: SignedIn, guarded: Yard) -> None:
    console = signed_in("operator")
    console.open("now")
    (token,) = [each for each in guarded.call("GET", "/tokens")["tokens"] if each["name"] == "the operator"][-1:]
    guarded.call("POST", f"/tokens/{token['tokenId']}/revoke")
    expect(console.page.get_by_label("Token")).to_be_visible()
    expect(console.page.get_by_role("alert")).to_be_visible()
