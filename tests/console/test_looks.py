"""Each view, narrow and wide, dark and light: all of it is in reach, and axe finds nothing serious."""

from collections.abc import Iterator

import pytest

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


def looks(console: Console) -> None:
    """Look at the page as it is, wide and narrow."""
    console.settled()
    for width in (WIDE, NARROW):
        console.page.set_viewport_size({"width": width, "height": 900})
        assert hidden_px(console) <= 0, f"out of sight at {width}"
        assert console.serious_findings() == []


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view(new_page: NewPage, full_yard: Yard, view: str, scheme: str) -> None:
    console = new_page(full_yard.plane.url, full_yard.namespace, width=WIDE, color_scheme=scheme)
    console.open(view)
    looks(console)


@pytest.mark.parametrize("state", ["done", "failed", "running", "queued"])
def test_a_task(new_page: NewPage, full_yard: Yard, state: str) -> None:
    task_id = full_yard.tasks(state=state)[0]["taskId"]
    console = new_page(full_yard.plane.url, full_yard.namespace, width=WIDE)
    console.open("tasks", task_id)
    looks(console)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_a_namespace_without_anything(console: Console, view: str) -> None:
    console.open(view)
    looks(console)
