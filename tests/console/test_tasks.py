"""The list of tasks: live, filtered, from the history; and what is done to one, some and all of them."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import Console
from tests.console.yards import Yard

pytestmark = pytest.mark.gate("Chromium")


def rows(console: Console) -> Locator:
    """The rows that are drawn, without the head."""
    return (
        console.page.get_by_role("table", name="Tasks").get_by_role("row").filter(has=console.page.get_by_role("cell"))
    )


def row(console: Console, task_id: str) -> Locator:
    """The row of a task."""
    return rows(console).filter(has=console.page.locator(f"a[href$='/tasks/{task_id}']"))


def test_tasks_come_and_change_by_themselves(console: Console, yard: Yard) -> None:
    console.open("tasks")
    expect(console.main).to_contain_text("There are no tasks")
    task_id = yard.submit("crawl", labels={"site": "shop"})
    expect(row(console, task_id)).to_contain_text("queued")
    expect(row(console, task_id)).to_contain_text("site=shop")
    yard.host()
    lease = yard.run()
    expect(row(console, task_id)).to_contain_text("running")
    lease.report("progress", progress={"fraction": 0.5, "message": "half way"})
    expect(row(console, task_id)).to_contain_text("half way")
    lease.report("fail", error="no such page")
    expect(row(console, task_id)).to_contain_text("failed")
    expect(row(console, task_id)).to_contain_text("no such page")


def test_the_youngest_is_first_until_the_order_is_changed(console: Console, yard: Yard) -> None:
    for number in range(3):
        yard.submit(f"action-{number}")
    console.open("tasks")
    expect(rows(console)).to_have_count(3)
    expect(rows(console).first).to_contain_text("action-2")
    console.button("Newest first").click()
    expect(rows(console).first).to_contain_text("action-0")


def test_a_task_is_submitted(console: Console, yard: Yard) -> None:
    console.open("tasks")
    console.button("Submit", console.page.locator("header")).click()
    console.dialog.get_by_label("Agent").fill("ann")
    console.dialog.get_by_label("Action").fill("crawl")
    console.dialog.get_by_label("Params").fill('["no object"]')
    console.button("Submit", console.dialog).click()
    expect(console.dialog.get_by_role("alert")).to_contain_text("JSON object")
    console.dialog.get_by_label("Params").fill('{"url": "https://example.org"}')
    console.dialog.get_by_label("Labels").fill("site=shop, env=prod")
    console.dialog.get_by_text("More", exact=True).click()
    console.dialog.get_by_label("Priority").fill("3")
    console.button("Submit", console.dialog).click()
    console.says("The task is submitted")
    (task,) = yard.tasks()
    assert (task["agentId"], task["priority"], task["params"]) == ("ann", 3, {"url": "https://example.org"})
    assert task["labels"] == {"site": "shop", "env": "prod"}
    expect(console.page).to_have_url(re.compile(f"/tasks/{task['taskId']}"))


def test_states_narrow_the_list_down_and_are_counted(console: Console, yard: Yard) -> None:
    yard.submit_many(3)
    yard.host()
    done = yard.run()
    done.report("complete")
    console.open("tasks")
    expect(console.button(re.compile("^queued"))).to_contain_text("2")
    console.button(re.compile("^done")).click()
    expect(rows(console)).to_have_count(1)
    expect(row(console, done.task_id)).to_be_visible()
    expect(console.page).to_have_url(re.compile(r"\?state=done$"))
    console.button("Clear").click()
    expect(rows(console)).to_have_count(3)


FILTERS = {
    "Agent": "bob",
    "Action": "index",
    "Target": "shop",
    "Labels": "site=shop,env!=dev",
    "Concurrency key": "site:example.org",
    "Host": "host-1",
    "Error holds": "no such",
}


@pytest.mark.parametrize("view", ["Live", "History"])
def test_each_filter_narrows_the_list_down(console: Console, yard: Yard, view: str) -> None:
    yard.host()
    keys = ["site:example.org"]
    meant = yard.submit("index", agentId="bob", target="shop", labels={"site": "shop"}, concurrencyKeys=keys)
    yard.run().report("fail", error="there is no such page")
    yard.submit("crawl", agentId="ann", labels={"site": "shop", "env": "dev"})
    console.open("tasks")
    console.page.get_by_role("link", name=view).click()
    for label, value in FILTERS.items():
        expect(rows(console)).to_have_count(2)
        console.button("Filter").click()
        console.dialog.get_by_label(label).fill(value)
        console.button("Apply", console.dialog).click()
        expect(rows(console)).to_have_count(1)
        expect(row(console, meant)).to_be_visible()
        console.button(f"Remove the filter {label}").click()


def test_filters_stand_in_the_address(console: Console, yard: Yard) -> None:
    yard.submit("index")
    yard.submit("crawl")
    console.open("tasks")
    console.button("Filter").click()
    console.dialog.get_by_label("Action").fill("index")
    console.button("Apply", console.dialog).click()
    expect(console.page).to_have_url(re.compile(r"\?action=index$"))
    console.page.reload()
    expect(console.button("Remove the filter Action")).to_be_visible()
    expect(rows(console)).to_have_count(1)


def test_labels_that_are_no_selector_are_refused_in_the_form(console: Console) -> None:
    console.open("tasks")
    console.button("Filter").click()
    console.dialog.get_by_label("Labels").fill("site in shop")
    console.button("Apply", console.dialog).click()
    expect(console.dialog.get_by_role("alert")).to_be_visible()


def test_a_list_that_is_held_counts_what_comes(console: Console, yard: Yard) -> None:
    yard.submit()
    console.open("tasks")
    expect(rows(console)).to_have_count(1)
    console.button("Freeze").click()
    # The list is held once it says so, and not with the click.
    expect(console.button("Continue")).to_be_visible()
    yard.submit_many(2)
    expect(console.main).to_contain_text("2 new")
    expect(rows(console)).to_have_count(1)
    console.button("Continue").click()
    expect(rows(console)).to_have_count(3)


def test_of_many_rows_only_those_in_sight_are_drawn(console: Console, yard: Yard) -> None:
    yard.submit_many(500)
    console.open("tasks")
    expect(console.page.get_by_role("table", name="Tasks")).to_have_attribute("aria-rowcount", "501")
    assert rows(console).count() < 60
    console.page.get_by_role("region", name="List of tasks").press("End")
    expect(rows(console).last).to_have_attribute("aria-rowindex", "501")
    expect(rows(console).last.get_by_role("link")).to_be_focused()


def test_the_keyboard_alone_opens_and_selects(console: Console, yard: Yard) -> None:
    yard.submit("first")
    yard.submit("second")
    console.open("tasks")
    expect(rows(console)).to_have_count(2)
    press = console.page.keyboard.press
    console.page.get_by_role("region", name="List of tasks").focus()
    press("ArrowDown")
    expect(rows(console).first.get_by_role("link")).to_be_focused()
    press("ArrowDown")
    expect(rows(console).last.get_by_role("link")).to_be_focused()
    press(" ")
    expect(console.main).to_contain_text("1 selected")
    press("Enter")
    expect(console.page.get_by_role("heading", level=1)).to_contain_text("first")


def test_what_is_selected_is_cancelled(console: Console, yard: Yard) -> None:
    ids = yard.submit_many(3)
    console.open("tasks")
    for task_id in ids[:2]:
        console.page.get_by_label(f"Select {task_id}").check()
    expect(console.main).to_contain_text("2 selected")
    console.button("Cancel", console.main).click()
    console.button("Cancel 2 tasks", console.dialog).click()
    console.says("2 of 2 tasks cancelled")
    assert [yard.task(task_id)["state"] for task_id in ids] == ["cancelled", "cancelled", "queued"]


def test_what_cannot_be_done_to_a_task_is_not_offered(console: Console, yard: Yard) -> None:
    task_id = yard.submit()
    console.open("tasks")
    console.page.get_by_label(f"Select {task_id}").check()
    for name, is_offered in {"Pause": False, "Resume": False, "Resolve": False, "Cancel": True}.items():
        expect(console.button(name, console.main)).to_be_enabled(enabled=is_offered)


def test_all_that_match_are_counted_first_and_then_cancelled(console: Console, yard: Yard) -> None:
    yard.submit_many(70, labels={"site": "shop"})
    yard.submit_many(5, labels={"site": "blog"})
    console.open("tasks", labels="site=shop")
    console.button(re.compile("^All that match")).click()
    console.dialog.get_by_label("What to do").select_option("Cancel")
    console.button("Cancel: 70 tasks", console.dialog).click()
    expect(console.dialog).to_contain_text("70 of 70 done")
    assert len(yard.tasks(state="queued", pageSize=200)) == 5


@pytest.mark.parametrize("kind", ["Pause", "Resume", "Resolve", "Change the priority"])
def test_other_things_are_done_to_all_that_match(console: Console, yard: Yard, kind: str) -> None:
    yard.host()
    task_id = yard.submit()
    lease = yard.run()
    if kind in ("Resume", "Resolve"):
        yard.call("POST", f"/tasks/{task_id}/pause")
        lease.report("release")
    console.open("tasks")
    expect(rows(console)).to_have_count(1)
    console.button(re.compile("^All that match")).click()
    console.dialog.get_by_label("What to do").select_option(kind)
    if kind == "Change the priority":
        console.dialog.get_by_label("Priority").fill("7")
    console.button(f"{kind}: 1 tasks", console.dialog).click()
    expect(console.dialog).to_contain_text("1 of 1 done")
    task = yard.task(task_id)
    wanted = {"Pause": "paused", "Resume": "queued", "Resolve": "done"}.get(kind)
    assert task["priority"] == 7 if wanted is None else task["state"] == wanted


def test_the_history_holds_what_is_no_longer_live(console: Console, yard: Yard) -> None:
    ids = yard.submit_many(250)
    console.open("tasks", history="1")
    expect(console.main).to_contain_text("200 tasks")
    console.page.get_by_role("region", name="List of tasks").press("End")
    expect(console.main).to_contain_text("250 tasks")
    console.page.get_by_role("region", name="List of tasks").press("End")
    expect(row(console, ids[0])).to_be_visible()
