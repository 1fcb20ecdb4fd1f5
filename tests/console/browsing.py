"""A page of the console in a real Chromium, and what is noted of it: errors, breaches of its policy, foreign calls."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.waiting import LIMIT_SECS

WAIT_MS = 1000 * LIMIT_SECS
VIEWS = ("now", "tasks", "questions", "operations", "hosts", "targets", "schedules", "limits", "server")
# The shell first: without what windows need, it takes less of a processor than the others.
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# A breach of the policy is told by Chromium itself; this also catches those that it only reports.
NOTE_BREACHES = """
document.addEventListener("securitypolicyviolation", (breach) =>
  console.error(`policy: ${breach.violatedDirective} ${breach.blockedURI} ${breach.sample}`));
"""
SERIOUS = ("serious", "critical")

expect.set_options(timeout=WAIT_MS)


def chromium() -> str | None:
    """The path of an installed Chromium."""
    return next(filter(None, map(shutil.which, CHROMIUMS)), None)


@contextmanager
def browser(*words: str) -> Iterator[Browser]:
    """A Chromium without a window, started with these words besides. As root it has no sandbox."""
    arguments = ["--disable-dev-shm-usage", *words, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        try:
            yield chrome
        finally:
            chrome.close()


@dataclass
class Console:
    """One page of a console."""

    page: Page
    url: str
    namespace: str
    problems: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    """Other origins that the page may go to."""

    def watch(self) -> None:
        """Note from now on what a page is not to do."""
        self.page.add_init_script(NOTE_BREACHES)
        self.page.on("console", lambda said: self._note(said.text) if said.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self._note(f"uncaught: {error}"))
        self.page.on("request", lambda request: self._note_foreign(request.url))

    def allow(self, pattern: str) -> None:
        """Let pass what a test brings about itself."""
        self.allowed.append(pattern)

    def open(self, *path: str, **query: str) -> "Console":
        """Go to a view, and wait until it is there."""
        words = "/".join(quote(word, safe="") for word in (self.namespace, *path))
        self.page.goto(f"{self.url}/ui/#/{words}{'?' if query else ''}{urlencode(query)}")
        expect(self.page.get_by_role("heading", level=1)).to_be_visible()
        return self

    def sign_in(self, token: str) -> None:
        """Sign in with a token on the page that asks for it."""
        self.page.goto(f"{self.url}/ui/#/{self.namespace}/now")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in with a token").click()
        expect(self.page.get_by_role("navigation", name="Views")).to_be_visible()

    def button(self, name: str | re.Pattern[str], within: Locator | None = None) -> Locator:
        """A button by its name."""
        return (within or self.page).get_by_role("button", name=name, exact=isinstance(name, str))

    @property
    def dialog(self) -> Locator:
        """The dialog that is open."""
        return self.page.get_by_role("dialog")

    @property
    def main(self) -> Locator:
        """The view."""
        return self.page.get_by_role("main")

    def says(self, text: str | re.Pattern[str]) -> None:
        """Wait until a notice says so."""
        expect(self.page.get_by_role("status").filter(has_text=text).first).to_be_visible()

    def settled(self) -> None:
        """Wait until nothing is read any more."""
        expect(self.page.get_by_label("Loading")).to_have_count(0)

    def serious_findings(self, within: str = "document") -> list[str]:
        """What axe finds serious or worse, a line each; `within` is a node as an expression of the page."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_axe())
        # As an expression that is not polled: the page's policy allows no evaluation later on.
        found: list[dict[str, Any]] = self.page.evaluate(
            f"axe.run({within}, {{resultTypes: ['violations']}}).then((result) => result.violations)"
        )
        return [
            f"{each['id']}: {node['target']} {node['failureSummary']}"
            for each in found
            if each["impact"] in SERIOUS
            for node in each["nodes"]
        ]

    def _note(self, text: str) -> None:
        if not any(re.search(pattern, text) for pattern in self.allowed):
            self.problems.append(text)

    def _note_foreign(self, url: str) -> None:
        is_known = any(url.startswith(f"{origin}/") for origin in (self.url, *self.foreign))
        if urlsplit(url).scheme in ("http", "https", "ws", "wss") and not is_known:
            self._note(f"calls {url}")


@cache
def _axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text()
