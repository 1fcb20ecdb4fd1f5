"""The artifacts of a task: listed while it runs, shown where a browser can do that safely, and downloaded."""

import base64
import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import Console
from tests.console.yards import Lease, Yard

pytestmark = pytest.mark.gate("Chromium")

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MARKUP = "<img src=x onerror=console.error('run')>"


def running(yard: Yard) -> Lease:
    yard.host()
    yard.submit()
    return yard.run()


def row(console: Console, name: str) -> Locator:
    return console.page.locator(".artifacts > li", has_text=name)


def test_they_come_while_the_task_runs_and_there_is_nothing_where_there_are_none(console: Console, yard: Yard) -> None:
    lease = running(yard)
    console.open("tasks", lease.task_id)
    expect(console.page.get_by_role("heading", name="Time line")).to_be_visible()
    expect(console.page.get_by_role("heading", name="Artifacts")).to_have_count(0)
    lease.put("notes.bin", b"x" * 3_000, "application/octet-stream")
    expect(row(console, "notes.bin")).to_contain_text("application/octet-stream, 2.9 KiB, attempt 1")
    expect(console.button("Show notes.bin")).to_have_count(0)
    lease.put("notes.bin", b"y", "application/octet-stream")
    expect(row(console, "notes.bin")).to_contain_text("1 B")


def test_text_json_and_images_are_shown_and_nothing_of_them_is_run(console: Console, yard: Yard) -> None:
    lease = running(yard)
    lease.put("page.html", MARKUP.encode(), "text/html")
    lease.put("data.json", json.dumps({"a": [1]}).encode(), "application/json")
    lease.put("picture.svg", f"<svg>{MARKUP}</svg>".encode(), "image/svg+xml")
    lease.put("pixel.png", PIXEL, "image/png")
    console.open("tasks", lease.task_id)
    for name in ("page.html", "data.json", "picture.svg", "pixel.png"):
        console.button(f"Show {name}").click()
    expect(row(console, "page.html").locator("pre")).to_have_text(MARKUP)
    expect(row(console, "data.json").locator("pre")).to_have_text('{\n  "a": [\n    1\n  ]\n}')
    expect(row(console, "picture.svg").locator("pre")).to_have_text(f"<svg>{MARKUP}</svg>")
    image = console.page.get_by_role("img", name="pixel.png")
    expect(image).to_be_visible()
    assert image.evaluate("(image) => image.complete && image.naturalWidth") == 1
    console.button("Hide page.html").click()
    expect(row(console, "page.html").locator("pre")).to_have_count(0)


def test_of_a_long_text_the_beginning_is_shown_and_a_download_has_all(
    console: Console, yard: Yard, tmp_path: Path
) -> None:
    lease, text = running(yard), "".join(f"{number}\n" for number in range(60_000))
    lease.put("long.txt", text.encode(), "text/plain")
    console.open("tasks", lease.task_id)
    console.button("Show long.txt").click()
    expect(row(console, "long.txt")).to_contain_text("These are the first 256 KiB; a download has all.")
    with console.page.expect_download() as download:
        console.button("Download long.txt").click()
    download.value.save_as(tmp_path / "long.txt")
    assert (tmp_path / "long.txt").read_text() == text
    assert download.value.suggested_filename == "long.txt"
