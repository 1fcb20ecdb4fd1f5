"""The Chromium of a worker, in which each page of a test is a tab that finds nothing of another test.

A browser, a context and a process for each page cost more than what most tests do in them, so that there is one of
each. What only a context of its own keeps apart (a clock, permissions, connections) gets one.
"""

from asyncio import events, get_running_loop
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page

from tests.console.browsing import browser

OPTIONS: dict[str, Any] = {
    "viewport": {"width": 1_280, "height": 800},
    "locale": "en-GB",
    "timezone_id": "UTC",
    "reduced_motion": "reduce",
}
# One process for all pages, also for a tab that shows nothing yet, and none for what nobody looks at.
ONE_PROCESS = (
    "--process-per-site",
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
    "--in-process-gpu",
)


class Tabs:
    """Where pages are opened."""

    def __init__(self, chrome: Browser) -> None:
        self._chrome = chrome
        self._loop = get_running_loop()
        self._context = chrome.new_context(**OPTIONS)
        # Pages of one site share a process for as long as one of them is open, and with it what it has compiled.
        self._first = self._context.new_page()
        self._first.route("**/*", lambda route: route.fulfill(body=""))

    def open(self) -> Page:
        """A tab that is closed by `tidy`."""
        return self._context.new_page()

    def open_apart(self, **options: Any) -> Page:
        """A page in a context of its own, with these options besides; who opens it closes its context."""
        return self._chrome.new_context(**{**OPTIONS, **options}).new_page()

    def tidy(self, url: str) -> None:
        """Close all tabs, and forget what pages of this origin have kept."""
        for page in self._context.pages:
            if page is not self._first:
                page.close()
        if not self._first.url.startswith(f"{url}/"):
            self._first.goto(f"{url}/")
        # Done in their own process, so that the next of them finds it done.
        self._first.evaluate("localStorage.clear()")

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let Playwright's loop be the one that runs: outside of this, a test may have a loop of its own."""
        events._set_running_loop(self._loop)
        try:
            yield
        finally:
            events._set_running_loop(None)


@contextmanager
def tabs() -> Iterator[Tabs]:
    """Start Chromium. Its pages are used within `in_use`."""
    with browser(*ONE_PROCESS) as chrome:
        opened = Tabs(chrome)
        events._set_running_loop(None)
        try:
            yield opened
        finally:
            events._set_running_loop(opened._loop)
