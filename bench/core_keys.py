"""The cost of concurrency keys in the scheduler core alone: cycles of submit, complete and claim beside a queue.

Each row stands beside the same load without keys; the ratio shows what the keys cost.
"""

import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from core import SECS, SECS_PER_CYCLE, UNBOUNDED
from rows import Aim, Case, Figure, Measure, Row, Side

from taskyard_server.app import gc_policy
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.queue.keys import KeyLimit
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import NO_EXTRAS, Submission
from taskyard_server.core.task_options import TaskExtras, TaskOptions

Names = tuple[str, ...]

IN_FLIGHT = 200
AGENTS = 50
SITES = 10_000
QUEUED = 20_000
CHEAP = Aim(1 / 1.3)
"""The ratio at which a cycle takes 1.3 times as long."""


class KeyedQueue:
    """A scheduler with `QUEUED` tasks of `AGENTS` agents, and one host that holds up to `IN_FLIGHT` more."""

    def __init__(self, keys: Callable[[int], Names], limits: dict[str, KeyLimit]) -> None:
        draw = random.Random(7)
        self._scheduler = Scheduler(UNBOUNDED, lambda: draw.getrandbits(40))
        self._now = 1_700_000_000.0
        self._scheduler.register(self._now, "host", None, HostProfile())
        self._scheduler.keys.set_limits(self._now, limits)
        self._submissions = [
            Submission(f"agent-{draw.randrange(AGENTS)}", "click", options=TaskOptions(extras=extras_of(keys(number))))
            for number in range(SITES)
        ]
        for number in range(QUEUED + IN_FLIGHT):
            self._now += SECS_PER_CYCLE
            self._scheduler.submit(self._now, self._submissions[number % SITES])
            self._scheduler.take_events()
        self._held = deque(self._scheduler.claim(self._now, "host", IN_FLIGHT, 3600))

    def cycles(self, secs: float) -> tuple[float, float]:
        """Cycles per second over `secs`, and the longest pause between two of them in milliseconds."""
        scheduler, held, submissions, now = self._scheduler, self._held, self._submissions, self._now
        worst, number = 0.0, 0
        begin = last = time.perf_counter()
        end = begin + secs
        while last < end:
            now += SECS_PER_CYCLE
            scheduler.submit(now, submissions[number % SITES])
            lease = held.popleft()
            scheduler.reports.complete(now, "host", lease.task.id, lease.token, b"result")
            held += scheduler.claim(now, "host", 1, 3600)
            scheduler.take_events()
            number += 1
            tick = time.perf_counter()
            if tick - last > worst:
                worst = tick - last
            last = tick
        self._now = now
        return number / (last - begin), worst * 1000


def extras_of(names: Names) -> TaskExtras:
    """What a task of these keys sets."""
    return TaskExtras(concurrency_keys=names) if names else NO_EXTRAS


def no_keys(_: int) -> Names:
    """None."""
    return ()


def site(number: int) -> Names:
    """One of 10,000 keys; consecutive tasks have keys far apart."""
    return (f"site:{number * 7919 % SITES}",)


def shared(_: int) -> Names:
    """The one key of all."""
    return ("all",)


def shared_and_site(number: int) -> Names:
    """The one key of all, and one of 10,000."""
    return ("all", *site(number))


def cases() -> list[Case]:
    """Rows of keys that are in the way of nothing, of one that is in everybody's way, and of both."""
    each, few = KeyLimit(max_inflight=1), KeyLimit(max_inflight=10)
    remark = "beside no keys; a ratio of 0.77 is a cycle that takes 1.3 times as long"
    return [
        _case("10,000 keys", site, {"site:*": each}, CHEAP, remark),
        _case("10,000 keys with rates", site, {"site:*": KeyLimit(1, 5.0, 10)}, None, remark),
        _case("one global key", shared, {"all": few}, None, remark),
        _case("shared full key + 10,000 site keys", shared_and_site, {"all": few, "site:*": each}, None, remark),
    ]


def _case(name: str, keys: Callable[[int], Names], limits: dict[str, KeyLimit], aim: Aim | None, remark: str) -> Case:
    name = f"core, {name}"
    rows = (
        Row(name, "cycles/s", aim=aim, remark=remark),
        Row(f"{name}: longest pause", "ms", better="less", aim=Aim(20, "value")),
    )
    return Case(rows, _side(keys, limits), _side(no_keys, {}), older=False, secs=SECS)


def _side(keys: Callable[[int], Names], limits: dict[str, KeyLimit]) -> Side:
    @contextmanager
    def opened() -> Iterator[Measure]:
        gc_policy.install()
        queue = KeyedQueue(keys, limits)
        yield lambda secs: [Figure(figure) for figure in queue.cycles(secs)]

    return opened
