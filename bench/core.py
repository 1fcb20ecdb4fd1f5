"""The cost of the scheduler core alone: full cycles of submit, claim and complete beside a constant queue.

There is no transport and so no ceiling. A row is compared with the core at a smaller size, and the ratio shows how the
cost grows. Claims are exactly fair: tests/core compares each with brute force.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rows import Aim, Case, Figure, Measure, Row, Side

from taskyard_server.app import gc_policy
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import Submission

UNBOUNDED = Limits(
    max_queue_size=1 << 40,
    max_per_agent=1 << 40,
    max_inflight=1 << 40,
    max_per_agent_inflight=1 << 40,
    max_retained_tasks=10_000,
    default_deadline_secs=3600,
)
IN_FLIGHT = 200
SUBMISSIONS = 10_000
FEW_TASKS = 1_000
MANY_TASKS = 1_000_000
SECS = 1.0
SECS_PER_CYCLE = 5e-6
GROWTH = Aim(1 / 1.3)
"""The ratio at which the cost of a cycle has grown 1.3 times."""


class ConstantQueue:
    """A scheduler with `queued` tasks of `agents` agents, and one host that holds `IN_FLIGHT` more."""

    def __init__(self, agents: int, queued: int) -> None:
        draw = random.Random(7)
        self._scheduler = Scheduler(UNBOUNDED, lambda: draw.getrandbits(40))
        self._now = 1_700_000_000.0
        self._scheduler.register(self._now, "host", None, HostProfile())
        for number in range(queued + IN_FLIGHT):
            self._now += SECS_PER_CYCLE
            self._scheduler.submit(self._now, submission(number % agents))
            self._scheduler.take_events()
        self._held = self._scheduler.claim(self._now, "host", IN_FLIGHT)
        # Each agent gets as many tasks as any other, or some would run out of them.
        turns = [number % agents for number in range(SUBMISSIONS)]
        draw.shuffle(turns)
        self._submissions = [submission(agent) for agent in turns]

    def cycles(self, secs: float) -> tuple[float, float]:
        """Cycles per second over `secs`, and the longest pause between two of them in milliseconds."""
        scheduler, held, submissions, now = self._scheduler, self._held, self._submissions, self._now
        worst, number = 0.0, 0
        begin = last = time.perf_counter()
        end = begin + secs
        while last < end:
            now += SECS_PER_CYCLE
            scheduler.submit(now, submissions[number % SUBMISSIONS])
            held += scheduler.claim(now, "host")
            lease = held[slot := number % IN_FLIGHT]
            held[slot] = held.pop()
            scheduler.reports.complete(now, "host", lease.task.id, lease.token, b"result")
            scheduler.take_events()
            number += 1
            tick = time.perf_counter()
            if tick - last > worst:
                worst = tick - last
            last = tick
        self._now = now
        return number / (last - begin), worst * 1000


def submission(agent: int) -> Submission:
    """A task like that of a caller: each of its strings is a new object."""
    return Submission(f"agent-{agent}", "click", f"tab-{agent}", None, None, agent % 3)


def cases() -> list[Case]:
    """Rows with a thousand to a million queued tasks, of ten to ten thousand agents."""
    long = "beside 1,000 queued; a ratio of 0.77 is a cost that grew 1.3 times"
    wide = "beside 10 agents; a ratio of 0.77 is a cost that grew 1.3 times"
    return [
        _case(10, FEW_TASKS, None, None),
        _case(10, MANY_TASKS, (10, FEW_TASKS), GROWTH, long),
        _case(1_000, MANY_TASKS, (1_000, FEW_TASKS), GROWTH, long),
        _case(10_000, MANY_TASKS, (10_000, FEW_TASKS), GROWTH, long),
        _case(10_000, MANY_TASKS // 10, (10, MANY_TASKS // 10), GROWTH, wide),
    ]


def _case(agents: int, queued: int, beside: tuple[int, int] | None, aim: Aim | None, remark: str = "") -> Case:
    name = f"core, {agents:,} agents, {queued:,} queued"
    rows = (
        Row(name, "cycles/s", aim=aim, remark=remark),
        Row(f"{name}: longest pause", "ms", better="less", aim=Aim(20, "value")),
    )
    return Case(rows, _side(agents, queued), _side(*beside) if beside else None, apart=True, secs=SECS)


def _side(agents: int, queued: int) -> Side:
    @contextmanager
    def opened() -> Iterator[Measure]:
        gc_policy.install()
        queue = ConstantQueue(agents, queued)
        yield lambda secs: [Figure(figure) for figure in queue.cycles(secs)]

    return opened
