"""Now: the figures of the moment, charts of the last hour, shares, and what holds work back."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import Console
from tests.console.yards import Yard

pytestmark = pytest.mark.gate("Chromium")


def card(console: Console, title: str) -> Locator:
    return console.main.locator("section").filter(has=console.page.get_by_role("heading", name=title, exact=True))


def tile(console: Console, name: str) -> Locator:
    return console.main.get_by_role("region", name=name, exact=True)


def test_figures_change_by_themselves(console: Console, yard: Yard) -> None:
    console.open("now")
    expect(tile(console, "Queued")).to_contain_text("0")
    yard.submit_many(3)
    expect(tile(console, "Queued")).to_contain_text("3")
    yard.host()
    yard.run()
    expect(tile(console, "Queued")).to_contain_text("2")
    expect(tile(console, "In flight")).to_contain_text("1")
    tile(console, "In flight").get_by_role("link").click()
    expect(console.page).to_have_url(re.compile("/tasks.state=assigned%2Crunning"))


def test_it_says_what_holds_work_back_and_what_helps(console: Console, yard: Yard) -> None:
    console.open("now")
    expect(card(console, "What holds work back")).to_contain_text("Nothing")
    yard.submit()
    expect(card(console, "What holds work back")).to_contain_text("No host is online")
    yard.call("PUT", "/limits/site:*", maxInflight=1)
    yard.host()
    for _ in range(2):
        yard.submit("crawl", concurrencyKeys=["site:example.org"], priority=-1)
    yard.claim()
    expect(card(console, "What holds work back")).to_contain_text("site:example.org")


def test_those_wait_for_a_host_that_wait_for_nothing_else(console: Console, yard: Yard) -> None:
    yard.host("host-1")
    for _ in range(3):
        yard.submit(target="shop")
    yard.run("host-1").report("fail", error="no till")
    yard.submit()
    yard.call("POST", "/api/runtime-hosts/host-1/deregister")
    console.open("now")
    expect(card(console, "What holds work back")).to_contain_text("No host is online1 waits for one")


def test_agents_are_shown_by_share_and_hosts_by_load(console: Console, yard: Yard) -> None:
    yard.host("host-1", slots=1)
    yard.submit(agentId="crawler-1")
    yard.claim()
    console.open("now")
    expect(card(console, "Agents by share")).to_contain_text("crawler-1")
    expect(console.main.get_by_role("link", name="host-1")).to_be_visible()


def test_charts_have_words_for_those_who_do_not_see_them(console: Console, yard: Yard) -> None:
    yard.submit()
    console.open("now")
    for label in ("Tasks over the last hour", "Tasks per second over the last hour"):
        expect(console.page.get_by_role("img", name=re.compile(label))).to_be_visible()
