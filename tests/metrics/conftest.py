"""What the tests of metrics share: an engine whose figures are served over HTTP, and a scraper."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from socketserver import BaseServer
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission, Task, TaskOptions
from taskyard_server.engine.memory.engine import MemoryEngine
from taskyard_server.metrics import Metrics
from taskyard_server.snapshots import Snapshots
from taskyard_server.webhooks import WebhookCounts
from tests import reporting

START = 1_700_000_000.0


@dataclass
class Scrape:
    """One answer of the metrics address."""

    text: str
    content_type: str
    families: dict[str, Metric] = field(init=False)

    def __post_init__(self) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(self.text)}

    def value(self, name: str, **labels: str) -> float:
        """The one sample of this name and these labels."""
        (value,) = (
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        )
        return value

    def buckets(self, name: str) -> dict[str, float]:
        """The buckets of a histogram: how many observations were at most so long."""
        samples = self.families[name].samples
        return {sample.labels["le"]: sample.value for sample in samples if sample.name == f"{name}_bucket"}


def _get(url: str) -> tuple[bytes, str]:
    with build_opener(ProxyHandler({})).open(url, timeout=10) as answer:
        return answer.read(), answer.headers["content-type"]


class Yard:
    """An engine and its metrics. `now` is its time, in which nothing passes by itself."""

    def __init__(self, limits: dict[str, Any]) -> None:
        self.now = START
        self.engine = MemoryEngine(Limits(**limits), clock=lambda: self.now, seed=1)
        self.webhooks = WebhookCounts()
        self.snapshots = Snapshots(self.engine, lambda: 60.0)
        self.metrics = Metrics(self.engine.admin.totals, self.webhooks, self.snapshots)
        self.engine.subscribe(self.metrics)
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = int(server.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"

    async def scrape(self) -> Scrape:
        """What Prometheus gets, after all that happened until now was told."""
        await asyncio.sleep(0)
        body, content_type = await asyncio.to_thread(_get, f"http://{self.address}/metrics")
        return Scrape(body.decode(), content_type)

    async def submit(self, namespace: str = "default", agent: str = "ann", **wish: Any) -> Task:
        """Submit a task; `wish` takes the fields of `Submission` and of `TaskOptions`."""
        options = {name: wish.pop(name) for name in TaskOptions._fields if name in wish}
        return await self.engine.tasks.submit(
            namespace, Submission(agent, "click", **wish, options=TaskOptions(**options))
        )

    async def claim(self, namespace: str = "default", lease_secs: float | None = None) -> Lease:
        """A lease on the one task that is known to be there."""
        await self.engine.hosts.register(namespace, "host", None, HostProfile())
        (lease,) = await self.engine.leases.claim(namespace, "host", lease_secs=lease_secs)
        return lease

    async def pass_time(self, secs: float) -> None:
        """Let time pass, and what comes due by it be done, as the engine's alarm would."""
        await asyncio.sleep(0)
        self.now += secs
        self.engine._namespaces.driver.advance()

    async def start(self, lease: Lease, namespace: str = "default") -> None:
        await reporting.start(self.engine, namespace, "host", lease.task.id, lease.token)

    async def complete(self, lease: Lease, namespace: str = "default") -> None:
        await reporting.complete(self.engine, namespace, "host", lease.task.id, lease.token, None)

    async def fail(self, lease: Lease, namespace: str = "default") -> None:
        await reporting.fail(self.engine, namespace, "host", lease.task.id, lease.token, "broken")

    async def close(self) -> None:
        await asyncio.to_thread(self.metrics.stop)
        await self.engine.admin.close()


@pytest.fixture
async def make_yard(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Yard]]:
    """Makes a `Yard` with these limits, whose metrics are served."""
    # The server looks every half a second whether it is to stop; so many tests cannot wait for that.
    monkeypatch.setattr(ThreadingWSGIServer, "serve_forever", lambda server: BaseServer.serve_forever(server, 0.01))
    made: list[Yard] = []

    def make(**limits: Any) -> Yard:
        yard = Yard(limits)
        made.append(yard)
        yard.metrics.serve(yard.address)
        return yard

    yield make
    for yard in made:
        await yard.close()


@pytest.fixture
async def yard(make_yard: Callable[..., Yard]) -> Yard:
    """A `Yard` whose metrics are served."""
    return make_yard()
