"""Each view, narrow and wide, dark and light: all of it is in reach, and axe finds nothing serious."""

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import VIEWS, Console
from tests.console.conftest import NewPage
from tests.console.populated import populate
from tests.console.yards import Plane, Yard

pytestmark = pytest.mark.gate("Chromium")

NARROW, WIDE = 400, 1_600
WIDTH = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"


@pytest.fixture(scope="module")
def full_yard(open_plane: Plane) -> Iterator[Yard]:
    with open_plane.http("full") as client:
        yard = Yard(open_plane, "full", client)
        populate(yard)
        yield yard


def hidden_px(console: Console) -> int:
    """How much wider the page is than its window, once charts have taken up the new width."""
    hidden = 0
    for _ in range(20):
        needed, there = console.page.evaluate(WIDTH)
        hidden = needed - there
        if hidden <= 0:
            break
        console.page.wait_for_timeout(100)
    return hidden


def cut_off(console: Console) -> list[str]:
    """The buttons of the view that are not, or not wholly, to be seen without scrolling sideways."""
    found: list[str] = console.page.evaluate(
        """[...document.querySelectorAll("main .button")]
        .filter((each) => each.offsetParent && each.getBoundingClientRect().right > window.innerWidth)
        .map((each) => each.textContent || each.ariaLabel)"""
    )
    return found


def under_the_pointer(console: Console, within: Locator) -> None:
    """Look at the buttons as each is while the pointer is on it."""
    schemes: tuple[Literal["dark", "light"], ...] = ("dark", "light")
    for scheme in schemes:
        console.page.emulate_media(color_scheme=scheme)
        buttons = within.locator(".button:visible:enabled")
        assert buttons.count()
        for at in range(min(buttons.count(), 12)):
            buttons.nth(at).hover()
            assert console.serious_findings("document.querySelector('.button:hover')") == [], scheme


def looks(console: Console, *schemes: Literal["dark", "light"]) -> None:
    """Look at the page as it is, wide and narrow, in each scheme."""
    console.settled()
    for scheme in schemes:
        console.page.emulate_media(color_scheme=scheme)
        for width in (WIDE, NARROW):
            console.page.set_viewport_size({"width": width, "height": 900})
            assert hidden_px(console) <= 0, f"out of sight at {width}"
            assert cut_off(console) == [], f"out of sight at {width}"
            assert console.serious_findings() == [], f"{scheme}, at {width}"


@pytest.fixture
def full_console(new_page: NewPage, full_yard: Yard) -> Console:
    return new_page(full_yard.plane.url, full_yard.namespace)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view(full_console: Console, view: str) -> None:
    full_console.open(view)
    looks(full_console, "dark", "light")


@pytest.mark.parametrize("state", ["done", "failed", "running", "queued"])
def test_a_task(full_console: Console, full_yard: Yard, state: str) -> None:
    full_console.open("tasks", full_yard.tasks(state=state)[0]["taskId"])
    looks(full_console, "light")


def test_the_output_of_a_task(full_console: Console, full_yard: Yard) -> None:
    full_console.open("tasks", full_yard.tasks(state="running")[0]["taskId"])
    expect(full_console.page.get_by_role("log", name="Output")).to_contain_text("has no price")
    looks(full_console, "dark", "light")


def test_the_artifacts_of_a_task(full_console: Console, full_yard: Yard) -> None:
    full_console.open("tasks", full_yard.tasks(state="running")[0]["taskId"])
    for name in ("products.json", "page.png"):
        full_console.button(f"Show {name}").click()
    expect(full_console.page.get_by_role("img", name="page.png")).to_be_visible()
    expect(full_console.page.get_by_role("region", name="The text of products.json")).to_contain_text("Lamp")
    looks(full_console, "dark", "light")


@pytest.mark.parametrize("view", ["tasks", "targets"])
def test_the_buttons_of_a_view_under_the_pointer(full_console: Console, view: str) -> None:
    full_console.open(view)
    full_console.settled()
    under_the_pointer(full_console, full_console.main)


def test_the_buttons_of_a_dialog_under_the_pointer(full_console: Console) -> None:
    full_console.open("targets")
    full_console.button("Resolve").first.click()
    expect(full_console.dialog).to_be_visible()
    under_the_pointer(full_console, full_console.dialog)


# The server's own view is the same in each namespace.
@pytest.mark.parametrize("view", [view for view in VIEWS if view != "server"])
def test_a_view_of_a_namespace_without_anything(console: Console, view: str) -> None:
    console.open(view)
    looks(console, "light")
