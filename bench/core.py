"""What the scheduler core costs: full cycles of submit, claim, complete beside a standing queue.

    python bench/core.py [--cycles N] [--quick]

For each number of agents and of queued tasks it prints cycles a second, the longest pause between two cycles, and the
bytes that one queued task occupies. Claims are exactly fair: tests/core compares each with brute force.
"""

import argparse
import platform
import random
import sys
import time
import tracemalloc

from taskyard_server import garbage
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


def standing(agents: int, queued: int, payload: bool = True) -> tuple[Scheduler, float]:
    """A scheduler with `queued` tasks of `agents` agents, room for `IN_FLIGHT` more, and one host."""
    draw = random.Random(7)
    scheduler = Scheduler(UNBOUNDED, lambda: draw.getrandbits(40))
    now = 1_700_000_000.0
    scheduler.register(now, "host", None, HostProfile())
    for number in range(queued + IN_FLIGHT):
        now += 5e-6
        asked = submission(number % agents)
        scheduler.submit(now, asked if payload else asked._replace(tab_id=None))
        scheduler.take_events()
    return scheduler, now


def submission(agent: int) -> Submission:
    """A task such as a caller sends: every string is its own."""
    return Submission(f"agent-{agent}", "click", f"tab-{agent}", None, None, agent % 3)


def cycles(scheduler: Scheduler, now: float, agents: int, count: int) -> tuple[float, float]:
    """Cycles a second, and the longest pause in milliseconds, over `count` cycles."""
    draw = random.Random(11)
    held = scheduler.claim(now, "host", IN_FLIGHT)
    asked = [submission(draw.randrange(agents)) for _ in range(10_000)]
    worst = 0.0
    begin = last = time.perf_counter()
    for number in range(count):
        now += 5e-6
        scheduler.submit(now, asked[number % 10_000])
        held += scheduler.claim(now, "host")
        lease = held[slot := number % IN_FLIGHT]
        held[slot] = held.pop()
        scheduler.complete(now, "host", lease.task.id, lease.token, b"result")
        scheduler.take_events()
        tick = time.perf_counter()
        if tick - last > worst:
            worst = tick - last
        last = tick
    return count / (last - begin), worst * 1000


def bytes_per_task(queued: int = 100_000) -> float:
    """Memory of one queued task without its payload (tab, ref, params), all indexes included."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    scheduler, _ = standing(1000, queued, payload=False)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert scheduler.stats().queued == queued + IN_FLIGHT
    return (after - before) / (queued + IN_FLIGHT)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cycles", type=int, default=200_000)
    parser.add_argument("--quick", action="store_true", help="leave out the million")
    args = parser.parse_args()
    garbage.tame()
    print(f"Python {platform.python_version()}, {platform.machine()}", file=sys.stderr)
    print(f"{'agents':>8} {'queued':>10} {'cycles/s':>10} {'longest pause':>15}")
    for queued in (1_000, 100_000) if args.quick else (1_000, 100_000, 1_000_000):
        for agents in (10, 1_000, 10_000):
            scheduler, now = standing(agents, queued)
            rate, pause = cycles(scheduler, now, agents, args.cycles)
            print(f"{agents:>8,} {queued:>10,} {rate:>10,.0f} {pause:>12.1f} ms", flush=True)
            del scheduler
    print(f"bytes per queued task, payload aside: {bytes_per_task():.0f}")


if __name__ == "__main__":
    main()
