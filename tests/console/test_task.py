"""One task: where it stands and how it came there, why it waits, what is done to it, and how it is made again."""

import os
import re
import subprocess
import sys

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import Console
from tests.console.conftest import NewPage
from tests.console.yards import Yard
from tests.grpcurl import installed_grpcurl

pytestmark = pytest.mark.gate("Chromium")

PARAMS = {"url": "https://example.org/it's", "depth": 2, "tags": ["a", None, True], "more": {"deep": {"er": 1.5}}}


def card(console: Console, title: str) -> Locator:
    heading = console.page.get_by_role("heading", name=title, exact=True)
    return console.main.locator("section").filter(has=heading)


def test_a_task_is_shown_as_it_changes(console: Console, yard: Yard) -> None:
    task_id = yard.submit("crawl", params=PARAMS, labels={"site": "shop"})
    console.open("tasks", task_id)
    title = console.page.get_by_role("heading", level=1)
    expect(title).to_contain_text("crawl")
    expect(title).to_contain_text("queued")
    yard.host()
    lease = yard.run()
    expect(title).to_contain_text("running")
    lease.report("progress", progress={"fraction": 0.25, "message": "a quarter"})
    expect(card(console, "Time line")).to_contain_text("25 %")
    expect(card(console, "Time line")).to_contain_text("a quarter")
    lease.report("complete", result={"pages": 4})
    expect(title).to_contain_text("done")
    expect(card(console, "Result")).to_contain_text("pages")
    for text in ("Submitted by", "Began at", "host-1"):
        expect(card(console, "Time line")).to_contain_text(text)


# Holds back the first answer to a read from now on, until `release()`.
HOLD_A_READ = """
const real = window.fetch;
const released = new Promise((resolve) => { window.release = resolve; });
window.reads = 0;
window.fetch = async (...request) => {
  const response = await real(...request);
  if (String(request[0]).endsWith("/GetTask") && ++window.reads === 1) await released;
  return response;
};
// What is a function at the end would be called.
null
"""


def test_what_was_read_before_an_event_does_not_take_its_place(console: Console, yard: Yard) -> None:
    yard.host()
    console.open("tasks", yard.submit("crawl"))
    lease = yard.claim()
    expect(console.page.get_by_role("heading", level=1)).to_contain_text("assigned")
    console.page.evaluate(HOLD_A_READ)
    lease.report("start")
    console.page.wait_for_function("() => window.reads === 1")
    lease.report("progress", progress={"fraction": 0.25})
    expect(card(console, "Time line")).to_contain_text("25 %")
    console.page.evaluate("window.release()")
    console.page.wait_for_function("() => window.reads === 2")
    expect(card(console, "Time line")).to_contain_text("25 %")


def test_params_are_a_tree(console: Console, yard: Yard) -> None:
    console.open("tasks", yard.submit(params=PARAMS))
    tree = card(console, "Params")
    expect(tree).to_contain_text("https://example.org/it's")
    expect(tree).to_contain_text("deep")


def test_markup_in_values_is_text(console: Console, yard: Yard) -> None:
    evil = "<img src=x onerror=console.error('run')><script>console.error('run')</script>"
    task_id = yard.submit(evil[:60], params={evil: evil})
    console.open("tasks", task_id)
    expect(card(console, "Params")).to_contain_text(evil)
    console.open("tasks")
    expect(console.main).to_contain_text(evil[:20])


def test_why_it_waits_is_said(console: Console, yard: Yard) -> None:
    first = yard.submit("first", hold=True)
    console.open("tasks", yard.submit("second", after=[first]))
    expect(card(console, "Why it waits")).to_contain_text("a task that it comes after has not ended")
    card(console, "Why it waits").get_by_role("link").click()
    expect(console.page.get_by_role("heading", level=1)).to_contain_text("first")


def test_inputs_lead_to_the_tasks_whose_results_they_are(console: Console, yard: Yard) -> None:
    first = yard.submit("first", hold=True)
    console.open("tasks", yard.submit("second", inputs={"page": first}))
    expect(card(console, "About")).to_contain_text("page")
    card(console, "About").locator(f'a[href*="{first}"]').click()
    expect(console.page.get_by_role("heading", level=1)).to_contain_text("first")


def test_attempts_are_told_one_by_one(console: Console, yard: Yard) -> None:
    yard.host()
    task_id = yard.submit(retryPolicy={"maxAttempts": 2, "firstDelayMs": 1})
    yard.run().report("fail", error="the first time", code="oops")
    console.open("tasks", task_id)
    table = console.page.get_by_role("table", name="Attempts")
    expect(table).to_contain_text("the first time")
    expect(table).to_contain_text("oops")


