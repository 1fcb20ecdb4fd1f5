"""The page as it is served, in a browser: at its address, by its policy, calling nobody but its gateway."""

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console

pytestmark = pytest.mark.gate("Chromium")


def test_the_console_is_at_ui(console: Console) -> None:
    answer = console.page.goto(f"{console.url}/ui")
    assert answer is not None
    assert (answer.status, answer.url.removeprefix(console.url)) == (200, "/ui/")
    expect(console.page).to_have_title("Now · Taskyard")


def test_a_breach_of_the_policy_is_noted(console: Console) -> None:
    console.page.goto(f"{console.url}/ui/")
    console.page.evaluate("document.body.setAttribute('style', 'color: red')")
    console.page.evaluate("void fetch('http://127.0.0.1:9/').catch(() => {})")
    console.page.wait_for_timeout(200)
    assert any("connect-src" in problem for problem in console.problems), console.problems
    console.problems.clear()
