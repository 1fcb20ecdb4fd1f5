"""The frame around the views: navigation, namespaces, themes, and the way about by keyboard alone."""

import pytest
from playwright.sync_api import expect

from tests.console.browsing import VIEWS, Console
from tests.console.yards import Yard

pytestmark = pytest.mark.gate("Chromium")


def test_every_view_is_a_step_away(console: Console) -> None:
    console.open("now")
    links = console.page.get_by_role("navigation", name="Views").get_by_role("link")
    expect(links).to_have_count(len(VIEWS))
    for place, view in enumerate(VIEWS):
        links.nth(place).click()
        expect(console.page.get_by_role("heading", level=1)).to_have_text(view.capitalize())
        expect(links.nth(place)).to_have_attribute("aria-current", "page")
        expect(console.page).to_have_title(f"{view.capitalize()} · Taskyard")


def test_a_namespace_is_chosen_and_stays_chosen(console: Console, yard: Yard) -> None:
    yard.submit()
    console.namespace = "default"
    console.open("tasks")
    console.page.get_by_label("Namespace").select_option(yard.namespace)
    expect(console.page).to_have_url(f"{console.url}/ui/#/{yard.namespace}/tasks")
    console.page.goto(f"{console.url}/ui/")
    console.page.reload()
    expect(console.page.get_by_label("Namespace")).to_have_value(yard.namespace)


def test_an_address_of_what_is_no_namespace_says_so(console: Console) -> None:
    console.page.goto(f"{console.url}/ui/#/javascript:1/tasks")
    expect(console.main).to_contain_text("taskyard-namespace: must be")
    console.open("tasks")
    expect(console.main).to_contain_text("There are no tasks")


def test_an_address_of_what_is_no_namespace_is_not_where_the_next_visit_begins(console: Console) -> None:
    console.page.goto(f"{console.url}/ui/#/{console.namespace}/server")
    console.page.goto(f"{console.url}/ui/#/javascript:1/tasks")
    expect(console.main).to_contain_text("taskyard-namespace: must be")
    console.page.goto("about:blank")
    console.page.goto(f"{console.url}/ui/")
    expect(console.page).to_have_url(f"{console.url}/ui/")
    expect(console.page.get_by_label("Namespace")).to_have_value(console.namespace)


@pytest.mark.parametrize("address", ["nothing", "tasks/tsk_00000000000000000000000000000000"])
def test_an_address_of_nothing_says_so(console: Console, address: str) -> None:
    console.page.goto(f"{console.url}/ui/#/{console.namespace}/{address}")
    expect(console.main).to_contain_text("Not found" if "/" in address else "There is no such page")


def test_a_theme_is_chosen_and_stays_chosen(console: Console) -> None:
    console.open("now")

    def background() -> str:
        return str(console.page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))

    seen = [background()]
    for _ in range(3):
        button = console.page.get_by_role("button", name="Theme:")
        before = button.get_attribute("aria-label") or ""
        button.click()
        expect(button).not_to_have_attribute("aria-label", before)
        seen.append(background())
    assert len(set(seen)) == 2, seen
    while "dark" not in (console.page.get_by_role("button", name="Theme:").get_attribute("aria-label") or ""):
        console.page.get_by_role("button", name="Theme:").click()
    dark = background()
    console.page.reload()
    expect(console.page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert background() == dark


def test_the_keyboard_alone_gets_about(console: Console) -> None:
    console.open("now")
    press = console.page.keyboard.press
    press("Tab")
    expect(console.button("Skip to content")).to_be_focused()
    press("Enter")
    expect(console.main).to_be_focused()
    console.page.reload()
    expect(console.page.get_by_role("heading", level=1)).to_be_visible()
    link = console.page.get_by_role("link", name="Tasks", exact=True)
    for _ in range(20):
        press("Tab")
        if link.evaluate("(link) => link === document.activeElement"):
            break
    expect(link).to_be_focused()
    assert link.evaluate("(link) => getComputedStyle(link).outlineStyle") != "none", "the focus is to be seen"
    press("Enter")
    expect(console.page.get_by_role("heading", level=1)).to_have_text("Tasks")
