"""The cost of a task from its submission to its completion by a host, beside bare streams with the same messages.

In the rows with batches, 4 streams submit 50 tasks per message, 1, 4 or 50 hosts execute them, and at most 4,000 tasks
are on their way. In the host rows the queue is filled beforehand, and 50 hosts execute it with 1 or 10 tasks per
message. A host answers each message of tasks by one of reports, with the credit in it, and its accepted reports are
counted, as with the SDKs. There are two ceilings: in the first, as in the older version, credit is a message of its own
and each report has a result; the second (*counted*) speaks as ours does. Aims are of the first.

50 watchers are connected, each to the tasks of one agent of a thousand: a twentieth of all events is delivered. The
bare server of bare_streams.py passes tasks from one stream to another, and sends its watchers nothing.

In the row with a key all tasks have the same one, with a limit as high as the slots of all hosts; it stands beside the
same server and load without keys.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import servers
from rows import Aim, Case, Figure, Measure, Row

BATCH = 50
WATCHERS = 50
SUBMITTERS = 4
UNANSWERED = 4
STREAMS = 50
HOST_WARM_UP_SECS = 0.2
"""Short, because the queue becomes empty."""
Start = Callable[[], AbstractContextManager[servers.Server]]
Side = Callable[[], AbstractContextManager[Measure]]
OLD, NEW = "old", "new"
"""How hosts speak: with a result for each report, or with accepted reports counted. Servers may not know the second."""
SHARED_KEY = "all"
SLOTS = {1: 400, 4: 200, 50: 50}
"""Maximum tasks that a host holds, by the number of hosts."""


def cases() -> list[Case]:
    """Rows with 1, 4 and 50 hosts and batches of 50, then those of hosts alone."""
    flows = [
        _flow(Row(f"end to end, {hosts} host{'s' if hosts > 1 else ''}", "tasks/s", aim=aim), hosts)
        for hosts, aim in ((1, Aim(0.60)), (4, Aim(0.60)), (50, Aim(0.45)))
    ]
    return [
        *flows,
        _keyed_flow(4),
        _host_flow(Row("host flow, 50 streams, 10 tasks a message", "tasks/s", aim=Aim(0.60)), 10, queued=80_000),
        _host_flow(Row("host flow, 50 streams, 1 task a message", "tasks/s", aim=Aim(0.60)), 1, queued=15_000),
    ]


def bare_streams(*options: str) -> AbstractContextManager[servers.Server]:
    """Starts the server of bare_streams.py."""
    return servers.serving(sys.executable, str(servers.HERE / "bare_streams.py"), *options, gateway=False)


def flow_flags(hosts: int) -> dict[str, int]:
    """Measures the whole way with the load generator."""
    return {
        "hosts": hosts,
        "slots": SLOTS[hosts],
        "submitters": SUBMITTERS,
        "connections": SUBMITTERS,
        "inflight": UNANSWERED,
        "batch": BATCH,
        "watchers": WATCHERS,
    }


def _flow(row: Row, hosts: int) -> Case:
    def side(start: Start, pattern: str = NEW) -> Side:
        @contextmanager
        def opened() -> Iterator[Measure]:
            with start() as server:
                yield lambda secs: [servers.throughput(server, "flow", secs, pattern=pattern, **flow_flags(hosts))]

        return opened

    return Case((row,), side(servers.taskyard), side(bare_streams, OLD), side(bare_streams))


def _keyed_flow(hosts: int) -> Case:
    limits = {SHARED_KEY: {"maxInflight": hosts * SLOTS[hosts]}}
    settings = {"scheduler": {**servers.SETTINGS["scheduler"], "limits": limits}}

    def side(**flags: str) -> Side:
        @contextmanager
        def opened() -> Iterator[Measure]:
            with servers.taskyard(settings=settings) as server:
                yield lambda secs: [servers.throughput(server, "flow", secs, **flow_flags(hosts), **flags)]

        return opened

    name = f"end to end, {hosts} hosts, one key of all tasks"
    row = Row(name, "tasks/s", aim=Aim(0.90), remark="beside no keys")
    return Case((row,), side(shared_key=SHARED_KEY), side())


def _host_flow(row: Row, tasks_a_message: int, queued: int) -> Case:
    def side(start: Start, pattern: str = NEW) -> Side:
        @contextmanager
        def opened() -> Iterator[Measure]:
            def measure(secs: float) -> list[Figure]:
                # Tasks that a round leaves in the queue must not disturb the next one.
                with start() as server:
                    flags = {"hosts": STREAMS, "slots": tasks_a_message, "tasks": queued, "watchers": WATCHERS}
                    warm_up = HOST_WARM_UP_SECS
                    return [servers.throughput(server, "hostflow", secs, warm_up=warm_up, pattern=pattern, **flags)]

            yield measure

        return opened

    return Case((row,), side(servers.taskyard), side(bare_streams, OLD), side(bare_streams))
