"""The cost of sending events to watchers, beside bare streams with the same number of messages of the same size.

The load generator submits ten tasks per message, and the next ten when every watcher has their events, so that each
message has ten events. The figures of both sides include the cost of the submission. It matters only with one watcher,
for which four such messages are on their way. In the last row each watcher watches one agent of a thousand, and an
event is delivered to one of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import servers
from end_to_end import Side, Start, bare_streams
from rows import Aim, Case, Measure, Row

BATCH = 10
SECS = 1.0


def cases() -> list[Case]:
    """Rows with 50 watchers, with a fan-out to 1, 100 and 1,000, and with 1,000 filters."""
    return [
        _case(Row("watch, 50 watchers, 10 events a message", "events/s", aim=Aim(0.70)), 50),
        _case(Row("watch, 1 watcher", "events/s"), 1, inflight=4),
        _case(Row("watch, 100 watchers", "events/s"), 100),
        _case(Row("watch, 1,000 watchers", "events/s"), 1000),
        _case(Row("watch, 1,000 watchers of one agent each", "events/s"), 1000, filtered=True),
    ]


def _case(row: Row, watchers: int, inflight: int = 1, filtered: bool = False) -> Case:
    flags = {"watchers": watchers, "batch": BATCH, "inflight": inflight}

    def side(start: Start) -> Side:
        @contextmanager
        def opened() -> Iterator[Measure]:
            with start() as server:
                mode = "watch-agents" if filtered else "watch"
                yield lambda secs: [servers.throughput(server, mode, secs, **flags)]

        return opened

    return Case((row,), side(servers.taskyard), side(lambda: bare_streams("--watched")), secs=SECS)
