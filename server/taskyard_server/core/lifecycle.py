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
from .history import History
from .hosts import Host
from .leases import Lease, Stop, StopReason
from .limits import Limits
from .offers import Offer, Offers
from .ready_queue import ReadyQueue
from .retention import Retention
from .stats import Counters
from .task import IN_FLIGHT, LEGAL, Submission, Task, TaskState
from .targets import Targets
from .task_table import TaskTable
from .timers import TICKS_PER_SECOND, Timers

PENDING, QUEUED, PAUSED = TaskState.PENDING, TaskState.QUEUED, TaskState.PAUSED
ASSIGNED, RUNNING = TaskState.ASSIGNED, TaskState.RUNNING
WAITING: Final = frozenset({PENDING, QUEUED})
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
        self.targets = Targets(self._make_ready, self.ready.remove)
        self._entropy = entropy
        self.queued = 0
        self.inflight = 0
        self.deadlines: Timers[Task] = Timers()
        self.lease_ends: Timers[Lease] = Timers()
        self.silences: Timers[Host] = Timers()
        self.dues: Timers[Task] = Timers()
        self.stop_ends: Timers[Lease] = Timers()
        self.drains: Timers[Host] = Timers()
        self.stopping: dict[tuple[str, int], Lease] = {}
        self.paused = 0
        self.ended = Retention()
        self.rejected = Retention()

    # Into the yard

    def accept(self, now: float, agent: Agent, asked: Submission) -> Task:
        """A new task, queued, or pending where it is held or not yet due."""
        options = asked.options
        waits = options.hold or (options.not_before is not None and options.not_before > now)
        task = self._new(now, agent, asked, PENDING if waits else QUEUED)
        if options.key is not None:
            self.keys[agent.id, options.key.key] = task
        if task.deadline is not None:
            self.deadlines.add(task.deadline, task)
        agent.submitted += 1
        self.counters.submitted += 1
        self._count_in(task)
        task.position = self.queued
        if waits:
            history = self.history_of(task)
            history.held, history.not_before = options.hold, options.not_before
            if options.not_before is not None and not options.hold:
                self.dues.add(options.not_before, task)
            if options.target is not None:
                self.targets.park(now, task)
        self.events.append(Event(now, task, SUBMITTED, None))
        if not waits:
            self._place(now, task)
        return task

    def reject(self, now: float, agent: Agent, asked: Submission) -> QueueFull:
        """A task that admission refused, kept among the newest `max_queue_size`; the refusal to raise."""
        limits = self.limits
        which = "global" if self.queued >= limits.max_queue_size else "agent"
        task = self._new(now, agent, asked, REJECTED)
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
        if task.options.target is not None:
            self.targets.take(now, task)
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
        lease.started_at = now
        if lease.stream is not None:
            lease.start_by = inf
            self.retime(lease)

    def progressed(self, now: float, task: Task, progress: bytes | None, tokens: int | None) -> None:
        """The host said how far it is, or how many tokens it used; None is as before."""
        if progress is not None:
            task.progress = progress
        if progress is not None or tokens is not None:
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
        self._requeue(now, task, None, None)

    def requeue(self, now: float, task: Task, why: str | None = None) -> None:
        """Back to its old place in the queue, without a lease; until the next claim the task shows why."""
        self._requeue(now, task, why, LEASE_ENDED)

    def lose(self, now: float, lease: Lease, why: str) -> None:
        """Its host is lost: another may try, up to `max_deliveries` (DESIGN, Leases).

        What was handed out over a stream and never started does not count as a delivery. A task with a target fails
        instead, unless its retry policy has attempts left (queueing-and-execution, Stale worker protection).
        """
        task = lease.task
        if lease.stream is not None and task.state is ASSIGNED:
            task.deliveries -= 1
            self.requeue(now, task, "not started by its host")
            return
        self.counters.leases_expired += 1
        if self._may_retry(now, task, None):
            self._retry(now, task, why, None, LEASE_ENDED)
        elif task.options.target is None and task.deliveries < self.limits.max_deliveries:
            self._note_attempt(now, task, why, None)
            self.requeue(now, task, why)
        else:
            self.finish(now, task, FAILED, None, why, LEASE_ENDED)

    def fail(self, now: float, task: Task, error: str, retryable: bool, code: str | None) -> None:
        """Its host says that it failed; another attempt follows if the retry policy has one (DESIGN, Retries)."""
        if retryable and self._may_retry(now, task, code):
            self._retry(now, task, error, code, None)
        else:
            self.finish(now, task, FAILED, None, error, code=code)

    def use_tokens(self, task: Task, used: int) -> bool:
        """Its host says how many tokens this attempt used so far; whether that is over the task's budget."""
        history = self.history_of(task)
        before = history.tokens_used or 0
        history.tokens_used = history.tokens_before + used
        task.agent.tokens_used += history.tokens_used - before
        limit = task.options.token_limit
        return limit is not None and history.tokens_used > limit

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

    def set_drain(self, host: Host, until: float | None) -> None:
        """What the host still runs at `until` is paused; None is never."""
        if host.drain_until is not None:
            self.drains.remove(host.drain_until, host)
        host.drain_until = until
        if until is not None:
            self.drains.add(until, host)

    def is_dead(self, now: float, host: Host) -> bool:
        """Whether so many heartbeats of a host were missed that what it holds is lost."""
        return host.is_dead(now, self.limits.heartbeat_timeout_secs, self.limits.dead_heartbeat_threshold)

    def has_stopped(self, now: float, lease: Lease) -> None:
        """Nothing runs any more under a lease that ended while its host worked."""
        if self.stopping.pop((lease.task.id, lease.token), None) is not None:
            self.stop_ends.remove(lease.expires_at, lease)
            self.targets.stopped(now, lease)

    def pause(self, now: float, task: Task, why: StopReason = StopReason.PAUSED) -> None:
        """Interrupted so that it can be resumed (queueing-and-execution, Cancellation semantics)."""
        self._note_attempt(now, task, INTERRUPTED, None)
        self._move(now, task, PAUSED, INTERRUPTED)
        self.paused += 1
        if task.options.target is not None:
            self.targets.block(now, task)
        self._end_lease(now, task, why, INTERRUPTED)
        self._forget_deadline(task)

    def resume(self, now: float, task: Task) -> None:
        """A paused or failed task is queued again: another run, at its old place, with a fresh deadline."""
        before = task.state
        self.history_of(task).begin_run()
        task.deliveries = 0
        task.progress = task.completed_at = task.result = None
        self._leave_the_end(now, task, before)
        task.deadline = None if task.deadline_secs is None else now + task.deadline_secs
        if task.deadline is not None:
            self.deadlines.add(task.deadline, task)
        self._move(now, task, QUEUED, None)
        self._count_in(task)
        self._place(now, task)
        if task.options.target is not None:
            self.targets.unblock(now, task)

    def let_go(self, now: float, task: Task) -> None:
        """A held task is held no longer."""
        history = self.history_of(task)
        history.held = False
        if history.not_before is not None and history.not_before > now:
            self.dues.add(history.not_before, task)
        else:
            self.come_due(now, task)

    def come_due(self, now: float, task: Task) -> None:
        """A pending task may be claimed."""
        self.history_of(task).not_before = None
        self._move(now, task, QUEUED, task.error)
        self._place(now, task)

    # To an end

    def finish(
        self,
        now: float,
        task: Task,
        state: TaskState,
        result: bytes | None,
        error: str | None,
        stop: StopReason | None = None,
        code: str | None = None,
    ) -> None:
        """Done, failed or cancelled, from wherever it stands. `stop` is for its host, unless it is its own report."""
        before = task.state
        if before in IN_FLIGHT and (task.history is not None or task.options.retry is not None):
            self._note_attempt(now, task, error, code)
        self._move(now, task, state, error)
        # A task that had started when it failed blocks its target, and is not evicted while it does.
        blocks = state is FAILED and before is RUNNING and task.options.target is not None
        if blocks:
            self.targets.block(now, task)
        if before in IN_FLIGHT:
            self._end_lease(now, task, stop, error or "task cancelled", ran=before is RUNNING)
        elif before in WAITING:
            self._count_out(task)
            self._unplace(now, task, before)
        else:
            self._leave_the_end(now, task, before)
            if task.options.target is not None:
                self.targets.unblock(now, task)
        self._forget_deadline(task)
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
        if not blocks:
            self.ended.add(task)
        counters.evicted += self._evict_beyond(now, self.ended, self.limits.max_retained_tasks)

    def expire(self, now: float, task: Task) -> None:
        """Its deadline has passed (scheduler-architecture, Deadline Handling)."""
        if task.state in WAITING:
            self.counters.expired += 1
            self.finish(now, task, FAILED, None, "deadline exceeded while queued")
        else:
            self.finish(now, task, FAILED, None, "deadline exceeded", StopReason.DEADLINE_EXCEEDED)

    # With time

    def next_due(self) -> float | None:
        """When `advance` has something to do; None while nothing can come due."""
        timers = (self.deadlines, self.lease_ends, self.silences, self.dues, self.stop_ends, self.drains)
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
            elif (due := self.dues.next_tick()) is not None and due <= this_tick:
                self.come_due(now, self.dues.pop(due))
            elif (stop_end := self.stop_ends.next_tick()) is not None and stop_end <= this_tick:
                self.has_stopped(now, self.stop_ends.pop(stop_end))
            elif (drain := self.drains.next_tick()) is not None and drain <= this_tick:
                host = self.drains.pop(drain)
                for lease in list(host.leases.values()):
                    self.pause(now, lease.task)
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

    def _new(self, now: float, agent: Agent, asked: Submission, state: TaskState) -> Task:
        task_id, seq = self.tasks.next_id(now)
        task = Task(task_id, seq, agent, asked, now, asked.deadline, state)
        self.tasks.add(task)
        agent.tasks += 1
        if task.options.batch_id is not None:
            self.batches.add(task.options.batch_id, task)
        return task

    def history_of(self, task: Task) -> History:
        """The task's history, which most tasks have none of."""
        if task.history is None:
            task.history = History()
        return task.history

    def _count_in(self, task: Task) -> None:
        task.agent.queued += 1
        self.queued += 1

    def _count_out(self, task: Task) -> None:
        task.agent.queued -= 1
        self.queued -= 1

    def _place(self, now: float, task: Task) -> None:
        """A queued task goes to the ready queue, or waits for its target."""
        task.queued_at = now
        if task.options.target is None:
            self._make_ready(now, task)
        else:
            self.targets.enter(now, task)

    def _make_ready(self, now: float, task: Task) -> None:
        """It may be claimed, and a default deadline begins to count."""
        if task.deadline is None:
            task.deadline = now + self.limits.default_deadline_secs
            self.deadlines.add(task.deadline, task)
        self.ready.add(task)

    def _unplace(self, now: float, task: Task, before: TaskState) -> None:
        """It waits no longer, for whatever it waited."""
        if before is PENDING:
            history = self.history_of(task)
            if history.not_before is not None and not history.held:
                self.dues.remove(history.not_before, task)
            history.not_before, history.held = None, False
        elif task.lane is not None:
            self.ready.remove(task)
        if task.options.target is not None:
            self.targets.leave(now, task)

    def _forget_deadline(self, task: Task) -> None:
        if task.deadline is not None:
            self.deadlines.remove(task.deadline, task)

    def _leave_the_end(self, now: float, task: Task, before: TaskState) -> None:
        """A paused or failed task goes on; a failure that is taken back does not count."""
        if before is PAUSED:
            self.paused -= 1
        else:
            self.counters.reopened += 1
            task.agent.failed -= 1

    def _note_attempt(self, now: float, task: Task, error: str | None, code: str | None) -> None:
        lease = task.lease
        assert lease is not None
        self.history_of(task).note(task.host_id, lease.started_at, now, error, code)

    def _may_retry(self, now: float, task: Task, code: str | None) -> bool:
        policy = task.options.retry
        if policy is None or code in policy.non_retryable_codes:
            return False
        return self.history_of(task).failed + 1 < policy.max_attempts

    def _retry(self, now: float, task: Task, error: str, code: str | None, stop: StopReason | None) -> None:
        """The attempt is over, and the next one follows after a delay; it fails at once if its deadline comes first."""
        policy, history = task.options.retry, self.history_of(task)
        assert policy is not None
        due = now + policy.delay_secs(history.failed + 1, self._entropy() / 2**40)
        if task.deadline is not None and due >= task.deadline:
            self.finish(now, task, FAILED, None, error, stop, code)
            return
        history.failed += 1
        self._note_attempt(now, task, error, code)
        self.counters.retried += 1
        ran = task.state is RUNNING
        self._move(now, task, PENDING, error)
        history.not_before = due
        self._count_in(task)
        if task.options.target is not None:
            # It keeps its place.
            self.targets.enter(now, task)
        self._end_lease(now, task, stop, error, ran=ran)
        self.dues.add(due, task)

    def _requeue(self, now: float, task: Task, why: str | None, stop: StopReason | None) -> None:
        ran = task.state is RUNNING
        self._move(now, task, QUEUED, why)
        self._count_in(task)
        message = why or "the host was deregistered"
        if task.options.target is None:
            self._end_lease(now, task, stop, message, ran=ran)
            self._place(now, task)
        else:
            # First, so that no younger task of the target is elected between.
            self._place(now, task)
            self._end_lease(now, task, stop, message, ran=ran)

    def _end_lease(self, now: float, task: Task, stop: StopReason | None, message: str, ran: bool = True) -> None:
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
        if task.options.target is not None:
            if stop is not None and ran and lease.expires_at > now:
                self.stopping[task.id, lease.token] = lease
                self.stop_ends.add(lease.expires_at, lease)
                self.targets.stop(lease)
            self.targets.vacate(now, task)

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
