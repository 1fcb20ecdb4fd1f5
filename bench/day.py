"""A load of a day's shape: agents, batches, watchers, schedules, hosts that come and go, all at once.

Beside one another run `load flow` in Go, with tasks at a fixed rate over streams, four hosts that stay and fifty
watchers of one agent each, and day_clients.py with everything that changes. The server is far from its limit. Measured
are how long lone tasks wait, and what a task costs the server's process, all calls and watchers included.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import servers
from latency import MIN_SHARE, PROBE, STEADY_RATE, STEADY_SLOTS
from rows import Case, Figure, Measure, Row

from taskyard.v1 import stats_pb2, stats_pb2_grpc

RATE = 1_500.0
"""Tasks a second over streams."""
BATCH = 10
HOSTS, SLOTS, WATCHERS = 4, 200, 50
SETTLE_SECS = 2.0
SECS = 6.0
FOR_EVER = 1e6


def cases() -> list[Case]:
    """The rows of latency and CPU, in memory and with a file."""
    return [_case("", durable=False), _case(", durable", durable=True)]


@contextmanager
def day(server: servers.Server, rate: float = RATE) -> Iterator[None]:
    """Within the block there is a day's load. Raises `SystemExit` at its end if a part of it has failed."""
    flags = {"rate": rate, "batch": BATCH, "hosts": HOSTS, "slots": SLOTS, "watchers": WATCHERS}
    flow = servers.load_command("flow", server, FOR_EVER, **flags)
    clients = (sys.executable, str(servers.HERE / "day_clients.py"), server.address)
    with servers.running(*flow) as streams, servers.running(*clients) as others:
        time.sleep(SETTLE_SECS)
        yield
        for process in (streams, others):
            servers.cpu_secs(process)  # Raises if it has ended.


def lone_waits(server: servers.Server, secs: float) -> tuple[float, float, float]:
    """From when a lone task is due until a host has it: the median, the 99th and the 99.9th percentile in ms."""
    flags = {"rate": STEADY_RATE, "slots": STEADY_SLOTS, "connections": 1}
    found = servers.load("steady", server, secs, action=PROBE, **flags)
    return found.p50_ms, found.p99_ms, found.p999_ms


def ended_tasks(server: servers.Server) -> int:
    """The number of tasks that have been completed until now."""
    with grpc.insecure_channel(server.address) as channel:
        stub = stats_pb2_grpc.StatsServiceStub(channel)
        return int(stub.GetStats(stats_pb2.GetStatsRequest()).metrics.tasks_completed)


def check_rate(tasks: float, secs: float, rate: float = RATE) -> None:
    """Raise `SystemExit` if fewer tasks have ended than are submitted: then a part of the load stands still."""
    if tasks < MIN_SHARE * rate * secs:
        raise SystemExit(f"{tasks / secs:,.0f} tasks/s have ended, not {rate:,.0f}")


def _case(kind: str, durable: bool) -> Case:
    name = f"a day's load{kind}"
    rows = (
        *(Row(f"{name}: submit to start, {quantile}", "ms", better="less") for quantile in ("p50", "p99", "p99.9")),
        Row(f"{name}: server CPU a task", "us", better="less"),
    )

    @contextmanager
    def opened() -> Iterator[Measure]:
        with servers.taskyard(durable=durable) as server:

            def measure(secs: float) -> list[Figure]:
                # Each round has a load of its own: what two versions get in turn does not run beside the other.
                with day(server):
                    tasks, used, since = ended_tasks(server), server.cpu_secs(), time.monotonic()
                    waits = [Figure(each) for each in lone_waits(server, secs)]
                    used, tasks = server.cpu_secs() - used, ended_tasks(server) - tasks
                    check_rate(tasks, time.monotonic() - since)
                return [*waits, Figure(used / tasks * 1e6)]

            yield measure

    return Case(rows, opened, secs=SECS)
