"""How tasks move: every transition, and all that is derived from a task's state, changed in the same function.

The table, the ready queue, leases, timers, retention, batches, agents and counters of one namespace belong to
`Lifecycle`. It knows no caller and checks no request: `Scheduler` decides what may be done, this file does it.
"""

from __future__ import annotations

from collections.abc import Callable

from .agents import Agent
from .batches import Batches
from .errors import Conflict, QueueFull
from .events import Event, EventKind
from .hosts import Host
from .leases import Lease
from .limits import Limits
from .ready_queue import ReadyQueue
from .retention import Retention
from .stats import Counters
from .task import IN_FLIGHT, LEGAL, Submission, Task, TaskState
from .task_table import TaskTable
from .timers import TICKS_PER_SECOND, Timers

QUEUED, ASSIGNED, RUNNING, PAUSED = TaskState.QUEUED, TaskState.ASSIGNED, TaskState.RUNNING, TaskState.PAUSED
DONE, FAILED, REJECTED = TaskState.DONE, TaskState.FAILED, TaskState.REJECTED
SUBMITTED, CHANGED, PROGRESSED, EVICTED = (
    EventKind.SUBMITTED,
    EventKind.CHANGED,
    EventKind.PROGRESSED,
    EventKind.EVICTED,
)

MOST_AT_ONCE = 1000


