"""The content of `taskyard top`: the figures of one namespace at one moment, and how they are asked for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc

from taskyard.connection.credentials import NAMESPACE_KEY
from taskyard.v1 import namespace_pb2, runtime_host_pb2, sample_pb2, stats_pb2
from taskyard.v1.namespace_pb2_grpc import NamespaceServiceStub
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from taskyard.v1.stats_pb2_grpc import StatsServiceStub
from taskyard_server.cli.connection import Connection

CALL_SECS: Final = 5.0
MAX_SAMPLES: Final = 360
MAX_PAGES: Final = 5
"""Of agents and of hosts; a page has up to 1,000."""
NAMES_SECS: Final = 10.0
"""How often the names of namespaces are read again."""
NOT_FOR_ALL: Final = frozenset({grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED})
COUNTED: Final = {
    "submitted": "tasks_submitted",
    "dispatched": "dispatch_count",
    "completed": "tasks_completed",
    "failed": "tasks_failed",
}
"""Figures with a rate, by their name in samples, and its name in the stats."""


@dataclass(frozen=True)
class TopFigures:
    """One namespace at one moment. What the caller may not see, or the server does not have, is None.

    `rates` are those a second since the figures before, or of the last sample; empty while neither is there.
    """

    namespace: str
    stats: stats_pb2.GetStatsResponse
    samples: Sequence[sample_pb2.Sample] | None
    agents: Sequence[stats_pb2.AgentShare] | None
    hosts: Sequence[runtime_host_pb2.RuntimeHost] | None
    rates: dict[str, float]
    names: Sequence[str] = ()
    """The namespaces that the caller may see."""


class Reader:
    """Reads figures, and keeps what is needed for the next ones. `clock` is in seconds."""

    def __init__(self, connection: Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._clock = clock
        self._namespace = ""
        self._samples: deque[sample_pb2.Sample] = deque(maxlen=MAX_SAMPLES)
        self._before: tuple[float, stats_pb2.SchedulerMetrics] | None = None
        self._names: Sequence[str] = ()
        self._named_at: float | None = None

    def read(self, channel: grpc.Channel, namespace: str) -> TopFigures:
        """The figures of this moment. Raises `grpc.RpcError`."""
        if namespace != self._namespace:
            self._namespace, self._before = namespace, None
            self._samples.clear()
        call = self._call()
        stub = StatsServiceStub(channel)
        stats = stub.GetStats(stats_pb2.GetStatsRequest(), **call)
        samples = _unless_refused(lambda: self._read_samples(stub, call))
        return TopFigures(
            namespace,
            stats,
            samples,
            _unless_refused(lambda: _agents(stub, call)),
            _unless_refused(lambda: _hosts(RuntimeHostServiceStub(channel), call)),
            self._rates(stats.metrics, samples or ()),
            self._read_names(channel, call),
        )

    def _call(self) -> dict[str, Any]:
        call = self._connection.call(CALL_SECS)
        metadata = [(key, value) for key, value in call["metadata"] if key != NAMESPACE_KEY]
        return {**call, "metadata": (*metadata, (NAMESPACE_KEY, self._namespace))}

    def _read_samples(self, stub: StatsServiceStub, call: dict[str, Any]) -> Sequence[sample_pb2.Sample]:
        after = self._samples[-1].at if self._samples else None
        self._samples.extend(stub.ListSamples(sample_pb2.ListSamplesRequest(after=after), **call).samples)
        return tuple(self._samples)

    def _rates(self, metrics: stats_pb2.SchedulerMetrics, samples: Sequence[sample_pb2.Sample]) -> dict[str, float]:
        now, before = self._clock(), self._before
        self._before = now, metrics
        if before is not None and now > before[0] and metrics.tasks_submitted >= before[1].tasks_submitted:
            # A failure that was taken up again does not count as one any more.
            secs, past = now - before[0], before[1]
            return {
                name: max(0.0, getattr(metrics, counter) - getattr(past, counter)) / secs
                for name, counter in COUNTED.items()
            }
        if not samples:
            return {}
        secs = interval_secs(samples)
        return {name: getattr(samples[-1], name) / secs for name in COUNTED}

    def _read_names(self, channel: grpc.Channel, call: dict[str, Any]) -> Sequence[str]:
        now = self._clock()
        if self._named_at is None or now - self._named_at >= NAMES_SECS:
            self._named_at = now
            request = namespace_pb2.ListNamespacesRequest()
            listed = _unless_refused(lambda: NamespaceServiceStub(channel).ListNamespaces(request, **call).namespaces)
            self._names = [each.name for each in listed or ()]
        return self._names


def interval_secs(samples: Sequence[sample_pb2.Sample]) -> float:
    """The seconds that a sample stands for."""
    if len(samples) < 2:
        return 10.0
    first, last = samples[-2].at, samples[-1].at
    return max(1.0, last.seconds - first.seconds + (last.nanos - first.nanos) / 1e9)


def _agents(stub: StatsServiceStub, call: dict[str, Any]) -> Sequence[stats_pb2.AgentShare]:
    found: list[stats_pb2.AgentShare] = []
    request = stats_pb2.GetFairnessRequest()
    for _ in range(MAX_PAGES):
        page = stub.GetFairness(request, **call)
        found.extend(page.agents)
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    return found


def _hosts(stub: RuntimeHostServiceStub, call: dict[str, Any]) -> Sequence[runtime_host_pb2.RuntimeHost]:
    found: list[runtime_host_pb2.RuntimeHost] = []
    request = runtime_host_pb2.ListHostsRequest()
    for _ in range(MAX_PAGES):
        page = stub.ListHosts(request, **call)
        found.extend(page.hosts)
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    return found


def _unless_refused(ask: Callable[[], Any]) -> Any:
    """The answer of a call; None where its caller may not make it, or the server does not know it."""
    try:
        return ask()
    except grpc.RpcError as error:
        if isinstance(error, grpc.Call) and error.code() in NOT_FOR_ALL:
            return None
        raise
