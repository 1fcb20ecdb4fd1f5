"""The time until a submitted task reaches a host, beside the round trip of a bare unary call.

One task at a time, from just before SubmitTask until the stream of a waiting host in the same process has it. At low
load the server does nothing else. At half load, a load generator sends half of the tasks per second that the server can
carry end to end; the bare server gets as many.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import servers
from end_to_end import bare_streams, flow_flags
from rows import Aim, Case, Figure, Measure, Row

RATE = 200
"""Tasks per second. A task takes much less than the five milliseconds until the next one."""
SECS = 3.0
HOSTS = 4
SETTLE_SECS = 0.5
PROBE = "probe"
"""The action of the tasks for the waiting host."""

Probe = Callable[[servers.Server, float], list[Figure]]


def cases() -> list[Case]:
    """Rows at low load and at half load: p50, p99 and p99.9."""
    return [
        Case(_rows("low load", Aim(2), Aim(3)), _low_load, _low_load_bare, secs=SECS),
        HalfLoad().case(),
    ]


def _rows(load: str, p50: Aim | None = None, p99: Aim | None = None) -> tuple[Row, ...]:
    return tuple(
        Row(f"submit to start, {load}, {quantile}", "ms", better="less", aim=aim)
        for quantile, aim in (("p50", p50), ("p99", p99), ("p99.9", None))
    )


@contextmanager
def _low_load() -> Iterator[Measure]:
    with servers.taskyard() as server:
        yield lambda secs: submit_to_start(server, secs)


@contextmanager
def _low_load_bare() -> Iterator[Measure]:
    with bare_streams() as server:
        yield lambda secs: round_trip(server, secs)


def submit_to_start(server: servers.Server, secs: float) -> list[Figure]:
    """The median, the 99th and the 99.9th percentile in milliseconds."""
    return _quantiles(servers.load("latency", server, secs, rate=RATE, action=PROBE, slots=1))


def round_trip(server: servers.Server, secs: float) -> list[Figure]:
    """The same for a unary call to the bare server."""
    return _quantiles(servers.load("submit", server, secs, rate=RATE, connections=1, inflight=1))


def _quantiles(result: servers.Load) -> list[Figure]:
    return [Figure(value) for value in (result.p50_ms, result.p99_ms, result.p999_ms)]


class HalfLoad:
    """Both sides at half of the load that the first one can carry, which is measured when it opens."""

    def __init__(self) -> None:
        self._rate = 0.0

    def case(self) -> Case:
        return Case(_rows("half load"), self._ours, self._bare, secs=SECS)

    @contextmanager
    def _ours(self) -> Iterator[Measure]:
        with servers.taskyard() as server:
            full = servers.load("flow", server, 2.0, **flow_flags(HOSTS))
            self._rate = full.operations / full.secs / 2
            yield lambda secs: self._under_load(server, submit_to_start, secs)

    @contextmanager
    def _bare(self) -> Iterator[Measure]:
        with bare_streams() as server:
            yield lambda secs: self._under_load(server, round_trip, secs)

    def _under_load(self, server: servers.Server, probe: Probe, secs: float) -> list[Figure]:
        with ThreadPoolExecutor(max_workers=1) as beside:
            flags = {**flow_flags(HOSTS), "rate": self._rate}
            # The load begins before the probe and ends after it.
            load = beside.submit(servers.load, "flow", server, secs + 2 * SETTLE_SECS, **flags)
            time.sleep(SETTLE_SECS)
            figures = probe(server, secs)
            load.result()
        return figures
