"""Limits of keys and weights of agents: what holds and is used, and how it is changed."""

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import Console
from tests.console.yards import Yard

pytestmark = pytest.mark.gate("Chromium")


def row(console: Console, table: str, text: str) -> Locator:
    return console.page.get_by_role("table", name=table).get_by_role("row").filter(has_text=text)


def limits(yard: Yard) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yard.call("GET", "/limits")["limits"]
    return found


def test_a_limit_is_set_changed_and_deleted(console: Console, yard: Yard) -> None:
    console.open("limits")
    console.button("New limit").click()
    console.dialog.get_by_label("Pattern").fill("site:*")
    console.dialog.get_by_label("Tasks in flight").fill("3")
    console.dialog.get_by_label("Tasks per second").fill("2.5")
    console.button("Set", console.dialog).click()
    console.says("The limit of site:* holds")
    expect(row(console, "Limits by pattern", "site:*")).to_contain_text("2.5")
    (limit,) = limits(yard)
    assert (limit["pattern"], limit["maxInflight"], limit["perSecond"]) == ("site:*", 3, 2.5)
    console.button("Edit", row(console, "Limits by pattern", "site:*")).click()
    expect(console.dialog.get_by_label("Pattern")).to_be_disabled()
    console.dialog.get_by_label("Tasks in flight").fill("7")
    console.button("Set", console.dialog).click()
    expect(console.dialog).to_have_count(0)
    assert limits(yard)[0]["maxInflight"] == 7
    console.button("Delete the limit of site:*").click()
    console.button("Delete", console.dialog).click()
    console.says("The limit of site:* is deleted")
    assert limits(yard) == []


def test_what_the_server_refuses_is_said_in_the_dialog(console: Console, yard: Yard) -> None:
    console.open("limits")
    console.button("New limit").click()
    console.dialog.get_by_label("Pattern").fill("*site")
    console.dialog.get_by_label("Tasks in flight").fill("3")
    console.button("Set", console.dialog).click()
    expect(console.dialog.get_by_role("alert")).to_contain_text("pattern")
    assert limits(yard) == []


def test_keys_in_use_are_shown_beside_their_limit(console: Console, yard: Yard) -> None:
    yard.call("PUT", "/limits/site:*", maxInflight=1)
    yard.host()
    for _ in range(2):
        yard.submit(concurrencyKeys=["site:example.org"])
    yard.claim()
    console.open("limits")
    used = row(console, "Keys in use", "site:example.org")
    expect(used).to_contain_text("1 / 1")
    used.get_by_role("link", name="site:example.org").click()
    expect(console.page.get_by_role("heading", level=1)).to_have_text("Tasks")


def test_a_weight_is_set_changed_and_deleted(console: Console, yard: Yard) -> None:
    console.open("limits", "weights")
    console.button("New weight").click()
    console.dialog.get_by_label("Pattern").fill("team-a/*")
    console.dialog.get_by_label("Weight").fill("3")
    console.button("Set", console.dialog).click()
    console.says("The weight of team-a/* holds")
    console.button("Edit", row(console, "Weights by pattern", "team-a/*")).click()
    console.dialog.get_by_label("Weight").fill("5")
    console.button("Set", console.dialog).click()
    expect(console.dialog).to_have_count(0)
    assert [each["weight"] for each in yard.call("GET", "/agents")["weights"]] == [5]
    console.button("Delete the weight of team-a/*").click()
    console.button("Delete", console.dialog).click()
    console.says("The weight of team-a/* is deleted")
    assert yard.call("GET", "/agents")["weights"] == []


def test_agents_are_shown_with_their_shares(console: Console, yard: Yard) -> None:
    yard.submit(agentId="crawler-1")
    console.open("limits")
    console.page.get_by_role("link", name="Weights").click()
    expect(row(console, "Shares of the agents", "crawler-1")).to_contain_text("100 %")
