"""Questions of parked tasks: they are listed and counted, and answered by buttons, fields or text."""

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import Console
from tests.console.yards import Yard

pytestmark = pytest.mark.gate("Chromium")

SCHEMA = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer", "minimum": 1},
        "size": {"enum": ["small", "large"]},
        "note": {"type": "string"},
        "urgent": {"type": "boolean"},
    },
    "required": ["amount"],
}


def ask(yard: Yard, name: str = "go", **question: Any) -> str:
    """The id of a task that asks something."""
    yard.host()
    task_id = yard.submit()
    yard.run().report("park", waits=[{"name": name, "question": {"text": "Go on?", **question}}])
    return task_id


def answer(yard: Yard, task_id: str) -> Any:
    (step,) = yard.call("GET", f"/tasks/{task_id}/steps")["steps"]
    return step["result"]


def answered(console: Console) -> None:
    console.says("The question is answered")


def inbox(console: Console) -> Locator:
    return console.page.get_by_role("navigation", name="Views").get_by_role("link", name="Questions")


def test_a_choice_is_a_button_and_the_count_stands_in_the_navigation(console: Console, yard: Yard) -> None:
    task_id = ask(yard, choices=["yes", 2])
    console.open("now")
    expect(inbox(console)).to_contain_text("1")
    inbox(console).click()
    expect(console.page.get_by_text("Go on?")).to_be_visible()
    console.button("yes").click()
    answered(console)
    expect(console.page.get_by_text("No task asks anything")).to_be_visible()
    assert answer(yard, task_id) == "yes"


def test_a_simple_schema_is_fields_and_what_is_wrong_stands_at_them(console: Console, yard: Yard) -> None:
    task_id = ask(yard, schema=SCHEMA)
    console.open("questions")
    page = console.page
    page.get_by_label("amount").fill("0")
    console.button("Answer").click()
    expect(page.get_by_role("alert")).to_contain_text("answer")
    page.get_by_label("amount").fill("3")
    page.get_by_label("size").select_option("large")
    page.get_by_label("urgent").check()
    console.button("Answer").click()
    answered(console)
    assert answer(yard, task_id) == {"amount": 3, "size": "large", "urgent": True}


@pytest.mark.parametrize(
    ("question", "typed", "expected"),
    [({}, "as you like", "as you like"), ({}, "[1]", [1]), ({"schema": {"type": "array"}}, "[2]", [2])],
)
def test_any_other_answer_is_typed(console: Console, yard: Yard, question: Any, typed: str, expected: Any) -> None:
    task_id = ask(yard, **question)
    console.open("tasks", task_id)
    expect(console.page.get_by_role("heading", name="It asks: go")).to_be_visible()
    console.page.get_by_label("Answer").fill(typed)
    console.button("Answer").click()
    answered(console)
    steps = console.page.get_by_role("table", name="Steps").locator("tbody").get_by_role("row")
    expect(steps).to_contain_text("answer")
    assert answer(yard, task_id) == expected
