"""The tree of a run on the page of a task: its ancestors as a path, what descends from it, live and from history."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import Console
from tests.console.conftest import NewPage
from tests.console.yards import Lease, Yard, plane
from tests.waiting import until_in_thread

pytestmark = pytest.mark.gate("Chromium")


def child(of: Lease, name: str, action: str) -> str:
    """Submit a child by its name; its id."""
    path = f"/api/runtime-hosts/{of.host}/tasks/{of.task_id}/children"
    spec = {"action": action, "priority": 1}
    return str(of.yard.call("POST", path, name=name, fencing_token=of.fencing_token, child=spec)["task_id"])


def tree(console: Console) -> Locator:
    return console.page.get_by_role("table", name="Tree of tasks")


def rows(console: Console) -> Locator:
    return tree(console).locator("tbody tr")


def test_the_tree_of_a_run_is_shown_as_it_grows(console: Console, yard: Yard) -> None:
    yard.host(slots=5)
    yard.submit("plan")
    top = yard.run()
    site_id = child(top, "site-a", "crawl")
    console.open("tasks", top.task_id)
    expect(rows(console)).to_have_count(2)
    expect(rows(console).nth(1)).to_contain_text("queued")
    site = yard.run()
    child(top, "site-b", "crawl")
    page_id = child(site, "page-1", "fetch")
    steps = f"/api/runtime-hosts/host-1/tasks/{site.task_id}/steps"
    yard.call("POST", steps, fencing_token=site.fencing_token, name="log in", result=1)
    site.report("park", waits=[{"name": "pages", "ends": {"task_ids": [page_id]}}])
    for at, texts in enumerate(
        [("plan", "running"), ("site-a crawl", "parked", page_id[-6:]), ("page-1 fetch", "queued"), ("site-b crawl",)]
    ):
        for text in texts:
            expect(rows(console).nth(at)).to_contain_text(text)
    expect(rows(console).nth(1).locator("td").nth(3)).to_have_text("1")
    assert console.serious_findings() == []
    tree(console).get_by_role("link", name="page-1 fetch").click()
    expect(console.page.get_by_role("heading", level=1)).to_contain_text("fetch")
    path = console.page.get_by_role("navigation", name="Ancestors")
    expect(path).to_contain_text(f"plan {top.task_id[-6:]} / site-a crawl / page-1")
    expect(tree(console)).to_have_count(0)
    path.get_by_role("link", name="site-a").click()
    expect(console.page).to_have_url(f"{console.url}/ui/#/{yard.namespace}/tasks/{site_id}")
    expect(rows(console)).to_have_count(2)


def test_a_task_without_relatives_has_no_tree(console: Console, yard: Yard) -> None:
    with console.page.expect_event("requestfinished", lambda request: request.url.endswith("/ListTasks")):
        console.open("tasks", yard.submit())
    # What is drawn once the time line has changed was read before.
    yard.host()
    yard.run()
    expect(console.page.get_by_role("heading", level=1)).to_contain_text("running")
    expect(console.page.get_by_role("heading", name="Tree of tasks")).to_have_count(0)


def test_what_a_wide_tree_leaves_out_is_counted(console: Console, yard: Yard) -> None:
    top = yard.submit("plan")
    yard.submit_many(230, parentId=top)
    console.open("tasks", top)
    expect(rows(console)).to_have_count(200)
    expect(rows(console).first).to_contain_text("and 31 more below it")
    expect(console.main).to_contain_text("The first 200 tasks are shown; at least 31 more are left out.")


@pytest.fixture
def forgetful_yard(tmp_path: Path) -> Iterator[Yard]:
    """Where tasks that have ended are in the history alone."""
    with plane(tmp_path, scheduler={"resultTTLSec": 1}) as served, served.http("default") as client:
        yield Yard(served, "default", client)


def test_ended_tasks_are_read_from_the_history(forgetful_yard: Yard, new_page: NewPage) -> None:
    yard = forgetful_yard
    yard.host(slots=2)
    yard.submit("plan")
    top = yard.run()
    yard.submit("crawl", parentId=top.task_id)
    middle = yard.run()
    yard.call("POST", f"/tasks/{yard.submit('fetch', parentId=middle.task_id)}/cancel")
    middle.report("complete")
    top.report("complete")
    until_in_thread(yard.tasks, lambda tasks: not tasks)
    console = new_page(yard.plane.url, yard.namespace)
    console.open("tasks", top.task_id)
    for at, texts in enumerate([("plan", "done"), ("crawl", "done"), ("fetch", "cancelled")]):
        for text in texts:
            expect(rows(console).nth(at)).to_contain_text(text)
    tree(console).get_by_role("link", name="fetch").click()
    expect(console.page.get_by_role("navigation", name="Ancestors")).to_contain_text(
        f"crawl {middle.task_id[-6:]} / fetch"
    )
    console.page.go_back()
    console.page.get_by_role("link", name="All its children").click()
    expect(console.page.get_by_role("table", name="Tasks")).to_contain_text("crawl")