class Lifecycle:
    """The tasks of one namespace and their indexes. `queued` and `inflight` count tasks in those states."""

    def __init__(self, limits: Limits, entropy: Callable[[], int]) -> None:
        self.limits = limits
        self.counters = Counters()
        self.events: list[Event] = []
        self.tasks = TaskTable(entropy)
        self.batches = Batches()
        self.agents: dict[str, Agent] = {}
        self.keys: dict[tuple[str, str], Task] = {}
        self.ready = ReadyQueue()
        self.queued = 0
        self.inflight = 0
        self.deadlines: Timers[Task] = Timers()
        self.lease_ends: Timers[Lease] = Timers()
        self.ended = Retention()
        self.rejected = Retention()

    # Into the yard

    def accept(self, now: float, agent: Agent, asked: Submission, deadline: float) -> Task:
        """A new task, queued."""
        task = self._new(now, agent, asked, deadline, QUEUED)
        if asked.options.key is not None:
            self.keys[agent.id, asked.options.key.key] = task
        self.deadlines.add(deadline, task)
        agent.submitted += 1
        self.counters.submitted += 1
        self._enqueue(now, task)
        task.position = self.queued
        self.events.append(Event(now, task, SUBMITTED, None))
        return task

    def reject(self, now: float, agent: Agent, asked: Submission, deadline: float) -> QueueFull:
        """A task that admission refused, kept among the newest `max_queue_size`; the refusal to raise."""
        limits = self.limits
        which = "global" if self.queued >= limits.max_queue_size else "agent"
        task = self._new(now, agent, asked, deadline, REJECTED)
        task.completed_at = now
        task.error = f"rejected: {which} queue full"
        self.events.append(Event(now, task, SUBMITTED, None))
        self.rejected.add(task)
        agent.rejected += 1
        self.counters.rejected += 1
        self._evict_beyond(now, self.rejected, limits.max_queue_size)
        details: dict[str, str | float] = {
            "agentId": agent.id,
            "queued": self.queued,
            "maxQueue": limits.max_queue_size,
            "maxPerAgent": limits.max_per_agent,
        }
        return QueueFull(task.error, details, task)

    # Under a lease

    def grant(self, now: float, task: Task, host: Host, secs: float) -> Lease:
        """A task that was just taken from the ready queue goes to a host."""
        task.agent.queued -= 1
        self.queued -= 1
        self.inflight += 1
        task.deliveries += 1
        task.token += 1
        task.host_id = None if host.built_in else host.id
        self._move(now, task, ASSIGNED, None)
        counters = self.counters
        counters.dispatched += 1
        counters.dispatch_latency_secs += now - task.queued_at
        lease = task.lease = host.leases[task.id] = Lease(task, host, task.token, now, secs, counters.dispatched)
        self.lease_ends.add(lease.expires_at, lease)
        return lease

    def begin(self, now: float, task: Task) -> None:
        """The host executes it; the first execution counts as the start."""
        if task.started_at is None:
            task.started_at = now
        self._move(now, task, RUNNING, None)

    def progressed(self, now: float, task: Task, progress: bytes | None) -> None:
        """The host said how far it is; None is as far as before."""
        if progress is not None:
            task.progress = progress
            self.events.append(Event(now, task, PROGRESSED, task.state))

    def prolong(self, lease: Lease, expires_at: float) -> None:
        """The lease ends later than it would have."""
        self.lease_ends.remove(lease.expires_at, lease)
        lease.expires_at = expires_at
        self.lease_ends.add(expires_at, lease)

    def requeue(self, now: float, task: Task, why: str | None = None) -> None:
        """Back to its old place in the queue, without a lease; until the next claim the task shows why."""
        self._move(now, task, QUEUED, why)
        self._end_lease(task)
        self._enqueue(now, task)

    def pause(self, now: float, task: Task) -> None:
        """Interrupted so that it can be resumed (queueing-and-execution, Cancellation semantics)."""
        self._move(now, task, PAUSED, "Job was interrupted by user")
        self._end_lease(task)
        self.deadlines.remove(task.deadline, task)

    # To an end

    def finish(self, now: float, task: Task, state: TaskState, result: bytes | None, error: str | None) -> None:
        """Done, failed or cancelled, from wherever it stands."""
        before = task.state
        self._move(now, task, state, error)
        if before in IN_FLIGHT:
            self._end_lease(task)
        elif before is QUEUED:
            task.agent.queued -= 1
            self.queued -= 1
            self.ready.remove(task)
        self.deadlines.remove(task.deadline, task)
        task.completed_at = now
        task.result = result
        counters, agent = self.counters, task.agent
        if state is DONE:
            counters.completed += 1
            agent.completed += 1
        elif state is FAILED:
            counters.failed += 1
            agent.failed += 1
        else:
            counters.cancelled += 1
            agent.cancelled += 1
        self.ended.add(task)
        counters.evicted += self._evict_beyond(now, self.ended, self.limits.max_retained_tasks)

    def expire(self, now: float, task: Task) -> None:
        """Its deadline has passed (scheduler-architecture, Deadline Handling)."""
        if task.state is QUEUED:
            self.counters.expired += 1
            self.finish(now, task, FAILED, None, "deadline exceeded while queued")
        else:
            self.finish(now, task, FAILED, None, "deadline exceeded")

    def lease_expired(self, now: float, task: Task) -> None:
        """Its host fell silent: another may try, up to `max_deliveries` (DESIGN, Leases)."""
        if task.deliveries < self.limits.max_deliveries:
            self.requeue(now, task, "lease expired")
        else:
            self.finish(now, task, FAILED, None, "lease expired")

    # With time

    def next_due(self) -> float | None:
        """When `advance` has something to do; None while nothing can come due."""
        ticks = [tick for timers in (self.deadlines, self.lease_ends) if (tick := timers.next_tick()) is not None]
        times = [tick / TICKS_PER_SECOND for tick in ticks]
        ends = [ended for kept in (self.ended, self.rejected) if (ended := kept.oldest()) is not None]
        return min([*times, *(ended + self.limits.result_ttl_secs for ended in ends)], default=None)

    def advance(self, now: float, most: int) -> bool:
        """Do what has come due, at most so many things; whether more is due."""
        this_tick = int(now * TICKS_PER_SECOND)
        for _ in range(most):
            deadline, lease_end = self.deadlines.next_tick(), self.lease_ends.next_tick()
            if deadline is not None and deadline <= this_tick and (lease_end is None or deadline <= lease_end):
                self.expire(now, self.deadlines.pop(deadline))
            elif lease_end is not None and lease_end <= this_tick:
                self.lease_expired(now, self.lease_ends.pop(lease_end).task)
            elif not self._evict_one(now):
                return False
        return True

    # The steps that these share

    def _move(self, now: float, task: Task, state: TaskState, error: str | None) -> None:
        before = task.state
        if state not in LEGAL[before]:
            raise Conflict(f"task is {before.value} and cannot become {state.value}")
        task.state = state
        task.error = error
        self.events.append(Event(now, task, CHANGED, before))

    def _new(self, now: float, agent: Agent, asked: Submission, deadline: float, state: TaskState) -> Task:
        task_id, seq = self.tasks.next_id(now)
        task = Task(task_id, seq, agent, asked, now, deadline, state)
        self.tasks.add(task)
        agent.tasks += 1
        if task.options.batch_id is not None:
            self.batches.add(task.options.batch_id, task)
        return task

    def _enqueue(self, now: float, task: Task) -> None:
        task.queued_at = now
        task.agent.queued += 1
        self.queued += 1
        self.ready.add(task)

    def _end_lease(self, task: Task) -> None:
        lease = task.lease
        assert lease is not None
        task.lease = None
        del lease.host.leases[task.id]
        self.lease_ends.remove(lease.expires_at, lease)
        self.inflight -= 1
        self.ready.landed(task.agent)

    def _evict_one(self, now: float) -> bool:
        oldest = now - self.limits.result_ttl_secs
        for kept in (self.ended, self.rejected):
            ended = kept.oldest()
            if ended is not None and ended <= oldest:
                self._evict(now, kept)
                return True
        return False

    def _evict_beyond(self, now: float, kept: Retention, most: int) -> int:
        """Make room; how many had to go. After a lowered limit that takes several calls, so that none is long."""
        gone = 0
        while len(kept) > most and gone < MOST_AT_ONCE:
            self._evict(now, kept)
            gone += 1
        return gone

    def _evict(self, now: float, kept: Retention) -> None:
        if kept.oldest() is None:
            return
        task = kept.pop()
        self.tasks.remove(task)
        self.events.append(Event(now, task, EVICTED, task.state))
        if task.options.batch_id is not None:
            self.batches.forget(task.options.batch_id, task)
        agent, key = task.agent, task.options.key
        if key is not None and self.keys.get((agent.id, key.key)) is task:
            del self.keys[agent.id, key.key]
        agent.tasks -= 1
        if not agent.tasks:
            del self.agents[agent.id]
