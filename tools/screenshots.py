#!/usr/bin/env python
"""Takes the pictures of the console: `make screenshots`, or `python -m tools.screenshots VIEW ...`.

It starts a server with its gateway, lets hosts work there for a while so that the charts show something, and takes each
view as a small PNG.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, expect

from tests.console.browsing import VIEWS, Console, browser, chromium
from tests.console.populated import populate, work
from tests.console.yards import Yard, plane

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs/use/pictures"
WORK_SECS: Final = 150.0
"""How long hosts work before the first picture: the charts have a point each 10 s."""
WIDTH, HEIGHT = 1_280, 800
NAMESPACE: Final = "default"


def main() -> None:
    """Take the pictures of the views that are named, or of all."""
    if chromium() is None:
        raise SystemExit("needs Chromium: tools/debian_tools.sh chromium")
    chosen = sys.argv[1:] or list(PICTURES)
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        plane(Path(folder)) as served,
        served.http(NAMESPACE) as client,
        browser() as chrome,
    ):
        yard = Yard(served, NAMESPACE, client)
        populate(yard)
        is_over = threading.Event()
        worker = threading.Thread(target=work, args=(yard, is_over))
        worker.start()
        try:
            if {"now", "now-dark"} & set(chosen):
                time.sleep(WORK_SECS)
            for name in chosen:
                take(name, chrome, yard)
        finally:
            is_over.set()
            worker.join()


def take(name: str, chrome: Browser, yard: Yard) -> None:
    """Take one picture."""
    scheme = "dark" if name.endswith("-dark") else "light"
    context = chrome.new_context(
        viewport={"width": 400 if name.endswith("-narrow") else WIDTH, "height": HEIGHT},
        color_scheme=scheme,
        locale="en-GB",
        timezone_id="UTC",
        reduced_motion="reduce",
    )
    console = Console(context.new_page(), yard.plane.url, yard.namespace)
    PICTURES[name](console, yard)
    console.settled()
    expect(console.page.get_by_role("heading", level=1)).to_be_visible()
    console.page.wait_for_timeout(2_500)
    console.page.screenshot(path=FOLDER / f"{name}.png")
    context.close()
    print(f"{name}.png: {(FOLDER / f'{name}.png').stat().st_size // 1024} KiB")


def _view(view: str) -> Callable[[Console, Yard], object]:
    return lambda console, _: console.open(view)


def _task(console: Console, yard: Yard) -> None:
    failed = yard.tasks(state="failed", action="crawl")[0]
    console.open("tasks", failed["taskId"])


PICTURES: Final[dict[str, Callable[[Console, Yard], object]]] = {
    **{view: _view(view) for view in VIEWS},
    "task": _task,
    "now-dark": _view("now"),
    "tasks-narrow": _view("tasks"),
}


if __name__ == "__main__":
    main()
