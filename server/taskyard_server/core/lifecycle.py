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
from .errors import Conflict, NotFound, QueueFull
from .events import Event, EventKind
from .history import NO_HISTORY
from .hosts import Host
from .leases import Lease, Stop, StopReason
from .limits import Limits
from .liveness import Liveness
from .offers import Offer, Offers
from .ready_queue import ReadyQueue
from .retention import Retention
from .schedules.schedule import Trigger
from .stats import Counters
from .stopping_leases import StoppingLeases
from .targets import Targets
from .task import (
    ASSIGNED,
    DONE,
    FAILED,
    IN_FLIGHT,
    LEGAL,
    PAUSED,
    PENDING,
    QUEUED,
    REJECTED,
    RUNNING,
    WAITING,
    Submission,
    Task,
    TaskState,
)
from .task_table import TaskTable
from .timers import Timers

SUBMITTED: Final = EventKind.SUBMITTED
CHANGED: Final = EventKind.CHANGED
PROGRESSED: Final = EventKind.PROGRESSED
LEASE_ENDED: Final = StopReason.LEASE_ENDED

INTERRUPTED: Final = "Job was interrupted by user"
OVER_BUDGET: Final = "token limit exceeded"
NOT_STARTED: Final = "not started by its host"
DEREGISTERED: Final = "the host was deregistered"


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
        self.targets = Targets(self._make_ready, self._withdraw)
        self._entropy = entropy
        self.queued = 0
        self.inflight = 0
        self.paused = 0
        self.timers = Timers()
        # In this order where several come due together: a deadline before a lease that ends with it.
        self.deadlines = self.timers.queue(self.expire)
        self.lease_ends = self.timers.queue(self._expire_lease)
        self.liveness = Liveness(self)
        self.dues = self.timers.queue(self.come_due)
        self.stopping_leases = StoppingLeases(self.timers.queue(self.has_stopped))
        self.retention = Retention(self)
        # Tasks that triggers submitted and that have not ended; `TriggerDispatcher` wants to be told when one does.
        self.fired: dict[Task, Trigger] = {}
        self.on_fired_end: Callable[[float, Task], None]

    # Into the yard

    def accept(self, now: float, submission: Submission) -> Task | None:
        """A new task, queued, or pending where it is held or not yet due; None where the queue is full for its agent.

        See scheduler-architecture, Admission And Limits.
        """
        limits, agent = self.limits, self.agents.get(submission.agent_id)
        if self.queued >= limits.max_queue_size or (agent is not None and agent.queued >= limits.max_per_agent):
            return None
        if agent is None:
            agent = self._new_agent(submission.agent_id)
        options = submission.options
        not_before = options.not_before if options.not_before is not None and options.not_before > now else None
        waits = options.hold or not_before is not None
        task = self._new(now, agent, submission, PENDING if waits else QUEUED)
        if options.key is not None:
            self.keys[agent.id, options.key.key] = task
        if task.deadline is not None:
            self.deadlines.add(task.deadline, task)
        agent.submitted += 1
        self.counters.submitted += 1
        self._count_in(task)
        task.position = self.queued
        if not waits:
            self._enqueue(now, task)
        else:
            task.history = task.history._replace(held=options.hold, not_before=not_before)
            if not_before is not None and not options.hold:
                self.dues.add(not_before, task)
            if options.target is not None:
                self.targets.park(now, task)
        self.events.append(Event(now, task, SUBMITTED, None))
        return task

    def reject(self, now: float, submission: Submission) -> QueueFull:
        """Keep a task that was not accepted, among the newest `max_queue_size`; returns the refusal to raise."""
        limits = self.limits
        agent = self.agents.get(submission.agent_id) or self._new_agent(submission.agent_id)
        which = "global" if self.queued >= limits.max_queue_size else "agent"
        task = self._new(now, agent, submission, REJECTED)
        task.completed_at = now
        task.error = f"rejected: {which} queue full"
        self.events.append(Event(now, task, SUBMITTED, None))
        self.retention.keep_rejected(now, task)
        agent.rejected += 1
        self.counters.rejected += 1
        details: dict[str, str | float] = {
            "agentId": agent.id,
            "queued": self.queued,
            "maxQueue": limits.max_queue_size,
            "maxPerAgent": limits.max_per_agent,
        }
        return QueueFull(task.error, details, task)

    def task(self, task_id: str) -> Task:
        """The task; raises `NotFound` for one that never was or is no longer retained."""
        task = self.tasks.get(task_id)
        if task is None:
            raise NotFound("task not found")
        return task

    # Under a lease

    def grant(self, now: float, task: Task, host: Host, secs: float, stream: Offer | None = None) -> Lease:
        """A task that was just taken from the ready queue goes to a host; over a stream, it must start it in time."""
        task.agent.queued -= 1
        self.queued -= 1
        self.inflight += 1
        task.deliveries += 1
        task.token += 1
        task.host_id = None if host.built_in else host.id
        if task.history is not NO_HISTORY:
            task.history = task.history._replace(tokens_before=task.history.tokens_used or 0)
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
            lease.due = min(lease.start_by, lease.expires_at)
        task.lease = host.leases[task.id] = lease
        self.lease_ends.add(lease.due, lease)
        if host.silence_at is None:
            self.liveness.listen_for(host)
        return lease

    def begin(self, now: float, task: Task, is_over: bool = False) -> None:
        """The host executes it, or has done so if it `is_over`; the first execution counts as the start."""
        before = self._transition(task, RUNNING, None)
        if task.started_at is None:
            task.started_at = now
        lease = task.lease
        assert lease is not None
        lease.started_at = now
        self._emit(now, task, before)
        if lease.stream is not None and not is_over:
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
        due = lease.expires_at
        if lease.start_by < due:
            due = lease.start_by
        if lease.adopt_by < due:
            due = lease.adopt_by
        if due != lease.due:
            self.lease_ends.remove(lease.due, lease)
            lease.due = due
            self.lease_ends.add(due, lease)

    def release(self, now: float, task: Task) -> None:
        """Its host gave it back unexecuted, which does not count as a delivery."""
        task.deliveries -= 1
        self._requeue(now, task, None, None)

    def take_back(self, now: float, task: Task) -> None:
        """Its host was deregistered: back to its old place in the queue."""
        if task.state is RUNNING:
            self._record_attempt(now, task, DEREGISTERED, None)
        self._requeue(now, task, None, LEASE_ENDED)

    def lose(self, now: float, lease: Lease, why: str) -> None:
        """Its host is lost: another may try, up to `max_deliveries` (DESIGN, Leases).

        What was handed out over a stream and never started does not count as a delivery. A retry policy alone decides
        where there is one. A task with a target fails otherwise (queueing-and-execution, Stale worker protection).
        """
        task = lease.task
        if lease.stream is not None and task.state is ASSIGNED:
            task.deliveries -= 1
            self._requeue(now, task, NOT_STARTED, LEASE_ENDED)
            return
        self.counters.leases_expired += 1
        options = task.options
        if options.retry is not None:
            self._retry_or_fail(now, task, why, True, None, LEASE_ENDED)
        elif options.target is None and task.deliveries < self.limits.max_deliveries:
            self._record_attempt(now, task, why, None)
            self._requeue(now, task, why, LEASE_ENDED)
        else:
            self.finish(now, task, FAILED, None, why, LEASE_ENDED)

    def fail(self, now: float, task: Task, error: str, retryable: bool, code: str | None) -> None:
        """Its host says that it failed; another attempt follows if the retry policy has one (DESIGN, Retries)."""
        self._retry_or_fail(now, task, error, retryable, code, None)

    def use_tokens(self, task: Task, used: int) -> bool:
        """Its host says how many tokens this attempt used so far; whether that is over the task's budget."""
        history = task.history
        before = history.tokens_used or 0
        total = max(before, history.tokens_before + used)
        task.history = history._replace(tokens_used=total)
        task.agent.tokens_used += total - before
        return self.is_over_budget(task)

    def is_over_budget(self, task: Task) -> bool:
        """Whether a task has used more tokens than it may (DESIGN, Budgets)."""
        limit = task.options.token_limit
        return limit is not None and (task.history.tokens_used or 0) > limit

    def has_stopped(self, now: float, lease: Lease) -> None:
        """Nothing runs any more under a lease that ended while its host may have worked."""
        self.stopping_leases.remove(lease)
        self.targets.stopped(now, lease)

    def pause(self, now: float, task: Task, why: StopReason = StopReason.PAUSED) -> None:
        """Interrupted so that it can be resumed, or failed if it is over its budget.

        See queueing-and-execution, Cancellation semantics.
        """
        if self.is_over_budget(task):
            self.finish(now, task, FAILED, None, OVER_BUDGET, StopReason.TOKEN_LIMIT_EXCEEDED)
            return
        before = self._transition(task, PAUSED, INTERRUPTED)
        self._record_attempt(now, task, INTERRUPTED, None)
        self._clear_deadline(task)
        task.deadline = None
        self.paused += 1
        self._emit(now, task, before)
        if task.options.target is not None:
            self.targets.block(now, task)
        self._end_lease(now, task, why, INTERRUPTED)

    def resume(self, now: float, task: Task) -> None:
        """A paused or failed task is queued again: another run, at its old place, with a fresh deadline."""
        before = self._transition(task, QUEUED, None)
        self._reopen(task, before)
        task.history = task.history.of_next_run()
        task.deliveries = 0
        task.progress = task.completed_at = task.result = None
        task.deadline = None if task.deadline_secs is None else now + task.deadline_secs
        if task.deadline is not None:
            self.deadlines.add(task.deadline, task)
        self._count_in(task)
        self._enqueue(now, task)
        if task.options.target is not None:
            self.targets.unblock(now, task)
        self._emit(now, task, before)

    def release_hold(self, now: float, task: Task) -> None:
        """A held task is held no longer."""
        history = task.history = task.history._replace(held=False)
        if history.not_before is not None and history.not_before > now:
            self.dues.add(history.not_before, task)
        else:
            self.come_due(now, task)

    def come_due(self, now: float, task: Task) -> None:
        """A pending task may be claimed."""
        before = self._transition(task, QUEUED, task.error)
        task.history = task.history._replace(not_before=None)
        self._enqueue(now, task)
        self._emit(now, task, before)

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
        before = self._transition(task, state, error)
        in_flight, serial = before in IN_FLIGHT, task.options.target is not None
        if in_flight and (task.history is not NO_HISTORY or task.options.retry is not None):
            self._record_attempt(now, task, error, code)
        # A task that had started when it failed blocks its target, and is not evicted while it does.
        blocks = serial and state is FAILED and task.started_at is not None
        if blocks:
            self.targets.block(now, task)
        if in_flight:
            self._end_lease(now, task, stop, error or "task cancelled")
        elif before in WAITING:
            self._count_out(task)
            self._dequeue(now, task, before)
        else:
            self._reopen(task, before)
            if serial:
                self.targets.unblock(now, task)
        self._clear_deadline(task)
        self._emit(now, task, before)
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
            self.retention.keep(task)
        self.retention.make_room(now)
        if self.fired and task in self.fired:
            self.on_fired_end(now, task)

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
        dues = (self.timers.next_due(), self.retention.next_due())
        return min((due for due in dues if due is not None), default=None)

    def advance(self, now: float, most: int) -> bool:
        """Do what has come due, at most so many things; whether more is due."""
        return all(self.timers.act_on_one(now) or self.retention.evict_one(now) for _ in range(most))

    # The steps that these share

    def _move(self, now: float, task: Task, state: TaskState, error: str | None) -> None:
        self._emit(now, task, self._transition(task, state, error))

    def _transition(self, task: Task, state: TaskState, error: str | None) -> TaskState:
        """Change its state; the one before. To be told once all that its event shows has changed, too."""
        before = task.state
        if state not in LEGAL[before]:
            raise Conflict(f"task is {before.value} and cannot become {state.value}")
        task.state = state
        task.error = error
        return before

    def _emit(self, now: float, task: Task, before: TaskState) -> None:
        self.events.append(Event(now, task, CHANGED, before))

    def _new_agent(self, agent_id: str) -> Agent:
        agent = self.agents[agent_id] = self.ready.new_agent(agent_id)
        return agent

    def _new(self, now: float, agent: Agent, submission: Submission, state: TaskState) -> Task:
        task_id, seq = self.tasks.next_id(now)
        task = Task(task_id, seq, agent, submission, now, submission.deadline, state)
        self.tasks.add(task)
        agent.tasks += 1
        if task.options.batch_id is not None:
            self.batches.add(task.options.batch_id, task)
        return task

    def _count_in(self, task: Task) -> None:
        task.agent.queued += 1
        self.queued += 1

    def _count_out(self, task: Task) -> None:
        task.agent.queued -= 1
        self.queued -= 1

    def _enqueue(self, now: float, task: Task) -> None:
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

    def _withdraw(self, task: Task) -> None:
        """An older task of its target goes first; meanwhile a default deadline does not count again."""
        self.ready.remove(task)
        if task.deadline_secs is None and not task.deliveries:
            self._clear_deadline(task)
            task.deadline = None

    def _dequeue(self, now: float, task: Task, before: TaskState) -> None:
        """It waits no longer, for whatever it waited."""
        if before is PENDING:
            if task.history.not_before is not None:
                self.dues.remove(task.history.not_before, task)
            task.history = task.history._replace(held=False, not_before=None)
        elif task.lane is not None:
            self.ready.remove(task)
        if task.options.target is not None:
            self.targets.leave(now, task)

    def _clear_deadline(self, task: Task) -> None:
        if task.deadline is not None:
            self.deadlines.remove(task.deadline, task)

    def _reopen(self, task: Task, before: TaskState) -> None:
        """A paused or failed task goes on; a failure that is taken back does not count."""
        if before is PAUSED:
            self.paused -= 1
        else:
            self.retention.give_back(task)
            self.counters.reopened += 1
            task.agent.failed -= 1

    def _record_attempt(self, now: float, task: Task, error: str | None, code: str | None) -> None:
        lease = task.lease
        assert lease is not None
        task.history = task.history.with_attempt(task.host_id, lease.started_at, now, error, code)

    def _retry_or_fail(
        self, now: float, task: Task, error: str, retryable: bool, code: str | None, stop: StopReason | None
    ) -> None:
        """The attempt has failed. The next one follows after a delay, unless its deadline would come first."""
        policy, failed = task.options.retry, task.history.failed + 1
        if policy is None or not retryable or code in policy.non_retryable_codes or failed >= policy.max_attempts:
            self.finish(now, task, FAILED, None, error, stop, code)
            return
        due = now + policy.delay_secs(failed, self._entropy() / 2**40)
        if task.deadline is not None and due >= task.deadline:
            self.finish(now, task, FAILED, None, error, stop, code)
            return
        before = self._transition(task, PENDING, error)
        self._record_attempt(now, task, error, code)
        task.history = task.history._replace(failed=failed, not_before=due)
        self.counters.retried += 1
        self._count_in(task)
        if task.options.target is not None:
            # It keeps its place.
            self.targets.enter(now, task)
        self._end_lease(now, task, stop, error)
        self.dues.add(due, task)
        self._emit(now, task, before)

    def _requeue(self, now: float, task: Task, why: str | None, stop: StopReason | None) -> None:
        """Back to its old place in the queue; until the next claim the task shows why."""
        self._move(now, task, QUEUED, why)
        self._count_in(task)
        if task.options.target is None:
            self._end_lease(now, task, stop, why or DEREGISTERED)
            self._enqueue(now, task)
        else:
            # First, so that no younger task of the target is elected between.
            self._enqueue(now, task)
            self._end_lease(now, task, stop, why or DEREGISTERED, may_run=why != NOT_STARTED)

    def _expire_lease(self, now: float, lease: Lease) -> None:
        self.lose(now, lease, "lease expired")

    def _end_lease(self, now: float, task: Task, stop: StopReason | None, message: str, may_run: bool = True) -> None:
        """`stop` is why its host shall stop, None if the host itself says so; until it has, the target stays taken."""
        lease = task.lease
        assert lease is not None
        task.lease = None
        host = lease.host
        del host.leases[task.id]
        self.lease_ends.remove(lease.due, lease)
        self.inflight -= 1
        self.ready.release_slot(task.agent)
        for offer in host.offers:
            self.offers.capacity_changed(offer)
        if stop is not None and lease.stream is not None:
            self.stops.append(Stop(lease, stop, message))
        if task.options.target is not None:
            if stop is not None and may_run and lease.expires_at > now:
                self.stopping_leases.add(lease)
                self.targets.stop(lease)
            self.targets.vacate(now, task)
