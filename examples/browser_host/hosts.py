"""Two hosts that own Chromium tabs, and a page for them: run `.venv/bin/python examples/browser_host/hosts.py`.

A host says by a capability which tabs it owns, so that the actions of a tab come to it alone. A tab is a target: its
actions run one by one, in the order of their submission. Each host has a Chromium of its own, each tab its own cookies.
"""

import argparse
import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.async_api import Locator, Page, async_playwright
from playwright.async_api import TimeoutError as NotFound

from taskyard import Host, NotRetryable, RunningTask

TABS = {"host-1": ["one", "shared"], "host-2": ["two"]}
"""The tabs of each host."""
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
ACTION_MS = 2_000
# What a snapshot shows of an element, and the name by which `ref` means it until the next snapshot.
SNAPSHOT = """() => [...document.querySelectorAll("h1, a, button, input, li")].map((element, number) => {
  element.dataset.ref = `e${number + 1}`;
  const text = element.localName === "input" ? element.value : element.textContent;
  return {ref: element.dataset.ref, tag: element.localName, text: text};
})"""


def chromium() -> str | None:
    """The path of an installed Chromium."""
    return next(filter(None, map(shutil.which, CHROMIUMS)), None)


@asynccontextmanager
async def opened(tabs: Sequence[str]) -> AsyncIterator[dict[str, Any]]:
    """A Chromium with these tabs, for as long as their host runs."""
    words = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=words)
        pages = {tab: await (await browser.new_context()).new_page() for tab in tabs}
        for page in pages.values():
            page.set_default_timeout(ACTION_MS)
        yield {"pages": pages}
        await browser.close()


def tab_host(host_id: str, tabs: Sequence[str], server: str | None = None, namespace: str | None = None) -> Host:
    """A host that owns these tabs."""
    host = Host(
        server,
        host_id,
        slots=len(tabs),
        capabilities=[f"tab:{tab}" for tab in tabs],
        namespace=namespace,
        lifespan=partial(opened, tabs),
    )

    @host.action("navigate")
    async def navigate(task: RunningTask) -> dict[str, Any]:
        page = page_of(task)
        await page.goto(param(task, "url"))
        return {"url": page.url, "title": await page.title()}

    @host.action("click")
    async def click(task: RunningTask) -> dict[str, Any]:
        await element_of(task).click()
        return {"success": True}

    @host.action("type")
    async def type_text(task: RunningTask) -> dict[str, Any]:
        await element_of(task).press_sequentially(param(task, "text"))
        return {"success": True}

    @host.action("snapshot")
    async def snapshot(task: RunningTask) -> dict[str, Any]:
        page = page_of(task)
        return {"url": page.url, "title": await page.title(), "elements": await page.evaluate(SNAPSHOT)}

    @host.middleware
    async def explain(task: RunningTask, call_next: Any) -> Any:
        try:
            return await call_next(task)
        except NotFound:
            text = f"tab {task.tab_id}: no element that {task.action} can use"
            raise NotRetryable(text, code="no_element") from None

    return host


def param(task: RunningTask, name: str) -> str:
    """A text that a task must have in its params."""
    if not isinstance(value := task.params.get(name), str):
        raise NotRetryable(f"params.{name} must be a text", code="bad_input")
    return value


def page_of(task: RunningTask) -> Page:
    """The tab of a task."""
    page = task.state.pages.get(task.tab_id)
    if page is None:
        raise NotRetryable(f"this host has no tab {task.tab_id}", code="no_tab")
    return page


def element_of(task: RunningTask) -> Locator:
    """The element of a task, by its selector or by its name in the last snapshot."""
    if (selector := task.task.selector) is None:
        if task.ref is None:
            raise NotRetryable("selector or ref is missing", code="bad_input")
        selector = f'[data-ref="{task.ref}"]'
    return page_of(task).locator(selector)


@contextmanager
def served_page(port: int = 0) -> Iterator[str]:
    """The URL of `page.html`, which is served on loopback meanwhile."""

    class Silent(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    folder = str(Path(__file__).parent)
    with ThreadingHTTPServer(("127.0.0.1", port), partial(Silent, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/page.html"
        server.shutdown()


async def main() -> None:
    """Run both hosts until Ctrl-C, which lets them finish their tasks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", help="the gRPC server, 127.0.0.1:50051 by default")
    parser.add_argument("--page-port", type=int, default=8765, help="where the page is served (%(default)s)")
    given = parser.parse_args()
    if chromium() is None:
        raise SystemExit("needs Chromium, such as Debian's package chromium")
    with served_page(given.page_port) as page:
        hosts = [tab_host(host_id, tabs, given.server) for host_id, tabs in TABS.items()]
        print(f"the page is at {page}, tabs are {', '.join(tab for tabs in TABS.values() for tab in tabs)}", flush=True)
        await asyncio.gather(*(host.run(handle_signals=True) for host in hosts))


if __name__ == "__main__":
    asyncio.run(main())
