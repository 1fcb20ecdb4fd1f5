"""Targets: which are blocked and by what, and how each goes on."""

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import Console
from tests.console.yards import Lease, Yard

pytestmark = pytest.mark.gate("Chromium")


@pytest.fixture
def blocked(yard: Yard) -> Lease:
    """What failed at the target `shop`, for which one more task waits."""
    yard.host()
    yard.submit(target="shop")
    yard.submit(target="shop")
    lease = yard.run()
    lease.report("fail", error="no till")
    return lease


def row(console: Console) -> Locator:
    table = console.page.get_by_role("table", name="Targets")
    return table.get_by_role("row").filter(has=console.page.get_by_role("link", name="shop", exact=True))


def test_a_blocked_target_says_what_it_waits_for(console: Console, blocked: Lease) -> None:
    console.open("targets")
    expect(row(console)).to_contain_text("blocked")
    expect(row(console).get_by_role("link", name=blocked.task_id)).to_be_visible()


def test_the_list_says_which_task_blocks_a_target_and_who_waits_for_it(console: Console, blocked: Lease) -> None:
    console.open("tasks")
    rows = console.page.get_by_role("table", name="Tasks").get_by_role("row")
    expect(rows.filter(has_text="failed")).to_contain_text("blocks shop no till")
    waits = f"shop waits for …{blocked.task_id[-6:]} to be resumed, resolved or cancelled"
    expect(rows.filter(has_text="queued")).to_contain_text(waits)


def test_the_task_of_a_target_is_resumed(console: Console, blocked: Lease) -> None:
    console.open("targets")
    console.button("Resume", row(console)).click()
    console.button("Resume", console.dialog).click()
    console.says("The task of shop is queued again")
    expect(row(console)).to_contain_text("ready")
    assert blocked.yard.task(blocked.task_id)["state"] == "queued"


def test_the_task_of_a_target_is_resolved(console: Console, blocked: Lease) -> None:
    console.open("targets")
    console.button("Resolve", row(console)).click()
    console.dialog.get_by_label("Result as JSON").fill('{"paid": true')
    console.button("Resolve", console.dialog).click()
    expect(console.dialog.get_by_role("alert")).to_contain_text("This is not JSON")
    console.dialog.get_by_label("Result as JSON").fill('{"paid": true}')
    console.button("Resolve", console.dialog).click()
    console.says("The task of shop is done")
    task = blocked.yard.task(blocked.task_id)
    assert (task["state"], task["result"]) == ("done", {"paid": True})
