"""`examples/live_output/`: a page in a real Chromium goes on by itself, whatever becomes of the server under it."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.browsing import WAIT_MS, browser, chromium
from tests.console.yards import Lease, Plane, Yard, plane
from tests.ports import free_port
from tests.waiting import until_in_thread

pytestmark = pytest.mark.gate("Chromium")

EXAMPLE = Path(__file__).parents[1] / "examples" / "live_output"
KILLS = 2
AT_ONCE = 3


@contextmanager
def served_page(port: int) -> Iterator[str]:
    """The URL of the page, served as the README says."""
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", EXAMPLE]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as server:
        try:
            url = f"http://127.0.0.1:{port}/page.html"
            until_in_thread(lambda: _answers(url))
            yield url
        finally:
            server.kill()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Plane, Page, str]]:
    """A server that the page may call, a page without content, and the page's URL."""
    if chromium() is None:
        pytest.skip("needs Chromium: tools/debian_tools.sh chromium")
    port = free_port()
    origins = {"origins": [f"http://127.0.0.1:{port}"]}
    with plane(tmp_path, cors=origins) as served, served_page(port) as url, browser() as chrome:
        yield served, chrome.new_page(), url


def say(lease: Lease, is_over: threading.Event) -> str:
    """Say numbers until it is over, each until the server keeps it, and complete the task; all that was said."""
    path = f"/api/runtime-hosts/{lease.host}/tasks/{lease.task_id}"
    said: list[str] = []
    with lease.yard.plane.http("default") as client:

        def call(what: str, **body: object) -> None:
            def is_kept() -> bool:
                try:
                    answer = client.post(f"{path}/{what}", json={"fencing_token": lease.fencing_token, **body})
                except httpx.TransportError:
                    return False
                assert answer.is_success or answer.status_code in (502, 503, 504), answer.text
                return answer.is_success

            until_in_thread(is_kept)

        while not is_over.is_set():
            chunks = [f"{len(said) + each} " for each in range(1, AT_ONCE + 1)]
            call("output", number=len(said) + 1, chunks=[{"text": text} for text in chunks])
            said += chunks
        call("complete")
    return "".join(said)


def test_a_page_shows_all_that_was_said_once_and_in_order_over_restarts(opened: tuple[Plane, Page, str]) -> None:
    served, page, url = opened
    asked_after: list[int] = []

    def pass_on(route: Route) -> None:
        asked_after.append(int(route.request.url.partition("after=")[2]))
        if len(asked_after) == 2:
            # What a gateway says whose server is not yet there: the browser gives up then, and the page does not.
            route.fulfill(status=503)
        else:
            route.continue_()

    page.route("**/output/events?*", pass_on)
    with served.http("default") as client, ThreadPoolExecutor(1) as pool:
        yard = Yard(served, "default", client)
        yard.host()
        task_id = yard.submit()
        lease = yard.run()
        page.goto(f"{url}?task={task_id}&server={served.url}")
        is_over = threading.Event()
        saying = pool.submit(say, lease, is_over)
        try:
            for _ in range(KILLS):
                shown = len(page.locator("#said").text_content() or "")
                page.wait_for_function(f"document.getElementById('said').textContent.length > {shown}", timeout=WAIT_MS)
                served.stop()
                served.start()
        finally:
            is_over.set()
        said = saying.result()
        expect(page.get_by_role("status")).to_have_text("done")
        assert page.locator("#said").text_content() == said
        # A browser that opens a connection again does so with the URL of before, and says in a header what it has seen.
        assert asked_after[:2] == [0, 0]
        assert asked_after[2] > 0
        assert len(asked_after) > 3
