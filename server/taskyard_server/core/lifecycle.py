"""How tasks move: every transition, and all that is derived from a task's state, changed in the same function.

The table, the ready queue, leases, timers, retention, batches, agents and counters of one namespace belong to
`Lifecycle`. It knows no caller and checks no request: `Scheduler` decides what may be done, this file does it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from .agents import Agent
from .batches import Batches
from .errors import Conflict, QueueFull
from .events import Event, EventKind
from .hosts import Host
from .leases import Lease, Stop, StopReason
from .limits import Limits
from .offers import Offer, Offers
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

LEASE_ENDED = StopReason.LEASE_ENDED

MOST_AT_ONCE: Final = 1000
INTERRUPTED: Final = "Job was interrupted by user"


class Lifecycle:
    """The tasks of one namespace and their indexes. `queued` and `inflight` count tasks in those states."""

    def __init__(self, limits: Limits, entropy: Callable[[], int]) -> None:
        self.limits = limits
        self.counters = Counters()
        self.events: list[Event] = []
        self.stops: list[Stop] = []
        self.tasks = TaskTable(entropy)
        self.batches = Batches()
        self.agents: dict[str, Agent] = {}
        self.keys: dict[tuple[str, str], Task] = {}
        self.ready = ReadyQueue()
        self.offers = Offers(self.ready)
        self.queued = 0
        self.inflight = 0
        self.deadlines: Timers[Task] = Timers()
        self.lease_ends: Timers[Lease] = Timers()
        self.silences: Timers[Host] = Timers()
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

    def grant(self, now: float, task: Task, host: Host, secs: float, stream: Offer | None = None) -> Lease:
        """A task that was just taken from the ready queue goes to a host; over a stream, it must start it in time."""
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
        lease = Lease(task, host, task.token, now, secs, counters.dispatched)
        if stream is not None:
            lease.stream = stream
            lease.start_by = now + self.limits.start_timeout_secs
            lease.due = min(lease.expires_at, lease.start_by)
        task.lease = host.leases[task.id] = lease
        self.lease_ends.add(lease.due, lease)
        if host.silence_at is None:
            self.listen_for(host)
        return lease

    def begin(self, now: float, task: Task) -> None:
        """The host executes it; the first execution counts as the start."""
        if task.started_at is None:
            task.started_at = now
        self._move(now, task, RUNNING, None)
        lease = task.lease
        assert lease is not None
        if lease.stream is not None:
            lease.start_by = inf
            self.retime(lease)

    def progressed(self, now: float, task: Task, progress: bytes | None) -> None:
        """The host said how far it is; None is as far as before."""
        if progress is not None:
            task.progress = progress
            self.events.append(Event(now, task, PROGRESSED, task.state))

    def retime(self, lease: Lease) -> None:
        """One of the times at which the lease would end has changed."""
        due = min(lease.expires_at, lease.start_by, lease.adopt_by)
        if due != lease.due:
            self.lease_ends.remove(lease.due, lease)
            lease.due = due
            self.lease_ends.add(due, lease)

    def release(self, now: float, task: Task) -> None:
        """Its host gave it back unexecuted, which does not count as a delivery."""
        task.deliveries -= 1
        self._move(now, task, QUEUED, None)
        self._end_lease(task, None, "")
        self._enqueue(now, task)

    def requeue(self, now: float, task: Task, why: str | None = None) -> None:
        """Back to its old place in the queue, without a lease; until the next claim the task shows why."""
        self._move(now, task, QUEUED, why)
        self._end_lease(task, LEASE_ENDED, why or "the host was deregistered")
        self._enqueue(now, task)

    def lose(self, now: float, lease: Lease, why: str) -> None:
        """Its host is lost: another may try, up to `max_deliveries` (DESIGN, Leases).

        What was handed out over a stream and never started does not count as a delivery.
        """
        task = lease.task
        if lease.stream is not None and task.state is ASSIGNED:
            task.deliveries -= 1
            self.requeue(now, task, "not started by its host")
        elif task.deliveries < self.limits.max_deliveries:
            self.requeue(now, task, why)
        else:
            self.finish(now, task, FAILED, None, why, LEASE_ENDED)

    def orphan(self, now: float, host: Host) -> None:
        """The host is dead: all that it holds is lost (scheduler-daemon, Orphan Reconciliation)."""
        missed = self.limits.dead_heartbeat_threshold
        for lease in list(host.leases.values()):
            self.lose(now, lease, f"lease expired: runtime host {host.id} missed {missed} heartbeats")

    def listen_for(self, host: Host) -> None:
        """Look at a host that holds leases again when it would be dead; one look per silence, not one per call."""
        self.forget_host(host)
        if host.leases and not host.built_in:
            limits = self.limits
            host.silence_at = host.last_heartbeat_at + limits.heartbeat_timeout_secs * limits.dead_heartbeat_threshold
            self.silences.add(host.silence_at, host)

    def forget_host(self, host: Host) -> None:
        """Look at it no more."""
        if host.silence_at is not None:
            self.silences.remove(host.silence_at, host)
            host.silence_at = None

    def is_dead(self, now: float, host: Host) -> bool:
        """Whether so many heartbeats of a host were missed that what it holds is lost."""
        return host.is_dead(now, self.limits.heartbeat_timeout_secs, self.limits.dead_heartbeat_threshold)

    def pause(self, now: float, task: Task, why: StopReason = StopReason.PAUSED) -> None:
        """Interrupted so that it can be resumed (queueing-and-execution, Cancellation semantics)."""
        self._move(now, task, PAUSED, INTERRUPTED)
        self._end_lease(task, why, INTERRUPTED)
        self.deadlines.remove(task.deadline, task)

    # To an end

    def finish(
        self,
        now: float,
        task: Task,
        state: TaskState,
        result: bytes | None,
        error: str | None,
        stop: StopReason | None = None,
    ) -> None:
        """Done, failed or cancelled, from wherever it stands. `stop` is for its host, unless it is its own report."""
        before = task.state
        self._move(now, task, state, error)
        if before in IN_FLIGHT:
            self._end_lease(task, stop, error or "task cancelled")
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
            self.finish(now, task, FAILED, None, "deadline exceeded", StopReason.DEADLINE_EXCEEDED)

    # With time

    def next_due(self) -> float | None:
        """When `advance` has something to do; None while nothing can come due."""
        timers = (self.deadlines, self.lease_ends, self.silences)
        ticks = [tick for each in timers if (tick := each.next_tick()) is not None]
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
                self.lose(now, self.lease_ends.pop(lease_end), "lease expired")
            elif (silence := self.silences.next_tick()) is not None and silence <= this_tick:
                host = self.silences.pop(silence)
                if self.is_dead(now, host):
                    self.orphan(now, host)
                self.listen_for(host)
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

    def _end_lease(self, task: Task, stop: StopReason | None, message: str) -> None:
        lease = task.lease
        assert lease is not None
        task.lease = None
        host = lease.host
        del host.leases[task.id]
        self.lease_ends.remove(lease.due, lease)
        self.inflight -= 1
        self.ready.landed(task.agent)
        for offer in host.offers:
            self.offers.eased(offer)
        if stop is not None and lease.stream is not None:
            self.stops.append(Stop(lease, stop, message))

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