def test_a_failure_shows_its_traceback(console: Console, yard: Yard) -> None:
    yard.host()
    task_id = yard.submit()
    yard.run().report("fail", error="no such page", traceback="Traceback (most recent call last):\n  in crawl")
    console.open("tasks", task_id)
    expect(console.main).to_contain_text("no such page")
    console.button("Traceback").click()
    expect(console.dialog).to_contain_text("in crawl")


def test_a_task_is_paused_and_resumed(console: Console, yard: Yard) -> None:
    yard.host()
    task_id = yard.submit()
    lease = yard.run()
    console.open("tasks", task_id)
    console.button("Pause").click()
    console.dialog.get_by_label("Reason").fill("the site is down")
    console.button("Pause", console.dialog).click()
    console.says("The task is paused")
    expect(console.main).to_contain_text("the site is down")
    lease.report("release")
    console.button("Resume").click()
    console.says("The task is resumed")
    expect(console.page.get_by_role("heading", level=1)).to_contain_text("queued")
    assert yard.task(task_id)["state"] == "queued"


def test_a_task_is_resolved_with_a_result(console: Console, yard: Yard) -> None:
    yard.host()
    task_id = yard.submit()
    yard.run().report("fail", error="no")
    console.open("tasks", task_id)
    console.button("Resolve").click()
    console.dialog.get_by_label("Result").fill('{"by": "hand"')
    console.button("Resolve", console.dialog).click()
    expect(console.dialog.get_by_role("alert")).to_be_visible()
    console.dialog.get_by_label("Result").fill('{"by": "hand"}')
    console.button("Resolve", console.dialog).click()
    console.says("The task is resolved")
    assert yard.task(task_id)["result"] == {"by": "hand"}


def test_a_task_is_cancelled_with_what_its_work_has_submitted(console: Console, yard: Yard) -> None:
    yard.host()
    task_id = yard.submit()
    yard.run()
    child = yard.submit("child", parentId=task_id)
    console.open("tasks", task_id)
    expect(console.page.get_by_role("table", name="Tree of tasks")).to_contain_text("child")
    console.button("Cancel").click()
    console.dialog.get_by_label("Also what its work has submitted").check()
    console.button("Cancel the task", console.dialog).click()
    console.says("The task is cancelled")
    assert [yard.task(each)["state"] for each in (task_id, child)] == ["cancelled", "cancelled"]


def test_a_task_is_submitted_again(console: Console, yard: Yard) -> None:
    task_id = yard.submit(params=PARAMS, labels={"site": "shop"}, priority=4)
    console.open("tasks", task_id)
    console.button("Submit again").click()
    console.button("Submit", console.dialog).click()
    console.says("The task is submitted")
    expect(console.page).not_to_have_url(re.compile(task_id))
    again, first = yard.tasks(newestFirst="true")
    assert {name: again.get(name) for name in ("params", "labels", "priority")} == {
        name: first.get(name) for name in ("params", "labels", "priority")
    }


def test_labels_lead_to_the_tasks_that_have_them(console: Console, yard: Yard) -> None:
    yard.submit("other")
    console.open("tasks", yard.submit("meant", labels={"example.org/site": "shop"}))
    console.page.get_by_role("link", name="example.org/site=shop").click()
    expect(console.page.get_by_role("table", name="Tasks")).to_have_attribute("aria-rowcount", "2")
    expect(console.main).to_contain_text("meant")


@pytest.mark.parametrize("form", ["curl", "grpcurl", "Python"])
def test_what_is_copied_submits_the_same(new_page: NewPage, yard: Yard, form: str) -> None:
    task_id = yard.submit(
        params=PARAMS,
        labels={"site": "shop"},
        target="it's",
        requires=["gpu"],
        concurrencyKeys=["site:a"],
        retryPolicy={"maxAttempts": 3, "firstDelayMs": 500, "nonRetryableCodes": ["no"]},
        runTimeoutMs=90_000,
    )
    console = new_page(yard.plane.url, yard.namespace, {"permissions": ["clipboard-read", "clipboard-write"]})
    console.open("tasks", task_id)
    console.button(form).click()
    expect(console.button(form)).to_be_visible()
    copied = str(console.page.evaluate("navigator.clipboard.readText()"))
    if form == "Python":
        copied = copied.replace("        print(await task.result())\n", "")
        command = [sys.executable, "-c", copied]
    else:
        command = ["bash", "-c", copied]
    path = f"{installed_grpcurl().parent}:{os.environ['PATH']}"
    done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{copied}\n{done.stderr}"
    again, first = yard.tasks(newestFirst="true")
    same = (
        "agentId",
        "action",
        "params",
        "labels",
        "target",
        "requires",
        "concurrencyKeys",
        "retryPolicy",
        "runTimeoutMs",
    )
    assert {name: again.get(name) for name in same} == {name: first.get(name) for name in same}, copied
