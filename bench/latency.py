"""The time until a submitted task reaches a host, beside the round trip of a bare unary call.

From just before SubmitTask until the stream of a waiting host in the same process has it. At low load there is one task
at a time, and the server does nothing else.

Under load, tasks come when they are due, whatever those before them took, and their time counts from then: so a pause
counts for all that it holds up. A load generator of its own sends a fixed number of tasks per second in batches, and
these stand beside; in the row of lone tasks there are no others. The bare server gets as many.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest

import servers
from end_to_end import BATCH, Start, bare_streams, flow_flags
from rows import Aim, Case, Figure, Measure, Row, Side

RATE = 200
"""Tasks per second. A task takes much less than the five milliseconds until the next one."""
SECS = 3.0
HOSTS = 4
SETTLE_SECS = 0.5
MIN_SHARE = 0.95
"""At least so much of a load beside must be done: else its queue grows, and what is measured is how long it has."""
PROBE = "probe"
"""The action of the tasks for the waiting host."""

STEADY_RATE = 197
"""Tasks per second beside the batches: no part of their rate, so that they meet them at all points."""
STEADY_SECS = 4.0
STEADY_SLOTS = 200
LONE_RATE = 2_000
LONE_CONNECTIONS = 50

Take = Callable[[servers.Server, float], list[Figure]]


def cases() -> list[Case]:
    """Rows at low load and under load: p50, p99 and p99.9."""
    return [
        Case(
            _rows("low load", Aim(2), Aim(3)),
            _side(servers.taskyard, submit_to_start),
            _side(bare_streams, round_trip),
            secs=SECS,
        ),
        _steady(8_000, Aim(1.5, "value"), Aim(5, "value"), Aim(15, "value")),
        _steady(12_000),
        Case(
            _rows(f"{LONE_RATE:,} lone tasks/s"),
            _side(servers.taskyard, lone_to_start),
            _side(bare_streams, lone_round_trip),
            secs=STEADY_SECS,
        ),
    ]


def _rows(load: str, *aims: Aim) -> tuple[Row, ...]:
    return tuple(
        Row(f"submit to start, {load}, {quantile}", "ms", better="less", aim=aim)
        for quantile, aim in zip_longest(("p50", "p99", "p99.9"), aims)
    )


def _steady(rate: int, *aims: Aim) -> Case:
    return Case(
        _rows(f"{rate:,} tasks/s", *aims),
        _side(servers.taskyard, partial(steady_to_start, rate)),
        _side(bare_streams, partial(steady_round_trip, rate)),
        secs=STEADY_SECS,
    )


def _side(start: Start, take: Take) -> Side:
    @contextmanager
    def opened() -> Iterator[Measure]:
        with start() as server:
            yield lambda secs: take(server, secs)

    return opened


def submit_to_start(server: servers.Server, secs: float) -> list[Figure]:
    """The median, the 99th and the 99.9th percentile in milliseconds."""
    return _quantiles(servers.load("latency", server, secs, rate=RATE, action=PROBE, slots=1))


def round_trip(server: servers.Server, secs: float) -> list[Figure]:
    """The same for a unary call to the bare server."""
    return _quantiles(servers.load("submit", server, secs, rate=RATE, connections=1, inflight=1))


def _quantiles(result: servers.Load) -> list[Figure]:
    return [Figure(value) for value in (result.p50_ms, result.p99_ms, result.p999_ms)]


def steady_to_start(rate: float, server: servers.Server, secs: float) -> list[Figure]:
    """The same of tasks that come when they are due, beside so many tasks per second in batches."""
    with batches_beside(rate, server, secs):
        return _quantiles(
            servers.load("steady", server, secs, rate=STEADY_RATE, action=PROBE, slots=STEADY_SLOTS, connections=1)
        )


def steady_round_trip(rate: float, server: servers.Server, secs: float) -> list[Figure]:
    """The same for unary calls to the bare server."""
    with batches_beside(rate, server, secs):
        return _quantiles(servers.load("steady-calls", server, secs, rate=STEADY_RATE, connections=1))


def lone_to_start(server: servers.Server, secs: float) -> list[Figure]:
    """The same of lone tasks of many connections, each by a call of its own."""
    flags = {"rate": LONE_RATE, "connections": LONE_CONNECTIONS, "slots": 10 * STEADY_SLOTS}
    return _quantiles(servers.load("steady", server, secs, action=PROBE, **flags))


def lone_round_trip(server: servers.Server, secs: float) -> list[Figure]:
    """The same for unary calls to the bare server."""
    return _quantiles(servers.load("steady-calls", server, secs, rate=LONE_RATE, connections=LONE_CONNECTIONS))


@contextmanager
def batches_beside(rate: float, server: servers.Server, secs: float, batch: int = BATCH) -> Iterator[None]:
    """Sends tasks in batches from before the block until after it. Raises `SystemExit` if some are not done."""
    flags = {**flow_flags(HOSTS), "rate": rate, "batch": batch}
    with ThreadPoolExecutor(max_workers=1) as beside:
        # The warm-up of the other load is shorter than what this one has left at its end.
        load = beside.submit(servers.load, "flow", server, secs + 2 * SETTLE_SECS, **flags)
        time.sleep(SETTLE_SECS)
        yield
        done = load.result()
    if done.operations < MIN_SHARE * rate * done.secs:
        raise SystemExit(f"{done.operations / done.secs:,.0f} tasks/s were done beside, not {rate:,.0f}")
