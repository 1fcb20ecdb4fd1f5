"""What the console costs, and 50 open consoles the server: `python bench/console_page.py [PART ...]`.

    sizes     bytes over the wire, and milliseconds until figures are to be seen
    list      10,000 tasks: the longest tasks of the page's thread while the first list is read
    frames    frames a second while that list scrolls and 2,000 events a second come
    memory    the heap of the page over --secs seconds of the same, after a collection each time
    consoles  CPU of server and gateway for 50 consoles, beside 50 plain watchers, at 50 events a second

Run by hand: it needs Chromium and both cores, and other work of the machine takes frames away. Nothing passes or fails.
"""

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import grpc
import httpx
import servers
from playwright.sync_api import Browser, CDPSession, Page

from taskyard.v1 import task_pb2, task_pb2_grpc
from tests.console.browsing import Console, browser

NAMESPACE = "default"
TASKS = 10_000
AGENTS = 10
EVENTS_A_SECOND = 2_000
SLICE = 50
PARTS = 10
SETTLE_SECS = 3.0
LISTED_SECS = 15.0
MEASURED_SECS = 20.0
SCROLL_SECS = 10.0
OPEN = 50
NOTE_LONG_TASKS = """
window.longTasks = [];
new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((each) => each.duration)))
  .observe({ type: "longtask", buffered: true });
"""
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
# Scrolls whatever is the highest box that scrolls, a bit each frame, and counts the frames.
SCROLL = """
(secs) => new Promise((done) => {
  const boxes = [document.scrollingElement, ...document.querySelectorAll("main, main *")];
  const box = boxes.reduce((a, b) => (b.scrollHeight - b.clientHeight > a.scrollHeight - a.clientHeight ? b : a));
  const begin = performance.now();
  let frames = 0, way = 1, last = begin, longest = 0;
  const step = (now) => {
    frames += 1;
    longest = Math.max(longest, now - last);
    last = now;
    if (box.scrollTop + box.clientHeight >= box.scrollHeight - 2) way = -1;
    if (box.scrollTop <= 0) way = 1;
    box.scrollTop += way * 60;
    if (now - begin < secs * 1000) requestAnimationFrame(step);
    else done({ frames: frames / ((now - begin) / 1000), longest, height: box.scrollHeight, at: box.scrollTop });
  };
  requestAnimationFrame(step);
})
"""


