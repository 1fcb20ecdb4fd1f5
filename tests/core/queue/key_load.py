"""A scheduler under a constant load of tasks that have concurrency keys, to measure what a task costs it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.core.queue.keys import KeyLimit
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import NO_EXTRAS, Submission
from taskyard_server.core.task_options import TaskExtras, TaskOptions

BOUNDLESS = Limits(
    max_queue_size=1 << 40,
    max_per_agent=1 << 40,
    max_inflight=1 << 40,
    max_per_agent_inflight=1 << 40,
    max_retained_tasks=1_000,
    default_deadline_secs=3600,
)
SECS_PER_CYCLE = 1e-4


class KeyLoad:
    """One host holds up to `inflight` tasks while `queued` more wait; `keys` are those of the task of each number."""

    def __init__(
        self,
        keys: Callable[[int], tuple[str, ...]],
        limits: dict[str, KeyLimit],
        *,
        agents: int = 10,
        queued: int = 2_000,
        inflight: int = 200,
    ) -> None:
        self.scheduler = Scheduler(BOUNDLESS, partial(Random(1).getrandbits, 40))
        self.now = 1_700_000_000.0
        self.scheduler.register(self.now, "host", None, HostProfile())
        self.scheduler.keys.set_limits(self.now, limits)
        draw = Random(7)
        extras = [TaskExtras(concurrency_keys=names) if (names := keys(at)) else NO_EXTRAS for at in range(20_000)]
        self._submissions = [
            Submission(f"agent-{draw.randrange(agents)}", "click", options=TaskOptions(extras=each)) for each in extras
        ]
        self._submitted = 0
        for _ in range(queued + inflight):
            self._submit()
        self.held: deque[Lease] = deque(self.scheduler.claim(self.now, "host", inflight, 3600))

    def cycles(self, count: int) -> None:
        """So often a task comes, the host asks for one, and ends the oldest that it holds."""
        scheduler, held = self.scheduler, self.held
        for _ in range(count):
            self.now += SECS_PER_CYCLE
            self._submit()
            lease = held.popleft()
            scheduler.reports.complete(self.now, "host", lease.task.id, lease.token, b"result")
            held += scheduler.claim(self.now, "host", 1, 3600)
            scheduler.take_events()

    def _submit(self) -> None:
        self.scheduler.submit(self.now, self._submissions[self._submitted % len(self._submissions)])
        self._submitted += 1
