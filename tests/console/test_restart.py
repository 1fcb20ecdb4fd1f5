"""A page that is left open goes on by itself when the server ends and comes back."""

import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.console.browsing import VIEWS, Console
from tests.console.conftest import NewPage
from tests.console.yards import Plane, Yard, plane
from tests.tiers import spread

pytestmark = pytest.mark.gate("Chromium")

AWAY = "The server does not answer"
BACK_MS = 20_000


@pytest.fixture(scope="module")
def own_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A server that tests may end."""
    with plane(tmp_path_factory.mktemp("restarted")) as served:
        yield served


@pytest.fixture
def own_yard(own_plane: Plane) -> Iterator[Yard]:
    with own_plane.http("default") as client:
        yield Yard(own_plane, "default", client)


def opened(new_page: NewPage, yard: Yard, *path: str) -> Console:
    # Apart, since the tabs of one context share six connections to a server.
    console = new_page(yard.plane.url, yard.namespace, {})
    # Chromium itself says that nobody listens.
    console.allow("ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|50[23]")
    return console.open(*path)


@pytest.mark.long
@pytest.mark.parametrize("how", spread([signal.SIGKILL, signal.SIGTERM]), ids=["killed", "ended"])
def test_every_view_goes_on_after_a_restart(new_page: NewPage, own_yard: Yard, how: signal.Signals) -> None:
    own_yard.host(f"before-{how.name}")
    consoles = {view: opened(new_page, own_yard, view) for view in VIEWS}
    for console in consoles.values():
        console.settled()
    own_yard.plane.stop(how)
    for view, console in consoles.items():
        expect(console.page.get_by_text(AWAY), view).to_be_visible(timeout=BACK_MS)
    own_yard.plane.start()
    own_yard.submit(f"after-{how.name}", agentId=f"agent-{how.name}", target=f"target-{how.name}")
    own_yard.host(f"after-{how.name}")
    for view, console in consoles.items():
        expect(console.page.get_by_text(AWAY), view).to_have_count(0, timeout=BACK_MS)
    for view, text in (
        ("tasks", f"after-{how.name}"),
        ("hosts", f"after-{how.name}"),
        ("targets", f"target-{how.name}"),
    ):
        expect(consoles[view].main.get_by_text(text).first, view).to_be_visible()


def test_what_failed_for_an_outage_can_be_done_again(new_page: NewPage, own_yard: Yard) -> None:
    console = opened(new_page, own_yard, "limits")
    console.button("New limit").click()
    console.dialog.get_by_label("Pattern").fill("again:*")
    console.dialog.get_by_label("Tasks in flight").fill("2")
    own_yard.plane.stop()
    console.button("Set", console.dialog).click()
    expect(console.dialog.get_by_role("alert")).to_be_visible()
    own_yard.plane.start()
    console.button("Set", console.dialog).click()
    console.says("The limit of again:* holds")
