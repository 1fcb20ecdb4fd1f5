"""Operations on many tasks: what they do is shown, and one is stopped."""

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console
from tests.console.yards import Yard

pytestmark = pytest.mark.gate("Chromium")


def test_an_operation_is_shown_with_what_it_did(console: Console, yard: Yard) -> None:
    yard.submit_many(3, labels={"site": "shop"})
    yard.call("POST", "/tasks:cancel", operationId=f"{yard.namespace}-op", filter={"labels": "site=shop"})
    console.open("operations")
    row = console.page.get_by_role("table", name="Operations").locator("tbody").get_by_role("row")
    for text in ("cancel", "done", "3 / 3", "labels site=shop"):
        expect(row).to_contain_text(text)


def test_an_operation_that_waits_is_stopped(console: Console, yard: Yard) -> None:
    yard.host()
    for _ in range(3):
        yard.submit()
        yard.run().report("fail", error="no")
    yard.call("PATCH", f"/namespaces/{yard.namespace}", limits={"maxQueueSize": 1}, updateMask="limits.maxQueueSize")
    yard.submit()
    yard.call("POST", "/tasks:resume", operationId=f"{yard.namespace}-op", filter={"state": "failed"})
    console.open("operations")
    row = console.page.get_by_role("table", name="Operations").locator("tbody").get_by_role("row")
    expect(row).to_contain_text("waiting")
    console.button("Stop", row).click()
    console.button("Stop it", console.dialog).click()
    console.says("The operation is stopped")
    expect(row).to_contain_text("cancelled")
