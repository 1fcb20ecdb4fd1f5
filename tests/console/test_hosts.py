"""Hosts: who is there, what each holds and does, and how one is sent away."""

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console
from tests.console.yards import Yard

pytestmark = pytest.mark.gate("Chromium")


@pytest.fixture
def busy(yard: Yard) -> Yard:
    """A yard of two hosts, of which one holds a task."""
    yard.host("host-1", display_name="The first", capabilities=["gpu"], slots=1, machine={"cpu_percent": 42.0})
    yard.host("host-2", capabilities=["browser"])
    yard.submit(requires=["gpu"])
    yard.run("host-1")
    return yard


@pytest.mark.usefixtures("busy")
def test_all_hosts_are_listed_with_their_load(console: Console) -> None:
    console.open("hosts")
    table = console.page.get_by_role("table", name="Hosts")
    row = table.get_by_role("row").filter(has_text="The first")
    expect(row).to_contain_text("busy")
    expect(row).to_contain_text("1 / 1")
    expect(row).to_contain_text("42 %")
    expect(table.get_by_role("row").filter(has_text="host-2")).to_contain_text("idle")


def test_a_new_host_appears_by_itself(console: Console, busy: Yard) -> None:
    console.open("hosts")
    busy.host("host-3")
    expect(console.page.get_by_role("link", name="host-3")).to_be_visible()


def test_hosts_are_searched_by_what_they_can(console: Console, busy: Yard) -> None:
    console.open("hosts")
    rows = console.page.get_by_role("table", name="Hosts").locator("tbody").get_by_role("row")
    expect(rows).to_have_count(2)
    console.page.get_by_role("searchbox").fill("browser")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("host-2")
    expect(console.page).to_have_url(f"{console.url}/ui/#/{busy.namespace}/hosts?q=browser")


def test_a_host_shows_what_it_holds(console: Console, busy: Yard) -> None:
    console.open("hosts")
    console.page.get_by_role("link", name="The first").click()
    expect(console.page.get_by_role("heading", level=1)).to_have_text("The first")
    (task,) = busy.tasks(state="running")
    leases = console.page.get_by_role("table", name="Leases of this host")
    expect(leases.get_by_role("link", name=task["taskId"])).to_be_visible()


def test_a_host_is_drained(console: Console, busy: Yard) -> None:
    console.open("hosts", "host-1")
    console.button("Drain").click()
    console.dialog.get_by_label("Grace period in seconds").fill("30")
    console.button("Drain", console.dialog).click()
    console.says("The first drains")
    expect(console.dialog).to_have_count(0)
    expect(console.main).to_contain_text("draining")
    (host,) = [each for each in busy.call("GET", "/api/runtime-hosts")["hosts"] if each["id"] == "host-1"]
    assert host["draining"]


def test_a_host_is_deregistered(console: Console, busy: Yard) -> None:
    console.open("hosts", "host-1")
    console.button("Deregister").click()
    expect(console.dialog).to_contain_text("go back to the queue")
    console.button("Deregister", console.dialog).click()
    console.says("The first is deregistered")
    expect(console.page.get_by_role("heading", level=1)).to_have_text("Hosts")
    expect(console.page.get_by_role("link", name="The first")).to_have_count(0)
    assert [each["id"] for each in busy.call("GET", "/api/runtime-hosts")["hosts"]] == ["host-2"]


def test_what_is_asked_for_may_be_left(console: Console, busy: Yard) -> None:
    console.open("hosts", "host-1")
    console.button("Deregister").click()
    console.button("Back", console.dialog).click()
    expect(console.dialog).to_have_count(0)
    console.button("Deregister").click()
    expect(console.dialog).to_be_visible()
    console.page.keyboard.press("Escape")
    expect(console.dialog).to_have_count(0)
    assert len(busy.call("GET", "/api/runtime-hosts")["hosts"]) == 2
