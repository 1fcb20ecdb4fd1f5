"""The artifacts of a task: listed while it runs, shown where a browser can do that safely, and downloaded."""

from hashlib import sha256
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import Console
from tests.console.populated import PIXEL
from tests.console.yards import Lease, Yard

pytestmark = pytest.mark.gate("Chromium")

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
    lease.put("data.json", b'{"b":[12345678901234567890, 1.0],"1":"a: [b, c]", "c": { }}', "application/json")
    lease.put("picture.svg", f"<svg>{MARKUP}</svg>".encode(), "image/svg+xml")
    lease.put("pixel.png", PIXEL, "image/png")
    console.open("tasks", lease.task_id)
    for name in ("page.html", "data.json", "picture.svg", "pixel.png"):
        console.button(f"Show {name}").click()
    expect(row(console, "page.html").locator("pre")).to_have_text(MARKUP)
    # As it is written: parsed, it would have other digits and another order.
    indented = '{\n  "b": [\n    12345678901234567890,\n    1.0\n  ],\n  "1": "a: [b, c]",\n  "c": {}\n}'
    expect(row(console, "data.json").locator("pre")).to_have_js_property("textContent", indented)
    expect(row(console, "picture.svg").locator("pre")).to_have_text(f"<svg>{MARKUP}</svg>")
    image = console.page.get_by_role("img", name="pixel.png")
    expect(image).to_be_visible()
    assert image.evaluate("(image) => image.complete && image.naturalWidth") == 1
    console.button("Hide page.html").click()
    expect(row(console, "page.html").locator("pre")).to_have_count(0)


def test_a_result_and_params_that_are_artifacts_lead_there(console: Console, yard: Yard) -> None:
    held = yard.submit(hold=True, params={"$artifact": {"name": "params.json", "sha256": sha256(PIXEL).hexdigest()}})
    console.open("tasks", held)
    expect(console.button("Submit again")).to_be_visible()
    yard.put(f"/tasks/{held}/artifacts/params.json", PIXEL, "application/json")
    console.button("params.json").click()
    expect(row(console, "params.json")).to_be_focused()
    # Another task would not have the artifact.
    expect(console.button("Submit again")).to_have_count(0)
    expect(console.page.get_by_role("heading", name="Submit the same from elsewhere")).to_have_count(0)
    lease = running(yard)
    lease.report("complete", result=lease.put("result.json", b"[1]" * 1_000, "application/json"))
    console.open("tasks", lease.task_id)
    expect(console.main).to_contain_text("It is the artifact result.json, 2.9 KiB.")
    expect(console.button("Submit again")).to_be_visible()


def test_what_looks_like_an_artifact_that_is_not_there_is_a_value(console: Console, yard: Yard) -> None:
    lease = running(yard)
    lease.put("result.json", b"[1]", "application/json")
    lease.report("complete", result={"$artifact": {"name": "result.json", "sha256": "0" * 64}})
    console.open("tasks", lease.task_id)
    expect(console.main).to_contain_text("$artifact")
    expect(console.main).not_to_contain_text("It is the artifact")


def test_a_large_image_is_for_a_download_alone(console: Console, yard: Yard, tmp_path: Path) -> None:
    lease, large = running(yard), PIXEL + bytes(5 << 20)
    lease.put("large.png", large, "image/png")
    console.open("tasks", lease.task_id)
    expect(row(console, "large.png")).to_contain_text("5.0 MiB")
    expect(console.button("Show large.png")).to_have_count(0)
    with console.page.expect_download() as download:
        console.button("Download large.png").click()
    download.value.save_as(tmp_path / "large.png")
    assert (tmp_path / "large.png").read_bytes() == large


def test_what_cannot_be_read_is_said(console: Console, yard: Yard) -> None:
    lease = running(yard)
    lease.put("notes.txt", b"a", "text/plain")
    console.open("tasks", lease.task_id)
    console.allow("503")
    console.page.route("**/artifacts/notes.txt", lambda route: route.fulfill(status=503, body="no healthy upstream"))
    console.button("Show notes.txt").click()
    console.says("no healthy upstream")
    expect(row(console, "notes.txt").locator("pre")).to_have_count(0)


def test_of_a_long_text_the_beginning_is_shown_and_a_download_has_all(
    console: Console, yard: Yard, tmp_path: Path
) -> None:
    lease, text = running(yard), "".join(f"{number} \u00e4\n" for number in range(60_000))
    lease.put("long.txt", text.encode(), "text/plain")
    console.open("tasks", lease.task_id)
    console.button("Show long.txt").click()
    expect(row(console, "long.txt")).to_contain_text("These are the first 256 KiB; a download has all.")
    with console.page.expect_download() as download:
        console.button("Download long.txt").click()
    download.value.save_as(tmp_path / "long.txt")
    assert (tmp_path / "long.txt").read_text() == text
    assert download.value.suggested_filename == "long.txt"
