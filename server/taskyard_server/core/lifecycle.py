"""How tasks move: every transition, and all that is derived from a task's state, changed in the same function.

The table, the ready queue, leases, timers, retention, batches, agents and counters of one namespace belong to
`Lifecycle`. It knows no caller and checks no request: `Scheduler` decides what may be done, this file does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .agents import Agent, FiguresByAgent
from .attempts import OVER_BUDGET, Attempts
from .batches import Batches
from .errors import Conflict, NotFound, QueueFull
from .events import Event, EventKind
from .grants import Grants
from .history import NO_HISTORY
from .hosts import Hosts
from .leases import StopReason
from .limits import Limits
from .liveness import Liveness
from .offers import Offers
from .ready_queue import ReadyQueue
from .retention import Retention
from .schedules.schedule import Trigger
from .stats import Counters
from .targets import Targets
from .task import (
    DONE,
    FAILED,
    IN_FLIGHT,
    LEGAL,
    PAUSED,
    PENDING,
    QUEUED,
    REJECTED,
    WAITING,
    Submission,
    Task,
    TaskState,
)
from .task_table import TaskTable
from .timers import TimerOrder, Timers

SUBMITTED: Final = EventKind.SUBMITTED
CHANGED: Final = EventKind.CHANGED
PROGRESSED: Final = EventKind.PROGRESSED

EXPIRED: Final = "deadline exceeded while queued"
INTERRUPTED: Final = "Job was interrupted by user"


class Lifecycle:
    """The tasks of one namespace and their indexes. `queued` and `inflight` count tasks in those states."""

    def __init__(self, limits: Limits, entropy: Callable[[], int], hosts: Hosts) -> None:
        self.limits = limits
        self.counters = Counters()
        self.events: list[Event] = []
        self.tasks = TaskTable(entropy)
        self.batches = Batches()
        self.agents: dict[str, Agent] = {}
        self.figures = FiguresByAgent()
        self.keys: dict[tuple[str, str], Task] = {}
        self.ready = ReadyQueue()
        self.offers = Offers(self.ready)
        self.targets = Targets(self._make_ready, self._withdraw)
        self.queued = 0
        self.inflight = 0
        self.paused = 0
        self.timers = Timers()
        self.deadlines = self.timers.queue(self.expire, TimerOrder.DEADLINE)
        self.dues = self.timers.queue(self.come_due, TimerOrder.NOT_BEFORE)
        self.grants = Grants(self)
        self.attempts = Attempts(self, entropy)
        self.liveness = Liveness(self, hosts)
        self.retention = Retention(self)
        # Tasks of triggers that have not ended, and what `TriggerDispatcher` does when one ends.
        self.triggered: dict[Task, Trigger] = {}
        self.triggered_inflight = 0
        self.on_triggered_end: Callable[[float, Task], None]
        self.on_triggered_queued: Callable[[Trigger, int], None]

    # Admission

    def accept(self, now: float, submission: Submission) -> Task | None:
        """A new task, queued, or pending where it is held or not yet due; None where the queue is full for its agent.

        See docs/rules.md, Admission.
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
        agent.figures.submitted += 1
        self.counters.submitted += 1
        self.count_in(task)
        task.position = self.queued
        if not waits:
            self.enqueue(now, task)
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
        agent.figures.rejected += 1
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

    # With and without a lease

    def progressed(self, now: float, task: Task, progress: bytes | None, tokens: int | None) -> None:
        """The host reported how far it is, or how many tokens it used; None is as before."""
        if progress is not None:
            task.progress = progress
        if progress is not None or tokens is not None:
            self.events.append(Event(now, task, PROGRESSED, task.state))

    def pause(self, now: float, task: Task, why: StopReason = StopReason.PAUSED) -> None:
        """Interrupted so that it can be resumed, or failed if it is over its budget.

        See docs/rules.md, Pause.
        """
        if self.attempts.is_over_budget(task):
            self.finish(now, task, FAILED, None, OVER_BUDGET, StopReason.TOKEN_LIMIT_EXCEEDED)
            return
        before = self.transition(task, PAUSED, INTERRUPTED)
        self.attempts.record(now, task, INTERRUPTED, None)
        self._clear_deadline(task)
        task.deadline = None
        self.paused += 1
        self.emit(now, task, before)
        if task.options.target is not None:
            self.targets.block(now, task)
        self.grants.end(now, task, why, INTERRUPTED)

    def resume(self, now: float, task: Task) -> None:
        """A paused or failed task is queued again: another run, at its old place, with a fresh deadline."""
        before = self.transition(task, QUEUED, None)
        self._reopen(task, before)
        task.history = task.history.of_next_run()
        task.deliveries = 0
        task.progress = task.completed_at = task.result = None
        task.deadline = None if task.deadline_secs is None else now + task.deadline_secs
        if task.deadline is not None:
            self.deadlines.add(task.deadline, task)
        self.count_in(task)
        self.enqueue(now, task)
        if task.options.target is not None:
            self.targets.unblock(now, task)
        self.emit(now, task, before)

    def release_hold(self, now: float, task: Task) -> None:
        """A held task is held no longer."""
        history = task.history = task.history._replace(held=False)
        if history.not_before is not None and history.not_before > now:
            self.dues.add(history.not_before, task)
        else:
            self.come_due(now, task)

    def come_due(self, now: float, task: Task) -> None:
        """A pending task may be claimed."""
        before = self.transition(task, QUEUED, None)
        task.history = task.history._replace(not_before=None)
        self.enqueue(now, task)
        self.emit(now, task, before)

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
        before = self.transition(task, state, error)
        in_flight, serial = before in IN_FLIGHT, task.options.target is not None
        if in_flight and (task.history is not NO_HISTORY or task.options.retry is not None):
            self.attempts.record(now, task, error, code)
        # A task that had started when it failed blocks its target, and is not evicted while it does.
        blocks = serial and state is FAILED and task.started_at is not None
        if blocks:
            self.targets.block(now, task)
        if in_flight:
            self.grants.end(now, task, stop, error or "task cancelled")
        elif before in WAITING:
            self._count_out(task)
            self._dequeue(now, task, before)
        else:
            self._reopen(task, before)
            if serial:
                self.targets.unblock(now, task)
        self._clear_deadline(task)
        self.emit(now, task, before)
        task.completed_at = now
        task.result = result
        counters, agent = self.counters, task.agent
        if state is DONE:
            counters.completed += 1
            agent.figures.completed += 1
        elif state is FAILED:
            counters.failed += 1
            agent.figures.failed += 1
        else:
            counters.cancelled += 1
            agent.figures.cancelled += 1
        if not blocks:
            self.retention.keep(task)
        self.retention.make_room(now)
        if self.triggered and task in self.triggered:
            self.on_triggered_end(now, task)

    def expire(self, now: float, task: Task) -> None:
        """Its deadline has passed (docs/rules.md, Deadlines)."""
        if task.state in WAITING:
            self.counters.expired += 1
            task.expired = True
            self.finish(now, task, FAILED, None, EXPIRED)
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
        self.emit(now, task, self.transition(task, state, error))

    def transition(self, task: Task, state: TaskState, error: str | None) -> TaskState:
        """Change its state; the one before. To be told once all that its event shows has changed, too."""
        before = task.state
        if state not in LEGAL[before]:
            raise Conflict(f"task is {before.value} and cannot become {state.value}")
        task.state = state
        task.error = error
        if task.options.trigger_id is not None:
            self._count_triggered(task, before, state)
        return before

    def _count_triggered(self, task: Task, before: TaskState, state: TaskState) -> None:
        """Tasks of triggers take a place of `max_concurrent` while they are in flight
        (docs/rules.md, Trigger places)."""
        flown = (state in IN_FLIGHT) - (before in IN_FLIGHT)
        if flown:
            self.triggered_inflight += flown
            self.ready.hold_triggered(self.triggered_inflight >= self.limits.max_concurrent)
        queued = (state in WAITING) - (before in WAITING)
        if queued and (trigger := self.triggered.get(task)) is not None:
            self.on_triggered_queued(trigger, queued)

    def emit(self, now: float, task: Task, before: TaskState) -> None:
        self.events.append(Event(now, task, CHANGED, before))

    def _new_agent(self, agent_id: str) -> Agent:
        agent = self.agents[agent_id] = self.ready.new_agent(agent_id)
        agent.figures = self.figures.of(agent_id, self.limits.max_agent_figures)
        return agent

    def _new(self, now: float, agent: Agent, submission: Submission, state: TaskState) -> Task:
        task_id, seq = self.tasks.next_id(now)
        task = Task(task_id, seq, agent, submission, now, submission.deadline, state)
        self.tasks.add(task)
        agent.tasks += 1
        if task.options.batch_id is not None:
            self.batches.add(task.options.batch_id, task)
        return task

    def count_in(self, task: Task) -> None:
        task.agent.queued += 1
        self.queued += 1

    def _count_out(self, task: Task) -> None:
        task.agent.queued -= 1
        self.queued -= 1

    def enqueue(self, now: float, task: Task) -> None:
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
            self.counters.expired_reopened += task.expired
            task.expired = False
            task.agent.figures.failed -= 1
