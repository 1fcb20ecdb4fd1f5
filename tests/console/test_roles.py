"""Signing in with a token, and what each role is offered."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.console.browsing import Console
from tests.console.conftest import NewPage
from tests.console.test_questions import answer, ask
from tests.console.yards import Yard, plane

pytestmark = pytest.mark.gate("Chromium")

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


def test_a_stranger_with_a_link_answers_one_question_and_sees_nothing_else(new_page: NewPage, guarded: Yard) -> None:
    task_id = ask(guarded, choices=["yes", "no"])
    href = guarded.call("POST", f"/tasks/{task_id}/questions/go:link")["href"]
    console = new_page(guarded.plane.url, guarded.namespace)
    console.page.goto(console.url + href)
    expect(console.page.get_by_text("Go on?")).to_be_visible()
    expect(console.page.get_by_role("navigation")).to_have_count(0)
    console.button("yes").click()
    expect(console.page.get_by_text("Thank you. The question is answered.")).to_be_visible()
    assert answer(guarded, task_id) == "yes"
    guarded.call("POST", f"/tasks/{task_id}/cancel")
    console.page.reload()
    expect(console.page.get_by_text("question not found")).to_be_visible()
    console.page.goto(f"{console.url}/ui/#/{guarded.namespace}/answer/s.nothing")
    expect(console.page.get_by_text("no such link, or its time is over")).to_be_visible()


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


@pytest.mark.parametrize("place", [0, 1])
def test_a_call_that_breaks_off_while_one_signs_in_does_not_undo_it(
    new_page: NewPage, guarded: Yard, place: int
) -> None:
    console, asked, held = new_page(guarded.plane.url, guarded.namespace), count(), list[Route]()

    def hold_one(route: Route) -> None:
        if "authorization" in route.request.headers and next(asked) == place:
            held.append(route)
        else:
            route.continue_()

    console.allow("ERR_FAILED")
    console.page.route("**/WhoAmI", hold_one)
    console.sign_in(token_of(guarded, "viewer"))
    held[0].abort()
    console.page.reload()
    expect(console.page.get_by_role("navigation", name="Views")).to_be_visible()


def test_a_token_that_is_revoked_ends_at_the_sign_in(signed_in: SignedIn, guarded: Yard) -> None:
    console = signed_in("operator")
    console.open("now")
    (token,) = [each for each in guarded.call("GET", "/tokens")["tokens"] if each["name"] == "the operator"][-1:]
    guarded.call("POST", f"/tokens/{token['tokenId']}/revoke")
    expect(console.page.get_by_label("Token")).to_be_visible()
    expect(console.page.get_by_role("alert")).to_be_visible()


VIEWED = ["Now", "Tasks", "Questions", "Operations", "Hosts", "Targets", "Schedules", "Limits"]


@pytest.mark.parametrize(
    ("role", "grant", "wanted"),
    [
        ("viewer", {}, VIEWED),
        ("operator", {}, VIEWED),
        ("agent", {"agents": ["ann"]}, ["Now", "Tasks", "Questions", "Operations"]),
        ("admin", {}, [*VIEWED, "Server"]),
    ],
)
def test_each_role_is_offered_the_views_that_it_may_see(
    signed_in: SignedIn, role: str, grant: dict[str, Any], wanted: list[str]
) -> None:
    console = signed_in(role, **grant)
    assert links(console) == wanted
    for view in wanted:
        console.page.get_by_role("link", name=view, exact=True).click()
        expect(console.page.get_by_role("heading", level=1)).to_have_text(view)
        console.settled()
        expect(console.main.get_by_text("could not be")).to_have_count(0)
    console.page.goto(f"{console.url}/ui/#/default/server")
    if "Server" not in wanted:
        expect(console.main).to_contain_text("You may not see this")


DEEDS = {"Cancel", "Pause", "Resume", "Resolve", "Submit", "Submit again", "All that match…"}
WRITES = {
    ("hosts", "host-1"): {"Drain", "Deregister"},
    ("limits",): {"New limit"},
    ("limits", "weights"): {"New weight"},
    ("schedules",): {"New schedule"},
    ("schedules", "nightly"): {"Trigger now", "Pause", "Edit", "Delete"},
    ("targets",): {"Resume", "Resolve"},
    ("tasks",): {"Submit", "All that match…"},
}


@pytest.fixture(scope="module")
def full(guarded: Yard) -> dict[str, str]:
    """A task of `ann` and one of `bob`, by their agents, and something of all else."""
    guarded.host()
    guarded.submit(target="shop")
    guarded.run().report("fail", error="no till")
    task = {"agentId": "ann", "action": "index"}
    guarded.call("POST", "/schedules", scheduleId="nightly", cron="0 3 * * *", task=task)
    return {agent: guarded.submit(agentId=agent, params={"secret": "thing"}) for agent in ("ann", "bob")}


def buttons(console: Console) -> set[str]:
    console.settled()
    return {name.strip() for name in console.main.get_by_role("button").all_inner_texts()}


@pytest.mark.usefixtures("full")
def test_a_viewer_is_offered_nothing_that_changes_anything(signed_in: SignedIn, full: dict[str, str]) -> None:
    console = signed_in("viewer")
    for path, writes in {**WRITES, ("tasks", full["ann"]): DEEDS}.items():
        console.open(*path)
        assert not buttons(console) & (writes | DEEDS), path
    expect(console.main.get_by_role("checkbox")).to_have_count(0)


@pytest.mark.usefixtures("full")
def test_a_viewer_sees_params_only_where_they_are_granted(signed_in: SignedIn, full: dict[str, str]) -> None:
    console = signed_in("viewer")
    console.open("tasks", full["ann"])
    console.settled()
    expect(console.main.get_by_text("thing")).to_have_count(0)
    console = signed_in("viewer", payloads=True)
    console.open("tasks", full["ann"])
    expect(console.main.get_by_text("thing").first).to_be_visible()


def test_a_viewer_sees_artifacts_only_where_params_are_granted(signed_in: SignedIn, guarded: Yard) -> None:
    task_id = guarded.submit(hold=True)
    guarded.put(f"/tasks/{task_id}/artifacts/notes.txt", b"a thing", "text/plain")
    console = signed_in("viewer")
    console.open("tasks", task_id)
    console.settled()
    expect(console.main.get_by_text("notes.txt")).to_have_count(0)
    console = signed_in("viewer", payloads=True)
    console.open("tasks", task_id)
    console.button("Show notes.txt").click()
    expect(console.main.get_by_text("a thing")).to_be_visible()


def test_an_operator_is_offered_all_of_a_namespace(signed_in: SignedIn, full: dict[str, str]) -> None:
    console = signed_in("operator")
    for path, writes in {**WRITES, ("tasks", full["bob"]): {"Cancel", "Submit again"}}.items():
        console.open(*path)
        assert writes <= buttons(console), path


def test_an_agent_is_offered_its_own_tasks(signed_in: SignedIn, full: dict[str, str]) -> None:
    console = signed_in("agent", agents=["ann"])
    console.open("tasks", full["ann"])
    assert {"Cancel", "Submit again"} <= buttons(console)
    console.open("tasks")
    expect(console.page.get_by_role("table", name="Tasks").locator(f"a[href$='{full['bob']}']")).to_have_count(0)
    console.button("Submit", console.page.locator("header")).click()
    expect(console.dialog.get_by_label("Agent")).to_have_value("ann")


def test_an_admin_makes_tokens_that_let_in(signed_in: SignedIn, new_page: NewPage, guarded: Yard) -> None:
    console = signed_in("admin")
    console.open("server", "tokens")
    console.button("New token").click()
    console.dialog.get_by_label("Whom or what it is for").fill("a guest")
    console.button("Create", console.dialog).click()
    expect(console.dialog.locator("code")).to_contain_text("tyd_")
    secret = console.dialog.locator("code").inner_text()
    guest = new_page(guarded.plane.url, guarded.namespace)
    guest.sign_in(secret)
    assert "Server" not in links(guest)
    expect(guest.page.get_by_text("a guest")).to_be_visible()
