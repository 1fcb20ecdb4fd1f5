"""What a second process adds on one machine: two namespaces in two processes behind one Envoy, beside one process.

Both keep everything in SQLite. Each namespace has a load generator of its own, and all share the cores of the machine,
so that the CPU of a task says more than the rate where there are few. Calls to the two pass Envoy.
"""

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import servers
from durable import cpu_of
from end_to_end import flow_flags
from rows import Case, Figure, Measure, Row, Side

from taskyard import SyncClient

NAMESPACES = ("shop", "lab")
HOSTS = 4


def cases() -> list[Case]:
    """One case: the rate, and the CPU of a task in all processes."""
    remark = "the ceiling is one process with both namespaces, called without Envoy"
    rows = (
        Row("end to end, two processes, two namespaces, SQLite", "tasks/s", remark=remark),
        Row("CPU of all processes", "us", better="less", remark=remark),
    )
    return [Case(rows, _side(_two_processes), _side(lambda: servers.taskyard(durable=True)), older=False)]


@contextmanager
def _two_processes() -> Iterator[servers.Server]:
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.taskyard(gateway=True, store=f"sqlite:///{folder}/", options=("--processes", "2")) as server,
    ):
        for namespace in NAMESPACES:
            # The first call of each is repeated until it has an owner.
            with SyncClient(server.address, agent_id="bench", namespace=namespace) as client:
                client.submit("nobody-does-this")
        yield server


def _side(start: Callable[[], AbstractContextManager[servers.Server]]) -> Side:
    @contextmanager
    def opened() -> Iterator[Measure]:
        with start() as server:
            yield lambda secs: _together(server, secs)

    return opened


def _together(server: servers.Server, secs: float) -> list[Figure]:
    """The tasks a second of both namespaces, and the CPU of each in microseconds."""
    processes = [server.process, *server.process.children(recursive=True)]
    before = cpu_of(processes)
    with ThreadPoolExecutor(len(NAMESPACES)) as threads:
        results = list(threads.map(lambda name: _load(server, name, secs), NAMESPACES))
    used = cpu_of(processes) - before
    return [
        Figure(sum(each.operations / each.secs for each in results)),
        Figure(used / sum(each.operations for each in results) * 1e6),
    ]


def _load(server: servers.Server, namespace: str, secs: float) -> servers.Load:
    return servers.load("flow", server, secs, namespace=namespace, **flow_flags(HOSTS))
