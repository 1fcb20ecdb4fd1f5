"""What types cost: a map of 10,000 typed inputs through a server and a host, beside the same map with plain dicts.

The host runs in a process of its own and answers at once. Its handler is untyped for both, so that the difference is
what the agent pays: checking the input, and reading the output.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import servers
from rows import Aim, Case, Figure, Measure, Row, Side

from taskyard import Action, Client

COUNT = 10_000
OUTSTANDING = 1_000
HOST = """
import asyncio, sys
from taskyard import Host
host = Host(sys.argv[1], "host", slots=1000)
@host.action("crawl")
async def crawl(task):
    return {"found": [task.params["url"]], "total": task.params["size"], "depth": 1.5}
asyncio.run(host.run())
"""


@dataclass
class Page:
    """The typed input, which has the fields of the plain one."""

    url: str
    size: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Links:
    """The typed output."""

    found: list[str]
    total: int
    depth: float


crawl = Action[Page, Links]("crawl")


def cases() -> list[Case]:
    """A row whose ceiling is the untyped map."""
    row = Row("map of 10,000 typed inputs", "tasks/s", aim=Aim(1 / 1.3), remark="the ceiling is the map with dicts")
    typed = _side(crawl, lambda number: Page(f"https://example.com/{number}", number, {"accept": "text/html"}))
    plain = _side(
        "crawl",
        lambda number: {"url": f"https://example.com/{number}", "size": number, "headers": {"accept": "text/html"}},
    )
    return [Case((row,), typed, plain, older=False)]


def _side(action: Any, make: Callable[[int], Any]) -> Side:
    @contextmanager
    def opened() -> Iterator[Measure]:
        with servers.taskyard() as server, _host(server.address):
            asyncio.run(_mapped(server.address, action, map(make, range(1_000))))

            def measure(_: float) -> list[Figure]:
                served, used, begun = server.cpu_secs(), time.process_time(), time.perf_counter()
                asyncio.run(_mapped(server.address, action, map(make, range(COUNT))))
                secs = time.perf_counter() - begun
                server_secs = server.cpu_secs() - served
                return [
                    Figure(
                        COUNT / secs,
                        server_cpu_us=server_secs * 1e6 / COUNT,
                        server_share=server_secs / secs,
                        client_share=(time.process_time() - used) / secs,
                    )
                ]

            yield measure

    return opened


@contextmanager
def _host(address: str) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", HOST, address], env=dict(os.environ)) as process:
        try:
            yield
        finally:
            process.kill()


async def _mapped(address: str, action: Any, inputs: Iterable[Any]) -> None:
    async with (
        Client(address, agent_id="bench") as client,
        client.map(action, inputs, max_outstanding=OUTSTANDING) as outcomes,
    ):
        async for outcome in outcomes:
            assert outcome.error is None, outcome.error
