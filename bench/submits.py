"""The cost of submitting: unary, by REST through Envoy, in batches and over a stream, beside the bare transport.

A task has about 300 bytes and belongs to one of a thousand agents, and no two are equal. No host claims the tasks, so
they stay queued.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import servers
from rows import Aim, Case, Measure, Row, Side

BATCH = 50
REST_REMARK = "the CPU of Envoy is not in that of the server"


def cases() -> list[Case]:
    """Rows for unary calls, REST, batches and streams."""
    rest = Row("REST submit through Envoy", "calls/s", aim=Aim(0.75), remark=REST_REMARK)
    return [
        _case(Row("unary submit", "calls/s", aim=Aim(0.80)), "submit", connections=4, inflight=32),
        _case(rest, "rest", inflight=32),
        _case(
            Row("batch submit, 50 a call", "tasks/s", aim=Aim(0.55)), "batch", connections=4, inflight=8, batch=BATCH
        ),
        _case(
            Row("stream submit, 50 a message", "tasks/s", aim=Aim(0.55)),
            "stream",
            submitters=4,
            inflight=4,
            batch=BATCH,
        ),
    ]


def _case(row: Row, mode: str, **flags: int) -> Case:
    def side(start: Callable[..., AbstractContextManager[servers.Server]]) -> Side:
        @contextmanager
        def opened() -> Iterator[Measure]:
            with start(gateway=mode == "rest") as server:
                yield lambda secs: [servers.throughput(server, mode, secs, **flags)]

        return opened

    return Case((row,), side(servers.taskyard), side(servers.bare))