class Yard:
    """A server with its gateway, and a client that makes it busy."""

    def __init__(self, server: servers.Server) -> None:
        self.server = server
        self.http = httpx.Client(base_url=f"http://{server.rest}", timeout=60, trust_env=False)
        self.client = httpx.Client(base_url=f"http://{server.rest}", timeout=60, trust_env=False)
        self._names = count()
        self.events = 0

    @property
    def url(self) -> str:
        return f"http://{self.server.rest}"

    def fill(self, number: int) -> None:
        """Submit so many tasks that stay: no host takes them."""
        for begin in range(0, number, SLICE):
            self._submit(self.client, f"agent-{begin // SLICE % AGENTS}")

    @contextmanager
    def busy(self, events_a_second: int) -> Iterator[None]:
        """Half of the events are new priorities of tasks that are there, half tasks that come and go."""
        is_over = threading.Event()

        def work() -> None:
            due = time.monotonic()
            rounds = max(1, events_a_second // (4 * SLICE))
            for turn in count():
                if is_over.is_set():
                    return
                batch = self._submit(self.http, f"guest-{turn}")
                self.http.post(f"/batches/{batch}/cancel").raise_for_status()
                self.events += 2 * SLICE
                if turn % rounds == 0:
                    self._reprioritize(turn)
                due += 4 * SLICE / events_a_second
                is_over.wait(max(0.0, due - time.monotonic()))

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def cpu_secs(self) -> tuple[float, float]:
        """User and system time of the server and of its gateway until now."""
        children = self.server.process.children(recursive=True)
        envoys = [each for each in children if "envoy" in each.name()]
        return servers.cpu_secs(self.server.process), sum(map(servers.cpu_secs, envoys))

    def _submit(self, http: httpx.Client, agent: str) -> str:
        labels = {"site": "shop", "part": str(next(self._names) % PARTS)}
        task = {"action": "crawl", "requires": ["nobody"], "labels": labels, "params": {"url": "https://example.org"}}
        answer = http.post("/tasks/batch", json={"agentId": agent, "tasks": [task] * SLICE})
        return str(answer.raise_for_status().json()["batchId"])

    def _reprioritize(self, turn: int) -> None:
        sent = {"operationId": f"op-{turn}-{time.time_ns()}", "filter": {"labels": f"part={turn % PARTS}"}}
        self.http.post("/tasks:reprioritize", json={**sent, "priority": turn % 9}).raise_for_status()
        self.events += TASKS // PARTS


def opened(chrome: Browser, url: str) -> Console:
    """A page of its own in a window of a desk."""
    context = chrome.new_context(viewport={"width": 1_600, "height": 900})
    console = Console(context.new_page(), url, NAMESPACE)
    console.page.add_init_script(NOTE_LONG_TASKS)
    return console


def sizes(yard: Yard, chrome: Browser) -> None:
    with httpx.Client(headers={"accept-encoding": "gzip"}, trust_env=False) as http:
        with http.stream("GET", f"{yard.url}/ui/") as answer:
            wire = sum(map(len, answer.iter_raw()))
        print(f"the page: {wire:,} bytes over the wire ({answer.headers.get('content-encoding', 'as it is')})")
    for _ in range(3):
        console = opened(chrome, yard.url)
        begin = time.monotonic()
        console.open("now")
        console.settled()
        there = (time.monotonic() - begin) * 1_000
        print(f"first paint {console.page.evaluate(FIRST_PAINT):.0f} ms, figures there after {there:.0f} ms")
        console.page.context.close()


def first_list(yard: Yard, chrome: Browser) -> Console:
    """The list of all tasks."""
    console = opened(chrome, yard.url)
    console.open("tasks")
    console.page.get_by_text("crawl").first.wait_for()
    time.sleep(SETTLE_SECS)
    return console


def report_list(yard: Yard, chrome: Browser) -> None:
    for _ in range(3):
        console = first_list(yard, chrome)
        longest = sorted(console.page.evaluate("longTasks"), reverse=True)[:5]
        print(f"first list: longest tasks {[round(each) for each in longest]} ms")
        console.page.context.close()


def report_frames(yard: Yard, chrome: Browser) -> None:
    console = first_list(yard, chrome)
    quiet = console.page.evaluate(SCROLL, SCROLL_SECS)
    with yard.busy(EVENTS_A_SECOND):
        time.sleep(SETTLE_SECS)
        before = yard.events
        busy = console.page.evaluate(SCROLL, SCROLL_SECS)
        events = (yard.events - before) / SCROLL_SECS
    print(f"frames a second: {quiet['frames']:.1f} quiet, {busy['frames']:.1f} with {events:,.0f} events/s")
    print(f"longest between two: {quiet['longest']:.0f} ms, {busy['longest']:.0f} ms; box {busy['height']:,} px high")
    console.page.context.close()


def report_memory(yard: Yard, chrome: Browser, secs: float) -> None:
    console = first_list(yard, chrome)
    devtools = console.page.context.new_cdp_session(console.page)
    with yard.busy(EVENTS_A_SECOND):
        begin = time.monotonic()
        while (passed := time.monotonic() - begin) < secs:
            print(f"after {passed:4.0f} s: heap {_heap_mib(devtools):.1f} MiB, {_nodes(console.page)} elements")
            time.sleep(min(30.0, secs / 10))
    console.page.context.close()


def report_consoles(yard: Yard, chrome: Browser) -> None:
    secs = MEASURED_SECS

    def measured(name: str) -> None:
        # The first lists of all of them are to be over.
        time.sleep(LISTED_SECS)
        server, gateway = yard.cpu_secs()
        time.sleep(secs)
        after = yard.cpu_secs()
        ours, envoy = ((now - then) / secs * 100 for now, then in zip(after, (server, gateway), strict=True))
        print(f"{name}: server {ours:.1f} % of a core, gateway {envoy:.1f} %")

    with yard.busy(50):
        measured("nobody looks on")
        with ExitStack() as watching:
            for _ in range(OPEN):
                channel = watching.enter_context(grpc.insecure_channel(yard.server.address))
                stream = task_pb2_grpc.TaskServiceStub(channel).WatchTasks(
                    task_pb2.WatchTasksRequest(include_current=True)
                )
                threading.Thread(target=_read, args=(stream,), daemon=True).start()
                watching.callback(stream.cancel)
            measured(f"{OPEN} plain watchers")
        for view in ("tasks", "now"):
            consoles = [opened(chrome, yard.url).open(view) for _ in range(OPEN)]
            measured(f"{OPEN} consoles at {view}")
            for console in consoles:
                console.page.context.close()


def _read(stream: Any) -> None:
    try:
        for _ in stream:
            pass
    except grpc.RpcError:
        pass


def _heap_mib(devtools: CDPSession) -> float:
    devtools.send("HeapProfiler.collectGarbage")
    return float(devtools.send("Runtime.getHeapUsage")["usedSize"]) / 2**20


def _nodes(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--secs", type=float, default=300.0, help="how long the heap is looked at")
    given = parser.parse_args()
    parts: dict[str, Callable[[Yard, Browser], None]] = {
        "sizes": sizes,
        "list": report_list,
        "frames": report_frames,
        "memory": lambda yard, chrome: report_memory(yard, chrome, given.secs),
        "consoles": report_consoles,
    }
    settings = json.loads(json.dumps(servers.SETTINGS))
    with servers.taskyard(gateway=True, settings=settings) as server, browser() as chrome:
        yard = Yard(server)
        yard.fill(TASKS)
        for name in given.parts or parts:
            parts[name](yard, chrome)


if __name__ == "__main__":
    main()
