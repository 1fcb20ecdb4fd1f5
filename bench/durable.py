"""What it costs to keep everything: a yard on SQLite beside one that keeps nothing, in the same run.

The ceiling here is Taskyard itself with `memory://`. The CPU is that of the server's process; the process that writes
to the file has its own row. Everything is acknowledged after its commit, with `synchronous` full.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import psutil
import servers
from end_to_end import flow_flags
from latency import SECS, STEADY_SECS, steady_to_start, submit_to_start
from rows import Aim, Case, Figure, Measure, Row, Side
from submits import BATCH

REMARK = "the ceiling is the same server with memory://"
HOSTS = 4
OTHER_HOSTS = (1, 50)
STEADY = 8_000
"""Tasks per second in batches, beside which lone ones are measured."""
WRITER = "store.sqlite.writer"
"""A word of the command of a process that writes to a file."""

Take = Callable[[servers.Server, float], list[Figure]]


def cases() -> list[Case]:
    """Rows for submits, for the whole way and its writer, and for the latency at low load and beside much of it."""
    unary = partial(_throughput, "submit", {"connections": 4, "inflight": 32})
    batch = partial(_throughput, "batch", {"connections": 4, "inflight": 8, "batch": BATCH})
    stream = partial(_throughput, "stream", {"submitters": 4, "inflight": 4, "batch": BATCH})
    quantiles = (("p50", Aim(1, "value")), ("p99", Aim(4, "value")), ("p99.9", None))
    latency = [f"submit to start, durable, {quantile}" for quantile, _ in quantiles]
    steady = tuple(
        Row(f"submit to start, durable, {STEADY:,} tasks/s, {quantile}", "ms", better="less", aim=aim, remark=REMARK)
        for quantile, aim in (("p50", None), ("p99", Aim(8, "value")), ("p99.9", None))
    )
    return [
        _case((Row("unary submit, durable", "calls/s", aim=Aim(0.75), remark=REMARK),), unary),
        _case((Row("batch submit, durable", "tasks/s", aim=Aim(0.55), remark=REMARK),), batch),
        _case((Row("stream submit, durable", "tasks/s", aim=Aim(0.55), remark=REMARK),), stream),
        *(_flow(hosts) for hosts in OTHER_HOSTS),
        _case(
            (
                Row("end to end, 4 hosts, durable", "tasks/s", remark=REMARK),
                Row("its server's CPU", "us", better="less", aim=Aim(1.5), remark=REMARK),
                Row("its writer's CPU", "us", better="less"),
            ),
            _whole_way,
        ),
        _case(tuple(Row(name, "ms", better="less", remark=REMARK) for name in latency), submit_to_start, secs=SECS),
        _case(steady, partial(steady_to_start, STEADY), secs=STEADY_SECS),
    ]


def _case(rows: tuple[Row, ...], take: Take, secs: float | None = None) -> Case:
    def side(durable: bool) -> Side:
        @contextmanager
        def opened() -> Iterator[Measure]:
            with servers.taskyard(durable=durable) as server:
                yield lambda secs: take(server, secs)

        return opened

    return Case(rows, side(True), side(False), secs=secs)


def _flow(hosts: int) -> Case:
    row = Row(f"end to end, {hosts} host{'s' if hosts > 1 else ''}, durable", "tasks/s", remark=REMARK)
    return _case((row,), partial(_throughput, "flow", flow_flags(hosts)))


def _throughput(mode: str, flags: dict[str, int], server: servers.Server, secs: float) -> list[Figure]:
    return [servers.throughput(server, mode, secs, **flags)]


def _whole_way(server: servers.Server, secs: float) -> list[Figure]:
    writers = writers_of(server)
    before = cpu_of(writers)
    result = servers.load("flow", server, secs, **flow_flags(HOSTS))
    # The writer works during the warm-up, too, whose tasks are not counted: its share is a little too high.
    writer_us = (cpu_of(writers) - before) / result.operations * 1e6
    rate = servers.figure(result.operations / result.secs, result)
    return [rate, Figure(rate.server_cpu_us or 0.0), Figure(writer_us)]


def writers_of(server: servers.Server) -> list[psutil.Process]:
    """The processes that write to the file of a server."""
    return [each for each in server.process.children() if WRITER in " ".join(each.cmdline())]


def cpu_of(processes: list[psutil.Process]) -> float:
    return sum(map(servers.cpu_secs, processes))
