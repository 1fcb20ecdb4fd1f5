"""What it costs to keep everything in PostgreSQL, beside SQLite and beside nothing, and what a second replica adds.

PostgreSQL comes by pip, has its defaults, and runs on the same machine: every acknowledgement follows an fsync of its.
Beside one replica with one namespace stand two with one each, which here share the cores of one machine, too.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import psutil
import servers
from durable import OTHER_HOSTS, cpu_of
from end_to_end import flow_flags
from latency import SECS, submit_to_start
from pairs import cpu_secs
from replica_sets import ReplicaSet, database, replicas
from rows import Case, Figure, Measure, Row, Side
from submits import BATCH

BESIDE = {"SQLite": True, "nothing kept": False}
HOSTS = 4

Take = Callable[[servers.Server, psutil.Process | None, float], list[Figure]]


def cases() -> list[Case]:
    """Rows for submits, the whole way and the latency at low load, each beside SQLite and beside nothing; replicas."""
    unary = partial(_throughput, "submit", {"connections": 4, "inflight": 32})
    batch = partial(_throughput, "batch", {"connections": 4, "inflight": 8, "batch": BATCH})
    stream = partial(_throughput, "stream", {"submitters": 4, "inflight": 4, "batch": BATCH})
    found = []
    for name, is_durable in BESIDE.items():
        remark = f"the ceiling is the same server, {name}"
        found += [
            _case((Row(f"unary submit, PostgreSQL by {name}", "calls/s", remark=remark),), unary, is_durable),
            _case((Row(f"batch submit, PostgreSQL by {name}", "tasks/s", remark=remark),), batch, is_durable),
            _case((Row(f"stream submit, PostgreSQL by {name}", "tasks/s", remark=remark),), stream, is_durable),
        ]
    remark = "the ceiling is the same server on SQLite"
    rows = (
        Row("end to end, 4 hosts, PostgreSQL", "tasks/s", remark=remark),
        Row("its server's CPU, PostgreSQL", "us", better="less", remark=remark),
        Row("CPU of the store's processes", "us", better="less", remark=remark),
    )
    found.append(_case(rows, _whole_way, is_durable=True))
    for hosts in OTHER_HOSTS:
        row = Row(f"end to end, {hosts} host{'s' if hosts > 1 else ''}, PostgreSQL", "tasks/s", remark=remark)
        found.append(_case((row,), partial(_throughput, "flow", flow_flags(hosts)), is_durable=True))
    names = (f"submit to start, PostgreSQL, {quantile}" for quantile in ("p50", "p99", "p99.9"))
    latency = tuple(Row(name, "ms", better="less", remark=remark) for name in names)
    found.append(_case(latency, lambda server, _, secs: submit_to_start(server, secs), is_durable=True, secs=SECS))
    row = Row("two replicas, two namespaces", "tasks/s", remark="the ceiling is one replica with one namespace")
    found.append(Case((row,), _replicas(2), _replicas(1)))
    return found


def _case(rows: tuple[Row, ...], take: Take, is_durable: bool, secs: float | None = None) -> Case:
    @contextmanager
    def ours() -> Iterator[Measure]:
        with database() as postgres, servers.taskyard(store=postgres.url()) as server:
            process = psutil.Process(postgres.pid)
            yield lambda secs: take(server, process, secs)

    @contextmanager
    def ceiling() -> Iterator[Measure]:
        with servers.taskyard(durable=is_durable) as server:
            yield lambda secs: take(server, None, secs)

    return Case(rows, ours, ceiling, secs=secs)


def _throughput(
    mode: str, flags: dict[str, int], server: servers.Server, _: psutil.Process | None, secs: float
) -> list[Figure]:
    return [servers.throughput(server, mode, secs, **flags)]


def _whole_way(server: servers.Server, postgres: psutil.Process | None, secs: float) -> list[Figure]:
    stores = [each for each in server.process.children() if "sqlite_writer" in " ".join(each.cmdline())]
    before = cpu_of(stores) if postgres is None else cpu_secs(postgres)
    result = servers.load("flow", server, secs, **flow_flags(HOSTS))
    used = (cpu_of(stores) if postgres is None else cpu_secs(postgres)) - before
    rate = servers.figure(result.operations / result.secs, result)
    return [rate, Figure(rate.server_cpu_us or 0.0), Figure(max(used / result.operations * 1e6, 1e-9))]


def _replicas(count: int) -> Side:
    @contextmanager
    def opened() -> Iterator[Measure]:
        with replicas(count) as found:
            yield lambda secs: [_together(found, secs)]

    return opened


def _together(found: ReplicaSet, secs: float) -> Figure:
    """The tasks a second of all replicas, each with a namespace that it owns and a load generator of its own."""

    def measure(number: int) -> servers.Load:
        server = servers.Server(found.places[number].grpc, None, found.process(number))
        return servers.load("flow", server, secs, namespace=f"space-{number}", **flow_flags(HOSTS))

    with ThreadPoolExecutor(len(found.places)) as threads:
        results = list(threads.map(measure, range(len(found.places))))
    tasks, used = sum(each.operations for each in results), sum(each.server_cpu_secs for each in results)
    return Figure(sum(each.operations / each.secs for each in results), used / tasks * 1e6)
