"""The state of tasks: every transition, and every index and counter that depends on it, changed in the same function.

`Lifecycle` owns the tasks, ready queue, grants, timers, retention, batches, agents and counters of one namespace. It
knows no caller and validates no request: `Scheduler` and `Reports` decide what is allowed, this file carries it out.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from .agenda import Agenda
from .agents import Agent, Agents
from .attempts import OVER_BUDGET, Attempts
from .changes import Changes
from .children import Children
from .deadlines import Deadlines
from .errors import Conflict, NotFound, QueueFull
from .events import Event, EventKind
from .grants import Grants
from .hosts import Hosts
from .leases import StopReason
from .limits import Limits
from .liveness import Liveness
from .offers import Offers
from .past_keys import PastKeys
from .pending import Pending
from .predecessors import Following, Predecessors, Verdict
from .queue.ready_queue import ReadyQueue
from .queue_limits import has_room, refusal_of
from .readers import ReaderRules
from .retention import Retention
from .runs.parent_ends import ended_text
from .runs.parks import Parks
from .runs.steps import Steps
from .schedules.triggered_tasks import TriggeredTasks
from .stats import Counters, Counts
from .targets import Targets, blocks_when_failed
from .task import (
    ASSIGNED,
    CANCELLED,
    DONE,
    FAILED,
    LEGAL,
    NO_EXTRAS,
    NO_HISTORY,
    NO_OPTIONS,
    PARKED,
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
from .unique_keys import UniqueKeys

SUBMITTED: Final = EventKind.SUBMITTED
CHANGED: Final = EventKind.CHANGED
PROGRESSED: Final = EventKind.PROGRESSED

EXPIRED: Final = "deadline exceeded while queued"
INTERRUPTED: Final = "Job was interrupted by user"


class Lifecycle:
    """The tasks of one namespace and their indexes.

    `changes` gathers what changed for a store, None where there is none.
    """

    def __init__(
        self, limits: Limits, entropy: Callable[[], int], hosts: Hosts, changes: Changes | None = None
    ) -> None:
        self.limits = limits
        self.changes = changes
        self.counters = Counters()
        self.counts = Counts()
        self.tasks = TaskTable(entropy)
        self.children = Children(self.tasks)
        self.children.ends.on_orphaned = self._end_orphan
        self.ready = ReadyQueue()
        self.ready.set_max_per_agent(limits.max_per_agent_inflight, [])
        self.agents = Agents(self.ready)
        if changes is not None:
            self.agents.figures.on_forgotten = changes.agent_gone
        self.offers = Offers(self.ready)
        self.targets = Targets(self._offer, self._withdraw)
        self.timers = Timers()
        self.deadlines = Deadlines(self.timers, self.expire)
        self.tasks.on_dropped = self.deadlines.pages.forget
        self.pending = Pending(self)
        self.predecessors = Predecessors(self.tasks, self.targets)
        self.predecessors.on_judged = self.pending.judged
        self.unique_keys = UniqueKeys(self.tasks, self.targets, changes)
        self.past_keys = PastKeys(self.timers)
        self.readers = ReaderRules(self.tasks, self.past_keys)
        self.grants = Grants(self)
        self.parks = Parks(self, Steps(self.readers))
        self.attempts = Attempts(self, entropy)
        self.liveness = Liveness(self, hosts)
        self.retention = Retention(self)
        self.triggered = TriggeredTasks(self.ready)
        self.agenda = Agenda(self.timers, self.retention, self.predecessors, self.children, self.parks, self.ready.keys)
        self._events: list[Event] = []

    # Admission

    def accept(
        self, now: float, submission: Submission, following: Following | None = None, replaces: bool = False
    ) -> Task | None:
        """Make a task: queued, or pending if it is held, not yet due, or waits for others that it is `following`.

        None if a limit of the queue is reached, unless it `replaces` another (docs/rules.md, Admission, Unique keys).
        """
        limits, agent, options = self.limits, self.agents.by_id.get(submission.agent_id), submission.options
        if not replaces and not has_room(limits, self.counts, self.targets, agent, options):
            return None
        if agent is None:
            agent = self.agents.add(submission.agent_id, limits.max_agent_figures)
        not_before, is_pending = None, False
        if options is not NO_OPTIONS:
            not_before = options.not_before if options.not_before is not None and options.not_before > now else None
            is_following = following is not None and following.verdict is not Verdict.CLEAR
            is_pending = options.hold or not_before is not None or is_following
        task = self._new(now, agent, submission, PENDING if is_pending else QUEUED)
        self.deadlines.add(task)
        if options is not NO_OPTIONS:
            if options.key is not None:
                self.tasks.by_key[agent.id, options.key.key] = task
            if options.parent_id is not None:
                self.children.add(task)
        agent.figures.submitted += 1
        self.counters.submitted += 1
        self.count_queued(task)
        if self.readers.tells_position:
            task.position_number = self.counts.queued
        if not is_pending:
            self.enqueue(now, task)
        else:
            self.pending.add(now, task, not_before, following)
        self._events.append(Event(now, task, SUBMITTED, None))
        if options is not NO_OPTIONS and options.extras is not NO_EXTRAS:
            self.unique_keys.add(task)
            self.children.ends.bind(task)
            if options.extras.inputs:
                self.predecessors.keep_inputs(task)
            if following is not None:
                self.pending.end_failed(now, task, following)
        return task

    def reject(self, now: float, submission: Submission) -> QueueFull:
        """Retain a task that was not accepted, among the newest `max_queue_size`; returns the refusal to raise."""
        limits, agent_id = self.limits, submission.agent_id
        error, details = refusal_of(limits, self.counts, self.targets, self.agents.by_id.get(agent_id), agent_id)
        agent = self.agents.by_id.get(agent_id) or self.agents.add(agent_id, limits.max_agent_figures)
        task = self._new(now, agent, submission, REJECTED)
        task.page.entered(REJECTED)
        task.over_at = now
        task.error = error
        self._events.append(Event(now, task, SUBMITTED, None))
        self.retention.retain_rejected(now, task)
        agent.figures.rejected += 1
        self.counters.rejected += 1
        return QueueFull(error, details, task)

    def task(self, task_id: str) -> Task:
        """The task; raises `NotFound` if it never existed or is no longer retained."""
        task = self.tasks.get(task_id)
        if task is None:
            raise NotFound("task not found")
        return task

    # Progress, pause and resume

    def record_progress(self, now: float, task: Task, progress: bytes | None, tokens: int | None) -> None:
        """Record reported progress or tokens; None leaves either as it is."""
        if progress is not None:
            task.progress = progress
        if progress is not None or tokens is not None:
            self._events.append(Event(now, task, PROGRESSED, task.state))

    def record_left_behind(self, now: float, task: Task) -> None:
        """Tell of an artifact that was put, or of a step."""
        self._events.append(Event(now, task, PROGRESSED, task.state))

    def pause(self, now: float, task: Task, stop: StopReason = StopReason.PAUSED, reason: str | None = None) -> None:
        """Interrupt a task, or fail one over its budget (docs/rules.md, Pause). `stop` is for its host."""
        task.history = task.history.with_reason(reason)
        if self.attempts.is_over_budget(task):
            self.finish(now, task, FAILED, None, OVER_BUDGET, StopReason.TOKEN_LIMIT_EXCEEDED)
            return
        before = self.transition(task, PAUSED, INTERRUPTED)
        self.attempts.record(now, task, INTERRUPTED, None)
        task.deadline = None
        self.counts.paused += 1
        task.page.entered(PAUSED)
        self.emit(now, task, before)
        if task.options.target is not None:
            self.targets.block(now, task)
        self.grants.end(now, task, stop, _with_reason(INTERRUPTED, task))

    def resume(self, now: float, task: Task) -> None:
        """Queue a paused or failed task again: a new run, in its old position, with a new deadline."""
        before = self.transition(task, QUEUED, None)
        self._reopen(task, before)
        task.history = task.history.of_next_run()
        task.deliveries = 0
        task.progress = task.completed_at = task.result = None
        task.deadline = None if task.deadline_secs is None else now + task.deadline_secs
        self.deadlines.add(task)
        self.count_queued(task)
        self.enqueue(now, task)
        if task.options.parent_id is not None:
            self.children.add(task)
            if before is FAILED:
                self.children.ends.bind_again(task)
        if task.options.target is not None:
            self.targets.unblock(now, task)
        if task.options.extras is not NO_EXTRAS:
            self.unique_keys.add(task)
        if self.predecessors.followers:
            self.predecessors.changed(now, task)
        self.parks.ends.resumed(task)
        self.emit(now, task, before)

    # Ends

    def cancel(self, now: float, task: Task, reason: str | None) -> None:
        """Cancel a task, as somebody has asked for (docs/rules.md, Cancel, Reasons)."""
        task.history = task.history.with_reason(reason)
        self.finish(now, task, CANCELLED, None, None, StopReason.CANCELLED)

    def resolve(self, now: float, task: Task, result: bytes | None, reason: str | None) -> None:
        """End a paused or failed task as done (docs/rules.md, Resolve, Reasons)."""
        task.history = task.history.with_reason(reason)
        self.finish(now, task, DONE, result, None)

    def finish(
        self,
        now: float,
        task: Task,
        state: TaskState,
        result: bytes | None,
        error: str | None,
        stop: StopReason | None = None,
        code: str | None = None,
        traceback: str | None = None,
    ) -> None:
        """End a task as done, failed or cancelled. `stop` is why its host shall stop, None after the host's report."""
        before, options = self.transition(task, state, error), task.options
        in_flight = before is RUNNING or before is ASSIGNED
        if task.history is not NO_HISTORY and task.history.park is not None:
            self.parks.end(task)
        serial = options is not NO_OPTIONS and options.target is not None
        if in_flight and (task.history is not NO_HISTORY or (options is not NO_OPTIONS and options.retry is not None)):
            self.attempts.record(now, task, error, code)
        if state is FAILED and (in_flight or before is PARKED):
            self.attempts.note_failure(task, code, traceback)
        blocks = serial and state is FAILED and task.started_at is not None and blocks_when_failed(task, self.limits)
        if blocks:
            self.targets.block(now, task)
        if in_flight:
            self.grants.end(now, task, stop, error or ("" if stop is None else _with_reason("task cancelled", task)))
        elif before in WAITING:
            task.agent.queued -= 1
            self.counts.queued -= 1
            self._dequeue(now, task, before)
        elif before is PARKED:
            self.parks.leave(now, task)
        else:
            self._reopen(task, before)
            if serial:
                self.targets.unblock(now, task)
        self.emit(now, task, before)
        task.over_at = now
        task.result = result
        counters, agent = self.counters, task.agent
        if state is DONE:
            counters.completed += 1
            agent.figures.completed += 1
            task.page.done += 1
        elif state is FAILED:
            counters.failed += 1
            agent.figures.failed += 1
            task.page.entered(state)
        else:
            counters.cancelled += 1
            agent.figures.cancelled += 1
            task.page.entered(state)
        if state is not FAILED and options is not NO_OPTIONS and options.extras is not NO_EXTRAS:
            self.predecessors.let_inputs_go(task)
        if options is not NO_OPTIONS and options.extras.on_parent_end is not None:
            self.children.ends.unbind(task)
        if self.children.ends.bound:
            self.children.ends.ended(now, task)
        if not blocks or self.retention.takes_blockers:
            self.retention.retain(task)
        self.retention.evict_excess(now)
        if options is not NO_OPTIONS:
            if options.parent_id is not None:
                self.children.ended(task)
            if options.extras is not NO_EXTRAS:
                self.unique_keys.remove(task)
        if self.predecessors.followers:
            self.predecessors.changed(now, task)
        self.parks.ends.ended(now, task)
        if options is not NO_OPTIONS and options.trigger_id is not None:
            self.triggered.ended(now, task)

    def expire(self, now: float, task: Task) -> None:
        """Fail a task whose deadline has passed (docs/rules.md, Deadlines)."""
        if task.state in WAITING:
            self.counters.expired += 1
            task.expired = True
            self.finish(now, task, FAILED, None, EXPIRED)
        else:
            self.finish(now, task, FAILED, None, "deadline exceeded", StopReason.DEADLINE_EXCEEDED)

    # Limits

    def _end_orphan(self, now: float, task: Task, parent_id: str) -> None:
        self.finish(now, task, CANCELLED, None, ended_text(parent_id), StopReason.CANCELLED)

    def reconfigure(self, limits: Limits) -> None:
        """Put new limits in force for what follows."""
        self.limits = limits
        self.ready.set_max_per_agent(limits.max_per_agent_inflight, self.agents.by_id.values())
        self.triggered.hold(limits.max_concurrent)
        self.offers.wake_all()

    # What happened

    def has_event_of(self, task: Task) -> bool:
        """True if something has happened to a task since the last `take_events`."""
        return any(event.task is task for event in self._events)

    @property
    def event_count(self) -> int:
        """How many events there are to be taken."""
        return len(self._events)

    def take_events(self) -> list[Event]:
        """The events since the last call, in order."""
        taken, self._events = self._events, []
        if self.changes is not None:
            self.changes.see(taken)
        return taken

    # The steps that these share

    def transition(self, task: Task, state: TaskState, error: str | None) -> TaskState:
        """Change a task's state and return the old one. Call `emit` once all that the event shows has changed."""
        before = task.state
        if state not in LEGAL[before]:
            raise Conflict(f"task is {before.value} and cannot become {state.value}")
        task.state = state
        task.error = error
        if task.options is not NO_OPTIONS and task.options.trigger_id is not None:
            self.triggered.changed(task, before, state, self.limits.max_concurrent)
        return before

    def note(self, task: Task) -> None:
        """Tell the store, if there is one, of a change that no event tells of."""
        if self.changes is not None:
            self.changes.tasks[task] = None

    def emit(self, now: float, task: Task, before: TaskState, kind: EventKind = CHANGED) -> None:
        """Record an event with what is true of the task now; `before` is its state before the change."""
        self._events.append(Event(now, task, kind, before))

    def _new(self, now: float, agent: Agent, submission: Submission, state: TaskState) -> Task:
        task_id, seq = self.tasks.next_id(now)
        task = Task(task_id, seq, agent, submission, now, submission.deadline, state)
        self.tasks.add(task)
        agent.tasks += 1
        if task.options is not NO_OPTIONS and task.options.batch_id is not None:
            self.tasks.batches.add(task.options.batch_id, task)
        return task

    def count_queued(self, task: Task) -> None:
        """Count a task as pending or queued."""
        task.agent.queued += 1
        self.counts.queued += 1

    def enqueue(self, now: float, task: Task) -> None:
        """Put a queued task into the ready queue, or let it wait for its target."""
        task.queued_at = now
        if task.options is NO_OPTIONS or task.options.target is None:
            self._make_ready(now, task)
        else:
            self.targets.enter(now, task)

    def _make_ready(self, now: float, task: Task) -> None:
        """Make a task claimable; a default deadline starts now."""
        if task.due_at == inf:
            left_secs = None if task.history is NO_HISTORY else task.history.left_secs
            task.due_at = now + (self.limits.default_deadline_secs if left_secs is None else left_secs)
            self.deadlines.add(task)
        self.ready.add(task)

    def _offer(self, now: float, task: Task) -> None:
        """Make the head of a target claimable."""
        if task.deadline is None:
            self.note(task)
        self._make_ready(now, task)

    def _withdraw(self, task: Task) -> None:
        """Take a task out of the ready queue for an older one of its target; a default deadline stops."""
        self.ready.remove(task)
        if task.deadline_secs is None and not task.deliveries and task.history.left_secs is None:
            task.deadline = None
            self.note(task)

    def _dequeue(self, now: float, task: Task, before: TaskState) -> None:
        """Take a pending or queued task out of whatever it waits in."""
        if before is PENDING:
            self.pending.leave(task)
        elif task.lane is not None:
            self.ready.remove(task)
        if task.options.target is not None:
            self.targets.leave(now, task)
            if task.history.park is not None:
                # It may have kept the target since it was parked.
                self.targets.vacate(now, task)

    def _reopen(self, task: Task, before: TaskState) -> None:
        """Uncount a pause or a failure that is taken back."""
        task.page.left(before)
        if before is PAUSED:
            self.counts.paused -= 1
        else:
            self.retention.remove(task)
            self.counters.reopened += 1
            self.counters.expired_reopened += task.expired
            task.expired = False
            task.agent.figures.failed -= 1


def _with_reason(text: str, task: Task) -> str:
    """The text that the host of a task is told, with the reason that was given, in one line: hosts log it."""
    reason = task.history.reason
    return text if reason is None else f"{text}: {' '.join(reason.split())}"
