"""The server: settings and where each is from, namespaces, tokens, the store; and how it is reloaded and drained."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import Console
from tests.console.conftest import NewPage
from tests.console.yards import SETTINGS, Yard, plane

pytestmark = pytest.mark.gate("Chromium")


@pytest.fixture
def own_yard(tmp_path: Any) -> Iterator[Yard]:
    """A namespace of a server that a test may change and end."""
    with plane(tmp_path) as served, served.http("default") as client:
        yield Yard(served, "default", client)


def row(console: Console, text: str, is_whole: bool = True) -> Locator:
    """The row of which one cell is this text, or begins with it."""
    end = "$" if is_whole else ""
    cell = console.page.get_by_role("cell").filter(has_text=re.compile(f"^{re.escape(text)}{end}"))
    return console.main.get_by_role("row").filter(has=cell)


def test_settings_say_where_they_are_from(console: Console) -> None:
    console.open("server")
    expect(row(console, "scheduler.maxQueueSize")).to_contain_text("1000000")
    expect(row(console, "scheduler.maxQueueSize")).to_contain_text("file")
    expect(row(console, "scheduler.leaseSecs")).to_contain_text("default")
    console.page.get_by_role("searchbox").fill("maxQueueSize")
    expect(row(console, "scheduler.leaseSecs")).to_have_count(0)
    expect(row(console, "scheduler.maxQueueSize")).to_be_visible()


def test_settings_are_read_again(new_page: NewPage, own_yard: Yard) -> None:
    console = new_page(own_yard.plane.url, "default").open("server")
    expect(row(console, "scheduler.maxQueueSize")).to_contain_text("1000000")
    changed = {**SETTINGS["scheduler"], "maxQueueSize": 77}  # type: ignore[dict-item]
    own_yard.plane.write({**SETTINGS, "scheduler": changed})
    console.button("Reload the file").click()
    console.says("Changed: scheduler.maxQueueSize")
    expect(row(console, "scheduler.maxQueueSize")).to_contain_text("77")


def test_a_server_is_drained_and_stops(new_page: NewPage, own_yard: Yard) -> None:
    console = new_page(own_yard.plane.url, "default")
    console.allow("ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|50[23]")
    console.open("server")
    console.button("Drain the server").click()
    expect(console.button("Drain and stop", console.dialog)).to_be_disabled()
    console.dialog.get_by_label("Type drain to confirm").fill("drain")
    console.button("Drain and stop", console.dialog).click()
    console.says("The server drains and stops")
    assert own_yard.plane.process is not None
    assert own_yard.plane.process.wait(20) == 0


def test_a_namespace_is_made_limited_and_deleted(console: Console, yard: Yard) -> None:
    name = f"{yard.namespace}-made"
    console.open("server", "namespaces")
    console.button("New namespace").click()
    console.dialog.get_by_label("Name").fill(name)
    console.button("Create", console.dialog).click()
    console.says(f"The namespace {name} is made")
    console.page.get_by_role("link", name=name).click()
    console.button("Edit limits").click()
    console.dialog.get_by_label("Queued tasks (tasks)", exact=True).fill("5")
    console.button("Save", console.dialog).click()
    console.says(f"The limits of {name} are changed")
    expect(row(console, "Queued tasks")).to_contain_text("its own")
    assert yard.call("GET", f"/namespaces/{name}")["namespace"]["limits"] == {"maxQueueSize": 5}
    console.button("Edit limits").click()
    console.dialog.get_by_label("Queued tasks (tasks)", exact=True).fill("")
    console.button("Save", console.dialog).click()
    expect(console.dialog).to_have_count(0)
    assert not yard.call("GET", f"/namespaces/{name}")["namespace"].get("limits")
    console.button("Delete").click()
    expect(console.button("Delete everything in it")).to_be_disabled()
    console.dialog.get_by_label(f"Type {name} to confirm").fill(name)
    console.button("Delete everything in it", console.dialog).click()
    console.says(f"The namespace {name} is deleted")
    assert name not in [each["name"] for each in yard.call("GET", "/namespaces")["namespaces"]]


def test_a_token_is_made_shown_once_and_revoked(console: Console, yard: Yard) -> None:
    console.open("server", "tokens")
    console.button("New token").click()
    console.dialog.get_by_label("Whom or what it is for").fill(yard.namespace)
    console.dialog.get_by_label("Role").select_option("agent")
    console.dialog.get_by_label("Agents").fill("crawler-*, indexer")
    console.button("Create", console.dialog).click()
    expect(console.dialog.locator("code")).to_contain_text("tyd_")
    secret = console.dialog.locator("code").inner_text()
    console.button("I have it").click()
    expect(row(console, yard.namespace, is_whole=False)).to_contain_text("crawler-*, indexer")
    assert secret not in console.page.content()
    (token,) = [each for each in yard.call("GET", "/tokens")["tokens"] if each["name"] == yard.namespace]
    assert token["grants"][0]["agents"] == ["crawler-*", "indexer"]
    console.button("Revoke", row(console, yard.namespace, is_whole=False)).click()
    console.button("Revoke", console.dialog).click()
    console.says(f"{yard.namespace} is revoked")
    ended = yard.call("GET", "/tokens", includeEnded="true")["tokens"]
    assert "revokedAt" in next(each for each in ended if each["name"] == yard.namespace)


def test_the_store_is_shown_with_its_size(console: Console) -> None:
    console.open("server", "store")
    expect(console.main).to_contain_text("sqlite:///")
    expect(console.main).to_contain_text("taskyard store backup")


def test_a_server_alone_has_no_replicas(console: Console) -> None:
    console.open("server", "replicas")
    console.settled()
    expect(console.main).to_contain_text(re.compile("replica", re.IGNORECASE))
