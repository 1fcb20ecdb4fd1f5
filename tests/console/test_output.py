"""The output of a task: all that it says, as it says it, filtered, searched and downloaded, over a restart."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import Console
from tests.console.conftest import NewPage
from tests.console.yards import SETTINGS, Lease, Yard, plane
from tests.waiting import until_in_thread

pytestmark = pytest.mark.gate("Chromium")

ADMIN = "an-admin-token-of-the-tests"
MOST_LINES = 10_000
DRAWN = 500
MARKUP = "<img src=x onerror=console.error('run')>"


def box(console: Console) -> Locator:
    return console.page.get_by_role("log", name="Output")


def shows(console: Console, *wanted: str) -> None:
    """Wait until these lines, and no others, are shown."""
    expect(box(console).locator(".said-text")).to_have_text(list(wanted))


def running(yard: Yard, **fields: object) -> Lease:
    yard.host()
    yard.submit(**fields)
    return yard.run()


def test_it_is_shown_as_it_is_said(console: Console, yard: Yard) -> None:
    lease = running(yard)
    console.open("tasks", lease.task_id)
    expect(console.main).to_contain_text("It has said nothing so far.")
    lease.say(1, {"text": "one "})
    shows(console, "one ")
    lease.say(2, {"text": f"line\n\n{MARKUP}\r\n"})
    shows(console, "one line", "", MARKUP)
    lease.say(
        3,
        {"text": "\r 10 %"},
        {"text": "\r 99 %"},
        {"text": "\rdone\n"},
        {"binary": base64.b64encode(b"x" * 3_000).decode()},
    )
    shows(console, "one line", "", MARKUP, "done", "2.9 KiB, bytes")
    lease.report("complete")
    expect(console.page.get_by_role("heading", level=1)).to_contain_text("done")
    shows(console, "one line", "", MARKUP, "done", "2.9 KiB, bytes")


def test_colours_are_those_of_a_terminal_and_nothing_else_is_done_that_a_text_says(
    console: Console, yard: Yard
) -> None:
    lease = running(yard)
    console.open("tasks", lease.task_id)
    lease.say(
        1,
        {"text": "\x1b[1;31mred\n"},
        {"text": "still\x1b[0m \x1b]0;a title\x07\x1b[2Jplain \x1b[38;2;0;128;255;4mblue\x1b["},
        {"text": "0m\n"},
    )
    shows(console, "red", "still plain blue")
    for text, ink in (("red", "#d0343f"), ("still", "#d0343f"), ("blue", "#0080ff"), ("plain", "")):
        piece = box(console).locator("span", has_text=text).last
        assert piece.evaluate("(piece) => piece.style.getPropertyValue('--ink')") == ink, text
    expect(box(console).locator("span", has_text="still").last).to_have_css("font-weight", "700")
    expect(box(console).locator("span", has_text="blue").last).to_have_css("text-decoration-line", "underline")


def test_json_opens_as_a_tree(console: Console, yard: Yard) -> None:
    lease = running(yard)
    console.open("tasks", lease.task_id)
    lease.say(1, {"json": {"page": {"price": 39.5}}}, {"json": None})
    expect(box(console)).to_contain_text('{ "page": { "price": 39.5 } }')
    expect(box(console).locator(".branch").first).not_to_be_visible()
    box(console).locator("summary").press("Enter")
    expect(box(console)).to_contain_text("price: 39.5")


def test_it_is_filtered_by_channel_and_searched(console: Console, yard: Yard) -> None:
    lease = running(yard)
    lease.say(
        1,
        {"text": "the quick "},
        {"text": "a Warning\n", "channel": "stderr"},
        {"text": "brown fox\nand a \x1b[33mwarn\x1b[0ming\n"},
        {"json": {"warning": 1}, "channel": "log"},
    )
    console.open("tasks", lease.task_id)
    console.page.get_by_role("searchbox").fill("warning")
    expect(console.page.get_by_role("status").filter(has_text="3 of 5 lines")).to_be_visible()
    console.button("output").click()
    shows(console, "and a warning")
    console.page.get_by_role("searchbox").fill("")
    # What another channel said in between does not stand in the line.
    shows(console, "the quick brown fox", "and a warning")
    console.page.reload()
    shows(console, "the quick brown fox", "and a warning")


def test_another_attempt_is_marked(console: Console, yard: Yard) -> None:
    lease = running(yard, retryPolicy={"maxAttempts": 2, "firstDelayMs": 1})
    lease.say(1, {"text": "first, and no"})
    lease.report("fail", error="no")
    until_in_thread(lambda: yard.task(lease.task_id)["state"], lambda state: state == "queued")
    again = yard.run()
    again.say(1, {"text": "second\n"})
    console.open("tasks", lease.task_id)
    shows(console, "first, and no", "second")
    assert box(console).inner_text().index("Attempt 2") > box(console).inner_text().index("first")


def test_its_end_stays_in_sight_unless_the_reader_has_scrolled_up(console: Console, yard: Yard) -> None:
    lease = running(yard)
    console.open("tasks", lease.task_id)
    lease.say(1, {"text": "".join(f"line {number}\n" for number in range(200))})
    at_end = "(box) => box.scrollHeight - box.scrollTop - box.clientHeight < 2"
    expect(box(console)).to_contain_text("line 199")
    assert box(console).evaluate(at_end)
    box(console).press("Home")
    until_in_thread(lambda: box(console).evaluate("(box) => box.scrollTop"), lambda top: top == 0)
    expect(console.button("To the end")).to_be_visible()
    lease.say(2, {"text": "line 200\n"})
    expect(box(console)).to_contain_text("line 200")
    assert box(console).evaluate("(box) => box.scrollTop") == 0
    console.button("To the end").click()
    expect(console.button("To the end")).to_have_count(0)
    lease.say(3, {"text": "line 201\n"})
    expect(box(console)).to_contain_text("line 201")
    assert box(console).evaluate(at_end)


@pytest.fixture(scope="module")
def small_yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """Where a task keeps little output, and nobody reads it without a token."""
    scheduler = {**SETTINGS["scheduler"], "maxOutputBytes": 200_000}
    folder = tmp_path_factory.mktemp("small")
    with plane(folder, ADMIN, scheduler=scheduler) as served, served.http("default") as client:
        yield Yard(served, "default", client)


@pytest.fixture
def small_console(new_page: NewPage, small_yard: Yard) -> Console:
    console = new_page(small_yard.plane.url, "default", {})
    console.sign_in(ADMIN)
    return console


def test_what_is_not_shown_is_counted_and_a_download_has_all_that_is_kept(
    small_console: Console, small_yard: Yard, tmp_path: Path
) -> None:
    lease = running(small_yard)
    for chunk in range(6):
        lease.say(chunk + 1, {"text": "".join(f"{chunk} {number}\n" for number in range(6_000))})
    small_console.open("tasks", lease.task_id)
    expect(box(small_console)).to_contain_text("5 5999")
    shown = box(small_console).locator(".said-text")
    assert shown.all_inner_texts() == [f"5 {number}" for number in range(6_000 - DRAWN, 6_000)]
    small_console.button(f"Show {DRAWN} of {MOST_LINES - DRAWN:,} lines before these").click()
    expect(shown).to_have_count(2 * DRAWN)
    assert shown.first.inner_text() == f"5 {6_000 - 2 * DRAWN}"
    listed = small_yard.call("GET", f"/tasks/{lease.task_id}/output")
    kept = "".join(chunk["text"] for chunk in listed["chunks"])
    dropped = listed["firstSequence"] - 1
    assert dropped
    expect(small_console.main).to_contain_text(f"Dropped to make room: the first {dropped} chunk")
    expect(small_console.main).to_contain_text(
        f"{kept.count(chr(10)) - MOST_LINES:,} lines before these are not in this page"
    )
    with small_console.page.expect_download() as download:
        small_console.button("Download").click()
    download.value.save_as(tmp_path / "output.txt")
    assert (tmp_path / "output.txt").read_text().endswith(kept)
    assert download.value.suggested_filename == f"{lease.task_id}.txt"


def test_it_goes_on_where_it_was_after_a_restart(small_console: Console, small_yard: Yard) -> None:
    small_console.allow("ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|50[23]")
    lease = running(small_yard)
    small_console.open("tasks", lease.task_id)
    lease.say(1, {"text": "before "})
    shows(small_console, "before ")
    small_yard.plane.stop()
    small_yard.plane.start()
    lease.say(1, {"text": "before "}, {"text": "and after\n"})
    shows(small_console, "before and after")
