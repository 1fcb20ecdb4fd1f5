"""Schedules: when each is due, what became of it, and how one is made, changed, paused, triggered and deleted."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console
from tests.console.yards import Yard

pytestmark = pytest.mark.gate("Chromium")

TASK = {"agentId": "indexer", "action": "index", "params": {"full": True}}


@pytest.fixture
def scheduled(yard: Yard) -> Yard:
    """A yard with the schedule `nightly`."""
    yard.call("POST", "/schedules", scheduleId="nightly", cron="0 3 * * *", timeZone="Europe/Berlin", task=TASK)
    return yard


def schedule(yard: Yard, name: str = "nightly") -> dict[str, Any]:
    found: dict[str, Any] = yard.call("GET", f"/schedules/{name}")["schedule"]
    return found


@pytest.mark.usefixtures("scheduled")
def test_all_schedules_are_listed_with_their_next_time(console: Console) -> None:
    console.open("schedules")
    row = console.page.get_by_role("table", name="Schedules").get_by_role("row").filter(has_text="nightly")
    for text in ("active", "0 3 * * *", "Europe/Berlin", "index"):
        expect(row).to_contain_text(text)


def test_a_schedule_is_made(console: Console, yard: Yard) -> None:
    console.open("schedules")
    console.button("New schedule").click()
    console.dialog.get_by_label("Id", exact=True).fill("hourly")
    console.dialog.get_by_label("Due", exact=True).select_option("Every so often")
    console.dialog.get_by_label("Interval").fill("1h")
    console.dialog.get_by_label("Agent").fill("indexer")
    console.dialog.get_by_label("Action").fill("refresh")
    console.dialog.get_by_label("Params").fill('{"depth": 2}')
    console.button("Create", console.dialog).click()
    console.says("The schedule is made")
    expect(console.page.get_by_role("heading", level=1)).to_have_text("hourly")
    made = schedule(yard, "hourly")
    assert (made["interval"], made["task"]["params"]) == ("1h", {"depth": 2})


def test_a_form_says_what_is_wrong_with_it(console: Console, yard: Yard) -> None:
    console.open("schedules")
    console.button("New schedule").click()
    console.dialog.get_by_label("Cron expression").fill("every night")
    console.dialog.get_by_label("Agent").fill("indexer")
    console.dialog.get_by_label("Action").fill("index")
    console.button("Create", console.dialog).click()
    expect(console.dialog.get_by_role("alert")).to_be_visible()
    assert yard.call("GET", "/schedules")["schedules"] == []


def test_a_schedule_is_changed(console: Console, scheduled: Yard) -> None:
    console.open("schedules", "nightly")
    console.button("Edit").click()
    console.dialog.get_by_label("Cron expression").fill("30 4 * * *")
    console.button("Save", console.dialog).click()
    console.says("The schedule is changed")
    expect(console.main).to_contain_text("30 4 * * *")
    assert (schedule(scheduled)["cron"], schedule(scheduled)["timeZone"]) == ("30 4 * * *", "Europe/Berlin")


@pytest.mark.usefixtures("scheduled")
def test_the_next_times_are_previewed(console: Console) -> None:
    console.open("schedules", "nightly")
    times = console.main.get_by_role("list").get_by_role("listitem")
    expect(times).to_have_count(5)
    expect(times.first).to_contain_text("03:00")
    console.button("20 more").click()
    expect(times).to_have_count(25)


def test_a_schedule_is_paused_and_resumed(console: Console, scheduled: Yard) -> None:
    console.open("schedules", "nightly")
    console.button("Pause").click()
    console.says("nightly is paused")
    console.button("Resume").click()
    assert schedule(scheduled)["status"] == "paused"
    console.button("Resume", console.dialog).click()
    console.says("nightly is resumed")
    expect(console.button("Pause")).to_be_visible()
    assert schedule(scheduled)["status"] == "active"


def test_a_schedule_is_triggered_and_shows_what_came_of_it(console: Console, scheduled: Yard) -> None:
    console.open("schedules", "nightly")
    console.button("Trigger now").click()
    console.says("nightly is triggered")
    row = console.page.get_by_role("table", name="Triggers").locator("tbody").get_by_role("row")
    expect(row).to_contain_text("executing")
    (task,) = scheduled.tasks()
    expect(row.get_by_role("link", name=task["taskId"])).to_be_visible()
    scheduled.host()
    scheduled.run().report("complete")
    expect(row).to_contain_text("completed")


def test_a_schedule_is_deleted(console: Console, scheduled: Yard) -> None:
    console.open("schedules", "nightly")
    console.button("Delete").click()
    console.button("Delete", console.dialog).click()
    console.says("nightly is deleted")
    expect(console.main).to_contain_text("No schedule is set")
    assert scheduled.call("GET", "/schedules")["schedules"] == []
