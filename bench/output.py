"""The cost of what tasks say while they run, and how soon their followers have it.

1,000 running tasks at 4 hosts say 20,000 chunks of 40 bytes a second, and 50 followers read one task each. A message of
a host has 20 chunks of 20 tasks, about what the SDK for Python was seen to send at this rate. The ceiling is the server
of bare_streams.py: it gets the same messages, acknowledges them, and encodes what somebody follows; it neither checks
nor keeps anything. The server is new in each round.

In the rows of costs nothing else goes on: what tasks beside the chunks take could only be subtracted, and it depends on
how busy the server is by more than a chunk costs. The rows *beside 2,000 tasks/s* have all of that load, with tasks
from submission to completion at hosts of their own, and show the CPU time of a second.

Latencies are from when a chunk is due to be sent until its follower has it, at a tenth of that load on SQLite: 2,000
chunks a second, 2 in a message, beside 200 tasks a second.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import servers
from durable import cpu_of, writers_of
from end_to_end import bare_streams
from latency import batches_beside
from rows import Aim, Case, Figure, Measure, Row, Side

TASKS, HOSTS, FOLLOWERS = 1_000, 4, 50
RATE, BATCH = 20_000, 20
"""Chunks a second, and in a message."""
TASKS_BESIDE = 2_000
"""Tasks per second."""
LOW_RATE, LOW_BATCH, FEW_TASKS_BESIDE, FEW_BESIDE = 2_000, 2, 200, 5
"""The same at low load; the last one is the number of tasks in a message."""
SECS = 3.0
TALKING = "talk"
"""The action of the tasks that say something. Those beside them have another."""

Start = Callable[[], AbstractContextManager[servers.Server]]
Take = Callable[[servers.Server, float], list[Figure]]


def cases() -> list[Case]:
    """Rows for the cost of a chunk in memory and on SQLite, for all of the load, and for latencies."""
    durable = partial(servers.taskyard, durable=True)
    quantiles = (("p50", Aim(5, "value")), ("p99", Aim(25, "value")), ("p99.9", None))
    return [
        _case(_costs("in memory", Aim(1.5)), servers.taskyard, _cost),
        _case(_costs("durable", Aim(2.5), "its server's and writer's CPU"), durable, _cost),
        _case((_beside("in memory"),), servers.taskyard, _cost_beside),
        _case((_beside("durable"),), durable, _cost_beside),
        _case(
            tuple(
                Row(f"chunk to follower, durable, {LOW_RATE:,} chunks/s, {quantile}", "ms", better="less", aim=aim)
                for quantile, aim in quantiles
            ),
            durable,
            _latency,
        ),
    ]


def _costs(kept: str, aim: Aim, *more: str) -> tuple[Row, ...]:
    name = f"output, {kept}, {RATE:,} chunks/s"
    costs = [Row(f"{name}: {cost}", "us", better="less") for cost in more]
    return Row(name, "chunks/s"), Row(f"{name}: its server's CPU", "us", better="less", aim=aim), *costs


def _beside(kept: str) -> Row:
    return Row(f"output, {kept}, beside {TASKS_BESIDE:,} tasks/s: its server's CPU", "ms/s", better="less")


def _case(rows: tuple[Row, ...], start: Start, take: Take) -> Case:
    def side(start: Start) -> Side:
        @contextmanager
        def opened() -> Iterator[Measure]:
            def measure(secs: float) -> list[Figure]:
                with start() as server:
                    return take(server, secs)

            yield measure

        return opened

    # The older version knows no output.
    return Case(rows, side(start), side(bare_streams), older=False, secs=SECS)


def _load(server: servers.Server, secs: float, rate: int, batch: int) -> servers.Load:
    flags = {"hosts": HOSTS, "slots": TASKS // HOSTS, "watchers": FOLLOWERS, "rate": rate, "batch": batch}
    return servers.load("output", server, secs, action=TALKING, **flags)


def _cost(server: servers.Server, secs: float) -> list[Figure]:
    """Chunks per second, the server's CPU of each, and its writer's with it if it has one."""
    writers = writers_of(server)
    before = cpu_of(writers)
    result = _load(server, secs, RATE, BATCH)
    rate = servers.figure(result.operations / result.secs, result)
    # The writer works during the warm-up, too, whose chunks are not counted.
    share = result.secs / (result.secs + servers.WARM_UP_SECS)
    writer_us = (cpu_of(writers) - before) * share / result.operations * 1e6
    server_us = rate.server_cpu_us or 0.0
    return [rate, Figure(server_us), Figure(server_us + writer_us)]


def _cost_beside(server: servers.Server, secs: float) -> list[Figure]:
    """Milliseconds of CPU in a second with all of the load."""
    with batches_beside(TASKS_BESIDE, server, secs):
        result = _load(server, secs, RATE, BATCH)
    return [Figure(result.server_cpu_secs / result.secs * 1e3)]


def _latency(server: servers.Server, secs: float) -> list[Figure]:
    """The median, the 99th and the 99.9th percentile in milliseconds."""
    with batches_beside(FEW_TASKS_BESIDE, server, secs, FEW_BESIDE):
        result = _load(server, secs, LOW_RATE, LOW_BATCH)
    return [Figure(value) for value in (result.p50_ms, result.p99_ms, result.p999_ms)]
