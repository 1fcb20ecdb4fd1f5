"""Fixtures of the tests of metrics: an engine whose figures are served over HTTP, and a scraper."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from socketserver import BaseServer
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from taskyard_server.core.figures.demand import Pool
from taskyard_server.core.history import Wait
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission, Task
from taskyard_server.core.task_options import TaskOptions
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.metrics.families import run_families
from taskyard_server.metrics.metrics import Metrics
from taskyard_server.metrics.server import _Server
from taskyard_server.metrics.snapshots import Snapshots
from taskyard_server.store.figures import StoreFigures
from taskyard_server.store.objects import Objects
from taskyard_server.webhooks.webhooks import WebhookCounts
from tests import reporting
from tests.engines import running_engine, settled
from tests.live import live

START = 1_700_000_000.0
MAX_NAMES = 3
"""Namespaces, and actions of each, that have series of their own."""
MIN_FREE_BYTES = 1_000


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
        """The buckets of a histogram: the number of observations by upper bound."""
        samples = self.families[name].samples
        return {sample.labels["le"]: sample.value for sample in samples if sample.name == f"{name}_bucket"}


def _get(url: str) -> tuple[bytes, str]:
    with build_opener(ProxyHandler({})).open(url, timeout=10) as answer:
        return answer.read(), answer.headers["content-type"]


class Harness:
    """An engine and its metrics. Tests set its time, `now`."""

    engine: Engine
    metrics: Metrics

    def __init__(self) -> None:
        self.now = START
        self.webhooks = WebhookCounts()
        self.pools: list[Pool] = []
        self._ends = AsyncExitStack()
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = int(server.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"

    async def open(
        self, limits: Limits, store: StoreFigures | None, admission: CallAdmission | None, **serving: Any
    ) -> None:
        """Serve the metrics of an engine with these limits, and these figures of a store.

        `serving` are further arguments of `Metrics.serve`.
        """
        engine = self.engine = await self._ends.enter_async_context(
            running_engine(limits, lambda: self.now, seed=1, objects=Objects("memory:///"))
        )
        self.snapshots = Snapshots(engine, lambda: 60.0)
        demand = lambda: engine.admin.total_demand(self.pools)  # noqa: E731
        self.metrics = Metrics(
            engine.admin.totals,
            self.webhooks,
            self.snapshots,
            store,
            admission,
            demand=demand,
            standings=engine.admin.standings,
            min_free_bytes=MIN_FREE_BYTES,
            max_names=MAX_NAMES,
        )
        self.metrics.runs = lambda: run_families(engine.run_figures, engine.admin.artifact_bytes())
        engine.subscribe(self.metrics)
        self.metrics.serve(self.address, **serving)
        self._ends.push_async_callback(asyncio.to_thread, self.metrics.stop)

    async def scrape(self) -> Scrape:
        """The answer for Prometheus, after the engine has delivered all events."""
        await settled(self.engine)
        return await self.scrape_at_once()

    async def scrape_at_once(self) -> Scrape:
        """The answer for Prometheus, whatever is going on: where work never ceases, nothing is ever settled."""
        body, content_type = await asyncio.to_thread(_get, f"http://{self.address}/metrics")
        return Scrape(body.decode(), content_type)

    async def submit(
        self, namespace: str = "default", agent: str = "ann", action: str = "click", **fields: Any
    ) -> Task:
        """Submit a task with these fields of `Submission` and `TaskOptions`."""
        options = {name: fields.pop(name) for name in TaskOptions._fields if name in fields}
        submission = Submission(agent, action, **fields, options=TaskOptions(**options))
        return await self.engine.tasks.submit(namespace, submission, show=live)

    async def claim(self, namespace: str = "default", lease_secs: float | None = None) -> Lease:
        """Claim the one task that can be claimed."""
        await self.engine.hosts.register(namespace, "host", None, HostProfile(), show=live)
        (lease,) = await self.engine.leases.claim(namespace, "host", lease_secs=lease_secs, show=live)
        return lease

    async def pass_time(self, secs: float) -> None:
        """Move the time on, and do what is due by then, as the engine's alarm does."""
        await settled(self.engine)
        self.now += secs
        self.engine._namespaces.driver.advance()

    async def start(self, lease: Lease, namespace: str = "default") -> None:
        await reporting.start(self.engine, namespace, "host", lease.task.id, lease.token)

    async def complete(self, lease: Lease, namespace: str = "default") -> None:
        await reporting.complete(self.engine, namespace, "host", lease.task.id, lease.token, None)

    async def fail(self, lease: Lease, namespace: str = "default") -> None:
        await reporting.fail(self.engine, namespace, "host", lease.task.id, lease.token, "broken")

    async def park(self, lease: Lease, *waits: Wait) -> None:
        await reporting.park(self.engine, "default", "host", lease.task.id, lease.token, *waits)

    async def close(self) -> None:
        await self._ends.aclose()


@pytest.fixture
async def make_harness(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Awaitable[Harness]]]:
    """Makes a `Harness` with these limits and figures of a store, whose metrics are served."""
    # By default the server checks every half a second whether to stop, which is slow for this many tests.
    monkeypatch.setattr(_Server, "serve_forever", lambda server: BaseServer.serve_forever(server, 0.01))
    made: list[Harness] = []

    async def make(
        store: StoreFigures | None = None,
        admission: CallAdmission | None = None,
        serving: dict[str, Any] | None = None,
        **limits: Any,
    ) -> Harness:
        harness = Harness()
        made.append(harness)
        await harness.open(Limits(**limits), store, admission, **(serving or {}))
        return harness

    yield make
    for harness in made:
        await harness.close()


@pytest.fixture(scope="session")
def needs_promtool() -> None:
    """Without Prometheus's own tool a test is skipped, which CI takes for a failure."""
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool: tools/debian_tools.sh promtool")


@pytest.fixture
async def harness(make_harness: Callable[..., Awaitable[Harness]]) -> Harness:
    """A `Harness` whose metrics are served."""
    return await make_harness()
